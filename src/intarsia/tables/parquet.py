"""Parquet files and folders of them as a source: their columns, and their rows in batches."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from intarsia.exceptions import DuplicateColumnError, InputError, SettingError, install, quote
from intarsia.tables.frame import CATEGORIES, kinds_of
from intarsia.tables.names import PANDAS_INDEX, check_names
from intarsia.tables.source import TEXT, Source, check_columns, not_found, reading, register_source

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
BATCH_ROWS, _BATCH_CELLS = 1 << 16, 1 << 22  # the most that is decoded at a time
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_BUFFER = 1 << 26  # bytes of the file that are buffered for all columns together


@dataclass(frozen=True)
class ParquetTable(Source):
    """A Parquet file or a folder of Parquet files: one table that need not fit into memory."""

    path: Path
    selected: tuple[str, ...] | None = None
    batch_rows: int = BATCH_ROWS

    @cached_property
    def files(self) -> tuple[_File, ...]:
        """The files in the order of their names, with the columns that their folders state (``year=2024``)."""
        return _files(self.path)

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns of the files and their Arrow types."""
        return _schema(self.path, self.files)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that take part."""
        return tuple(self.schema.names) if self.selected is None else self.selected

    @property
    def kinds(self) -> Mapping[str, str]:
        """By column "numbers", "text", "categories", or the name of a type that cannot be used."""
        kinds = kinds_of(self._schema_of(self.columns).empty_table(), self.path.name)
        for name, kind in kinds.items():
            stored = self.schema.field(name).type
            if kind == CATEGORIES and _is_text(stored):
                kinds[name] = TEXT
            elif kind == CATEGORIES and not _is_categorical(stored):  # without rows any type may hold categories
                kinds[name] = str(stored).partition("(")[0]
        return kinds

    def __len__(self) -> int:
        return sum(file.n_rows for file in self.files)

    def only(self, columns: Sequence[str]) -> ParquetTable:
        """Return the table with these columns only."""
        check_columns(columns, self.columns, self.path.name)
        selection = replace(self, selected=tuple(columns))
        selection.__dict__.update(files=self.files, schema=self.schema)  # the files as they were when first opened
        return selection

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows in the order of the files; the next batch is decoded while the caller works on one."""
        return _ahead(_batches(self, self.columns if columns is None else columns))

    def read(self, as_stored: Collection[str] = ()) -> Any:  # noqa: ARG002  (all columns keep their types)
        """Return all rows as a pyarrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches()), schema=self._schema_of(self.columns))

    def _schema_of(self, columns: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self.schema.field(name) for name in columns])


class _File(NamedTuple):
    """A file as it was when the table was opened, and the constant columns that its folders give it."""

    path: Path
    n_rows: int
    n_bytes: int
    changed: int
    constants: tuple[tuple[str, str | None], ...]

    def check(self) -> None:
        """Raise an error if the file has changed: all passes over a table must see the same rows."""
        try:
            now = self.path.stat()
        except OSError as error:
            raise InputError(f"{self.path.name} cannot be read any more: {error.strerror}.") from error
        if (now.st_size, now.st_mtime_ns) != (self.n_bytes, self.changed):
            raise InputError(
                f"{self.path.name} was changed while it was read. Hint: run it again when nobody writes it."
            )


def scan_parquet(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, batch_rows: int = BATCH_ROWS
) -> ParquetTable:
    """Return a Parquet file, or a folder of them, as the table of one participant. Only names and types are read.

    Parameters
    ----------
    path : path
        A file, or a folder: all ``.parquet`` files in it and below, in the order of their names. Folders called
        ``name=value`` are columns.
    columns : sequence of str, optional
        The columns that take part. Default: all.
    batch_rows : int
        The most rows that are decoded at a time.

    Examples
    --------
    >>> import intarsia
    >>> tables = {"north": intarsia.scan_parquet("north.parquet"), "south": table}  # doctest: +SKIP
    >>> intarsia.cluster(tables, 5)  # doctest: +SKIP
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        raise SettingError(f"Parquet files need pyarrow. {install('parquet')}") from None
    if isinstance(columns, str):
        raise SettingError(f"columns must be a list of names. Got {columns!r} instead.")
    table = ParquetTable(Path(path), batch_rows=batch_rows)
    table.schema  # noqa: B018  (a file that cannot be read is refused now)
    return table if columns is None else table.only(columns)


def _is_folder(table: Any) -> bool:
    """Return whether this is the path of a folder with Parquet files in it."""
    if not isinstance(table, str | os.PathLike) or not str(table):
        return False
    try:
        return Path(table).is_dir() and any(_parquet_in(Path(table)))
    except (OSError, ValueError):  # a text that cannot be a path
        return False


