"""``intarsia participant``: see what would leave, and take part."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from intarsia.cli.console import err, out, plain, print_json
from intarsia.cli.federation import Kit, algorithm_of, become, engine
from intarsia.exceptions import IntarsiaError, SettingError

if TYPE_CHECKING:
    from intarsia.messages import Reply
    from intarsia.runtime.flare.site import LocalSettings

NAME = "you"
_ASKED = {"query.describe", "query.summarize"}

TableFile = Annotated[Path, typer.Option("--table", help="CSV, Parquet, Arrow or Excel.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", "-c", help="A column that takes part; all, unless said.")
]
IdColumn = Annotated[str | None, typer.Option("--id", help="A column that names rows; kept beside the labels.")]
Smallest = Annotated[
    int | None,
    typer.Option("--min-cluster-size", min=1, help="No number leaves that fewer rows stand behind (default 5)."),
]
Local = Annotated[str | None, typer.Option(help="A clusterer of scikit-learn: 'HDBSCAN(min_cluster_size=20)'.")]
Missing = Annotated[str, typer.Option(help="observed, impute, drop, error.")]

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
    table: TableFile,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, for the study's own settings.")] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="K, without a kit; else it is chosen.")
    ] = None,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="One round of densities, without a kit.")] = False,
    column: Columns = None,
    id_column: IdColumn = None,
    local: Local = None,
    missing: Missing = "observed",
    min_cluster_size: Smallest = None,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print the messages that would leave, field by field and in full, without any network.

    Example: [bold]intarsia participant preview --table data.csv[/]
    """
    settings = _settings(table, column, id_column, local, missing, smallest=min_cluster_size)
    messages = _messages(settings, kit, clusters, one_shot=one_shot)
    if json:
        print_json([_as_json(reply) for reply in messages])
        return
    for reply in messages:
        _show(reply)
        out.print(plain(jsonlib.dumps(_as_json(reply)["values"], ensure_ascii=False)), soft_wrap=True)


@participant.command()
def serve(
    kit: Kit,
    table: TableFile,
    column: Columns = None,
    id_column: IdColumn = None,
    local: Local = None,
    missing: Missing = "observed",
    min_cluster_size: Smallest = None,
    consent: Annotated[bool, typer.Option("--consent", help="Do not ask; what would leave is agreed to.")] = False,
) -> None:
    """Check the table, say what would leave, and take part until stopped. Labels are written into the kit's folder.

    Example: [bold]intarsia participant serve --kit kit/ --table data.parquet[/]
    """
    engine()
    from intarsia.runtime.flare.kit import ANALYST, SERVER, command_of, name_of
    from intarsia.runtime.flare.site import read_settings, write_settings

    if name_of(kit) in (SERVER, ANALYST):
        raise SettingError(f"{kit} is not a participant's kit, but that of the {name_of(kit)}.")
    agreed = read_settings(kit / "local")
    settings = _settings(table, column, id_column, local, missing, agreed.metric, min_cluster_size)
    for reply in _messages(settings, kit, None, one_shot=False):
        _show(reply)
    if not consent:
        if not sys.stdin.isatty():
            raise SettingError("nobody is there to agree to what leaves. Hint: --consent, or a terminal.")
        typer.confirm("May summaries like these leave, for this study?", abort=True)
    write_settings(kit / "local", settings)
    err.print(plain(f"serving as {name_of(kit)!r}; labels will be in {kit / 'labels.csv'}"), soft_wrap=True)
    become(*command_of(kit))


def _settings(
    table: Path,
    column: list[str] | None,
    id_column: str | None,
    local: str | None,
    missing: str,
    metric: str = "euclidean",
    smallest: int | None = None,
) -> LocalSettings:
    from intarsia.runtime.flare.site import LocalSettings

    return LocalSettings(str(table.resolve()), tuple(column or ()), id_column, local, missing, metric, smallest)


def _messages(settings: LocalSettings, kit: Path | None, clusters: int | None, *, one_shot: bool) -> list[Reply]:
    """The answers to the first questions, as if nobody else took part: in a run, units are those of everybody."""
    from intarsia.messages import Failure
    from intarsia.releases import tag_of
    from intarsia.runtime.base import exception_of
    from intarsia.runtime.flare.site import load_participant
    from intarsia.runtime.flare.study import Study

    study, name = Study("preview", (NAME, "others"), "one_shot" if one_shot else "federated", clusters or "auto"), NAME
    if kit is not None:
        from intarsia.runtime.flare.kit import name_of, study_of

        study, name = study_of(kit), name_of(kit)
    held, _ = load_participant(name, settings)
    algorithm, _ = algorithm_of(study)
    replies: list[Reply] = []
    step = algorithm.start((name,))
    while step.result is None and tag_of(step.requests[name]) in _ASKED:
        reply = held.handle(step.requests[name])
        if isinstance(reply, Failure):
            raise exception_of(reply)
        replies.append(reply)
        try:
            step = algorithm.advance(step.state, {name: reply})
        except IntarsiaError:
            break  # alone it has too little to go on, which is nobody's fault
    return replies


def _as_json(reply: Reply) -> dict[str, Any]:
    import msgspec

    from intarsia.messages import encode
    from intarsia.releases import fields_of, rows_behind, tag_of

    behind = rows_behind(reply)
    fields = [
        {"field": held.path, "entries": held.entries, "fewest_rows": behind.get(held.path)}
        for held in fields_of(reply)
        if held.entries is not None
    ]
    values = msgspec.to_builtins(reply, enc_hook=lambda array: array.tolist())
    return {"message": tag_of(reply), "bytes": len(encode(reply)), "fields": fields, "values": values}


def _show(reply: Reply) -> None:
    said = _as_json(reply)
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
