"""How many cells the rows of a CSV file have: too many, too few, or only blank ones at the end, as spreadsheets leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.types import BoolArray, IntArray
from intarsia.exceptions import InputError
from intarsia.tables.csv_records import LINE_END, QUOTE, records
from intarsia.tables.csv_text import CsvText
from intarsia.tables.number_texts import is_number

_BLANKS = b" \t\r\n"


class Shape(NamedTuple):
    """What a look at all rows tells: how many have fewer cells than the header, and how many have blank cells beyond it.

    The rows after byte ``end`` of the text, ``n_blank``, have only blank cells. The text ``is_ragged`` if rows, also blank
    ones, have more cells than the header.
    """

    n_short: int = 0
    n_surplus: int = 0
    n_blank: int = 0
    end: int = 0
    is_ragged: bool = False

    def words(self) -> list[str]:
        """Return what is unusual, in words."""
        listed = (
            (self.n_surplus, f"without blank cells beyond the header in {rows_in_words(self.n_surplus)}"),
            (self.n_short, f"with missing values in {rows_in_words(self.n_short)} with fewer cells than the header"),
            (self.n_blank, f"without {rows_in_words(self.n_blank, 'blank ')} at the end"),
        )
        return [words for n, words in listed if n]


def rows_in_words(n: int, kind: str = "") -> str:
    """Return a number of rows in words.

    >>> rows_in_words(1), rows_in_words(2000, "blank ")
    ('1 row', '2,000 blank rows')
    """
    return f"{n:,} {kind}row{'s' if n != 1 else ''}"


def shape_of(text: CsvText, separator: str, size: int, longest: int, *, each_row: bool = False) -> Shape:
    """Return the shape of a CSV file; raise an InputError about the first row with more cells than the header has.

    Pieces of text with as many separators as they should have are not looked at row by row, unless ``each_row`` says so.
    """
    sign, width, line = separator.encode(), -1, text.first_line
    n_short = n_surplus = n_blank = end = n_read = 0
    is_ragged = False
    for parts in records(text, size, longest):
        piece = b"".join(parts)
        parts.clear()
        if width < 0 or each_row or not _is_even(piece, sign, width):
            rows = _rows_of(piece, sign)
            if width < 0:
                width, end = int(rows.n_signs[0]), int(rows.ends[0])
            n_short += sum(_is_filled(piece, row, sign) for row in rows.where(rows.n_signs < width))
            for row in rows.where(rows.n_signs > width):
                beyond = int(rows.signs[rows.first_sign[row.number] + width])
                if piece[beyond : row.end].strip(sign + _BLANKS):
                    at = line + piece.count(LINE_END, 0, row.start)
                    raise _too_many(text.path.name, at, int(rows.n_signs[row.number]) + 1, width + 1)
                is_ragged = True
                n_surplus += _is_filled(piece, row, sign)
        last, n_after = _blank_end(piece, sign)
        if last or not n_read:
            end, n_blank = max(end, n_read + last), 0
        n_blank += n_after
        n_read += len(piece)
        line += piece.count(LINE_END)
    if width <= 0 or not n_blank:
        n_blank, end = 0, n_read
    return Shape(n_short, n_surplus, n_blank, end, is_ragged)


class _Row(NamedTuple):
    """A row, and where it begins and ends in its piece."""

    number: int
    start: int
    end: int


class _Rows(NamedTuple):
    """The rows of a piece: where they begin and end, and the separators outside of quotes."""

    starts: IntArray
    ends: IntArray
    signs: IntArray
    first_sign: IntArray
    n_signs: IntArray

    def where(self, chosen: BoolArray) -> Iterator[_Row]:
        for number in np.flatnonzero(chosen).tolist():
            yield _Row(number, int(self.starts[number]), int(self.ends[number]))


def _rows_of(piece: bytes, sign: bytes) -> _Rows:
    letters = np.frombuffer(piece, dtype=np.uint8)
    is_sign, is_end = letters == sign[0], letters == LINE_END[0]
    if QUOTE in piece:
        outside = ~np.logical_xor.accumulate(letters == QUOTE[0])
        is_sign, is_end = is_sign & outside, is_end & outside
    signs, ends = np.flatnonzero(is_sign), np.flatnonzero(is_end)
    if not len(ends) or ends[-1] != len(letters) - 1:
        ends = np.append(ends, len(letters))
    starts = np.concatenate([[0], ends[:-1] + 1])
    first, after = np.searchsorted(signs, starts), np.searchsorted(signs, ends)
    return _Rows(starts, ends, signs, first, after - first)


def _is_even(piece: bytes, sign: bytes, width: int) -> bool:
    """Return whether all rows have the cells of the header, as far as sums tell: quickly, since most files are so."""
    n_rows = piece.count(LINE_END) + (not piece.endswith(LINE_END))
    n_signs = np.count_nonzero(np.frombuffer(piece, dtype=np.uint8) == sign[0])
    return QUOTE not in piece and width > 0 and n_signs == width * n_rows


def _is_filled(piece: bytes, row: _Row, sign: bytes) -> bool:
    return bool(piece[row.start : row.end].strip(sign + _BLANKS))


def _blank_end(piece: bytes, sign: bytes) -> tuple[int, int]:
    """Return where the last line ends that has more than separators and blanks, 0 if none has, and the lines after it."""
    end, n_after = len(piece), 0
    while end:
        start = piece.rfind(LINE_END, 0, end - 1) + 1
        if piece[start:end].strip(sign + _BLANKS):
            break
        end, n_after = start, n_after + 1
    return end, n_after


def _too_many(name: str, line: int, n_cells: int, n_names: int) -> InputError:
    return InputError(
        f"line {line} of {name} has {n_cells} cells, and the header has {n_names} name(s). Hint: is a separator part of a "
        "cell? Then the cell needs quotation marks. Or does a title stand above the header? Then delete it."
    )


def without_names(owner: str, name: str, positions: Sequence[int], n_columns: int) -> InputError:
    """Return the error about columns at the end, at these positions from 1, that have values and no name."""
    return InputError(
        f"{len(positions)} of {n_columns} columns of {owner!r} have no name, and have values (column {positions[0]}). Hint: "
        f"does a title stand above the header? Then delete this line of {name}. Otherwise name the columns."
    )


def line_of_text(pieces: Iterable[bytes], parse: Callable[[bytes], Any], separator: str, line: int) -> int | None:
    """Return the number of the first line with a text that is no number; ``parse`` gives the one column of a piece.

    All pieces begin with the header, that of the first one as it stands in the file, in ``line``.
    """
    is_first = True
    for piece in pieces:
        starts = _rows_of(piece, separator.encode()).starts
        body = int(starts[1]) if len(starts) > 1 else len(piece)
        line, is_first = line + piece.count(LINE_END, 0, body) * is_first, False
        for row, cell in enumerate(parse(piece).to_series(), 1):
            if cell is not None and cell.strip() and not is_number(cell):
                return line + piece.count(LINE_END, body, int(starts[row]))
        line += piece.count(LINE_END, body)
    return None
