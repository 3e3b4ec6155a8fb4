"""Whatever stands for a participant's table, in memory or on disk, to what a participant holds."""

from __future__ import annotations

from typing import Any

from intarsia.tables.frame import Table, read_table, settle_missing
from intarsia.tables.parquet import as_parquet, is_parquet, is_small
from intarsia.tables.streamed import StreamedTable
from intarsia.tables.survey import open_stream

AnyTable = Table | StreamedTable


def take_in(thing: Any, owner: str, missing: str) -> AnyTable:
    """One participant's table: read as a whole, or, if it is a large one on disk, gone through once."""
    if not is_parquet(thing):
        return settle_missing(read_table(thing, owner), missing)
    source = as_parquet(thing)
    if is_small(source):
        return settle_missing(read_table(source.read(), owner), missing)
    return open_stream(source, owner, missing)
