"""Texts that are numbers with something beside them: a unit, a flag, <, a currency, a minus sign at the end.

Such a column must not become categories without a word. But codes, bands and grades have digits, too: what tells them
apart is the decimal sign, signs that only quantities have, and how many different ones there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

MINUS = "\u2212"
_MOST_CODES = 10  # different texts with a number of whole units, such as 6 months: more are measurements
_MOST_TAILS = 5  # different units and flags
_FEWEST_VALUES = 3  # of two different values, a category loses nothing
_MOST_TEXTS = 5000  # that are looked at
_FEWEST_SHARE = 10  # one in so many cells
_CURRENCY = r"(?:[$£¥€₹]|EUR|USD|CHF|GBP)"
_GAP = r"[ '’\u00a0\u202f\u2009]"
_QUANTITY = re.compile(
    rf"""\s*(?P<bound>[<>≤≥~≈]=?|=[<>])?\s*(?P<money>{_CURRENCY})?\s*[+{MINUS}-]?\s*
    (?P<number>[1-9][0-9]{{0,2}}(?:{_GAP}[0-9]{{3}})+(?:[.,][0-9]+)?
      |[0-9]{{1,3}}(?:\.[0-9]{{3}})+,[0-9]+|[0-9]{{1,3}}(?:,[0-9]{{3}})+\.[0-9]+|[0-9]*[.,][0-9]+|[0-9]+)
    (?P<minus>[-{MINUS}])?\s*
    (?P<tail>(?:{_CURRENCY}|[^\W\d_]|[%‰°*!+#(\[/†‡↑↓])[^\s,;]{{0,11}}(?:\s[^\s,;]{{1,3}})?)?\s*""",
    re.VERBOSE,
)
_SIGNS = re.compile(rf"[%‰°]|{_CURRENCY}\s*$")  # of a quantity, never of a code


class _Text(NamedTuple):
    """What a text shows: the number and what is behind it, and whether a bound or a sign of quantities stands there."""

    number: str
    tail: str
    is_bound: bool
    is_plain: bool
    is_clear: bool  # no code looks like this


def is_number(text: str) -> bool:
    """Return whether a text is a number and nothing else."""
    try:
        float(text.replace(",", ".").replace(MINUS, "-"))
    except ValueError:
        return False
    return True


def are_numbers(counts: Mapping[str, int]) -> bool:
    """Return whether texts, with the number of rows of each, are measurements that would be lost as categories.

    >>> are_numbers({"36,5 °C": 1, "36,6 °C": 1, "37,0 °C": 1}), are_numbers({"<18": 9, "18-65": 9, ">65": 9})
    (True, False)
    """
    counts = dict(islice(counts.items(), _MOST_TEXTS))
    n_filled = sum(counts.values())
    seen = {text: shown for text in counts if (shown := _shown(text)) is not None}
    values = {text: shown for text, shown in seen.items() if not shown.is_bound}
    many = {shown.number for shown in seen.values() if shown.is_bound}
    if values or len(many) > _MOST_CODES:  # otherwise bounds are bands, such as <18 and >65
        values = seen
    if len({shown.number for shown in values.values()}) < _FEWEST_VALUES:
        return False
    tails = {shown.tail for shown in values.values() if shown.tail}
    n_plain, n_values = (
        sum(counts[text] for text, shown in values.items() if not only or shown.is_plain) for only in (True, False)
    )
    clear = {text for text, shown in values.items() if shown.is_clear} if len(tails) <= _MOST_TAILS else set()
    n_clear = sum(counts[text] for text in clear)
    if len(clear) > _MOST_CODES and _FEWEST_SHARE * n_clear >= n_filled:
        return True
    are_many = len(values) > _MOST_CODES and len(tails) <= 1
    return 2 * n_plain >= n_filled or (2 * n_values >= n_filled and (bool(clear) or are_many))


def _shown(text: str) -> _Text | None:
    if is_number(text):
        return _Text(text.strip(), "", is_bound=False, is_plain=True, is_clear=bool(re.search(r"[.,]", text)))
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, tail = match["number"], (match["tail"] or "").casefold()
    is_clear = bool(re.search(rf"[.,]|{_GAP}", number) or match["money"] or _SIGNS.match(match["tail"] or ""))
    return _Text(number, tail, is_bound=bool(match["bound"]), is_plain=False, is_clear=is_clear)
