"""The union of everybody's columns, and who overlaps with whom.

Columns are aligned by name, never by position. A participant's mask is the diagonal of the paper's Ω: a boolean
vector over the union; ``&`` is ∧ and ``|`` is ∨.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia.core.pieces import by_rows
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
    numbers = masks.astype(np.float32)  # of so few features that sums are exact
    graph = np.empty((len(masks), len(masks)), dtype=np.bool_)
    for some in by_rows(len(masks), len(masks)):
        np.greater(numbers[some] @ numbers.T, 0.0, out=graph[some])
    return graph


def components(graph: BoolArray, without: int | None = None) -> IntArray:
    """The connected component that each vertex belongs to, numbered from 0; −1 for a vertex that is left out.

    >>> components(np.eye(3, dtype=bool), without=1)
    array([ 0, -1,  1])
    """
    label = np.full(len(graph), -1, dtype=np.intp)
    left = np.ones(len(graph), dtype=np.bool_)
    if without is not None:
        left[without] = False
    number = 0
    while left.any():
        for found, _ in _waves(graph, left):
            label[found] = number
        number += 1
    return label


def _waves(graph: BoolArray, left: BoolArray) -> Iterator[tuple[IntArray, int]]:
    """Breadth first from the first vertex that is left: what each vertex finds, and who finds it. ``left`` is used up."""
    start = int(left.argmax())
    left[start] = False
    yield np.array([start]), -1
    queue = deque([start])
    while queue and left.any():
        vertex = queue.popleft()
        found = np.flatnonzero(graph[vertex] & left)
        if len(found):
            left[found] = False
            queue.extend(found.tolist())
            yield found, vertex


def components_of(masks: BoolArray) -> IntArray:
    """:func:`components` of the overlap graph of these masks, without the graph: who sees a feature hangs on it.

    >>> components_of(np.array([[True, False, False], [False, True, True], [True, False, False]]))
    array([0, 1, 0])
    """
    n, d = masks.shape
    rows, columns = np.nonzero(masks)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns + n)), shape=(n + d, n + d))
    _, label = connected_components(graph, directed=False)
    _, first, inverse = np.unique(label[:n], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


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
    inner = {vertex for _, vertex in _waves(graph, np.ones(len(graph), dtype=np.bool_)) if vertex >= 0} | {0}
    for vertex in sorted(inner):
        piece = components(graph, without=vertex)
        if piece.max(initial=0) > 0:
            found.extend((vertex, np.flatnonzero(piece == k)) for k in range(piece.max() + 1))
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
