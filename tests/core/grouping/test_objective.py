from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.grouping.objective import CentroidObjective, ForceObjective, MovesByProducts, MovesBySums
from tests.strategies import local_centroids


def test_force_loss_counts_each_pair_inside_once_and_incomparable_pairs_not_at_all():
    nan = np.nan
    forces = np.array([[nan, 2.0, 5.0], [2.0, nan, nan], [5.0, nan, nan]])
    problem = ForceObjective(forces, np.array([0, 1, 2]), 1)
    assert problem.loss(np.array([0, 0, 0])) == -7.0


@pytest.mark.parametrize("kind", [MovesBySums, MovesByProducts])
@given(local_centroids(), st.integers(0, 2**32 - 1))
def test_sums_that_are_kept_cost_what_sums_from_scratch_do(kind, case, seed):
    local, k = case
    rng = np.random.default_rng(seed)
    objective = CentroidObjective(local, k)
    groups = rng.integers(-1, k, size=len(local))
    moves = kind(objective, groups)
    for i in rng.permutation(np.unique(local.owner)):
        members = np.flatnonzero(local.owner == i)
        moves.take_out(members)
        np.testing.assert_allclose(moves.costs(members), objective.costs(members, moves.groups), rtol=1e-6, atol=1e-9)
        moves.put(members, rng.integers(k, size=len(members)))
    some = np.flatnonzero(rng.random(len(local)) < 0.5)
    moves.take_out(some)
    np.testing.assert_allclose(moves.costs(some), objective.costs(some, moves.groups), rtol=1e-6, atol=1e-9)
    moves.put(some, rng.integers(k, size=len(some)))
    assert moves.loss() == pytest.approx(objective.loss(moves.groups), rel=1e-6, abs=1e-9)
