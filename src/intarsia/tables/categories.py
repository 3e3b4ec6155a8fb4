"""Columns of categories: which columns count as one, and their levels."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from intarsia.core.types import IntArray
from intarsia.exceptions import NonNumericError, quote
from intarsia.tables.date_texts import look_like_dates
from intarsia.tables.names import MOST_LETTERS, is_valid_text
from intarsia.tables.number_texts import are_numbers, is_number

DATES = "dates"  # stored as text
CONTRADICTION = "numbers with decimal commas and numbers with decimal points"
NUMBERS_AS_TEXT = "numbers stored as text"
OPTION = "--decimal"  # in the reason of a column of numbers that can be read in two ways
IN_PYTHON = (  # parts of hints that the command line does not show
    ", in Python scan_csv(path, decimal=',')",
    "; in Python, make a small table's column a pandas or polars categorical",
    ". In pandas, read_csv(..., decimal=',', na_values=[...]) reads such cells, and codes can be a categorical",
    ", or by subtraction in Python",
)
MOST_LEVELS = 50  # a column with more is free text or an id
_TOO_LONG = f"texts of more than {MOST_LETTERS} letters"
_TYPE_WORDS = {
    "str": "texts",
    "int": "numbers",
    "float": "numbers",
    "bool": "truth values",
    "date": "dates",
    "datetime": "dates",
}


@dataclass(frozen=True, eq=False)
class Category:
    """A column of categories: its levels, sorted, and the index of each row's level; −1 for a missing value."""

    levels: tuple[str, ...]
    codes: IntArray

    def __len__(self) -> int:
        return len(self.codes)

    def tolist(self) -> list[str | None]:
        """Return the level of every row, None for a missing value."""
        return [None if code < 0 else self.levels[code] for code in self.codes]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows with each level."""
        times = np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels)).tolist()
        return dict(zip(self.levels, times, strict=True))

    def of_rows(self, rows: IntArray) -> Category:
        """Return the column for a selection of rows."""
        return Category(self.levels, self.codes[rows])

    def with_levels(self, levels: Sequence[str]) -> IntArray:
        """Return for every row the index of its level among ``levels``; −1 if it is not there or missing."""
        position = {level: k for k, level in enumerate(levels)}
        recoded = [position.get(level, -1) for level in self.levels]
        return np.array([*recoded, -1], dtype=np.intp)[self.codes]

    @classmethod
    def of_words(cls, words: Sequence[str | None]) -> Category:
        """Return the category of a list of levels, one per row."""
        levels = tuple(sorted({word for word in words if word is not None}))
        position = {level: k for k, level in enumerate(levels)}
        return cls(levels, np.array([-1 if word is None else position[word] for word in words], dtype=np.intp))


def read_category(column: Any, *, declared: bool) -> Category | str:
    """Return a column as a category, or the reason why it is not one: the type of its cells, never a value.

    A column that is ``declared`` to hold categories may hold cells of any type.
    """
    if isinstance(column, Category):
        return column
    if _has_long_texts(column):
        return _TOO_LONG
    cells, is_categorical = _cells(column)
    if cells is None:
        return _type_name(column)
    declared = declared or is_categorical
    filled = [cell for cell in cells if cell is not None]
    booleans, texts = (all(isinstance(cell, kind) for cell in filled) for kind in (bool | np.bool_, str))
    if not declared and not booleans and not texts:
        kinds = sorted({_TYPE_WORDS.get(type(cell).__name__, type(cell).__name__) for cell in filled})
        return " and ".join(kinds) + (" mixed" if len(kinds) > 1 else "")
    words = [None if cell is None else level_name(cell) for cell in cells]
    counts = Counter(word for word in words if word is not None)
    return why_not_levels(counts, texts=not declared and not booleans) or Category.of_words(words)


def words_in(column: Any) -> Category | None:
    """Return any column of texts, booleans or categories as a category, however many levels it has; None for others."""
    if isinstance(column, Category):
        return column
    cells, _ = _cells(column)
    return None if cells is None else Category.of_words([None if cell is None else level_name(cell) for cell in cells])


def why_not_levels(counts: Mapping[str, int], *, texts: bool) -> str | None:
    """Return why these words, with the number of rows of each, are not the levels of a category; None if they are.

    The rules for plain ``texts`` are stricter than those for a column that is declared to hold categories.
    """
    n_filled = sum(counts.values())
    if not all(map(is_valid_text, counts)):
        return "texts with characters that are not valid UTF-8"
    if any(len(level) > MOST_LETTERS for level in counts):
        return _TOO_LONG
    if texts and n_filled:
        other = {level for level in counts if not is_number(level)}
        n_numbers = sum(n for level, n in counts.items() if level not in other)
        if 2 * n_numbers > n_filled or are_numbers(counts):
            return NUMBERS_AS_TEXT + (f", with {len(other)} other text(s) among them" if other else "")
    reason = None
    if len(counts) > MOST_LEVELS:
        reason = f"{len(counts)} different levels, more than {MOST_LEVELS}"
    elif texts and n_filled and 2 * len(counts) > n_filled and (len(counts) > 2 or len(counts) == n_filled):
        reason = f"{len(counts)} different texts in {n_filled} rows"
    return DATES if reason and look_like_dates(counts) else reason


def _has_long_texts(column: Any) -> bool:
    """Return whether a table's own column of texts has one that is too long, before Python holds a copy of them all."""
    if not isinstance(column, nw.Series) or column.dtype != nw.String:
        return False
    return bool((column.str.len_chars().max() or 0) > MOST_LETTERS)


