"""Tables from files: CSV, TSV, Parquet, Feather, Arrow, Excel. A party is named like its file, or ``name=path``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from intarsia.exceptions import InputError, quote

EMPTY = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "excel", ".xls": "excel",
    ".xlsb": "excel", ".ods": "excel",
}  # fmt: skip
_SNIFFED = 65_536


@dataclass(frozen=True)
class Source:
    """One party's file."""

    name: str
    path: Path

    @property
    def kind(self) -> str:
        """How it is read."""
        return SUFFIXES[self.path.suffix.lower()]


def sources(arguments: Sequence[str]) -> list[Source]:
    """Parties and their files, as given on the command line."""
    found = []
    for text in arguments:
        name, equals, path = text.partition("=")
        where = Path(text) if Path(text).exists() or not equals else Path(path)
        found.append(Source(where.stem if where == Path(text) else name, where))
    gone = [source.path for source in found if not source.path.is_file()]
    if gone:
        raise InputError(f"{len(gone)} file(s) are not there: {quote(gone)}.")
    strange = [source.path.name for source in found if source.path.suffix.lower() not in SUFFIXES]
    if strange:
        raise InputError(
            f"{len(strange)} file(s) are of no kind that is read: {quote(strange)}. There are {', '.join(SUFFIXES)}."
        )
    odd = [source.name for source in found if not source.name.strip() or set(source.name) & set("/\\\0")]
    if odd:
        raise InputError(f"{len(odd)} name(s) of parties cannot be names of files: {quote(odd)}.")
    names = [source.name for source in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{len(twice)} name(s) of parties occur more than once: {quote(twice)}. "
            "Hint: name them, as in clinic-a=data/a.csv."
        )
    return found


def read(source: Source) -> pl.DataFrame:
    """The file as a polars table."""
    try:
        return _read(source)
    except InputError:
        raise
    except Exception as error:
        # the reader's own text may quote cells
        raise InputError(
            f"{source.path.name} ({source.name}) cannot be read as {source.kind}: {type(error).__name__}. "
            "Hint: is it whole, and of the kind that its name says?"
        ) from error


def _read(source: Source) -> pl.DataFrame:
    match source.kind:
        case "csv" | "tsv":
            separator = "\t" if source.kind == "tsv" else _separator(source.path)
            return pl.read_csv(
                source.path, separator=separator, null_values=list(EMPTY), infer_schema_length=None, glob=False
            )
        case "parquet":
            return pl.read_parquet(source.path, glob=False)
        case "arrow":
            with source.path.open("rb") as file:
                return pl.read_ipc(file.read())
        case _:
            try:
                return pl.read_excel(source.path)
            except ModuleNotFoundError:
                raise InputError("Excel files need fastexcel. Hint: pip install 'intarsia[cli]'.") from None


def _separator(path: Path) -> str:
    """The separator of a CSV file: that of , ; tab and | which its first line has most of."""
    with path.open("rb") as file:
        first = file.read(_SNIFFED).split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return max(",;\t|", key=first.count)
