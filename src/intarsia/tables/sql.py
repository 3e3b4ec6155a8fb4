"""What must hold for the query of an extract: one statement, which selects, with an ORDER BY of its own.

Only as much of SQL is read as this takes: comments, texts, quoted names, dollar quotes and brackets. What a query may do is
decided by the database, in a transaction that only reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from intarsia.exceptions import InputError

_TOKENS = re.compile(
    r"""(?P<comment>--[^\n]*)
    |(?P<block>/\*)
    |(?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*")
    |(?P<dollar>\$(?P<tag>[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$.*?\$(?(tag)(?P=tag))\$)
    |(?P<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)
    |(?P<sign>[();])
    |(?P<open>['"])
    |(?P<other>\s+|\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"/\*|\*/")
_SELECTS, _CHANGES = ("select", "with"), ("insert", "update", "delete", "merge", "truncate", "drop", "alter", "create")


class _Token(NamedTuple):
    """A word or sign that is no part of a text or comment, in lower case, and how many brackets are open before it."""

    text: str
    depth: int


def check_query(text: str, file: str) -> str:
    """Return a query without its last semicolon, or raise an InputError that says what it lacks.

    >>> check_query("select id, age from patient order by id;", "cohort.sql")
    'select id, age from patient order by id'
    """
    tokens = list(_tokens(text, file))
    ends = [k for k, token in enumerate(tokens) if token.text == ";"]
    if not [token for token in tokens if token.text != ";"]:
        raise InputError(f"{file} has no query. Hint: one SELECT, with an ORDER BY at its end.")
    if ends and ends[0] != len(tokens) - 1:
        raise InputError(f"{file} has more than one statement. Hint: one SELECT; WITH can name what it is made of.")
    tokens = tokens[: ends[0]] if ends else tokens
    words = [token for token in tokens if token.text not in {"(", ")"}]
    first = words[0].text if words else ""
    started = [token.text for before, token in pairwise(tokens) if before.text in {"(", ")"}]
    if first not in _SELECTS or any(word in _CHANGES for word in started):
        raise InputError(
            f"{file} does more than select. Hint: an extract is one SELECT, or WITH … SELECT, that only reads."
        )
    if any(word.text == "into" and word.depth == 0 for word in words):
        raise InputError(f"{file} writes a table (INTO). Hint: an extract is one SELECT that only reads.")
    if (_Token("order", 0), _Token("by", 0)) not in pairwise(words):
        raise InputError(
            f"{file} has no ORDER BY of the whole query, without which a database returns rows in any order, and in another "
            "one each time. Hint: end it with ORDER BY and the column that identifies rows."
        )
    return (text[: _place_of_end(text, file)] if ends else text).rstrip()


def _tokens(text: str, file: str) -> Iterator[_Token]:
    depth = 0
    for kind, piece, _ in _pieces(text, file):
        if kind == "sign" and piece == ")":
            depth -= 1
            if depth < 0:
                raise InputError(f"{file} closes a bracket that is not open.")
        if kind in {"word", "sign"}:
            yield _Token(piece.lower(), depth)
        if kind == "sign" and piece == "(":
            depth += 1
    if depth:
        raise InputError(f"{file} has a bracket that is not closed.")


def _place_of_end(text: str, file: str) -> int:
    """Return the place of the semicolon, which only comments follow."""
    return next(start for kind, piece, start in _pieces(text, file) if kind == "sign" and piece == ";")


def _pieces(text: str, file: str) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, the text and the place of each piece of a query, but for comments."""
    place = 0
    while place < len(text):
        match = _TOKENS.match(text, place)
        assert match is not None
        kind = match.lastgroup if match.lastgroup != "tag" else "dollar"
        if kind == "open":
            raise InputError(f"{file} has a quotation mark that is not closed.")
        if kind == "block":
            place = _after_block(text, place, file)
            continue
        if kind in {"word", "sign", "name", "text", "escaped", "dollar"}:
            yield str(kind), match[0], place
        place = match.end()


def _after_block(text: str, place: int, file: str) -> int:
    """Return the place behind a comment, which may have comments within."""
    depth = 0
    for match in _BLOCK.finditer(text, place):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    raise InputError(f"{file} has a comment that is not closed.")
