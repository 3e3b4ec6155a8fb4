"""Tables of any library, file or source: the one door is :func:`~intarsia.tables.open.open_table`.

A :class:`~intarsia.tables.frame.Table` holds all rows in memory. A :class:`~intarsia.tables.source.Source` is read in
batches as often as needed; :class:`StreamedTable` is what one pass over it has found.
"""

from intarsia.tables import arrow, csv, excel, parquet  # noqa: F401  (each registers its type of file)
from intarsia.tables.csv import scan_csv
from intarsia.tables.open import AnyTable, Opened, open_table
from intarsia.tables.parquet import ParquetTable, scan_parquet
from intarsia.tables.source import Source, register_source
from intarsia.tables.streamed import StreamedRows, StreamedTable
from intarsia.tables.survey import kinds_in, open_stream

__all__ = [
    "AnyTable",
    "Opened",
    "ParquetTable",
    "Source",
    "StreamedRows",
    "StreamedTable",
    "kinds_in",
    "open_stream",
    "open_table",
    "register_source",
    "scan_csv",
    "scan_parquet",
]