register_source("parquet", scan_parquet, suffixes=SUFFIXES, matches=_is_folder)


def _parquet_in(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files in a folder and below, except hidden ones."""
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    hidden = ("_", ".")
    return (path for path in paths if not any(part.startswith(hidden) for part in path.relative_to(folder).parts))


def _files(path: Path) -> tuple[_File, ...]:
    import pyarrow.parquet as pq

    if not path.exists():
        raise not_found(path)
    paths = sorted(_parquet_in(path)) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{path} has no Parquet file in it ({', '.join(SUFFIXES)}).")
    files = []
    for each in paths:
        with reading(each, "parquet"):
            now = each.stat()
            n_rows = pq.ParquetFile(each).metadata.num_rows
        folders = each.relative_to(path).parts[:-1] if path.is_dir() else ()
        parts = (part.partition("=") for part in folders)
        constants = tuple((name, _folder_value(value)) for name, equals, value in parts if equals)
        files.append(_File(each, n_rows, now.st_size, now.st_mtime_ns, constants))
    return tuple(files)


def _folder_value(text: str) -> str | None:
    return None if text == _NO_VALUE else unquote(text)


def _schema(path: Path, files: Sequence[_File]) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path, "parquet"):
        schemas = [pq.ParquetFile(file.path).schema_arrow.remove_metadata() for file in files]
        for schema in schemas:
            check_names(schema.names, path.stem)
        joint = schemas[0] if len(schemas) == 1 else _joint(schemas, path.name)
        for name in sorted({name for file in files for name, _ in file.constants}):
            if name in joint.names:
                raise DuplicateColumnError(f"{name!r} is a column of the files in {path.name}, and one of its folders.")
            values = [dict(file.constants).get(name) for file in files]
            numbers = all(_is_number(value) for value in values if value is not None)
            joint = joint.append(pa.field(name, pa.float64() if numbers else pa.string()))
    kept = [field for field in joint if not PANDAS_INDEX.fullmatch(field.name)]
    check_names([field.name for field in kept], path.stem)
    return pa.schema(kept)


def _joint(schemas: Sequence[pa.Schema], folder: str) -> pa.Schema:
    """Return the columns of all files: doubles where types of numbers differ, strings where types of text do."""
    import pyarrow as pa

    kinds: dict[str, list[Any]] = {}
    for schema in schemas:
        for field in schema:
            if field.type not in kinds.setdefault(field.name, []) and not pa.types.is_null(field.type):
                kinds[field.name].append(field.type)
    fields, mixed = [], []
    for name, types in kinds.items():
        if len(types) <= 1:
            fields.append(pa.field(name, types[0] if types else pa.null()))
        elif all(map(_is_numeric, types)):
            fields.append(pa.field(name, pa.float64()))
        elif all(map(_is_textual, types)):
            fields.append(pa.field(name, pa.string()))
        else:
            mixed.append(name)
    if mixed:
        raise InputError(f"{len(mixed)} column(s) of {folder} have different types in different files: {quote(mixed)}.")
    return pa.schema(fields)


def _is_numeric(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_textual(kind: pa.DataType) -> bool:
    return _is_text(getattr(kind, "value_type", kind))


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in {"string", "large_string", "string_view"}


def _is_categorical(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_boolean(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None


def _batches(table: ParquetTable, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = max(len(columns), 1)
    height = max(256, min(table.batch_rows, _BATCH_CELLS // width))
    schema = pa.schema([table.schema.field(name) for name in columns])
    for file in table.files:
        file.check()
        constants = dict(file.constants)
        with reading(file.path, "parquet"):
            buffer = max(1 << 14, min(1 << 20, _BUFFER // width))
            source = pq.ParquetFile(file.path, buffer_size=buffer, pre_buffer=False)
            stored = set(source.schema_arrow.names)
            read = [name for name in columns if name in stored]
            for batch in source.iter_batches(batch_size=height, columns=read, use_threads=False):
                yield _complete(batch, schema, constants)
        file.check()


def _complete(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, str | None]) -> pa.RecordBatch:
    """Return the batch of one file with the columns and types of the whole table."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = []
    for field in schema:
        if field.name in columns:
            array = columns[field.name]
            arrays.append(array if array.type == field.type else array.cast(field.type, safe=False))
        elif field.name in constants:
            value: Any = constants[field.name]
            value = float(value) if value is not None and pa.types.is_floating(field.type) else value
            arrays.append(pa.array([value] * len(batch), field.type))
        else:
            arrays.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, the next of which is read by another thread meanwhile."""
    with ThreadPoolExecutor(1) as reader:
        upcoming = reader.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = reader.submit(next, batches, None)
            yield batch
