"""The text of a CSV file as UTF-8, whatever its encoding is.

What the bytes decide is not asked for: a byte order mark, bytes that are UTF-8, or every second byte being zero. Any other
text has one byte per letter, and which letters these are cannot be known for certain. It is taken as Windows-1252, of which
Latin-1 is a part, where that gives words; otherwise the encoding must be named. An encoding changes letters, and no number.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from intarsia.exceptions import InputError, SettingError

UTF_8, WINDOWS = "utf-8", "cp1252"
_MARKS = ((codecs.BOM_UTF8, UTF_8), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NOT_OF_FILES = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf_7"}
_WORDS = {UTF_8: "UTF-8", WINDOWS: "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
_SEPARATOR_LINE = re.compile(rb'"?sep=([^\r\n"])"?(\r?\n|\r)', re.IGNORECASE)
_PART, _LOOKED_AT = 1 << 20, 1 << 16  # bytes
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # in Windows-1252
# what others become in Windows-1252: Cyrillic letters in rows, of a Macintosh or MS-DOS capitals and signs inside words,
# of UTF-8 with faults an Ã before a sign
_HIGH, _IN_ROWS = re.compile(r"[^\x00-\x7f]"), re.compile(r"(?=[À-ÿ]{3})")
_ODD = re.compile(r"[A-Za-zà-ÿ][ŠŒŽŸ€‚ƒ„…†‡ˆ‰‹“”•–—˜™›¡-©¬®¯±¶¸¼-¿×÷][a-zà-ÿ]|š§|\b[€†‡][a-z]|[ÂÃ][^\s\w]")
_HINT = "Hint: --encoding windows-1252, or the name of another one, such as cp1250, cp850, mac-roman or utf-16"


class CsvText(NamedTuple):
    """A file and how its bytes become text; ``first_line`` is the number of the line in which its header begins."""

    path: Path
    codec: str
    skip: int = 0
    only_returns: bool = False
    first_line: int = 1
    separator: str | None = None
    is_guessed: bool = False  # that the text is in Windows-1252

    @property
    def encoding(self) -> str:
        """The encoding in words."""
        return _WORDS.get(self.codec, self.codec)

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the text in UTF-8, about ``size`` bytes at a time, with a line feed at the end of each line."""
        decoder = None if self.codec == UTF_8 else codecs.getincrementaldecoder(self.codec)()
        with self.path.open("rb") as file:
            file.seek(self.skip)
            while raw := file.read(size):
                part = raw if decoder is None else decoder.decode(raw).encode()
                yield part.replace(b"\r", b"\n") if self.only_returns else part
        if decoder is not None and (rest := decoder.decode(b"", final=True).encode()):
            yield rest


def open_text(path: Path, encoding: str | None = None) -> CsvText:
    """Return how a file is read as text, after a look at all of its bytes; ``encoding`` is taken where they do not decide.

    Raises
    ------
    InputError
        If the bytes are no text in this encoding, or it must be named.
    """
    named = None if encoding is None else check_encoding(encoding)
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    text = _by_mark(path, start) or _by_zeros(path, start)
    if text is not None:
        _check_decodes(text)
    elif _is_utf_8(path):
        text = CsvText(path, UTF_8)
    else:
        text = CsvText(path, named or _windows(path), is_guessed=named is None)
        _check_decodes(text)
    return _with_lines(text, start)


def check_encoding(name: str) -> str:
    """Return the name of an encoding as Python knows it, or raise a SettingError."""
    try:
        info = codecs.lookup(name)
        is_text = info.incrementaldecoder is not None and "a;1\n".encode(name) != b""
        if is_text and info.name.replace("-", "_") not in _NOT_OF_FILES:
            return info.name
    except (LookupError, UnicodeError, ValueError, TypeError):
        pass
    raise SettingError(f"encoding {name!r} is unknown. Hint: windows-1252, latin-1, utf-16, cp1250, cp850, mac-roman.")


def _by_mark(path: Path, start: bytes) -> CsvText | None:
    return next((CsvText(path, codec, len(mark)) for mark, codec in _MARKS if start.startswith(mark)), None)


def _by_zeros(path: Path, start: bytes) -> CsvText | None:
    """Return the text of a file in UTF-16 without a mark: of most letters, one byte is zero, always the same one."""
    even, odd = start[:200:2].count(0), start[1:200:2].count(0)
    if min(even, odd) or 3 * max(even, odd) < len(start[:200:2]):
        return None
    return CsvText(path, "utf-16-le" if odd else "utf-16-be") if even or odd else None


def _is_utf_8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder(UTF_8)()
    try:
        for part in CsvText(path, UTF_8).parts(16 * _PART):
            decoder.decode(part)
            _check_no_zeros(path, part)
    except UnicodeDecodeError:
        return False
    if decoder.getstate()[0]:
        raise InputError(f"{path.name} ends in the middle of a letter. Hint: was it written completely?")
    return True


def _check_decodes(text: CsvText) -> None:
    try:
        for part in text.parts(_PART):
            _check_no_zeros(text.path, part)
    except UnicodeError:
        raise InputError(f"{text.path.name} is not text in {text.encoding}. {_HINT}.") from None


def _check_no_zeros(path: Path, part: bytes) -> None:
    if b"\0" in part:
        raise InputError(
            f"{path.name} has zero bytes in it, so that it is not a CSV file. Hint: was it written completely? A workbook "
            "or a compressed file needs the ending of its type."
        )


def _windows(path: Path) -> str:
    """Return Windows-1252 if the bytes make words in it; otherwise raise an error that asks for the encoding."""
    n_high = n_in_rows = n_odd = 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            if part.isascii():
                continue
            if _UNDEFINED.search(part):
                n_odd += 1
                break
            if n_high < _LOOKED_AT:
                words = part.decode(WINDOWS)
                n_high += len(_HIGH.findall(words))
                n_in_rows += len(_IN_ROWS.findall(words))
                n_odd += len(_ODD.findall(words))
    if n_odd or 2 * n_in_rows > n_high:
        raise InputError(
            f"{path.name} is text in an encoding that cannot be told from its bytes; it is neither UTF-8 nor does it make "
            f"words in Windows-1252. {_HINT}."
        )
    return WINDOWS


def _with_lines(text: CsvText, start: bytes) -> CsvText:
    """Return the text with what its first lines say: how lines end, and the separator that Excel writes as ``sep=;``."""
    first = next(text.parts(_LOOKED_AT), b"")
    only_returns = b"\r" in first and b"\n" not in first
    if match := _SEPARATOR_LINE.match(first):
        skipped = len(match[0].decode().encode(text.codec))
        separator = match[1].decode(errors="replace")
        if skipped <= len(start) and len(separator.encode()) == 1:
            return text._replace(skip=text.skip + skipped, first_line=2, separator=separator, only_returns=only_returns)
    return text._replace(only_returns=only_returns)


def state_of(path: Path) -> tuple[int, int]:
    """Return what tells whether a file has changed: its size and the time of the last change."""
    now = path.stat()
    return now.st_size, now.st_mtime_ns
