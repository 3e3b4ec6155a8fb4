"""``intarsia participant``: see what would leave, and take part."""

from __future__ import annotations

import getpass
import json as jsonlib
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.table import Table

from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.federation import Kit, algorithm_of, become, check_certificates, engine
from intarsia.exceptions import IntarsiaError, ReleaseError, SettingError

if TYPE_CHECKING:
    from intarsia.federation.site_settings import LocalSettings
    from intarsia.federation.study_file import Study
    from intarsia.protocol import Reply

NAME = "you"
_ASKED = {"query.describe", "query.summarize"}

TableFile = Annotated[
    Path | None, typer.Option("--table", help="CSV, Parquet, Arrow or Excel; as the kit says, unless said.")
]
Column = Annotated[list[str] | None, typer.Option("--column", "-c", help="A column that takes part; all, unless said.")]
Columns = Annotated[str | None, typer.Option("--columns", help="The same, several at once: age,chol,thalach.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="A column that names rows; kept beside the labels.")]
Local = Annotated[str | None, typer.Option(help="A clusterer of scikit-learn: 'HDBSCAN(min_cluster_size=20)'.")]
Missing = Annotated[str | None, typer.Option(help="observed, impute, drop, error.")]
_RULES = "What may leave"
Smallest = Annotated[
    int | None,
    typer.Option(
        "--min-cluster-size", min=1, help="No number leaves that fewer rows stand behind.", rich_help_panel=_RULES
    ),
]
Small = Annotated[
    str | None, typer.Option("--small", help="Small clusters: merge or withhold.", rich_help_panel=_RULES)
]
RoundTo = Annotated[
    int | None, typer.Option("--round-counts-to", min=1, help="Counts leave as multiples.", rich_help_panel=_RULES)
]
Extremes = Annotated[
    bool | None,
    typer.Option("--allow-extremes/--no-extremes", help="Smallest and largest cells.", rich_help_panel=_RULES),
]
Discrete = Annotated[
    bool | None,
    typer.Option("--allow-discrete/--no-discrete", help="Tables of probabilities.", rich_help_panel=_RULES),
]
AnyCovariance = Annotated[
    bool | None,
    typer.Option(
        "--allow-any-covariance/--no-any-covariance", help="More parameters than points allow.", rich_help_panel=_RULES
    ),
]
MaxRounds = Annotated[
    str | None, typer.Option("--max-rounds", help="Rounds answered in one study, or any.", rich_help_panel=_RULES)
]

participant = typer.Typer(
    name="participant",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@participant.callback()
def about() -> None:
    """Hold a table, answer questions about it in summaries, keep the labels.

    Example: [bold]intarsia participant preview --table data.csv[/]
    """


@participant.command()
def preview(
    table: TableFile = None,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, for the study's own settings.")] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="K, without a kit; else it is chosen.")
    ] = None,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="One round of densities, without a kit.")] = False,
    column: Column = None,
    columns: Columns = None,
    id_column: IdColumn = None,
    local: Local = None,
    missing: Missing = None,
    min_cluster_size: Smallest = None,
    small: Small = None,
    round_counts_to: RoundTo = None,
    allow_extremes: Extremes = None,
    allow_discrete: Discrete = None,
    allow_any_covariance: AnyCovariance = None,
    max_rounds: MaxRounds = None,
    form: Annotated[
        Path | None, typer.Option("--form", help="Write a form of consent here, to be read and filled in.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print the messages that would leave, field by field and in full, without any network.

    Example: [bold]intarsia participant preview --table data.csv[/]
    """
    rules = _rules(
        min_cluster_size, small, round_counts_to, allow_extremes, allow_discrete, allow_any_covariance, max_rounds
    )
    settings = _settings(kit, table, _chosen(column, columns), id_column, local, missing, rules)
    study, name = _study_for(kit, clusters, one_shot=one_shot)
    seen = _messages(settings, study, name)
    if json:
        print_json(seen.said)
    else:
        _show_rules(settings)
        for said in seen.said:
            _show(said)
            out.print(plain(jsonlib.dumps(said["values"], ensure_ascii=False)), soft_wrap=True)
    if form is not None:
        _write_form(form, kit, seen)


@participant.command()
def serve(
    kit: Kit,
    table: TableFile = None,
    column: Column = None,
    columns: Columns = None,
    id_column: IdColumn = None,
    local: Local = None,
    missing: Missing = None,
    min_cluster_size: Smallest = None,
    small: Small = None,
    round_counts_to: RoundTo = None,
    allow_extremes: Extremes = None,
    allow_discrete: Discrete = None,
    allow_any_covariance: AnyCovariance = None,
    max_rounds: MaxRounds = None,
    consent: Annotated[
        Path | None, typer.Option("--consent", help="A form that preview --form wrote, filled in; nobody is asked.")
    ] = None,
) -> None:
    """Check the table, say what would leave, and take part until stopped. Labels are written into the kit's folder.

    Example: [bold]intarsia participant serve --kit kit/ --table data.parquet[/]
    """
    engine()
    from intarsia._files import write_atomically
    from intarsia.federation.consent import CONSENT
    from intarsia.federation.flare.kit import command_of
    from intarsia.federation.site_settings import write_settings

    rules = _rules(
        min_cluster_size, small, round_counts_to, allow_extremes, allow_discrete, allow_any_covariance, max_rounds
    )
    settings = _settings(kit, table, _chosen(column, columns), id_column, local, missing, rules)
    study, name = _study_for(kit)
    check_certificates(kit)
    _show_rules(settings)
    seen = _messages(settings, study, name)
    for said in seen.said:
        _show(said)
    write_atomically(kit / CONSENT, _agreed(consent, seen).encode())
    write_settings(kit / "local", settings)
    err.print(plain(f"serving as {name!r}; labels will be in {kit / 'labels.csv'}"), soft_wrap=True)
    become(*command_of(kit))


def _agreed(form: Path | None, seen: Seen) -> str:
    """Consent to these terms: by a form that was filled in, or by whoever sits at the terminal."""
    from intarsia.federation.consent import check_form, form_of

    if form is not None:
        return check_form(form, seen.terms)
    if not sys.stdin.isatty():
        raise SettingError(
            "nobody is there to agree to what leaves. Hint: a terminal, or a form that was filled in: "
            "intarsia participant preview --kit … --table … --form consent.toml, then serve --consent consent.toml."
        )
    out.print(plain(f"columns that take part: {', '.join(seen.terms['columns'])}"), soft_wrap=True)
    typer.confirm("May summaries like these leave, for this study?", abort=True)
    who = f"{getpass.getuser()}, at the terminal of {platform.node()}"
    return form_of(seen.terms, seen.said, who, datetime.now(UTC).isoformat(timespec="seconds"))


def _write_form(form: Path, kit: Path | None, seen: Seen) -> None:
    from intarsia._files import write_atomically
    from intarsia.federation.consent import BY, ON, form_of

    if kit is None:
        raise SettingError("consent is to a study. Hint: --kit, the folder that was made for you.")
    if form.exists():
        raise SettingError(f"{form} is there already. Hint: another name; somebody may have filled it in.")
    write_atomically(form, form_of(seen.terms, seen.said).encode())
    err.print(plain(f"written: {form}, to be read; {BY} and {ON} are to be filled in"), soft_wrap=True)


def _chosen(column: list[str] | None, columns: str | None) -> tuple[str, ...]:
    """The columns that were named, one by one or several at once."""
    several = [] if columns is None else [name.strip() for name in columns.split(",")]
    if "" in several:
        raise SettingError("--columns has an empty name. Hint: --columns age,chol; a name with a comma in it: -c.")
    return tuple(dict.fromkeys([*(column or ()), *several]))


def _rules(*said: int | str | bool | None) -> dict[str, Any]:
    """The rules that were said, in the order of a policy."""
    from intarsia.federation.release_rules import RULES

    rules = dict(zip(RULES, said, strict=True))
    if isinstance(rounds := rules["max_rounds"], str) and rounds.isdecimal():
        rules["max_rounds"] = int(rounds)
    return {name: value for name, value in rules.items() if value is not None}


def _settings(
    kit: Path | None,
    table: Path | None,
    columns: tuple[str, ...],
    id_column: str | None,
    local: str | None,
    missing: str | None,
    rules: dict[str, Any],
) -> LocalSettings:
    """What was said, and what was not as the kit's own file says."""
    from msgspec.structs import replace

    from intarsia.federation.kit_folder import ANALYST, SERVER, name_of
    from intarsia.federation.release_rules import rules_from
    from intarsia.federation.site_settings import LocalSettings, read_settings

    settings = LocalSettings()
    if kit is not None:
        if name_of(kit) in (SERVER, ANALYST):
            raise SettingError(f"{kit} is not a participant's kit, but that of the {name_of(kit)}.")
        settings = read_settings(kit / "local")
    where = None if table is None else str(table.resolve())
    said = {"table": where, "columns": columns or None, "id_column": id_column, "local": local, "missing": missing}
    settings = replace(settings, **{name: value for name, value in said.items() if value is not None})
    if not settings.table:
        raise SettingError("no table was given. Hint: --table data.csv")
    return replace(settings, release=rules_from(rules, "the command line", settings.release))


def _study_for(kit: Path | None, clusters: int | None = None, *, one_shot: bool = False) -> tuple[Study, str]:
    from intarsia.federation.study_file import Study

    if kit is None:
        method = "one_shot" if one_shot else "federated"
        return Study("preview", (NAME, "others"), method, "auto" if clusters is None else clusters), NAME
    from intarsia.federation.kit_folder import name_of, study_of

    return study_of(kit), name_of(kit)


class Seen(NamedTuple):
    """What somebody agrees to, and the messages that would leave."""

    terms: dict[str, Any]
    said: list[dict[str, Any]]


def _messages(settings: LocalSettings, study: Study, name: str) -> Seen:
    """The answers to the first questions, as if nobody else took part: in a run, units are those of everybody."""
    from intarsia.federation.consent import terms_of
    from intarsia.federation.release_rules import forbidden, rounds_beyond
    from intarsia.federation.site import open_rows, participant_of
    from intarsia.protocol import Failure, tag_of
    from intarsia.runtime.drive import exception_of

    algorithm, _ = algorithm_of(study)
    if why := forbidden(algorithm, settings.release):
        raise ReleaseError(
            f"the study asks for what your rules keep back: {why} Hint: nothing has left; tell the others."
        )
    if told := rounds_beyond(algorithm, settings.release):
        err.print(plain(f"Warning: {told}"), soft_wrap=True)
    opened = open_rows(name, settings)
    terms = terms_of(study, name, settings, opened.columns)
    held = participant_of(settings, opened)
    said: list[dict[str, Any]] = []
    step = algorithm.start((name,))
    while step.result is None and tag_of(step.requests[name]) in _ASKED:
        reply = held.handle(step.requests[name])
        if isinstance(reply, Failure):
            raise exception_of(reply)
        said.append(_as_json(reply))
        try:
            step = algorithm.advance(step.state, {name: reply})
        except IntarsiaError:
            break  # alone it has too little to go on, which is nobody's fault
    return Seen(terms, said)


def _show_rules(settings: LocalSettings) -> None:
    """The rules in force, and which of them let out more than usual: a study may have proposed them."""
    from intarsia.federation.release_rules import as_table, looser

    said = ", ".join(f"{name} = {jsonlib.dumps(value)}" for name, value in as_table(settings.release).items())
    out.print(plain(f"rules: {said}"), soft_wrap=True)
    if more := looser(settings.release):
        out.print(plain(f"These let out more than usual: {', '.join(more)}."), soft_wrap=True)


def _as_json(reply: Reply) -> dict[str, Any]:
    import msgspec

    from intarsia.protocol import encode, tag_of
    from intarsia.protocol.catalogue import fields_of, rows_behind

    behind = rows_behind(reply)
    fields = [
        {"field": held.path, "entries": held.entries, "fewest_rows": behind.get(held.path)}
        for held in fields_of(reply)
        if held.entries is not None
    ]
    values = msgspec.to_builtins(reply, enc_hook=lambda array: array.tolist())
    return {"message": tag_of(reply), "bytes": len(encode(reply)), "fields": fields, "values": values}


def _show(said: dict[str, Any]) -> None:
    view = Table(
        box=box.SIMPLE_HEAD, title=f"{said['message']}, {said['bytes']} bytes", title_justify="left", title_style="bold"
    )
    view.add_column("field")
    view.add_column("entries", justify="right")
    view.add_column("fewest rows behind one", justify="right")
    for field in said["fields"]:
        rows = field["fewest_rows"]
        view.add_row(plain(field["field"]), str(field["entries"]), "" if rows is None else str(rows))
    out.print(view)
