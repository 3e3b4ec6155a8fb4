"""Parquet files and folders of them: what is in them, and their rows, batch by batch, as often as needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import DuplicateColumnError, InputError, SettingError, quote
from intarsia.tables.frame import PANDAS_INDEX, check_names, level_of

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
_NO_CELL = "__HIVE_DEFAULT_PARTITION__"
IN_MEMORY = 1 << 28  # bytes of numbers: a table that has no more is read as a whole
_BATCH_ROWS, _BATCH_CELLS = 1 << 16, 1 << 22  # that are decoded at a time, at most
_BUFFER = 1 << 26  # bytes of the file that are held for all columns together


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file or a folder of Parquet files: one table that need not fit into memory."""

    path: Path
    columns: tuple[str, ...] | None = None

    @cached_property
    def files(self) -> tuple[_File, ...]:
        """The files in the order of their names, with what their folders say (``year=2024``)."""
        return _files(self.path)

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns and their types."""
        return _schema(self.path, self.files)

    @property
    def column_names(self) -> list[str]:
        """The columns that take part."""
        return list(self.schema.names) if self.columns is None else list(self.columns)

    def __len__(self) -> int:
        return sum(file.n_rows for file in self.files)

    def __iter__(self) -> Iterator[str]:
        """The names of the columns, as a mapping of columns gives them."""
        return iter(self.column_names)

    @property
    def n_bytes(self) -> int:
        """What its columns would take as numbers in memory."""
        return 8 * len(self) * len(self.column_names)

    def only(self, columns: Sequence[str]) -> ParquetTable:
        """The same with fewer columns."""
        fewer = replace(self, columns=tuple(columns))
        fewer.__dict__.update(files=self.files, schema=self.schema)  # the files as they were, not as they are by now
        return fewer

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in the order of the files, some at a time; the next are decoded while one works on these."""
        return _ahead(_batches(self, self.column_names if columns is None else list(columns)))

    def read(self) -> Any:
        """All rows at once."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches()), schema=self._of(self.column_names))

    def tables(self) -> Iterator[Any]:
        """All rows, as one table after the other."""
        import pyarrow as pa

        for batch in self.batches():
            yield pa.Table.from_batches([batch])

    def empty(self) -> Any:
        """No rows, but all columns."""
        return self._of(self.column_names).empty_table()

    def _of(self, columns: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self.schema.field(name) for name in columns])


class _File(NamedTuple):
    """One file as it was when the table was opened, and the constant columns that its folders give it."""

    path: Path
    n_rows: int
    n_bytes: int
    changed: int
    constants: tuple[tuple[str, str | None], ...]

    def check(self) -> None:
        """Refuse a file that is not what it was: passes over it would not fit together."""
        try:
            now = self.path.stat()
        except OSError as error:
            raise InputError(f"{self.path.name} cannot be read any more: {error.strerror}.") from error
        if (now.st_size, now.st_mtime_ns) != (self.n_bytes, self.changed):
            raise InputError(
                f"{self.path.name} was changed while it was read. Hint: run it again when nobody writes it."
            )


def scan_parquet(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> ParquetTable:
    """A Parquet file, or a folder of them, as the table of one participant. Nothing is read yet but names and types.

    Parameters
    ----------
    path : path
        A file, or a folder: all ``.parquet`` files in it and below, in the order of their names. Folders called
        ``name=value`` are columns.
    columns : sequence of str, optional
        The columns that take part. Default: all.

    Examples
    --------
    >>> import intarsia
    >>> tables = {"north": intarsia.scan_parquet("north.parquet"), "south": table}  # doctest: +SKIP
    >>> intarsia.cluster(tables, 5)  # doctest: +SKIP
    """
    _pyarrow()
    if isinstance(columns, str):
        raise SettingError(f"columns must be a list of names. Got {columns!r} instead.")
    table = ParquetTable(Path(path))
    names = table.column_names
    if columns is None:
        return table
    if missing := [name for name in columns if name not in names]:
        raise InputError(f"{table.path.name} has no column {quote(missing)}. It has {quote(names)}.")
    return table.only(columns)


def is_parquet(thing: Any) -> bool:
    """Whether this is a table on disk, or the path of one."""
    if isinstance(thing, ParquetTable):
        return True
    if not isinstance(thing, str | os.PathLike) or not str(thing):
        return False
    path = Path(thing)
    try:
        return path.suffix.lower() in SUFFIXES or (path.is_dir() and any(_parquet_in(path)))
    except (OSError, ValueError):  # what is no path
        return False


def is_small(source: ParquetTable) -> bool:
    """Whether a table is to be read as a whole, and be a table like any other."""
    return source.n_bytes <= IN_MEMORY


def as_parquet(thing: Any) -> ParquetTable:
    """The table that a path stands for."""
    return thing if isinstance(thing, ParquetTable) else scan_parquet(thing)


def _pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        raise SettingError(
            "Parquet files that are read piece by piece need pyarrow. Hint: pip install 'intarsia[parquet]'."
        ) from None


def _parquet_in(folder: Path) -> Iterator[Path]:
    """The Parquet files in a folder and below, but for hidden ones."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    hidden = ("_", ".")
    return (path for path in found if not any(part.startswith(hidden) for part in path.relative_to(folder).parts))


