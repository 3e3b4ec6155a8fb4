"""The records of a CSV file: its text in pieces that end where a record does, and faults by the number of the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from intarsia.exceptions import InputError
from intarsia.tables.csv_text import CsvText

LONGEST_RECORD = 1 << 22  # bytes: a record with line breaks in quotes that is longer has a quote that is never closed
LINE_END, QUOTE = b"\n", b'"'


def records(text: CsvText, size: int, longest: int) -> Iterator[list[bytes]]:
    """Yield the text in pieces of about ``size`` bytes that end where a record does; no record ends within quotes.

    A piece is a list of its parts. Every byte is looked at once: what follows the last end of a record is kept for the
    next piece.
    """
    kept: list[bytes] = []
    n_kept, line, quoted, line_break = 0, text.first_line, False, -1  # line: where kept begins; line_break: in quotes
    for part in text.parts(size):
        scan = _scan(part, quoted=quoted)
        if scan.end:
            kept.append(part[: scan.end])
            line += sum(each.count(LINE_END) for each in kept)
            yield kept
            kept, n_kept, line_break = [], -scan.end, -1
        if line_break < 0 and scan.line_break >= 0:
            line_break = n_kept + scan.line_break
        kept.append(part[scan.end :])
        n_kept, quoted = n_kept + len(part), scan.quoted
        if quoted and 0 <= line_break < n_kept - longest:
            raise _open_quote(text.path.name, b"".join(kept), line, line_break, f"within {longest >> 20} MiB")
    if quoted:
        raise _open_quote(text.path.name, b"".join(kept), line, line_break, "before the file ends")
    if any(kept):
        yield kept


class _Scan(NamedTuple):
    """Where the last complete record of a text ends (0: none does), the first line break within quotes after it (−1 if there
    is no such break), and whether the text ends within quotes.
    """

    end: int
    line_break: int
    quoted: bool


def _scan(text: bytes, *, quoted: bool) -> _Scan:
    if QUOTE not in text:
        return (
            _Scan(0, text.find(LINE_END), quoted=True) if quoted else _Scan(text.rfind(LINE_END) + 1, -1, quoted=False)
        )
    letters = np.frombuffer(text, dtype=np.uint8)
    inside = np.logical_xor.accumulate(letters == ord(QUOTE)) ^ quoted
    breaks = np.flatnonzero(letters == ord(LINE_END))
    within = inside[breaks]
    ends = breaks[~within]
    end = int(ends[-1]) + 1 if len(ends) else 0
    after = breaks[within & (breaks >= end)]
    return _Scan(end, int(after[0]) if len(after) else -1, quoted=bool(inside[-1]))


def _open_quote(name: str, record: bytes, line: int, line_break: int, where: str) -> InputError:
    """Return the error about a quotation mark that is not closed, with the number of the line in which it stands."""
    opened = record.rfind(QUOTE, 0, line_break if line_break >= 0 else None)
    line += record.count(LINE_END, 0, opened)
    return InputError(
        f"{name} has a quotation mark in line {line} that is not closed {where}, so that the lines after it would be "
        'read as one cell. Hint: in that line, delete the mark, or write it twice ("") inside a cell that is quoted.'
    )


def first_record(text: CsvText, longest: int) -> bytes:
    """Return the header, to its last byte: its names may have line breaks within quotes."""
    lines: list[bytes] = []
    quoted, n_read, rest = False, 0, b""
    for part in text.parts(1 << 16):
        *complete, rest = (rest + part).split(LINE_END)
        for line in complete:
            lines.append(line + LINE_END)
            quoted, n_read = quoted ^ bool(line.count(QUOTE) % 2), n_read + len(line) + 1
            if not quoted or n_read > longest:
                return b"".join(lines)
        if len(rest) + n_read > max(longest, 1 << 24):
            break
    return b"".join([*lines, rest])


def separator_in(header: bytes) -> str:
    """Return the most frequent separator in the first line, quotes aside."""
    first_line = header.split(LINE_END, 1)[0]
    return max(";,\t|", key=re.sub(rb'"[^"]*"', b"", first_line).decode(errors="replace").count)
