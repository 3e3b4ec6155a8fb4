"""``intarsia participant``: see what would leave, and take part."""

from __future__ import annotations

import getpass
import json as jsonlib
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from intarsia.cli.budget import budget
from intarsia.cli.console import out, plain, print_json
from intarsia.cli.extract import extract
from intarsia.cli.kit_options import Json, Kit, agreed_keys, become, check_certificates, engine, say, tell
from intarsia.cli.label import label
from intarsia.cli.participant_options import Options, settings_of, with_options
from intarsia.exceptions import SettingError

if TYPE_CHECKING:
    from intarsia.federation.preview import Preview
    from intarsia.federation.site_settings import LocalSettings
    from intarsia.federation.study_file import Study

participant = typer.Typer(
    name="participant",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@participant.callback()
def about() -> None:
    """Take part in a study with a table that stays here: summaries leave, rows and labels do not.

    Example: [bold]intarsia participant preview --table data.csv[/]
    """


@participant.command()
@with_options
def preview(
    options: Options,
    kit: Annotated[Path | None, typer.Option("--kit", help="Your kit, for the settings of its study.")] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", "-k", help="Number of clusters; ignored with --kit. Default: automatic.")
    ] = None,
    one_shot: Annotated[bool, typer.Option("--one-shot", help="One-shot method; ignored with --kit.")] = False,
    form: Annotated[Path | None, typer.Option("--form", help="Write a consent form to this file.")] = None,
    json: Json = False,
) -> None:
    """Print the first messages that would leave, field by field and in full, without any network.

    Example: [bold]intarsia participant preview --table data.csv[/]
    """
    settings = options.settings(kit)
    study, name = _study_for(kit, settings.table, clusters, one_shot=one_shot)
    seen = _preview(settings, study, name, agreed_keys(kit, options.keys))
    if json:
        print_json(seen.messages)
    else:
        _show_rules(settings)
        _show_requests(seen)
        for message in seen.messages:
            _show(message)
            if message["values"] is not None:
                say(jsonlib.dumps(message["values"], ensure_ascii=False))
    if form is not None:
        _write_form(form, kit, seen)


@participant.command()
@with_options
def serve(
    options: Options,
    kit: Kit,
    consent: Annotated[
        Path | None,
        typer.Option("--consent", help="A completed form from preview --form; asks no question."),
    ] = None,
) -> None:
    """Check the table, show what would leave, and take part until stopped. Labels are written into the kit.

    Example: [bold]intarsia participant serve --kit kit/ --table data.parquet[/]
    """
    engine()
    from intarsia.federation.consent import keep
    from intarsia.federation.flare.kit import command_of
    from intarsia.federation.key_list import install_keys
    from intarsia.federation.pages import PAGE, write_site_page
    from intarsia.federation.site import check_record
    from intarsia.federation.site_settings import environment_of, write_settings

    settings = options.settings(kit)
    study, name = _study_for(kit)
    check_certificates(kit)
    keys = agreed_keys(kit, options.keys)
    if study.privacy is None:  # what a private study tells cannot be subtracted
        check_record(name, settings)
    _show_rules(settings)
    seen = _preview(settings, study, name, keys)
    _show_requests(seen)
    for message in seen.messages:
        _show(message)
    keep(kit, _consent(consent, seen), is_new_form=consent is not None)
    install_keys(kit, keys)
    write_settings(kit / "local", settings)
    write_site_page(kit, name)
    tell(f"serving as {name!r}; labels will be in {kit / 'labels.csv'}")
    tell(f"what was agreed, what left and what happens now: {kit / PAGE}")
    command, environment = command_of(kit)
    become(command, environment | environment_of(settings))


@participant.command()
def renew(
    kit: Kit,
    reason: Annotated[str, typer.Option("--reason", help="Why, for your own records: it is written to the journal.")],
) -> None:
    """Put the record of what was told of your table aside, after somebody responsible consented to its new state.

    A participant refuses a table of which rows were changed or removed, or fewer than the minimum added: what was told
    before can be subtracted from what will be told.

    Example: [bold]intarsia participant renew --kit kit/ --reason "corrected 3 birth dates, consent of 16 November"[/]
    """
    from intarsia.federation.site import RELEASES, record_of
    from intarsia.privacy.journal import Journal

    settings = settings_of(kit)
    if not settings.table:
        raise SettingError(f"{kit} names no table yet. Hint: intarsia participant serve --kit {kit} --table data.csv")
    aside = record_of(settings).renew()
    if aside is None:
        tell(f"nothing was told of {settings.table} yet; there is no record to renew")
        return
    with Journal(kit / RELEASES).locked() as journal:
        journal.append({"event": "renewed", "reason": reason, "record": aside.name})
    tell(f"the record is now {aside}; keep it: it says what was told before")


