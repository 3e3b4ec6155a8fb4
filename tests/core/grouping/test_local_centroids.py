from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.grouping.local_centroids import (
    by_size,
    excess_components,
    excess_components_of_centroids,
    objective,
)
from tests import naive
from tests.core.grouping.cases import line
from tests.strategies import local_centroids


def test_objective_worked_by_hand():
    # extent 10; group {0, 2} has centre 1 and two members at distance 0.1; group {10} is its own centre
    assert objective(line([0, 2, 10], [0, 1, 0]), np.array([0, 0, 1]), 2) == pytest.approx(2 * 0.1**2)


@given(local_centroids())
def test_objective_equals_the_formula(case):
    local, k = case
    groups = np.arange(len(local)) % k
    slow = naive.objective(local.centroids.values, local.centroids.counts, groups.tolist())
    assert objective(local, groups, k) == pytest.approx(slow, rel=1e-9, abs=1e-12)


@given(local_centroids(), st.integers(0, 2**32 - 1))
def test_components_are_counted_without_all_pairs(case, seed):
    local, k = case
    groups = np.random.default_rng(seed).integers(k, size=len(local))
    expected = excess_components(local.comparable, groups)
    assert excess_components_of_centroids(local, groups) == expected
    d = local.centroids.values.shape[1]
    assert (
        excess_components_of_centroids(replace(local, centroids=local.centroids.wider(d + len(local))), groups)
        == expected
    )


def test_excess_components_counts_components_that_cannot_be_compared():
    comparable = np.eye(4, dtype=bool)
    comparable[0, 1] = comparable[1, 0] = True
    assert excess_components(comparable, np.array([0, 0, 1, 1])) == 1
    assert excess_components(comparable, np.array([0, 0, 1, 2])) == 0


def test_groups_are_numbered_by_size():
    assert by_size(np.array([5, 5, 2, 7]), np.array([1.0, 1.0, 9.0, 2.0])).tolist() == [1, 1, 0, 2]
