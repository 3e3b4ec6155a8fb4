"""Can these tables be clustered together? From column names and kinds alone, before any row is looked at.

Who sees what, who shares a column with whom, what only one party has, whose loss would cut the study in two, and which
names look as if they meant the same.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from intarsia.core.features import FeatureSpace, components, components_without, cut_vertices, is_complete
from intarsia.core.types import BoolArray, IntArray
from intarsia.exceptions import InputError, quote

NUMBERS, CATEGORIES = "numbers", "categories"
_ALIKE = 0.85  # of SequenceMatcher: names of five letters or more that differ by one or two
_LEAST = 3  # letters that an abbreviation must have
_BINS = 64  # of letters
_UNITS = {
    "mg", "g", "kg", "ug", "l", "dl", "ml", "mmol", "mol", "cm", "mm", "m", "mmhg", "hg", "bpm", "hz", "years", "yrs", "y",
    "percent", "pct", "c", "f", "celsius", "s", "sec", "min", "h", "days", "d", "per",
}  # fmt: skip


@dataclass(frozen=True)
class Bridge:
    """A participant without which the study would fall apart, and the sets of participants that it would fall into."""

    participant: str
    parts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Alike:
    """Two names that may mean the same column, and who has them; ``why`` says what they have in common."""

    left: str
    left_at: tuple[str, ...]
    right: str
    right_at: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Feasibility:
    """What names and kinds say about clustering some tables together.

    ``has`` is by participant the kind of every column; ``parts`` are the sets of participants that are connected by shared
    columns, the largest first; ``mixed`` are columns that are of one kind here and of another there; ``unusable`` columns
    that are neither numbers nor categories, by participant.
    """

    has: Mapping[str, Mapping[str, str]]
    rows: Mapping[str, int | None]
    parts: tuple[tuple[str, ...], ...]
    complete: bool
    bridges: tuple[Bridge, ...]
    alike: tuple[Alike, ...]
    mixed: tuple[str, ...]
    unusable: Mapping[str, Mapping[str, str]]

    @property
    def participants(self) -> tuple[str, ...]:
        """Everybody, in the order given."""
        return tuple(self.has)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that somebody has, those that most have first."""
        union = FeatureSpace.union(self.has.values()).names
        return tuple(sorted(union, key=lambda column: -len(self.owners(column))))

    def owners(self, column: str) -> tuple[str, ...]:
        """Who has a column."""
        return tuple(name for name, columns in self.has.items() if column in columns)

    @property
    def common(self) -> tuple[str, ...]:
        """Columns that everybody has."""
        return tuple(column for column in self.columns if len(self.owners(column)) == len(self.has))

    @property
    def single(self) -> dict[str, str]:
        """Columns that only one participant has, and who."""
        owners = {column: self.owners(column) for column in self.columns}
        return {column: who[0] for column, who in owners.items() if len(who) == 1 and len(self.has) > 1}

    def shared(self, left: str, right: str) -> tuple[str, ...]:
        """Columns that two participants share."""
        return tuple(column for column in self.has[left] if column in self.has[right])

    @property
    def connected(self) -> bool:
        """Whether everybody shares a column with everybody, if only through others."""
        return len(self.parts) == 1

    @property
    def possible(self) -> bool:
        """Whether a joint clustering can be run at all."""
        return self.connected and not self.mixed and all(self.has.values())

    @property
    def method(self) -> str | None:
        """The method to run, "federated", or None; that only one exchange is possible, names cannot tell."""
        return "federated" if self.possible else None

    def verdict(self) -> str:  # noqa: PLR0911  (one sentence each)
        """In one sentence, whether a joint clustering makes sense, and how."""
        if empty := [name for name, columns in self.has.items() if not columns]:
            return f"No: {quote(empty)} have no column that can be used; drop them, or convert their columns."
        if self.mixed:
            return f"No: {quote(self.mixed)} are numbers for some and categories for others; convert them to one kind."
        if not self.connected:
            rest = [name for part in self.parts[1:] for name in part]
            hint = (
                f"; {self.alike[0].left!r} and {self.alike[0].right!r} look alike, rename one if they mean the same"
                if self.alike
                else "; leave them out, or add somebody who shares columns with both sides"
            )
            return f"No: {quote(rest)} share no column with the others, not even through others{hint}."
        if len(self.has) == 1:
            return "Yes: there is one table, which is an ordinary clustering problem."
        if len(self.common) == len(self.columns):
            return "Yes: everybody has the same columns; both methods fit, and so would any federated k-means."
        if self.complete:
            return (
                f"Yes: every two participants share a column ({len(self.common)} of {len(self.columns)} are common to all); "
                "federated rounds fit best, and one-shot if there can be only one."
            )
        weak = f", but it hangs on {quote(b.participant for b in self.bridges)}" if self.bridges else ""
        return (
            f"Yes{weak}: some participants share no column and are compared through others, which federated rounds check on "
            "the rows; one-shot cannot."
        )


