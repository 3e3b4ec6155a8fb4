"""Everything that the doctor looks at, in the order in which things depend on each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from intarsia.exceptions import InputError, IntarsiaError, quote
from intarsia.federation.algorithms import terms_for
from intarsia.federation.consent import CONSENT, check_form, terms_of
from intarsia.federation.doctor.finding import Finding, State
from intarsia.federation.doctor.machine import disk, memory, versions
from intarsia.federation.doctor.reach import way_to_server
from intarsia.federation.key_list import keys_of
from intarsia.federation.kit_folder import ANALYST, AUTHORITY, SERVER, name_of, study_of
from intarsia.federation.site import check_record, open_rows, reading_in_words, record_of
from intarsia.federation.site_settings import LocalSettings, read_settings
from intarsia.federation.study_file import Study
from intarsia.tables import Opened
from intarsia.tables.frame import CATEGORIES, NUMBERS


def examine(kit: Path | None = None, table: Path | None = None, now: datetime | None = None) -> list[Finding]:
    """Look at this machine and, with a kit, at its certificates, its table and the way to the server."""
    now = datetime.now(UTC) if now is None else now
    study, problem = _study(kit)
    findings = list(versions(study))
    if problem is not None:
        return [*findings, problem]
    opened, of_table = _table(kit, study, table)
    findings += [memory(_bytes_in_memory(opened)), disk(Path.cwd() if kit is None else kit)]
    if kit is not None and study is not None and find_spec("cryptography") is not None:  # it comes with the engine
        from intarsia.federation.doctor.kit import look_at_kit

        findings += [*look_at_kit(kit, study, now), *way_to_server(study, kit, now)]
    return [*findings, *of_table]


def _study(kit: Path | None) -> tuple[Study | None, Finding | None]:
    if kit is None:
        return None, None
    try:
        study = study_of(kit)
        if (kit / "authority.key").is_file():
            raise InputError(
                f"{kit} is the {AUTHORITY}'s folder. Hint: the kit of the server, the analyst or a participant."
            )
        name_of(kit)
    except IntarsiaError as error:
        return None, Finding.of_error("kit", error)
    return study, None


def _table(kit: Path | None, study: Study | None, table: Path | None) -> tuple[Opened | None, list[Finding]]:
    """Open the participant's table as its site would, and look at its columns."""
    try:
        if kit is not None and name_of(kit) in (SERVER, ANALYST):
            return None, []
        settings = LocalSettings() if kit is None else read_settings(kit / "local")
        if table is not None:
            settings = replace(settings, table=str(table))
        if not settings.table:
            if kit is None:
                return None, []
            seen = "the kit names no table yet"
            return None, [Finding("table", State.SKIPPED, seen, f"intarsia doctor --kit {kit} --table data.csv")]
        if not Path(settings.table).exists():
            raise InputError(
                f"{settings.table} was not found. Hint: A relative path starts at the folder in which the command is typed, "
                "in a unit at WorkingDirectory."
            )
        name = Path(settings.table).stem if kit is None else name_of(kit)
        opened = open_rows(name, settings, None if study is None else terms_for(study, name))
        agreed = () if kit is None or study is None else _agreed(kit, study, settings, opened)
        is_private = study is not None and study.privacy is not None
        return opened, [_columns(opened, as_declared=is_private), *_row_ids(opened), *agreed]
    except IntarsiaError as error:
        return None, [Finding.of_error("table", error)]
    except (OSError, ValueError) as error:  # of a library that reads files; its text may quote a cell
        return None, [Finding("table", State.FAULT, f"it cannot be read ({type(error).__name__})", "Check the file.")]


def _columns(opened: Opened, *, as_declared: bool) -> Finding:
    kinds = opened.kinds()
    unusable = [name for name, kind in kinds.items() if kind not in (NUMBERS, CATEGORIES)]
    size = f"{opened.n_rows} rows and {len(kinds) - len(unusable)} columns that can be used"
    if not opened.n_rows or len(unusable) == len(kinds):
        return Finding("table", State.FAULT, size, "Run intarsia check on the file: it says what each column is.")
    refused = [] if as_declared else [name for name in unusable if "number" in kinds[name]]
    if refused:  # by preview and serve
        named = quote(f"{name} ({kinds[name]})" for name in refused)
        remedy = (
            "Correct these columns, as intarsia check on the file says, or choose others: participant serve --columns."
        )
        return Finding("table", State.FAULT, f"{size}; of numbers that cannot be read: {named}", remedy)
    if unusable:
        remedy = "Run intarsia check on the file, or choose columns: participant serve --columns."
        return Finding("table", State.WARNING, f"{size}; these cannot: {quote(unusable)}", remedy)
    return Finding("table", State.FINE, size)


def _row_ids(opened: Opened) -> Iterator[Finding]:
    if names := opened.row_id_columns():
        seen = f"these columns look like row IDs and will be clustered on: {quote(names)}"
        yield Finding("row IDs", State.WARNING, seen, f"intarsia participant preview and serve: --id {names[0]}")


def _agreed(kit: Path, study: Study, settings: LocalSettings, opened: Opened) -> Iterator[Finding]:
    """Look whether the consent in a kit, and the record of what was told, still fit the table; serve asks the same."""
    if not (kit / CONSENT).is_file():
        return
    name, reading = name_of(kit), reading_in_words(opened, settings)
    try:
        keys = keys_of(kit, None)
        check_form(kit / CONSENT, terms_of(study, name, settings, opened.columns, keys, reading))
        if study.privacy is None and record_of(settings).path.exists():
            check_record(name, settings)
    except IntarsiaError as error:
        yield Finding.of_error("consent", error)
        return
    yield Finding("consent", State.FINE, "it fits the study and the table, and no row of which was told has changed")


def _bytes_in_memory(opened: Opened | None) -> int | None:
    """Return what the numbers of a table take if all rows are in memory."""
    if opened is None or opened.is_streamed:
        return None
    return 8 * (opened.n_rows or 0) * len(opened.columns)
