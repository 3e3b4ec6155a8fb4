"""An extract: the rows of one query to a database, kept as a Parquet file that only its owner can read.

A database is read once. A run reads a table pass after pass, and without an order two scans may begin at different rows, so
that labels would land on other people. Query, digests, number of rows and time are in the file's metadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from intarsia._files import write_atomically
from intarsia.exceptions import InputError
from intarsia.tables.names import check_header
from intarsia.tables.parquet import SUFFIXES
from intarsia.tables.postgresql import batches_of, check_types, kind_of
from intarsia.tables.sql import check_query

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "intarsia.extract."
_GROUP_ROWS, _GROUP_CELLS = 1 << 14, 1 << 18  # of a row group
_DIGITS = 15  # that a number of 64 bits always keeps
_TAIL = 8  # bytes at the end of a Parquet file: the length of its footer, and PAR1
_PART = 1 << 20


class Extract(NamedTuple):
    """What the metadata of an extract say."""

    query: str
    query_sha256: str
    rows_sha256: str
    n_rows: int
    extracted: str


class Written(NamedTuple):
    """An extract that was written, and what was lost: values by column, and how."""

    extract: Extract
    n_columns: int
    numeric: tuple[str, ...]
    rounded: dict[str, int]
    infinite: dict[str, int]


def write_extract(query_file: Path, address: str, path: Path) -> Written:
    """Run a query in one transaction that only reads, and stream its rows to a Parquet file, completely or not at all."""
    text = _read_query(query_file)
    query = check_query(text, query_file.name)
    with batches_of(query, address) as (schema, batches):
        check_header(schema.names, f"the result of {query_file.name}")
        check_types(schema, query_file.name)
        writing = _Writing(schema, text)
        rows = writing.groups(batches)
        if (first := next(rows, None)) is None:
            raise InputError(f"{query_file.name} selects no rows. Hint: try it in psql.")
        write_atomically(path, lambda file: writing.write(file, first, rows), secret=True)
    assert writing.extract is not None
    return Written(writing.extract, len(schema), tuple(writing.numeric), writing.rounded, writing.infinite)


def _read_query(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8.") from None


class _Writing:
    """The state of an extract that is being written."""

    def __init__(self, schema: pa.Schema, query: str) -> None:
        self._schema, self._query = schema, query
        self.numeric = [field.name for field in schema if kind_of(field) == "numeric"]
        self.rounded: dict[str, int] = {}
        self.infinite: dict[str, int] = {}
        self.extract: Extract | None = None

    def groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows as row groups, whose size does not depend on the driver's batches."""
        import pyarrow as pa

        height = max(256, min(_GROUP_ROWS, _GROUP_CELLS // max(len(self._schema), 1)))
        kept: list[pa.Table] = []
        n_kept = 0
        for batch in batches:
            if not len(batch):
                continue
            kept.append(self._converted(batch))
            n_kept += len(batch)
            while n_kept >= height:
                table = pa.concat_tables(kept)
                yield table.slice(0, height).combine_chunks()
                kept, n_kept = [table.slice(height)], n_kept - height
        if n_kept:
            yield pa.concat_tables(kept).combine_chunks()

    def write(self, file: IO[bytes], first: pa.Table, rest: Iterator[pa.Table]) -> None:
        """Write all rows, and what is known about them at the end."""
        import pyarrow.parquet as pq

        counted, n_rows = _Digested(file), 0
        writer = pq.ParquetWriter(counted, first.schema)
        table: pa.Table | None = first
        try:
            while table is not None:
                writer.write_table(table, row_group_size=len(table))
                n_rows += len(table)
                table = next(rest, None)
        except BaseException:
            counted.is_abandoned = True
            with suppress(Exception):
                writer.close()  # otherwise it closes itself later, when the file is closed, and says so in a traceback
            raise
        self.extract = Extract(
            self._query,
            sha256(self._query.encode()).hexdigest(),
            counted.digest.hexdigest(),
            n_rows,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        writer.add_key_value_metadata({_KEY + name: str(value) for name, value in self.extract._asdict().items()})
        writer.close()

    def _converted(self, batch: pa.RecordBatch) -> pa.Table:
        """Return a batch with numbers, texts and moments in the types of a Parquet table."""
        import pyarrow as pa

        columns = [self._column(field, batch.column(k)) for k, field in enumerate(self._schema)]
        fields = [pa.field(field.name, array.type) for field, array in zip(self._schema, columns, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def _column(self, field: pa.Field, array: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = kind_of(field)
        stored = getattr(array, "storage", array)
        if kind == "numeric":
            digits = pc.utf8_length(pc.replace_substring_regex(stored, r"^-?0*\.?0*|\.|0*$", ""))
            self._count(self.rounded, field.name, pc.greater(digits, _DIGITS))
            numbers = stored.cast(pa.float64())
            return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
        if kind == "uuid":
            texts = [None if cell is None else str(uuid.UUID(bytes=cell)) for cell in stored.to_pylist()]
            return pa.array(texts, pa.string())
        if kind == "bpchar":
            return pc.utf8_rtrim(stored, " ")
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            return self._moments(field, stored)
        return stored

    def _moments(self, field: pa.Field, array: Any) -> Any:
        """Return dates and times; infinity, the largest number that the type has, is missing."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        whole = pa.int64() if field.type.bit_width == 64 else pa.int32()
        limits = np.iinfo(np.int64 if whole == pa.int64() else np.int32)
        # the driver shifts dates and times from the year 2000, so that infinity is near the ends
        numbers = array.cast(whole)
        margin = limits.max // 2
        infinite = pc.or_(pc.greater(numbers, limits.max - margin), pc.less(numbers, limits.min + margin))
        self._count(self.infinite, field.name, infinite)
        return pc.if_else(infinite, pa.scalar(None, field.type), array)

    @staticmethod
    def _count(counts: dict[str, int], name: str, flags: Any) -> None:
        import pyarrow.compute as pc

        if n := pc.sum(flags).as_py():
            counts[name] = counts.get(name, 0) + int(n)


class _Digested:
    """A file whose bytes are digested while they are written."""

    closed = False
    is_abandoned = False  # after an error: what is written does not matter any more

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, sha256()

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if self.is_abandoned:
            return view.nbytes
        self.digest.update(view)
        return self._file.write(view)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def extract_in(path: str | Path) -> Extract | None:
    """Return what a table says about its extraction; None if it is no extract.

    Raises
    ------
    InputError
        If the rows are not those that were extracted.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None  # whoever reads the table says why it cannot be read
    cells = {name: metadata.get((_KEY + name).encode()) for name in Extract._fields}
    if any(cell is None for cell in cells.values()):
        return None
    words = {name: cell.decode() for name, cell in cells.items() if cell is not None}
    if not words["n_rows"].isdecimal() or _digest_of_rows(path) != words["rows_sha256"]:
        raise InputError(f"{path.name} was changed after it was extracted. Hint: extract it again.")
    return Extract(**{**words, "n_rows": int(words["n_rows"])})


def _digest_of_rows(path: Path) -> str:
    """Return the digest of a Parquet file up to its footer."""
    digest = sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(size - _TAIL, 0))
        left = size - _TAIL - int.from_bytes(file.read(4), "little")
        file.seek(0)
        while left > 0 and (part := file.read(min(_PART, left))):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()
