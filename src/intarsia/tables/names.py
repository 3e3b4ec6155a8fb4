"""Names of columns and participants: how a table states them, and which are refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from intarsia.core.homoglyphs import differing_letters, first_pair
from intarsia.exceptions import DuplicateColumnError, InputError, UnnamedColumnError, plain, quote

MOST_LETTERS = 1000  # of a column's name or a level; no message takes more
PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # pyarrow's name for the index of a pandas table


def column_names(table: Any) -> list[Any] | None:
    """Return the column names as the table has them, or None for an object without columns.

    They are read before narwhals sees the table, because it refuses unusual names with messages of its own.
    """
    if isinstance(table, Mapping):
        return list(table)
    if hasattr(table, "column_names"):  # pyarrow keeps the data under `columns`, and a pandas index among them
        return [name for name in table.column_names if not PANDAS_INDEX.fullmatch(str(name))]
    if hasattr(table, "collect_schema"):  # polars, lazy or not
        return list(table.collect_schema().names())
    names = getattr(table, "columns", None)
    return None if names is None or callable(names) or isinstance(names, str) else list(names)


def check_names(names: Sequence[Any], owner: str) -> None:
    """Raise an error if a column has no usable name, or two columns have the same name."""
    unnamed = [position for position, name in enumerate(names) if not isinstance(name, str) or not name.strip()]
    if unnamed:
        raise UnnamedColumnError(
            f"{len(unnamed)} of {len(names)} columns of {owner!r} have no name that is text and not blank (at positions "
            f"{quote(unnamed)}). Columns are matched across tables by name. Hint: set the table's column names."
        )
    if invalid := [name for name in names if not is_valid_text(name)]:
        raise UnnamedColumnError(
            f"{len(invalid)} column name(s) of {owner!r} contain characters that are not valid UTF-8: {quote(invalid)}. "
            "Hint: rename them, or read the file in its own encoding."
        )
    check_lengths(names, owner)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DuplicateColumnError(
            f"{len(repeated)} column name(s) of {owner!r} occur more than once: {quote(repeated)}. "
            "Hint: rename or drop the copies."
        )


def check_lengths(names: Sequence[str], owner: str) -> None:
    """Raise an error if a column's name is too long for a message."""
    if long := [name for name in names if len(name) > MOST_LETTERS]:
        raise UnnamedColumnError(
            f"{len(long)} of {len(names)} column names of {owner!r} have more than {MOST_LETTERS} letters. "
            "Hint: check that the file has a header, and that its separator and quotation marks are right."
        )


def check_header(names: Sequence[str], file: str) -> None:
    """Raise an error if a name in the header of a file is too long, or occurs twice: its reader would rename the second."""
    check_lengths(names, file)
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names, 1):
        places.setdefault(name, []).append(place)
    repeated = [f"{plain(name, 100)} (columns {at[0]} and {at[1]})" for name, at in places.items() if len(at) > 1]
    if repeated:
        raise DuplicateColumnError(
            f"{len(repeated)} column(s) of {file} occur more than once: {quote(repeated)}. Hint: rename them."
        )


def check_participants(names: Sequence[str]) -> None:
    """Raise an error if two participants have names that look the same and are not."""
    if (pair := first_pair(names)) is not None:
        raise InputError(
            f"two participants have names that look the same, {quote(pair)}, but differ by "
            f"{differing_letters(*pair)}. Hint: rename one."
        )


def is_valid_text(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
