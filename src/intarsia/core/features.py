"""The union of everybody's columns, and who overlaps with whom.

Columns are aligned by name, never by position. A participant's mask is the diagonal of the paper's Ω: a boolean
vector over the union; ``&`` is ∧ and ``|`` is ∨.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from intarsia.core.types import BoolArray, IntArray


@dataclass(frozen=True)
class FeatureSpace:
    """The union of all feature names (the paper's 𝒳ᵈ), in a fixed order.

    >>> space = FeatureSpace.union([["age", "chol"], ["age", "thal"]])
    >>> space.names
    ('age', 'chol', 'thal')
    >>> space.mask(["thal", "age"])
    array([ True, False,  True])
    """

    names: tuple[str, ...]

    @classmethod
    def union(cls, names_of_each: Iterable[Iterable[str]]) -> FeatureSpace:
        """Every name once, in the order of first appearance."""
        return cls(tuple(dict.fromkeys(name for names in names_of_each for name in names)))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def index(self, names: Sequence[str]) -> IntArray:
        """Where each name stands in the union."""
        return np.array([self._position[name] for name in names], dtype=np.intp)

    def mask(self, names: Sequence[str]) -> BoolArray:
        """The diagonal of Ω for someone who sees these names."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self.index(names)] = True
        return mask


def overlap_graph(masks: BoolArray) -> BoolArray:
    """Who shares at least one feature with whom: the paper's edges ℰ, self-loops included, as a matrix."""
    return (masks.astype(np.intp) @ masks.T.astype(np.intp)) > 0


def components(graph: BoolArray) -> IntArray:
    """The connected component that each vertex belongs to, numbered from 0."""
    if not len(graph):
        return np.zeros(0, dtype=np.intp)
    _, label = connected_components(graph, directed=False)
    return np.asarray(label, dtype=np.intp)


def is_connected(graph: BoolArray) -> bool:
    """Whether every vertex can be reached from every other."""
    return bool(components(graph).max(initial=0) == 0)


def is_complete(graph: BoolArray) -> bool:
    """Whether every two vertices share an edge ("fully connected" in the paper)."""
    return bool(graph.all())


def hangers_on(graph: BoolArray) -> list[tuple[int, IntArray]]:
    """Every vertex without which the graph would fall apart, with each set of vertices that it holds on to the rest.

    Only inner vertices of a breadth-first tree can be such, and in a dense graph there are few of those.

    >>> chain = np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    >>> [(vertex, held.tolist()) for vertex, held in hangers_on(chain)]
    [(1, [0]), (1, [2, 3]), (2, [0, 1]), (2, [3])]
    """
    found: list[tuple[int, IntArray]] = []
    if not len(graph):
        return found
    _, parents = breadth_first_order(csr_array(graph.astype(np.int8)), 0, directed=False)
    inner = set(parents[parents >= 0].tolist()) | {0}
    for vertex in sorted(inner):
        rest = np.delete(np.arange(len(graph)), vertex)
        piece = components(graph[np.ix_(rest, rest)])
        if piece.max(initial=0) > 0:
            found.extend((vertex, rest[piece == k]) for k in range(piece.max() + 1))
    return found


def near_misses(names_of: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str, str]]:
    """Names that differ only by case, blanks or punctuation: (name, participant, other name, its participant).

    They are reported, never joined.

    >>> near_misses({"a": ["Age"], "b": ["age", "sex"]})
    [('Age', 'a', 'age', 'b')]
    """
    first: dict[str, tuple[str, str]] = {}
    found: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for participant, names in names_of.items():
        for name in names:
            plain = "".join(letter for letter in normalize("NFC", name).casefold() if letter.isalnum())
            if not plain:
                continue
            other, owner = first.setdefault(plain, (name, participant))
            if other != name:
                found.setdefault((other, name), (other, owner, name, participant))
    return list(found.values())


def indicator(column: str, level: str) -> str:
    """The name of the feature that is 1 where a column of categories has this level, and 0 where it has another."""
    return f"{column}={level}"


def indicators(levels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The names of all such features.

    >>> indicators({"sex": ["f", "m"]})
    ('sex=f', 'sex=m')
    """
    return tuple(indicator(column, level) for column, own in levels.items() for level in own)


def clashes(levels: Mapping[str, Sequence[str]], names: Iterable[str]) -> list[str]:
    """Indicators that are called like a column, or like each other.

    >>> clashes({"a": ["b=c"], "a=b": ["c"], "sex": ["m"]}, ["sex=m"])
    ['a=b=c', 'sex=m']
    """
    all_of_them = [*indicators(levels), *names]
    return sorted({name for name, times in Counter(all_of_them).items() if times > 1})


def joint_levels(each: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Every column's levels that anybody has, sorted.

    >>> joint_levels([{"sex": ["m"]}, {"sex": ["f", "m"], "site": ["x"]}])
    {'sex': ('f', 'm'), 'site': ('x',)}
    """
    found: dict[str, set[str]] = {}
    for levels in each:
        for column, own in levels.items():
            found.setdefault(column, set()).update(own)
    return {column: tuple(sorted(own)) for column, own in sorted(found.items())}