def level_name(cell: Any) -> str:
    """Return the name of a cell's level; a whole number has the same name as an int and as a float."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return unicodedata.normalize("NFC", str(cell))


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or pandas' NA."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # NaN, NaT  # noqa: PLR0124
    except (TypeError, ValueError):  # pandas' NA does not say whether it equals itself
        return True


def is_blank(cell: Any) -> bool:
    """Return whether a cell is missing, or a text of blanks only."""
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def _cells(column: Any) -> tuple[list[Any] | None, bool]:
    """Return the cells of a column that may hold categories, None where missing, and whether its type says so."""
    declared = False
    if isinstance(column, nw.Series):
        declared = any(column.dtype == kind for kind in (nw.Categorical, nw.Enum, nw.Boolean))
        if not declared and not any(column.dtype == kind for kind in (nw.String, nw.Object, nw.Unknown)):
            return None, declared
        column = column.to_list()
    elif column.dtype.kind in "bUO" and column.ndim == 1:
        column = column.tolist()
    else:
        return None, declared
    return [None if is_blank(cell) else cell for cell in column], declared


def _type_name(column: Any) -> str:
    """Return the bare name of a column's type, without its parameters: the levels of a categorical type are data."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "SU":
        return "text"
    return re.split(r"[^A-Za-z0-9_]", str(column.dtype), maxsplit=1)[0]


def unusable_columns(reasons: Mapping[str, Mapping[str, str]]) -> NonNumericError:
    """Return one error about all columns that are neither numbers nor categories: by participant, column and reason."""
    owners: dict[str, list[str]] = {}
    for owner, columns in reasons.items():
        for column in columns:
            owners.setdefault(column, []).append(owner)
    if len(reasons) == 1:
        (owner,) = reasons
        names = quote(f"{column} ({reason})" for column, reason in reasons[owner].items())
        text = f"{len(owners)} column(s) of {owner!r} are neither numbers nor categories: {names}."
    else:
        names = "; ".join(
            f"{quote([column])} of " + ", ".join(f"{quote([owner])} ({reasons[owner][column]})" for owner in holders)
            for column, holders in owners.items()
        )
        text = f"{len(owners)} column(s) of {len(reasons)} participants are neither numbers nor categories: {names}."
    error = NonNumericError(f"{text} Hint: {'; '.join(_hints(reasons))}.")
    error.columns = reasons
    return error


def _hints(reasons: Mapping[str, Mapping[str, str]]) -> list[str]:
    doubts = {reason for columns in reasons.values() for reason in columns.values() if OPTION in reason}
    kinds = [reason.lower() for columns in reasons.values() for reason in columns.values() if reason not in doubts]
    others = [kind for kind in kinds if "number" not in kind]
    hints = ["drop ids and free text"] if others else []
    if doubts:
        hints.append(f"say how numbers are written: --decimal as above{IN_PYTHON[0]}")
    if any("different" in kind for kind in others):
        hints.append(f"join rare levels{IN_PYTHON[1]}")
    if any(kind == CONTRADICTION for kind in kinds):
        hints.append("write all numbers of the column with the same decimal sign")
    if any("number" in kind and kind != CONTRADICTION for kind in kinds):
        hints.append(
            "correct the cells that are no numbers, such as <5, 12 mg or n/a: write a number, or leave the cell blank if "
            f"the value is missing; or exclude the column (-x){IN_PYTHON[2]}"
        )
    if any(kind.startswith(("date", "time", "duration", "period")) for kind in kinds):
        hints.append(
            f"dates become days since a fixed day with --dates COLUMN=2000-01-01{IN_PYTHON[3]}; or leave them out"
        )
    return hints
