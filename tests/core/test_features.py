from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from intarsia.core.features import (
    FeatureSpace,
    components,
    components_without,
    cut_vertices,
    is_complete,
    is_connected,
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
    assert is_connected(masks)
    assert not is_complete(masks)
    assert is_complete(masks[:2])


def test_components_find_who_is_apart():
    masks = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    assert components(masks).tolist() == [0, 0, 1]
    assert components(np.zeros((0, 3), dtype=bool)).tolist() == []


def test_near_misses_are_reported_once_and_never_for_equal_names():
    found = near_misses({"a": ["Age", "chol", "--"], "b": ["age ", "chol"], "c": ["age "]})
    assert found == [("Age", "a", "age ", "b")]


def test_streams_depend_on_their_address_and_on_nothing_else():
    assert stream(1, "a", 2).random() == stream(1, "a", 2).random()
    assert (
        len({stream(s, *address).random() for s in (0, 1) for address in [("a",), ("a", 1), ("a", "1"), ("a1",)]}) == 8
    )
    assert 0 <= draw_seed(stream(0)) < 2**31


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_properties_by_masks_are_those_of_the_overlap_graph(n, d, seed):
    rng = np.random.default_rng(seed)
    masks = rng.random((n, d)) < rng.choice([0.1, 0.3, 0.5])
    graph = overlap_graph(masks) | np.eye(n, dtype=bool)
    n_components, label = connected_components(graph, directed=False)
    assert components(masks).tolist() == label.tolist()
    assert is_connected(masks) == (n_components == 1)
    assert is_complete(masks) == (graph.all() and (n == 1 or masks.any(axis=1).all()))
    if n_components > 1:
        return
    cuts = []
    for vertex in range(n):
        rest = np.array([k for k in range(n) if k != vertex], dtype=int)
        n_left, label = connected_components(graph[np.ix_(rest, rest)], directed=False) if n > 1 else (0, np.zeros(0))
        parts = [rest[label == k].tolist() for k in range(n_left)]
        assert [members.tolist() for members in components_without(masks, vertex)] == parts
        cuts += [vertex] * (n_left > 1)
    assert cut_vertices(masks) == cuts