participant.command()(budget)
participant.command()(label)
participant.command()(extract)


def _study_for(
    kit: Path | None, table: str = "", clusters: int | None = None, *, one_shot: bool = False
) -> tuple[Study, str]:
    """Return the study of a kit, and whose kit it is; without a kit, a study with others of whoever has the table."""
    from intarsia.federation.kit_folder import name_of, study_of
    from intarsia.federation.study_file import Study

    if kit is not None:
        return study_of(kit), name_of(kit)
    method, name = "one_shot" if one_shot else "federated", Path(table).stem
    return Study("preview", (name, f"not {name}"), method, "auto" if clusters is None else clusters), name


def _preview(settings: LocalSettings, study: Study, name: str, keys: Mapping[str, str] | None) -> Preview:
    from intarsia.federation.preview import preview as preview_of

    seen = preview_of(settings, study, name, keys)
    if drawn := seen.terms.get("extract"):
        tell(
            f"{Path(settings.table).name} is an extract of {drawn['rows']:,} rows; SHA-256 of its query: {drawn['query']}"
        )
    if reading := seen.terms.get("reading"):
        tell(f"{Path(settings.table).name} is read as {reading}.")
    if seen.warning:
        tell(f"Warning: {seen.warning}")
    return seen


def _consent(form: Path | None, seen: Preview) -> str:
    """Return the consent to these terms: a completed form, or that of the person at the terminal."""
    from intarsia.federation.consent import check_form, form_of

    if form is not None:
        return check_form(form, seen.terms)
    if not sys.stdin.isatty():
        raise SettingError(
            "somebody must agree to what leaves. Hint: use a terminal, or a completed form: "
            "intarsia participant preview --kit … --table … --form consent.toml, then serve --consent consent.toml."
        )
    say(f"columns to cluster on: {', '.join(seen.terms['columns'])}")
    typer.confirm("May summaries like these leave, for this study?", abort=True)
    person = f"{getpass.getuser()}, at the terminal of {platform.node()}"
    return form_of(seen.terms, seen.messages, person, datetime.now(UTC).isoformat(timespec="seconds"))


def _write_form(form: Path, kit: Path | None, seen: Preview) -> None:
    from intarsia._files import write_atomically
    from intarsia.federation.consent import BY, ON, form_of

    if kit is None:
        raise SettingError("a consent form needs a study. Hint: --kit, the folder that was made for you.")
    if form.exists() or form.is_symlink():
        raise SettingError(f"{form} already exists. Hint: use another name; somebody may have completed it.")
    write_atomically(form, form_of(seen.terms, seen.messages).encode())
    tell(f"written: {form}. To agree, read it and fill in {BY} (a name) and {ON} (the day, as 2026-11-19).")


def _show_rules(settings: LocalSettings) -> None:
    """Print the rules in force, and which of them are looser than the default: a study may have proposed them."""
    from intarsia.federation.settings_file import as_table, looser

    rules = ", ".join(f"{name} = {jsonlib.dumps(value)}" for name, value in as_table(settings.release).items())
    say(f"rules: {rules}")
    if names := looser(settings.release):
        say(f"These rules let more leave than the default: {', '.join(names)}.")


def _show_requests(seen: Preview) -> None:
    """Print which requests are answered, as the consent form lists them."""
    listed = ", ".join(f"{name} = {jsonlib.dumps(value)}" for name, value in seen.terms["requests"].items())
    say(f"requests that are answered: {listed}")
    if privacy := seen.terms.get("privacy"):
        say(f"privacy: {', '.join(f'{name} = {jsonlib.dumps(value)}' for name, value in privacy.items())}")
        say("Replies are noisy sums. They are not shown here: each answer spends privacy.")
    if keys := seen.terms.get("keys"):
        say(f"safety number: {keys['safety_number']}")
        say("Compare it with the other participants by phone or in person before you agree.")


def _show(message: dict[str, Any]) -> None:
    title = message["message"] if message["bytes"] is None else f"{message['message']}, {message['bytes']} bytes"
    view = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    view.add_column("field")
    view.add_column("entries", justify="right")
    view.add_column("fewest rows behind one", justify="right")
    for field in message["fields"]:
        rows = field["fewest_rows"]
        entries = "" if field["entries"] is None else str(field["entries"])
        view.add_row(plain(field["field"]), entries, "" if rows is None else str(rows))
    out.print(view)
