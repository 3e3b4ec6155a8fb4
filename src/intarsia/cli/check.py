"""``intarsia check``: can these tables be clustered together?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from intarsia.cli.console import out, plain, print_json
from intarsia.cli.kit_options import say
from intarsia.cli.privacy_forecast import forecast_for_files
from intarsia.cli.private import columns_without_bounds, show_without_bounds, write_template
from intarsia.cli.table_options import (
    DatesOption,
    DecimalOption,
    EncodingOption,
    IdOption,
    TableOptions,
    read_config,
)
from intarsia.exceptions import InputError

if TYPE_CHECKING:
    from intarsia.tables.feasibility import Feasibility

NOT_POSSIBLE = 3
_FEWEST_OF_A_SUM = 3  # participants
_MOST_COLUMNS = 40  # in the overview
_MOST_PAIRS = 10
_MOST_UNUSABLE = 5
_MOST_ODD = 10
_RENAME = "Names of columns are changed in the file of --config, below [columns.PARTICIPANT]."


def check(
    files: Annotated[list[str] | None, typer.Argument(help="Files, one per participant: a.csv, or name=path.")] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column to exclude; can be repeated.")
    ] = None,
    id_column: IdOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    config: Annotated[
        Path | None, typer.Option(help=r"A TOML file with \[participants] and \[columns], as for fit.")
    ] = None,
    bounds: Annotated[
        Path | None, typer.Option(help=r"Also say which columns lack \[bounds] and \[levels] in this TOML file.")
    ] = None,
    write_bounds: Annotated[
        Path | None, typer.Option(help="Write such a file to fill in, with names of columns and no values.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Also forecast what differential privacy with this epsilon will lose: several runs, nothing is spent. "
            "Needs --bounds."
        ),
    ] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="Number of clusters in the forecast. Chosen if omitted.")
    ] = None,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="Forecast the one-shot method.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which participant has which columns, and whether the tables can be clustered together.

    The exit code is 3 if they cannot.

    Example: [bold]intarsia check a.csv b.parquet c.xlsx[/]
    """
    from intarsia.tables.feasibility import check_feasibility
    from intarsia.tables.open import named_paths, open_table
    from intarsia.tables.participants import for_all

    participants, _, columns = read_config(config)
    paths = named_paths([*participants, *(files or ())])
    if not paths:
        raise InputError("no file was given. Hint: intarsia check a.csv b.csv, or --config study.toml.")
    options = TableOptions.of(paths, id_column, decimal, encoding, dates, columns)
    opened = for_all(
        paths, lambda key, path: open_table(path, str(key), leave_out=leave_out or (), **options.opening(str(key)))
    )
    report = check_feasibility(opened, leave_out=leave_out or ())
    options.check({str(key): table for key, table in opened.items()})
    remarks = {str(key): table.remark for key, table in opened.items() if table.remark}
    missing = None if bounds is None else columns_without_bounds(report.kinds, bounds)
    if not json:
        show(report, remarks)
        if missing is not None:
            show_without_bounds(missing, bounds)
    forecast = None
    if report.possible:
        forecast = forecast_for_files(
            paths, options, leave_out or (), bounds, epsilon, clusters, one_shot=one_shot, quiet=json
        )
    if json:
        more = {} if missing is None else {"without_bounds": missing}
        more |= {"read_as": remarks} if remarks else {}
        print_json(as_json(report) | more | ({} if forecast is None else {"forecast": forecast.as_dict()}))
    elif forecast is not None:
        say(str(forecast))
    if write_bounds is not None:
        write_template(report.kinds, write_bounds)
    if not report.possible:
        raise typer.Exit(NOT_POSSIBLE)


def as_json(report: Feasibility) -> dict[str, object]:
    """Return all parts of the report."""
    return {
        "participants": {
            name: {
                "rows": report.rows.get(name),
                "columns": dict(columns),
                "unusable": dict(report.unusable.get(name, {})),
                "like_row_ids": list(report.row_ids.get(name, ())),
            }
            for name, columns in report.kinds.items()
        },
        "connected": report.connected,
        "complete": report.complete,
        "parts": report.parts,
        "bridges": [asdict(bridge) for bridge in report.bridges],
        "common": report.common,
        "only_one_has": report.single,
        "look_alike": [asdict(pair) for pair in report.alike],
        "mixed_kinds": report.mixed,
        "units": report.units,
        "other_units": [odd._asdict() for odd in report.odd],
        "other_levels": [odd._asdict() for odd in report.odd_levels],
        "secure_sums": {
            "possible": report.possible and len(report.participants) >= _FEWEST_OF_A_SUM,
            "stays_at_home": sorted(report.single),
        },
        "possible": report.possible,
        "method": report.method,
        "verdict": report.verdict(),
    }