def _files(path: Path) -> tuple[_File, ...]:
    import pyarrow.parquet as pq

    if not path.exists():
        raise InputError(f"{path} is not there.")
    paths = sorted(_parquet_in(path)) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{path} has no Parquet file in it ({', '.join(SUFFIXES)}).")
    found = []
    for each in paths:
        with _reading(each):
            now = each.stat()
            n_rows = pq.ParquetFile(each).metadata.num_rows
        inside = each.relative_to(path).parts[:-1] if path.is_dir() else ()
        parts = (part.partition("=") for part in inside)
        constants = tuple((name, _folder_cell(value)) for name, equals, value in parts if equals)
        found.append(_File(each, n_rows, now.st_size, now.st_mtime_ns, constants))
    return tuple(found)


def _folder_cell(text: str) -> str | None:
    return None if text == _NO_CELL else unquote(text)


class _reading:  # noqa: N801  (it is used like a function)
    """A reader's own text may quote cells, so that it stays here."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, InputError):
            raise InputError(
                f"{self._path.name} cannot be read as parquet: {type(error).__name__}. "
                "Hint: is it whole, and of the kind that its name says?"
            ) from error


def _schema(path: Path, files: Sequence[_File]) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _reading(path):
        schemas = [pq.ParquetFile(file.path).schema_arrow.remove_metadata() for file in files]
        for schema in schemas:
            check_names(schema.names, path.stem)
        whole = schemas[0] if len(schemas) == 1 else _joint(schemas, path.name)
        for name in sorted({name for file in files for name, _ in file.constants}):
            if name in whole.names:
                raise DuplicateColumnError(f"{name!r} is a column of the files in {path.name}, and one of its folders.")
            values = [dict(file.constants).get(name) for file in files]
            numbers = all(_is_number(value) for value in values if value is not None)
            whole = whole.append(pa.field(name, pa.float64() if numbers else pa.string()))
    kept = [field for field in whole if not PANDAS_INDEX.fullmatch(field.name)]
    check_names([field.name for field in kept], path.stem)
    return pa.schema(kept)


def _joint(schemas: Sequence[pa.Schema], folder: str) -> pa.Schema:
    """The columns of all files; of numbers of different kinds doubles, of texts of different kinds texts."""
    import pyarrow as pa

    kinds: dict[str, list[Any]] = {}
    for schema in schemas:
        for field in schema:
            if field.type not in kinds.setdefault(field.name, []) and not pa.types.is_null(field.type):
                kinds[field.name].append(field.type)
    fields, odd = [], []
    for name, types in kinds.items():
        if len(types) <= 1:
            fields.append(pa.field(name, types[0] if types else pa.null()))
        elif all(map(_is_numeric, types)):
            fields.append(pa.field(name, pa.float64()))
        elif all(map(_is_textual, types)):
            fields.append(pa.field(name, pa.string()))
        else:
            odd.append(name)
    if odd:
        raise InputError(
            f"{len(odd)} column(s) of the files in {folder} are of other kinds in other files: {quote(odd)}."
        )
    return pa.schema(fields)


def _is_numeric(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_textual(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return str(kind.value_type if pa.types.is_dictionary(kind) else kind) in {"string", "large_string", "string_view"}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None


def _batches(table: ParquetTable, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = max(len(columns), 1)
    height = max(256, min(_BATCH_ROWS, _BATCH_CELLS // width))
    schema = pa.schema([table.schema.field(name) for name in columns])
    for file in table.files:
        file.check()
        constants = dict(file.constants)
        with _reading(file.path):
            buffer = max(1 << 14, min(1 << 20, _BUFFER // width))
            source = pq.ParquetFile(file.path, buffer_size=buffer, pre_buffer=False)
            own = set(source.schema_arrow.names)
            inside = [name for name in columns if name in own]
            for batch in source.iter_batches(batch_size=height, columns=inside, use_threads=False):
                yield _complete(batch, schema, constants)
        file.check()


def _complete(batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, str | None]) -> pa.RecordBatch:
    """The batch of one file with the columns and types of the whole table."""
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    inside = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = []
    for field in schema:
        if field.name in inside:
            array = inside[field.name]
            arrays.append(array if array.type == field.type else array.cast(field.type, safe=False))
        elif field.name in constants:
            cell: Any = constants[field.name]
            cell = float(cell) if cell is not None and pa.types.is_floating(field.type) else cell
            arrays.append(pa.array([cell] * len(batch), field.type))
        else:
            arrays.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One thread reads while another computes."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def numbers_of(array: Any) -> FloatArray:
    """A column as numbers, NaN where it is empty."""
    import pyarrow as pa

    if array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


class Words(NamedTuple):
    """A column of words in a batch: the different ones, and which of them each row has; −1 where the cell is empty."""

    words: list[str]
    codes: IntArray


def words_of(array: Any) -> Words:
    """A column of texts, truths or categories."""
    import pyarrow as pa

    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    cells = [None if _is_blank(cell) else level_of(cell) for cell in encoded.dictionary.to_pylist()]
    words = sorted({cell for cell in cells if cell is not None})
    position = {word: k for k, word in enumerate(words)}
    code = np.array([-1 if cell is None else position[cell] for cell in cells] + [-1], dtype=np.intp)
    raw = encoded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
    return Words(words, code[np.asarray(raw, dtype=np.intp)])


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell  # noqa: PLR0124
