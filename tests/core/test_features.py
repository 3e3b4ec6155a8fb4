from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from intarsia.core.features import (
    FeatureSpace,
    components,
    components_of,
    cut_vertices,
    cut_vertices_of,
    held_by,
    held_by_of,
    is_complete,
    is_complete_of,
    is_connected,
    is_connected_of,
    near_misses,
    overlap_graph,
)
from intarsia.core.randomness import draw_seed, stream


def test_union_keeps_the_order_of_first_appearance():
    space = FeatureSpace.union([["b", "a"], ["c", "a"]])
    assert space.names == ("b", "a", "c")
    assert space.index(["c", "b"]).tolist() == [2, 0]
    assert space.mask(["a"]).tolist() == [False, True, False]
    assert "a" in space
    assert "z" not in space
    assert len(space) == 3


def test_a_chain_is_connected_but_not_complete():
    masks = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=bool)
    graph = overlap_graph(masks)
    assert is_connected(graph)
    assert not is_complete(graph)
    assert is_complete(overlap_graph(masks[:2]))


def test_components_find_who_is_apart():
    masks = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    assert components(overlap_graph(masks)).tolist() == [0, 0, 1]
    assert components(np.zeros((0, 0), dtype=bool)).tolist() == []


def test_near_misses_are_reported_once_and_never_for_equal_names():
    found = near_misses({"a": ["Age", "chol", "--"], "b": ["age ", "chol"], "c": ["age "]})
    assert found == [("Age", "a", "age ", "b")]


def test_streams_depend_on_their_address_and_on_nothing_else():
    assert stream(1, "a", 2).random() == stream(1, "a", 2).random()
    assert (
        len({stream(s, *address).random() for s in (0, 1) for address in [("a",), ("a", 1), ("a", "1"), ("a1",)]}) == 8
    )
    assert 0 <= draw_seed(stream(0)) < 2**31


@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.booleans(), min_size=n * n, max_size=n * n)))
def test_hangers_on_are_what_falls_off_when_a_vertex_is_taken_out(bits):
    n = int(len(bits) ** 0.5)
    graph = np.array(bits).reshape(n, n)
    graph = graph | graph.T | np.eye(n, dtype=bool) | np.eye(n, k=1, dtype=bool) & graph.any()
    graph |= graph.T
    if not is_connected(graph):
        return
    expected = []
    for vertex in range(n):
        rest = [k for k in range(n) if k != vertex]
        piece = components(graph[np.ix_(rest, rest)]) if rest else np.zeros(0, dtype=int)
        if piece.max(initial=0) > 0:
            expected += [(vertex, [rest[k] for k in np.flatnonzero(piece == c)]) for c in range(piece.max() + 1)]
    for few in (64, 0):  # one by one, or by a walk
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("intarsia.core.features._FEW_INNER", few)
            cut = cut_vertices(graph)
        assert [(vertex, held.tolist()) for vertex in cut for held in held_by(graph, vertex)] == expected


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_components_of_masks_are_those_of_their_graph(n, d, seed):
    rng = np.random.default_rng(seed)
    masks = rng.random((n, d)) < rng.choice([0.1, 0.3, 0.5])
    graph = overlap_graph(masks) | np.eye(n, dtype=bool)
    assert components_of(masks).tolist() == components(graph).tolist()
    assert is_connected_of(masks) == is_connected(graph)
    assert is_complete_of(masks) == is_complete(graph)
    if is_connected(graph):
        cut = cut_vertices_of(masks)
        assert cut == cut_vertices(graph)
        for vertex in cut:
            pairs = zip(held_by_of(masks, vertex), held_by(graph, vertex), strict=True)
            assert all(ours.tolist() == theirs.tolist() for ours, theirs in pairs)
    _, theirs = connected_components(graph, directed=False)
    assert components(graph).tolist() == theirs.tolist()
