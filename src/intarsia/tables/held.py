"""What a participant holds: a table in memory or a table that is read in batches, with the same interface."""

from __future__ import annotations

import numpy as np

from intarsia.tables.frame import Table
from intarsia.tables.in_memory import MemoryRows, MemoryTable
from intarsia.tables.sample import LIMITS, Limits
from intarsia.tables.streamed import StreamedRows, StreamedTable

HeldTable = MemoryTable | StreamedTable
HeldRows = MemoryRows | StreamedRows


def hold(table: Table | StreamedTable, *, all_rows: bool, limits: Limits = LIMITS) -> HeldTable:
    """Return a table as its participant uses it.

    A table that is larger than the sample is clustered on the sample first, wherever it is stored; with ``all_rows`` the
    sample is the whole table. A table in batches was sampled when it was opened.
    """
    if isinstance(table, StreamedTable):
        return table
    n_rows = len(table)
    return MemoryTable(table, np.arange(n_rows) if all_rows else limits.drawn(n_rows, len(table.given_names)))