def check_feasibility(
    has: Mapping[str, Mapping[str, str]], rows: Mapping[str, int | None] | None = None
) -> Feasibility:
    """What names and kinds ("numbers", "categories", or why neither) say about clustering tables together.

    >>> report = check_feasibility({"a": {"age": "numbers", "chol": "numbers"}, "b": {"age": "numbers"}})
    >>> report.connected, report.single
    (True, {'chol': 'a'})
    """
    if not has:
        raise InputError("no table was given.")
    useful = {
        name: {column: kind for column, kind in columns.items() if kind in {NUMBERS, CATEGORIES}}
        for name, columns in has.items()
    }
    unusable = {
        name: left
        for name, columns in has.items()
        if (left := {column: kind for column, kind in columns.items() if kind not in {NUMBERS, CATEGORIES}})
    }
    names = list(useful)
    space = FeatureSpace.union(useful.values())
    masks = np.array([space.mask(list(useful[name])) for name in names], dtype=np.bool_).reshape(len(names), len(space))
    label = components(masks)
    parts = sorted(
        (tuple(names[k] for k in np.flatnonzero(label == c)) for c in range(label.max() + 1)), key=lambda p: -len(p)
    )
    kinds = {column: {columns[column] for columns in useful.values() if column in columns} for column in space.names}
    bridges: dict[str, list[tuple[str, ...]]] = {}
    for vertex in cut_vertices(masks):
        bridges[names[vertex]] = [tuple(names[k] for k in held) for held in components_without(masks, vertex)]
    return Feasibility(
        has=useful,
        rows=dict(rows or {}),
        parts=tuple(parts),
        complete=is_complete(masks),
        bridges=tuple(Bridge(name, tuple(held)) for name, held in bridges.items()) if len(parts) == 1 else (),
        alike=look_alikes(useful),
        mixed=tuple(column for column, found in kinds.items() if len(found) > 1),
        unusable=unusable,
    )


def look_alikes(has: Mapping[str, Sequence[str] | Mapping[str, str]]) -> tuple[Alike, ...]:
    """Pairs of names that may mean the same, where nobody has both.

    >>> [(pair.left, pair.right, pair.why) for pair in look_alikes({"a": ["chol"], "b": ["cholesterol mg/dl", "Age"]})]
    [('chol', 'cholesterol mg/dl', 'one abbreviates the other')]
    """
    owners: dict[str, list[str]] = {}
    for name, columns in has.items():
        for column in dict.fromkeys(columns):
            owners.setdefault(column, []).append(name)
    names, of = list(owners), {name: k for k, name in enumerate(has)}
    owned = np.zeros((len(names), len(has)), dtype=np.float32)
    for k, who in enumerate(owners.values()):
        owned[k, [of[name] for name in who]] = 1.0
    possible = _PossiblyAlike(names)
    found: list[Alike] = []
    for k, left in enumerate(names):
        apart = owned[k + 1 :] @ owned[k] == 0.0
        found.extend(
            Alike(left, tuple(owners[left]), right, tuple(owners[right]), why)
            for right in (names[k + 1 + at] for at in np.flatnonzero(apart & possible.after(k)))
            if (why := _why_alike(left, right))
        )
    return tuple(found)


class _PossiblyAlike:
    """Which names could be alike by the letters in them; comparing the others would take long and find nothing.

    Names that are alike are equal but for units, or differ by more than a number at their end and have letters in common:
    all those of the shorter, or nearly all of both. Letters are counted in a few bins, which can only make more names
    possible.
    """

    def __init__(self, names: Sequence[str]) -> None:
        bare = [_bare(_words(name)) for name in names]
        joined = ["".join(words) for words in bare]
        self._bare, self._stem = _numbered(map(tuple, bare)), _numbered(_stem(text) for text in joined)
        self._letters = np.zeros((len(names), _BINS), dtype=np.int16)
        for k, text in enumerate(joined):
            np.add.at(self._letters[k], [ord(letter) % _BINS for letter in text], 1)
        self._length = np.array([len(text) for text in joined], dtype=np.intp)

    def after(self, k: int) -> BoolArray:
        """Of the names after the k-th: whether it could be alike."""
        common = np.minimum(self._letters[k + 1 :], self._letters[k]).sum(axis=1)
        length, own = self._length[k + 1 :], self._length[k]
        near = (2 * common >= _ALIKE * (length + own)) | (common == np.minimum(length, own))
        return np.asarray((self._bare[k + 1 :] == self._bare[k]) | (near & (self._stem[k + 1 :] != self._stem[k])))


def _numbered(things: Iterable[Hashable]) -> IntArray:
    """The same number for the same thing."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(thing, len(number)) for thing in things], dtype=np.intp)


def _why_alike(left: str, right: str) -> str | None:  # noqa: PLR0911  (one reason each)
    a, b = _words(left), _words(right)
    if not a or not b:
        return None
    if a == b:
        return "they differ by case, blanks or punctuation"
    bare_a, bare_b = _bare(a), _bare(b)
    if bare_a == bare_b:
        return "they differ by a unit"
    short, long = sorted(("".join(bare_a), "".join(bare_b)), key=len)
    if _stem(short) == _stem(long):  # f1 and f2 are two things
        return None
    if len(short) >= _LEAST and long.startswith(short):
        return "one abbreviates the other"
    if len(short) > _LEAST + 1 and SequenceMatcher(None, short, long).ratio() >= _ALIKE:
        return "they differ by a letter or two"
    return None


def _bare(words: list[str]) -> list[str]:
    """Without units, unless there is nothing else."""
    return [word for word in words if word not in _UNITS] or words


def _stem(text: str) -> str:
    """Without the number at its end."""
    return re.sub(r"\d+$", "", text)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.casefold()) if word]