def show(report: Feasibility, remarks: Mapping[str, str] | None = None, *, federated: bool = False) -> None:
    """Print the report; ``remarks`` say how files are read, ``federated`` that the participants have a coordinator."""
    names = report.participants
    view = Table(box=box.SIMPLE_HEAD, title="Who sees what", title_justify="left", title_style="bold")
    view.add_column("column")
    for name in names:
        n_rows = report.rows.get(name)
        view.add_column(plain(name + (f"\n{n_rows} rows" if n_rows is not None else "")), justify="center")
    for column in report.columns[:_MOST_COLUMNS]:
        view.add_row(plain(column), *(_mark(report, name, column) for name in names))
    if len(report.columns) > _MOST_COLUMNS:
        view.caption = f"and {len(report.columns) - _MOST_COLUMNS} more columns"
    out.print(view)
    out.print(Text("● numbers   ◆ categories", style="dim"))
    for name, remark in (remarks or {}).items():
        out.print(plain(f"{name} is read as {remark}."), soft_wrap=True)
    for line in [*_lines(report, federated=federated), *_remedies(report)]:
        out.print(plain(line))
    for odd in report.odd[:_MOST_ODD]:
        out.print(plain(f"● {odd}.", style="red"), soft_wrap=True)
    if len(report.odd) > _MOST_ODD:
        out.print(plain(f"● {len(report.odd) - _MOST_ODD} more columns may be in other units.", style="red"))
    if report.odd_levels:
        more = f"; and {len(report.odd_levels) - _MOST_ODD} more" if len(report.odd_levels) > _MOST_ODD else ""
        words = "; ".join(map(str, report.odd_levels[:_MOST_ODD]))
        line = (
            f"● Levels may be other words for the same thing: {words}{more}. If so, recode them in the tables before."
        )
        out.print(plain(line, style="yellow"), soft_wrap=True)
    out.print(plain(report.verdict(), style="bold green" if report.possible else "bold red"))


def _lines(report: Feasibility, *, federated: bool) -> list[str]:
    single = len(report.single)
    owned = f"{single} {'has' if single == 1 else 'have'} one owner"
    lines = [f"{len(report.common)} of {len(report.columns)} columns are common to all; {owned}."]
    if report.bridges:
        bridges = ", ".join(f"{b.participant} (without it: {len(b.parts)} parts)" for b in report.bridges)
        lines.append(f"The study depends on: {bridges}.")
    lines += [
        f"'{pair.left}' ({', '.join(pair.left_at)}) and '{pair.right}' ({', '.join(pair.right_at)}) look alike: {pair.why}."
        for pair in report.alike[:_MOST_PAIRS]
    ]
    if not federated and (report.alike or not report.connected):
        lines.append(_RENAME)
    if len(report.widths) > 1:
        (smallest, low), *_, (largest, high) = report.widths.items()
        left = (
            "fit standardises them (--scale auto, the default)"
            if report.units
            else "fit leaves them as they are (--scale auto, the default); --scale standard may be tried, too"
        )
        lines.append(
            f"Standard deviations differ by a factor of {high / low:.3g}, from '{smallest}' to '{largest}'; {left}."
        )
    if report.row_ids:
        columns = ", ".join(by_column(report.row_ids))
        lines.append(
            f"These columns look like row IDs; exclude them (-x): {columns}. fit --id writes one beside the labels."
        )
    return lines


def _remedies(report: Feasibility) -> list[str]:
    """Return the columns that cannot be used as they are, by what can be done about them."""
    from intarsia.tables.categories import DATES, OPTION

    by_kind: dict[str, dict[str, dict[str, str]]] = {}
    for owner, reasons in report.unusable.items():
        for column, reason in reasons.items():
            kind = (
                OPTION
                if OPTION in reason
                else DATES
                if reason.lower().startswith("date")
                else "numbers"
                if "number" in reason
                else ""
            )
            by_kind.setdefault(kind, {}).setdefault(owner, {})[column] = reason
    some = {kind: _listed(by_kind[kind]) for kind in by_kind}
    dates = next((name for columns in by_kind.get(DATES, {}).values() for name in columns), "")
    sentences = {
        OPTION: "1,234 may be 1.234 or 1234, and the cells do not decide: {}.",
        DATES: f"Columns of dates become days with --dates {dates}=2000-01-01, or are excluded with -x: {{}}.",
        "numbers": "Columns of numbers with cells that are not numbers; correct these, or exclude the columns (-x): {}.",
        "": "Columns that cannot be used; exclude them (-x): {}.",
    }
    return [sentence.format(some[kind]) for kind, sentence in sentences.items() if kind in some]


def _listed(unusable: Mapping[str, Mapping[str, str]]) -> str:
    shown = by_column(unusable)
    more = f" and {len(shown) - _MOST_UNUSABLE} more" if len(shown) > _MOST_UNUSABLE else ""
    return ", ".join(shown[:_MOST_UNUSABLE]) + more


def by_column(columns: Mapping[str, Sequence[str] | Mapping[str, str]]) -> list[str]:
    """Return each column once, with all participants that have it, and the reason where there is one.

    >>> by_column({"a": ["id"], "b": ["id", "n"]}), by_column({"a": {"id": "free text"}})
    (['id (a; b)', 'n (b)'], ['id (a: free text)'])
    """
    owners: dict[str, list[str]] = {}
    for name, listed in columns.items():
        for column in listed:
            owners.setdefault(column, []).append(f"{name}: {listed[column]}" if isinstance(listed, Mapping) else name)
    return [f"{column} ({'; '.join(names)})" for column, names in owners.items()]


def _mark(report: Feasibility, name: str, column: str) -> Any:
    kind = report.kinds[name].get(column)
    return Text("") if kind is None else Text("●", "green") if kind == "numbers" else Text("◆", "cyan")
