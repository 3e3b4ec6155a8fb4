"""One pooled table with holes, as several participants: by a column, or by what is missing together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from intarsia.core.types import BoolArray, IntArray
from intarsia.estimators.settings import WholeNumber, check_value
from intarsia.exceptions import EmptyTableError, InputError, SettingError, quote
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table, cells_of, check_table, only_columns, read_table

_FEWEST = 10
_SHARE = 50  # a pattern that fewer than one row in so many has is rare


class Blocks(Mapping[str, dict[str, Any]]):
    """Tables by participant, as :func:`intarsia.cluster` takes them, that remember where their rows came from."""

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
        """Which rows of the pooled table each participant has."""
        return dict(self._rows)

    @property
    def n_left_out(self) -> int:
        """Filled cells that no participant has: of rare rows in columns that their block lacks, and of rows in no block."""
        filled = self._filled
        inside = sum(int(filled[np.ix_(rows, self._has[name])].sum()) for name, rows in self._rows.items())
        return int(filled.sum()) - inside

    @property
    def n_rows_left_out(self) -> int:
        """Rows with nothing that any participant could be compared by; they get the label −1."""
        return len(self._table) - sum(len(rows) for rows in self._rows.values())

    def in_order(self, labels: Mapping[Any, Any]) -> IntArray:
        """Labels by participant (``result.labels``) as one array, in the order of the pooled table."""
        if set(labels) != set(self._rows):
            raise InputError(
                f"labels of {len(labels)} participant(s) were given; those of {quote(self._rows)} are needed. "
                "Hint: cluster these blocks, and pass result.labels."
            )
        result = np.full(len(self._table), -1, dtype=np.intp)
        for name, rows in self._rows.items():
            mine = np.asarray(labels[name])
            if mine.dtype.kind not in "iu":
                raise InputError(f"labels are whole numbers, and those given for {name!r} are not.")
            if mine.shape != rows.shape:
                raise InputError(f"{name!r} has {len(rows)} rows, and {mine.size} labels were given for it.")
            result[rows] = mine
        return result

    def __repr__(self) -> str:
        parts = (
            f"{name}: {len(rows)} rows × {int(self._has[name].sum())} columns" for name, rows in self._rows.items()
        )
        left = f"; {self.n_left_out} filled cells left out" if self.n_left_out else ""
        gone = f"; {self.n_rows_left_out} rows in none" if self.n_rows_left_out else ""
        return f"<Blocks of {len(self._table)} rows: {', '.join(parts)}{left}{gone}>"


def _some(column: Any, rows: IntArray) -> Any:
    return column.of_rows(rows) if isinstance(column, Category) else column[rows]


def participants_from_blocks(table: Any, by: str | None = None, *, min_rows: int | None = None) -> Blocks:
    """Split one pooled table into participants, so that block-missing data can be clustered.

    Parameters
    ----------
    table : pandas, polars or pyarrow table, or mapping of columns
        All rows, with empty cells where something was not measured.
    by : str, optional
        A column that says who a row is from; it is not clustered on. Each of its values becomes a participant, with the
        columns that it filled at least once. Without it rows are split by the pattern of what is empty, and participants
        are called ``"block 0"``, ``"block 1"``, …, the most frequent first.
    min_rows : int, optional
        A pattern with fewer rows is rare, and joins the frequent one from which it differs in the fewest columns (the more
        frequent of equals); its remaining gaps are then missing cells, and cells in columns that its new block lacks are
        left out (``n_left_out``). Default: 10, or one row in 50 if that is more. With no frequent pattern at all there is
        one block with every column. A row with nothing that any block has belongs to none, and gets the label −1.

    Returns
    -------
    Blocks
        A mapping of tables for :func:`intarsia.cluster`;
        ``in_order(result.labels)`` puts the labels into the table's own order.

    Examples
    --------
    >>> import numpy as np, intarsia
    >>> x = np.array([0.0, 9.0] * 20)
    >>> gap = np.where(np.arange(40) < 20, np.nan, x)
    >>> blocks = intarsia.participants_from_blocks({"x": x, "y": gap})
    >>> blocks
    <Blocks of 40 rows: block 0: 20 rows × 1 columns, block 1: 20 rows × 2 columns>
    >>> blocks.in_order(intarsia.cluster(blocks, 2, random_state=0).labels)[:4]
    array([0, 1, 0, 1])
    """
    if min_rows is not None:
        check_value("min_rows", min_rows, WholeNumber(1))
    if by is None:
        return _by_pattern(read_table(table, "table"), min_rows)
    names = check_table(table, "table")
    if by not in names:
        raise SettingError(f"by names a column that the table does not have. It has {len(names)}: {quote(names)}.")
    if len(names) == 1:
        raise EmptyTableError("beside the column that says who a row is from there is no other.")
    return _by_column(
        read_table(only_columns(table, [name for name in names if name != by]), "table"), cells_of(table, by)
    )


def _by_column(table: Table, whose: list[Any]) -> Blocks:
    if len(whose) != len(table):
        raise InputError(f"the column that says who a row is from has {len(whose)} cells for {len(table)} rows.")
    if unknown := sum(value is None for value in whose):
        raise InputError(f"{unknown} of {len(whose)} rows do not say who they are from. Hint: fill or drop them.")
    names = [str(value) for value in whose]
    kinds = {(type(value), name) for value, name in zip(whose, names, strict=True)}
    if len(kinds) > len(set(names)) or any(isinstance(value, list | tuple | np.ndarray) for value in whose):
        raise InputError("the column that says who a row is from mixes kinds of values. Hint: turn it into text.")
    filled = np.column_stack(list(table.filled.values()))
    owner, something = np.array(names, dtype=object), filled.any(axis=1)
    rows = {name: np.flatnonzero((owner == name) & something) for name in dict.fromkeys(names)}
    has = {name: np.asarray(filled[mine].any(axis=0)) for name, mine in rows.items()}
    empty = [name for name, mask in has.items() if not mask.any()]
    if empty:
        raise EmptyTableError(
            f"{len(empty)} participant(s) have no filled cell at all: {quote(empty)}. Hint: drop them."
        )
    return Blocks(table, rows, has)


def _by_pattern(table: Table, min_rows: int | None) -> Blocks:
    filled = np.column_stack(list(table.filled.values()))
    if not filled.any():
        raise EmptyTableError("the table has no filled cell at all.")
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
    apart[common == 0] = np.inf  # nothing to be clustered by
    block = np.where(np.isfinite(apart.min(axis=1)), apart.argmin(axis=1), -1)[which]
    rows = {f"block {k}": np.flatnonzero(block == k) for k in range(len(frequent))}
    return Blocks(table, rows, {f"block {k}": patterns[p] for k, p in enumerate(frequent)})
