"""Levels of categories that look like other words for the same thing, from how often each participant has them.

A level that only one participant has may be real: a ward that others do not have. Two participants that each have a
frequent level which the other never has are more likely to spell one thing in two ways (``m`` and ``f``, ``m`` and ``w``).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from intarsia.exceptions import quote

FREQUENT = 0.05  # of the values of a participant
EXPECTED = 5.0  # rows with such a level that the other participant would have; with fewer it may lack them by chance
MOST_SHOWN = 3  # levels

Counts = Mapping[str, Mapping[str, Mapping[str, float]]]  # values by participant, column and level


class OddLevels(NamedTuple):
    """A column in which two participants each have frequent levels that the other never has, the most frequent first."""

    column: str
    left: str
    right: str
    left_levels: tuple[str, ...]
    right_levels: tuple[str, ...]
    in_common: bool

    def __str__(self) -> str:
        """Return one clause with the names of participants and levels."""
        left, right = quote(self.left_levels, MOST_SHOWN), quote(self.right_levels, MOST_SHOWN)
        return f"{self.column!r} ({self.left!r} has {left} and not {right}, {self.right!r} the reverse)"


def odd_levels(counts: Counts) -> list[OddLevels]:
    """Return the columns of which two participants may have other words for the same levels, with the first such two.

    >>> tables = {"a": {"sex": {"m": 40, "w": 60}}, "b": {"sex": {"m": 50, "f": 50}}}
    >>> [str(odd) for odd in odd_levels(tables)]
    ["'sex' ('a' has 'w' and not 'f', 'b' the reverse)"]
    """
    result = []
    for column in sorted({column for columns in counts.values() for column in columns}):
        owners = [name for name, columns in counts.items() if any(columns.get(column, {}).values())]
        for left, right in combinations(owners, 2):
            pair = counts[left][column], counts[right][column]
            in_common = any(n and pair[1].get(level) for level, n in pair[0].items())
            own = [_lacking(*each, any_number=not in_common) for each in (pair, pair[::-1])]
            if all(own):
                result.append(OddLevels(column, left, right, own[0], own[1], in_common))
                break
    return result


def _lacking(counts: Mapping[str, float], others: Mapping[str, float], *, any_number: bool) -> tuple[str, ...]:
    """Return the levels that the other participant never has, the most frequent first; only those that it should have."""
    total, rows = sum(counts.values()), sum(others.values())
    lacking = [
        level
        for level, n in counts.items()
        if n and not others.get(level) and (any_number or (n >= FREQUENT * total and n * rows >= EXPECTED * total))
    ]
    return tuple(sorted(lacking, key=lambda level: (-counts[level], level)))
