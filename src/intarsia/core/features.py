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

from intarsia.core.blocks import by_rows
from intarsia.core.types import BoolArray, IntArray

_FEW_INNER = 64  # vertices that are tried one by one


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


def is_connected_of(masks: BoolArray) -> bool:
    """:func:`is_connected` of the overlap graph of these masks, without the graph."""
    return bool(components_of(masks).max(initial=0) == 0)


def is_complete(graph: BoolArray) -> bool:
    """Whether every two vertices share an edge ("fully connected" in the paper)."""
    return bool(graph.all())


def is_complete_of(masks: BoolArray) -> bool:
    """:func:`is_complete` of the overlap graph of these masks, without the graph.

    >>> is_complete_of(np.array([[True, True, False], [False, True, True], [True, False, True]]))
    True
    """
    if len(masks) < 2:
        return True
    if not masks.any(axis=1).all():
        return False
    numbers = np.unique(masks, axis=0).astype(np.float32)
    pieces = by_rows(len(numbers), len(numbers))
    return all(bool((numbers[some] @ numbers.T > 0.0).all()) for some in pieces)


def held_by(graph: BoolArray, vertex: int) -> list[IntArray]:
    """What the graph falls into without a vertex.

    >>> chain = np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    >>> [(vertex, [held.tolist() for held in held_by(chain, vertex)]) for vertex in cut_vertices(chain)]
    [(1, [[0], [2, 3]]), (2, [[0, 1], [3]])]
    """
    piece = components(graph, without=vertex)
    return [np.flatnonzero(piece == k) for k in range(piece.max(initial=-1) + 1)]


def cut_vertices(graph: BoolArray) -> list[int]:
    """Every vertex without which the graph would fall apart.

    Only inner vertices of a breadth-first tree can be such, and in a dense graph there are few of those. Where there are
    many, the graph is walked through once, depth first.
    """
    if not len(graph):
        return []
    inner = {vertex for _, vertex in _waves(graph, np.ones(len(graph), dtype=np.bool_)) if vertex >= 0} | {0}
    if len(inner) <= _FEW_INNER:
        return [vertex for vertex in sorted(inner) if components(graph, without=vertex).max(initial=0) > 0]
    rows, columns = np.nonzero(graph)
    return sorted(_articulations(rows, columns, len(graph)))


def cut_vertices_of(masks: BoolArray) -> list[int]:
    """:func:`cut_vertices` of the overlap graph of these masks, without the graph: who sees a feature hangs on it.

    >>> cut_vertices_of(np.array([[True, False, False], [True, True, False], [False, True, True]]))
    [1]
    """
    shared = masks[:, masks.sum(axis=0) > 1]  # nobody hangs on what only one sees
    n = len(shared)
    rows, columns = np.nonzero(shared)
    found = _articulations(np.append(rows, columns + n), np.append(columns + n, rows), n + shared.shape[1])
    return sorted(vertex for vertex in found if vertex < n)


def held_by_of(masks: BoolArray, vertex: int) -> list[IntArray]:
    """:func:`held_by` of the overlap graph of these masks."""
    rest = np.delete(np.arange(len(masks)), vertex)
    label = components_of(masks[rest])
    return [rest[label == k] for k in range(label.max(initial=-1) + 1)]


def _articulations(rows: IntArray, columns: IntArray, n: int) -> set[int]:
    """Vertices without which more pieces would be left, by one walk depth first (Hopcroft and Tarjan, 1973).

    ``low`` is the earliest vertex that can be reached from below a vertex, other than by the way one came.
    """
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=n)).tolist()
    others, at = columns[order].tolist(), [0, *ends[:-1]]
    visited, low, found, time = [-1] * n, [0] * n, set(), 0
    for root in range(n):
        if visited[root] >= 0:
            continue
        visited[root] = low[root] = time
        time += 1
        way, branches = [(root, -1)], 0
        while way:
            vertex, came = way[-1]
            if at[vertex] < ends[vertex]:
                other = others[at[vertex]]
                at[vertex] += 1
                if visited[other] < 0:
                    visited[other] = low[other] = time
                    time += 1
                    way.append((other, vertex))
                    branches += vertex == root
                elif other != came:
                    low[vertex] = min(low[vertex], visited[other])
                continue
            way.pop()
            if came >= 0:
                low[came] = min(low[came], low[vertex])
                if came != root and low[vertex] >= visited[came]:
                    found.add(came)
        if branches > 1:
            found.add(root)
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
