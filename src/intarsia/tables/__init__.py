"""Tables that are larger than memory: Parquet files and folders of them, read piece by piece as often as needed.

A :class:`ParquetTable` says where the rows are. :func:`open_stream` goes through them once and makes a
:class:`StreamedTable`: names, kinds, counts, means, extremes and levels of its columns, and a sample of its rows.
"""

from intarsia.tables.open import AnyTable, take_in
from intarsia.tables.parquet import ParquetTable, as_parquet, is_parquet, is_small, scan_parquet
from intarsia.tables.streamed import StreamedTable, TablePieces
from intarsia.tables.survey import kinds_in, open_stream

__all__ = [
    "AnyTable",
    "ParquetTable",
    "StreamedTable",
    "TablePieces",
    "as_parquet",
    "is_parquet",
    "is_small",
    "kinds_in",
    "open_stream",
    "scan_parquet",
    "take_in",
]
