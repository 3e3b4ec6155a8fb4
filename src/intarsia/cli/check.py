"""``intarsia check``: can these tables be clustered together?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from intarsia.cli.console import out, plain, print_json
from intarsia.tables.files import check_left_out, large, like_ids, read, sources

if TYPE_CHECKING:
    from intarsia.tables.feasibility import Feasibility

NO = 3
_MOST = 40  # columns in the table; more would be no overview


def check(
    files: Annotated[list[str], typer.Argument(help="Files, one per party: a.csv, or name=path.")],
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", "-x", help="A column that takes no part.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say who sees what and whether a joint clustering makes sense, from names and kinds of columns alone.

    Exit code 3 if it does not.

    Example: [bold]intarsia check a.csv b.parquet c.xlsx[/]
    """
    from intarsia.tables import kinds_in
    from intarsia.tables.feasibility import check_feasibility
    from intarsia.tables.frame import kinds_of

    left_out = leave_out or ()
    has, rows, numbered, seen = {}, {}, [], set()
    for source in sources(files):
        if (stored := large(source)) is not None:
            seen |= set(stored)
            kept = [name for name in stored if name not in set(left_out)]
            has[source.name] = kinds_in(stored.only(kept), source.name) if kept else {}
            rows[source.name] = len(stored)
            continue
        columns = read(source)
        seen |= set(columns)
        part = {name: column for name, column in columns.items() if name not in set(left_out)}
        numbered += like_ids(source.name, part)
        has[source.name] = kinds_of(part, source.name) if part else {}
        rows[source.name] = len(next(iter(columns.values())))
    check_left_out(left_out, seen)
    report = check_feasibility(has, rows)
    if json:
        print_json(as_json(report) | {"like_ids": numbered})
    else:
        show(report, numbered)
    if not report.possible:
        raise typer.Exit(NO)


def as_json(report: Feasibility) -> dict[str, object]:
    """Everything that the report says."""
    return {
        "participants": {
            name: {
                "rows": report.rows.get(name),
                "columns": dict(columns),
                "unusable": dict(report.unusable.get(name, {})),
            }
            for name, columns in report.has.items()
        },
        "connected": report.connected,
        "complete": report.complete,
        "parts": report.parts,
        "bridges": [asdict(bridge) for bridge in report.bridges],
        "common": report.common,
        "only_one_has": report.single,
        "look_alike": [asdict(pair) for pair in report.alike],
        "mixed_kinds": report.mixed,
        "possible": report.possible,
        "method": report.method,
        "verdict": report.verdict(),
    }


def show(report: Feasibility, numbered: Sequence[str] = ()) -> None:
    """For people."""
    names = report.participants
    view = Table(box=box.SIMPLE_HEAD, title="Who sees what", title_justify="left", title_style="bold")
    view.add_column("column")
    for name in names:
        n = report.rows.get(name)
        view.add_column(plain(name + (f"\n{n} rows" if n is not None else "")), justify="center")
    for column in report.columns[:_MOST]:
        view.add_row(plain(column), *(_mark(report, name, column) for name in names))
    if len(report.columns) > _MOST:
        view.caption = f"and {len(report.columns) - _MOST} more columns"
    out.print(view)
    out.print(Text("● numbers   ◆ categories", style="dim"))
    lines = [
        f"{len(report.common)} of {len(report.columns)} columns are common to all; {len(report.single)} only one party has."
    ]
    if report.bridges:
        held = ", ".join(f"{b.participant} (without it: {len(b.parts)} parts)" for b in report.bridges)
        lines.append(f"The study hangs on: {held}.")
    lines += [
        f"'{pair.left}' ({', '.join(pair.left_at)}) and '{pair.right}' ({', '.join(pair.right_at)}) look alike: {pair.why}."
        for pair in report.alike[:10]
    ]
    for name, columns in report.unusable.items():
        shown = ", ".join(f"{column} ({why})" for column, why in list(columns.items())[:5])
        lines.append(f"To be left out (-x, or --id) at {name}: {shown}{' …' if len(columns) > 5 else ''}.")
    if numbered:
        lines.append(
            f"Columns that look like numbers of rows; leave them out (-x, or --id) if so: {', '.join(numbered)}."
        )
    for line in lines:
        out.print(plain(line))
    out.print(plain(report.verdict(), style="bold green" if report.possible else "bold red"))


def _mark(report: Feasibility, name: str, column: str) -> Text:
    kind = report.has[name].get(column)
    return Text("") if kind is None else Text("●", "green") if kind == "numbers" else Text("◆", "cyan")
