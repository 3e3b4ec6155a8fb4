"""The union of all participants' features, and which participants share features.

Features are aligned by name, never by position. A participant's mask is the diagonal of the paper's Ω: a boolean vector
over the union; ``&`` is ∧ and ``|`` is ∨. ``masks`` has one row per participant. Two participants are adjacent in the
*overlap graph* if they share a feature. Its properties are computed from the graph of participants and features, which
has one edge per True in ``masks``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from intarsia.core.blocks import by_rows
from intarsia.core.homoglyphs import skeleton
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
        """Return the space with every name once, in the order of first appearance."""
        return cls(tuple(dict.fromkeys(name for names in names_of_each for name in names)))

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def index(self, names: Sequence[str]) -> IntArray:
        """Return the position of each name in the space."""
        return np.array([self._position[name] for name in names], dtype=np.intp)

    def mask(self, names: Sequence[str]) -> BoolArray:
        """Return the diagonal of Ω for a participant that has these features."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self.index(names)] = True
        return mask


def overlap_graph(masks: BoolArray) -> BoolArray:
    """Return which participants share at least one feature: the paper's edges ℰ with self-loops, as a matrix."""
    numbers = masks.astype(np.float32)  # sums are exact: there are far fewer features than 2²⁴
    graph = np.empty((len(masks), len(masks)), dtype=np.bool_)
    for block in by_rows(len(masks), len(masks)):
        np.greater(numbers[block] @ numbers.T, 0.0, out=graph[block])
    return graph


def components(masks: BoolArray) -> IntArray:
    """Return the connected component of each participant in the overlap graph, numbered by first member.

    >>> components(np.array([[True, False, False], [False, True, True], [True, False, False]]))
    array([0, 1, 0])
    """
    n, d = masks.shape
    rows, columns = np.nonzero(masks)
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns + n)), shape=(n + d, n + d))
    _, component = connected_components(graph, directed=False)  # which numbers them in the order of their vertices
    return component[:n].astype(np.intp)


def is_connected(masks: BoolArray) -> bool:
    """Whether shared features connect all participants, directly or through others."""
    return bool(components(masks).max(initial=0) == 0)


def is_complete(masks: BoolArray) -> bool:
    """Whether every two participants share a feature ("fully connected" in the paper).

    >>> is_complete(np.array([[True, True, False], [False, True, True], [True, False, True]]))
    True
    """
    if len(masks) < 2:
        return True
    if not masks.any(axis=1).all():
        return False
    numbers = np.unique(masks, axis=0).astype(np.float32)
    blocks = by_rows(len(numbers), len(numbers))
    return all(bool((numbers[block] @ numbers.T > 0.0).all()) for block in blocks)


def cut_vertices(masks: BoolArray) -> list[int]:
    """Return the participants without whom the overlap graph would have more components.

    >>> cut_vertices(np.array([[True, False, False], [True, True, False], [False, True, True]]))
    [1]
    """
    if masks.all(axis=0).any():
        return []  # a feature that all participants have connects those who are left
    shared = masks[:, masks.sum(axis=0) > 1]
    n = len(shared)
    rows, columns = np.nonzero(shared)
    vertices = _articulations(np.append(rows, columns + n), np.append(columns + n, rows), n + shared.shape[1])
    return sorted(vertex for vertex in vertices if vertex < n)


def components_without(masks: BoolArray, participant: int) -> list[IntArray]:
    """Return the members of each component of the overlap graph that is left without a participant.

    >>> chain = np.array([[True, False, False], [True, True, False], [False, True, True], [False, False, True]])
    >>> [(cut, [members.tolist() for members in components_without(chain, cut)]) for cut in cut_vertices(chain)]
    [(1, [[0], [2, 3]]), (2, [[0, 1], [3]])]
    """
    rest = np.delete(np.arange(len(masks)), participant)
    component = components(masks[rest])
    return [rest[component == k] for k in range(component.max(initial=-1) + 1)]


def _articulations(rows: IntArray, columns: IntArray, n: int) -> set[int]:
    """Return the articulation points of a graph, by one depth-first walk (Hopcroft and Tarjan, 1973).

    Row and column k are the ends of edge k, and every edge is listed in both directions. ``low[v]`` is the earliest vertex
    that can be reached from the vertices below v, other than by the edge to the parent of v.
    """
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=n)).tolist()
    neighbours, next_edge = columns[order].tolist(), [0, *ends[:-1]]
    visited, low, articulations, time = [-1] * n, [0] * n, set(), 0
    for root in range(n):
        if visited[root] >= 0:
            continue
        visited[root] = low[root] = time
        time += 1
        path, branches = [(root, -1)], 0
        while path:
            vertex, parent = path[-1]
            if next_edge[vertex] < ends[vertex]:
                other = neighbours[next_edge[vertex]]
                next_edge[vertex] += 1
                if visited[other] < 0:
                    visited[other] = low[other] = time
                    time += 1
                    path.append((other, vertex))
                    branches += vertex == root
                elif other != parent:
                    low[vertex] = min(low[vertex], visited[other])
                continue
            path.pop()
            if parent >= 0:
                low[parent] = min(low[parent], low[vertex])
                if parent != root and low[vertex] >= visited[parent]:
                    articulations.add(parent)
        if branches > 1:
            articulations.add(root)
    return articulations


def near_misses(names_of: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str, str]]:
    """Return names that differ only by case, blanks, punctuation or letters of other alphabets that look the same.

    Each is (name, participant, other name, its participant). They are reported, never treated as equal.

    >>> near_misses({"a": ["Age"], "b": ["age", "sex"]})
    [('Age', 'a', 'age', 'b')]
    """
    first: dict[str, tuple[str, str]] = {}
    pairs: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for participant, names in names_of.items():
        for name in names:
            plain = "".join(letter for letter in skeleton(name) if letter.isalnum())
            if not plain:
                continue
            other, owner = first.setdefault(plain, (name, participant))
            if other != name:
                pairs.setdefault((other, name), (other, owner, name, participant))
    return list(pairs.values())


def indicator(column: str, level: str) -> str:
    """Return the name of the feature that is 1 where a categorical column has this level, and 0 where it has another."""
    return f"{column}={level}"


def indicators(levels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the names of the indicators of all levels of categorical columns.

    >>> indicators({"sex": ["f", "m"]})
    ('sex=f', 'sex=m')
    """
    return tuple(indicator(column, level) for column, names in levels.items() for level in names)


def clashes(levels: Mapping[str, Sequence[str]], names: Iterable[str]) -> list[str]:
    """Return the names of indicators that are also names of columns or of other indicators.

    >>> clashes({"a": ["b=c"], "a=b": ["c"], "sex": ["m"]}, ["sex=m"])
    ['a=b=c', 'sex=m']
    """
    counts = Counter([*indicators(levels), *names])
    return sorted(name for name, times in counts.items() if times > 1)


def joint_levels(levels_of_each: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the levels that any participant has, sorted, by column.

    >>> joint_levels([{"sex": ["m"]}, {"sex": ["f", "m"], "site": ["x"]}])
    {'sex': ('f', 'm'), 'site': ('x',)}
    """
    joint: dict[str, set[str]] = {}
    for levels in levels_of_each:
        for column, names in levels.items():
            joint.setdefault(column, set()).update(names)
    return {column: tuple(sorted(names)) for column, names in sorted(joint.items())}
