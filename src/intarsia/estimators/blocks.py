"""One pooled table with missing values as several participants: by a column, or by the pattern of missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from intarsia.core.types import BoolArray, IntArray
from intarsia.estimators.settings import check_value, whole_number
from intarsia.exceptions import EmptyTableError, InputError, SettingError, quote
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table, cells_of, check_table, only_columns, read_table

_FEWEST = 10
_SHARE = 50  # a pattern is rare if fewer than one row in this number has it


class Blocks(Mapping[str, dict[str, Any]]):
    """Tables by participant for :func:`intarsia.cluster`, with the positions of their rows in the pooled table."""

    def __init__(self, table: Table, rows: Mapping[str, IntArray], has: Mapping[str, BoolArray]) -> None:
        self._table = table
        self._names = table.given_names
        self._filled = np.column_stack(list(table.filled.values()))
        self._rows = dict(rows)
        self._has = dict(has)

    def __getitem__(self, name: str) -> dict[str, Any]:
        rows = self._rows[name]
        return {
            self._names[k]: _some(self._table.column(self._names[k]), rows) for k in np.flatnonzero(self._has[name])
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> dict[str, IntArray]:
        """By participant, the positions of its rows in the pooled table."""
        return dict(self._rows)

    @property
    def n_left_out(self) -> int:
        """Number of values that no participant has: in columns that the block of a row lacks, or in rows without a block."""
        filled = self._filled
        inside = sum(int(filled[np.ix_(rows, self._has[name])].sum()) for name, rows in self._rows.items())
        return int(filled.sum()) - inside

    @property
    def n_rows_left_out(self) -> int:
        """Number of rows without values that any participant could be compared by; they get the label −1."""
        return len(self._table) - sum(len(rows) for rows in self._rows.values())

    def in_order(self, labels: Mapping[Any, Any]) -> IntArray:
        """Return labels by participant (``result.labels``) as one array in the order of the pooled table."""
        if set(labels) != set(self._rows):
            raise InputError(
                f"labels of {len(labels)} participant(s) were given; those of {quote(self._rows)} are needed. "
                "Hint: cluster these blocks, and pass result.labels."
            )
        result = np.full(len(self._table), -1, dtype=np.intp)
        for name, rows in self._rows.items():
            values = np.asarray(labels[name])
            if values.dtype.kind not in "iu":
                raise InputError(f"labels must be whole numbers; those of {name!r} are not.")
            if values.shape != rows.shape:
                raise InputError(f"{name!r} has {len(rows)} rows, but {values.size} labels were given.")
            result[rows] = values
        return result

    def __repr__(self) -> str:
        parts = (
            f"{name}: {len(rows)} rows × {int(self._has[name].sum())} columns" for name, rows in self._rows.items()
        )
        left = f"; {self.n_left_out} values left out" if self.n_left_out else ""
        gone = f"; {self.n_rows_left_out} rows without a block" if self.n_rows_left_out else ""
        return f"<Blocks of {len(self._table)} rows: {', '.join(parts)}{left}{gone}>"


def _some(column: Any, rows: IntArray) -> Any:
    return column.of_rows(rows) if isinstance(column, Category) else column[rows]


def participants_from_blocks(table: Any, by: str | None = None, *, min_rows: int | None = None) -> Blocks:
    """Split one pooled table into participants, so that block-missing data can be clustered.

    Parameters
    ----------
    table : pandas, polars or pyarrow table, or mapping of columns
        All rows, with missing values where something was not measured.
    by : str, default=None
        The column with the name of each row's participant; it is not clustered on. A participant has the columns in which
        it has a value. None: rows are split by the pattern of their missing values, and participants are called
        ``"block 0"``, ``"block 1"``, …, the most frequent first.
    min_rows : int, default=None
        A pattern with fewer rows is rare, and joins the frequent one from which it differs in the fewest columns (the more
        frequent of equals); values in columns that the block lacks are left out (``n_left_out``). None: 10, or one row in 50
        if that is more. Without a frequent pattern there is one block with every column. A row without a value in the
        columns of any block gets the label −1.

    Returns
    -------
    Blocks
        A mapping of tables for :func:`intarsia.cluster`; ``in_order(result.labels)`` returns the labels in the order of the
        pooled table.

    Examples
    --------
    >>> import numpy as np, intarsia
    >>> x = np.array([0.0, 9.0] * 20)
    >>> y = np.where(np.arange(40) < 20, np.nan, x)
    >>> blocks = intarsia.participants_from_blocks({"x": x, "y": y})
    >>> blocks
    <Blocks of 40 rows: block 0: 20 rows × 1 columns, block 1: 20 rows × 2 columns>
    >>> blocks.in_order(intarsia.cluster(blocks, 2, random_state=0).labels)[:4]
    array([0, 1, 0, 1])
    """
    if min_rows is not None:
        check_value("min_rows", min_rows, whole_number(1))
    if by is None:
        return _by_pattern(read_table(table, "table"), min_rows)
    names = check_table(table, "table")
    if by not in names:
        raise SettingError(f"by must be the name of a column. The table has {len(names)}: {quote(names)}.")
    if len(names) == 1:
        raise EmptyTableError("the table has no column besides the one with the names of participants.")
    return _by_column(
        read_table(only_columns(table, [name for name in names if name != by]), "table"), cells_of(table, by)
    )


def _by_column(table: Table, owners: list[Any]) -> Blocks:
    if len(owners) != len(table):
        raise InputError(f"the column of participants has {len(owners)} values for {len(table)} rows.")
    if unknown := sum(value is None for value in owners):
        raise InputError(f"the participant of {unknown} of {len(owners)} rows is missing. Hint: fill or drop them.")
    names = [str(value) for value in owners]
    kinds = {(type(value), name) for value, name in zip(owners, names, strict=True)}
    if len(kinds) > len(set(names)) or any(isinstance(value, list | tuple | np.ndarray) for value in owners):
        raise InputError("the column of participants mixes types of values. Hint: turn it into text.")
    filled = np.column_stack(list(table.filled.values()))
    owner, something = np.array(names, dtype=object), filled.any(axis=1)
    rows = {name: np.flatnonzero((owner == name) & something) for name in dict.fromkeys(names)}
    has = {name: np.asarray(filled[positions].any(axis=0)) for name, positions in rows.items()}
    empty = [name for name, mask in has.items() if not mask.any()]
    if empty:
        raise EmptyTableError(f"{len(empty)} participant(s) have no values: {quote(empty)}. Hint: drop them.")
    return Blocks(table, rows, has)


def _by_pattern(table: Table, min_rows: int | None) -> Blocks:
    filled = np.column_stack(list(table.filled.values()))
    if not filled.any():
        raise EmptyTableError("the table has no values.")
    patterns, which, counts = np.unique(filled, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    fewest = max(_FEWEST, -(-len(filled) // _SHARE)) if min_rows is None else min_rows
    frequent = np.flatnonzero((counts >= fewest) & patterns.any(axis=1))
    if not len(frequent):
        return Blocks(
            table, {"block 0": np.flatnonzero(filled.any(axis=1))}, {"block 0": np.asarray(filled.any(axis=0))}
        )
    first = np.array([int(np.flatnonzero(which == p)[0]) for p in frequent])
    frequent = frequent[np.lexsort((first, -counts[frequent]))]
    has, main = patterns.astype(np.float64), patterns[frequent].astype(np.float64)
    common = has @ main.T
    apart = has.sum(axis=1)[:, None] + main.sum(axis=1)[None, :] - 2.0 * common
    apart[common == 0] = np.inf  # no common column
    block = np.where(np.isfinite(apart.min(axis=1)), apart.argmin(axis=1), -1)[which]
    rows = {f"block {k}": np.flatnonzero(block == k) for k in range(len(frequent))}
    return Blocks(table, rows, {f"block {k}": patterns[p] for k, p in enumerate(frequent)})
