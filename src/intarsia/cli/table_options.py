"""The options about tables that commands share, for all participants (``--decimal ,``) or for one (``--decimal nord=,``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._files import read_toml
from intarsia.cli.kit_options import tell
from intarsia.exceptions import InputError, SettingError, quote

if TYPE_CHECKING:
    from intarsia.tables.dates import Since
    from intarsia.tables.open import Opened
    from intarsia.tables.reading import Reading

_PANEL = "How tables are read"
_CONFIG = ("participants", "settings", "columns")

IdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        help="The column that identifies rows, in the tables that have it; name=column for one participant. "
        "Not clustered on, but written beside the labels.",
    ),
]
DecimalOption = Annotated[
    list[str] | None,
    typer.Option(
        help="The decimal sign of CSV files, where cells do not decide it: , or name=,", rich_help_panel=_PANEL
    ),
]
EncodingOption = Annotated[
    list[str] | None,
    typer.Option(
        help="The encoding of CSV files that are not UTF-8 or UTF-16: windows-1252 or name=windows-1252.",
        rich_help_panel=_PANEL,
    ),
]
DatesOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Read a column of dates as days since a day: visit=2020-01-01; can be repeated.", rich_help_panel=_PANEL
    ),
]
RenameOption = Annotated[
    list[str] | None,
    typer.Option(help="Rename a column of the table: Alter=age; can be repeated.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True)
class TableOptions:
    """What is said about the tables of all participants; settings by participant, None: those without an own one."""

    ids: Mapping[str | None, str] = field(default_factory=dict)
    decimal: Mapping[str | None, str] = field(default_factory=dict)
    encoding: Mapping[str | None, str] = field(default_factory=dict)
    dates: Mapping[str, Since] = field(default_factory=dict)
    rename: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        ids: Sequence[str] | None,
        decimal: Sequence[str] | None,
        encoding: Sequence[str] | None,
        dates: Sequence[str] | None,
        rename: Mapping[str, Mapping[str, str]] | None = None,
    ) -> TableOptions:
        """Return the options of a command line; an error names the participants that there are."""
        from intarsia.tables.csv_text import check_encoding
        from intarsia.tables.local_numbers import check_decimal

        names = list(names)
        signs, encodings = _by_name(decimal, names, "--decimal"), _by_name(encoding, names, "--encoding")
        for sign in signs.values():
            check_decimal(sign)
        for each in encodings.values():
            check_encoding(each)
        if unknown := [name for name in rename or {} if name not in names]:
            raise InputError(
                f"[columns] names participants that have no table: {quote(unknown)}. There are {quote(names)}."
            )
        return cls(_by_name(ids, names, "--id", any_text=True), signs, encodings, dates_of(dates), dict(rename or {}))

    def reading(self, name: str) -> Reading:
        """Return how the table of a participant is read."""
        from intarsia.tables.reading import Reading

        return Reading(
            self.decimal.get(name, self.decimal.get(None)),
            self.encoding.get(name, self.encoding.get(None)),
            self.dates,
            self.rename.get(name, {}),
        )

    def opening(self, name: str) -> dict[str, Any]:
        """Return the arguments of :func:`~intarsia.tables.open.open_table` for a participant."""
        column = self.ids.get(name, self.ids.get(None))
        return {"id_column": column, "id_optional": name not in self.ids, "how": self.reading(name)}

    def check(self, opened: Mapping[str, Opened]) -> None:
        """Raise an error about columns that no table has; say which tables lack the column of row IDs."""
        known = {column for table in opened.values() for column in table.all_columns}
        if unknown := [name for name in self.dates if name not in known]:
            raise InputError(f"{len(unknown)} column(s) of --dates are in no table: {quote(unknown)}.")
        column = self.ids.get(None)
        others = [name for name in opened if name not in self.ids]
        if column is None or not others:
            return
        lacking = [name for name in others if column not in opened[name].all_columns]
        if len(lacking) == len(others):
            whose = quote(others) if len(others) < len(opened) else "no table"
            has = f"{whose} has" if len(others) == len(opened) else f"none of {whose} has"
            if column.partition("=")[0] != column:
                has = f"there is no participant {column.partition('=')[0]!r} (there are {quote(opened, 20)}), and {has}"
            raise InputError(f"{has} column {column!r}, which --id names. They have {quote(sorted(known), 20)}.")
        if lacking:
            tell(
                f"{', '.join(lacking)} has no column {column!r}: its labels are listed by number of row. Hint: --id "
                f"{lacking[0]}=column names another one."
            )


def dates_of(values: Sequence[str] | None) -> dict[str, Since]:
    """Return by column what ``--dates`` declares."""
    from intarsia.tables.dates import since

    declared = {}
    for text in values or ():
        column, equals, day = text.rpartition("=")
        if not equals or not column:
            raise SettingError(f"--dates needs a column and a day, as in visit=2020-01-01. Got {text!r} instead.")
        declared[column] = since(day)
    return declared


def renamed(values: Sequence[str] | None) -> dict[str, str]:
    """Return new names of columns by old ones, from ``--rename``."""
    names = {}
    for text in values or ():
        old, equals, new = text.rpartition("=")
        if not equals or not old or not new.strip():
            raise SettingError(f"--rename needs two names, as in Alter=age. Got {text!r} instead.")
        if "=" in old and "," in old.partition("=")[2]:
            raise SettingError(
                f"--rename takes one column. Got {text!r} instead. Hint: repeat --rename for each column."
            )
        names[old] = new
    return names


def _by_name(
    values: Sequence[str] | None, names: Sequence[str], option: str, *, any_text: bool = False
) -> dict[str | None, str]:
    """Return values by participant, None: of all others. With ``any_text``, a value may have a = in it."""
    result: dict[str | None, str] = {}
    for text in values or ():
        name, equals, value = text.partition("=")
        if equals and name in names:
            key: str | None = name
        elif equals and not any_text:
            raise SettingError(f"{option} {text}: there is no participant {name!r}. Participants: {quote(names, 20)}.")
        else:
            key, value = None, text
        if key in result:
            hint = f" Hint: {option} {names[0]}={value}, for one participant." if key is None and names else ""
            raise SettingError(f"{option} is given twice for {'all participants' if key is None else repr(key)}.{hint}")
        result[key] = value
    return result


def read_config(path: Path | None) -> tuple[list[str], dict[str, Any], dict[str, dict[str, str]]]:
    """Return the files, the settings, and by participant the new names of columns that a configuration has."""
    if path is None:
        return [], {}, {}
    tables = read_toml(path)
    unknown = [key for key in tables if key not in _CONFIG]
    if unknown or not all(isinstance(part, dict) for part in tables.values()):
        raise InputError(
            f"{path} has unknown entries: {quote(unknown)}. It can have [participants], [columns] and [settings]. Hint: "
            "settings of the method stand below a line [settings]."
        )
    files = [f"{name}={path.parent / str(file)}" for name, file in tables.get("participants", {}).items()]
    columns = tables.get("columns", {})
    names = [new for each in columns.values() if isinstance(each, dict) for new in each.values()]
    if not all(isinstance(each, dict) for each in columns.values()) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"[columns] of {path} must have a table for each participant, with names of the study by names in the table. "
            'Hint: [columns.nord], and below it "Alter" = "age".'
        )
    return files, dict(tables.get("settings", {})), columns


def say_remarks(opened: Mapping[str, Opened]) -> None:
    """Print on standard error how files are read that are not CSV as everybody writes it, one line for each."""
    for name, table in opened.items():
        if table.remark:
            tell(f"{name} is read as {table.remark}.")
