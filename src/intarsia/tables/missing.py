"""Missing values: refuse them, or keep them and drop the columns that hold nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from intarsia.core.types import BoolArray
from intarsia.exceptions import MissingCellsError, quote
from intarsia.tables.frame import Table

FIRST_BLANK = 5  # rows without a value that an error names by position


def settle_missing(table: Table, missing: str) -> Table:
    """Refuse missing values if ``missing="error"``; otherwise keep them and drop columns without any value."""
    if table.is_complete:
        return table
    filled = table.filled
    if missing == "error":
        raise missing_values(table.owner, {name: float(rows.mean()) for name, rows in filled.items()})
    blank = np.flatnonzero(~np.column_stack(list(filled.values())).any(axis=1))
    if len(blank):
        raise blank_rows(table.owner, len(blank), len(table), blank[:FIRST_BLANK].tolist())
    return without_empty_columns(table)


def missing_values(owner: str, share: Mapping[str, float]) -> MissingCellsError:
    """Return the error about missing values where none are allowed; ``share`` is the filled share of each column."""
    columns = [f"{name} ({1.0 - part:.1%})" for name, part in share.items() if part < 1]
    return MissingCellsError(
        f"{len(columns)} of {len(share)} columns of {owner!r} have missing values (share of rows): "
        f"{quote(columns)}. Hint: missing='observed' clusters on the observed values; "
        "missing='impute' fills them and missing='drop' drops such rows, for a local algorithm of your own."
    )


def blank_rows(owner: str, n_blank: int, n_rows: int, first: Sequence[int]) -> MissingCellsError:
    """Return the error about rows without any observed value; ``first`` are the positions of the first ones, from 0.

    It is raised while a table is opened. So only the owner of the table sees it: a participant of a federation tells the
    others that it cannot take part, and nothing of the reason.
    """
    positions = ", ".join(map(str, first)) + (", …" if n_blank > len(first) else "")
    return MissingCellsError(
        f"{n_blank} of {n_rows} rows of {owner!r} have no observed value, so that no cluster can be found for them "
        f"(counted from 0: {positions}). "
        "Hint: delete these rows from the file, or drop them in pandas with dropna(how='all')."
    )


def columns_with_missing_values(filled: Mapping[str, BoolArray]) -> list[str]:
    """Return the columns with missing values, each with the share of rows that lack it."""
    share = {name: 1.0 - float(rows.mean()) for name, rows in filled.items()}
    return [f"{name} ({part:.1%})" for name, part in share.items() if part > 0]


def without_empty_columns(table: Table, fewest: int = 1) -> Table:
    """Return the table without the columns that have fewer than ``fewest`` observed values."""
    empty = {name for name, rows in table.filled.items() if rows.sum() < fewest}
    return table.without(empty) if empty else table
