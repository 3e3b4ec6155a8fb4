"""Column names that may mean the same: equal but for case, alphabet, a unit, an abbreviation or a typing error."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from intarsia.core.homoglyphs import differing_letters, look_the_same, skeleton
from intarsia.core.types import BoolArray, IntArray

_MIN_RATIO = 0.85  # of SequenceMatcher: names of five letters or more that differ by one or two
_MIN_LETTERS = 3  # of an abbreviation
_BINS = 64  # in which letters are counted
_UNITS = {
    "mg", "g", "kg", "ug", "l", "dl", "ml", "mmol", "mol", "cm", "mm", "m", "mmhg", "hg", "bpm", "hz", "years", "yrs", "y",
    "percent", "pct", "c", "f", "celsius", "s", "sec", "min", "h", "days", "d", "per",
}  # fmt: skip


@dataclass(frozen=True)
class Alike:
    """Two column names that may mean the same, the participants that have them, and the reason (``why``)."""

    left: str
    left_at: tuple[str, ...]
    right: str
    right_at: tuple[str, ...]
    why: str


def look_alikes(columns: Mapping[str, Iterable[str]]) -> tuple[Alike, ...]:
    """Return the pairs of names that may mean the same and that no participant has both of, or that look the same.

    >>> [(pair.left, pair.right, pair.why) for pair in look_alikes({"a": ["chol"], "b": ["cholesterol mg/dl", "Age"]})]
    [('chol', 'cholesterol mg/dl', 'one abbreviates the other')]
    """
    owners: dict[str, list[str]] = {}
    for participant, names in columns.items():
        for name in dict.fromkeys(names):
            owners.setdefault(name, []).append(participant)
    names, position = list(owners), {participant: k for k, participant in enumerate(columns)}
    owned = np.zeros((len(names), len(columns)), dtype=np.float32)
    for k, participants in enumerate(owners.values()):
        owned[k, [position[participant] for participant in participants]] = 1.0
    candidates = _Candidates(names)
    pairs: list[Alike] = []
    for k, left in enumerate(names):
        apart = owned[k + 1 :] @ owned[k] == 0.0
        pairs.extend(
            Alike(left, tuple(owners[left]), right, tuple(owners[right]), why)
            for right, are_apart in (
                (names[k + 1 + at], apart[at]) for at in np.flatnonzero(candidates.after(k, apart))
            )
            if (are_apart or look_the_same(left, right)) and (why := why_alike(left, right))
        )
    return tuple(pairs)


class _Candidates:
    """Which names can be alike, judged by their letters; comparing all pairs in full would take long.

    Names that are alike are equal but for units, or differ by more than a number at their end and have letters in common:
    all those of the shorter, or nearly all of both. Letters are counted in a few bins, which can only add candidates.
    """

    def __init__(self, names: Iterable[str]) -> None:
        bare = [_without_units(_words(name)) for name in names]
        joined = ["".join(words) for words in bare]
        self._bare, self._stem = _numbered(map(tuple, bare)), _numbered(_stem(text) for text in joined)
        self._letters = np.zeros((len(joined), _BINS), dtype=np.int16)
        for k, text in enumerate(joined):
            np.add.at(self._letters[k], [ord(letter) % _BINS for letter in text], 1)
        self._length = np.array([len(text) for text in joined], dtype=np.intp)

    def after(self, k: int, apart: BoolArray) -> BoolArray:
        """Return for each name after the k-th whether the two can be alike, or look the same if not ``apart``."""
        common = np.minimum(self._letters[k + 1 :], self._letters[k]).sum(axis=1)
        other_length, length = self._length[k + 1 :], self._length[k]
        near = (2 * common >= _MIN_RATIO * (other_length + length)) | (common == np.minimum(other_length, length))
        other_stem = self._stem[k + 1 :] != self._stem[k]
        return np.asarray((self._bare[k + 1 :] == self._bare[k]) | (apart & near & other_stem))


def _numbered(items: Iterable[Hashable]) -> IntArray:
    """Return a number for each item, the same for equal items."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(item, len(number)) for item in items], dtype=np.intp)


def why_alike(left: str, right: str) -> str | None:  # noqa: PLR0911  (one reason each)
    """Return why two names may mean the same, or None."""
    left_words, right_words = _words(left), _words(right)
    if not left_words or not right_words:
        return None
    if left_words == right_words and look_the_same(left, right):
        return f"they look the same, but differ by {differing_letters(left, right)}"
    if left_words == right_words:
        return "they differ by case, blanks or punctuation"
    left_bare, right_bare = _without_units(left_words), _without_units(right_words)
    if left_bare == right_bare:
        return "they differ by a unit"
    short, long = sorted(("".join(left_bare), "".join(right_bare)), key=len)
    if _stem(short) == _stem(long):  # f1 and f2 are two columns
        return None
    if len(short) >= _MIN_LETTERS and long.startswith(short):
        return "one abbreviates the other"
    if len(short) > _MIN_LETTERS + 1 and SequenceMatcher(None, short, long).ratio() >= _MIN_RATIO:
        return "they differ by a letter or two"
    return None


def _without_units(words: list[str]) -> list[str]:
    """Return the words that are not units; all if there are no others."""
    return [word for word in words if word not in _UNITS] or words


def _stem(text: str) -> str:
    """Return the text without the number at its end."""
    return re.sub(r"\d+$", "", text)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", skeleton(name)) if word]
