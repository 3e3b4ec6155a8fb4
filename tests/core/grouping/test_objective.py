from __future__ import annotations

import numpy as np

from intarsia.core.grouping.objective import ForceObjective


def test_force_loss_counts_each_pair_inside_once_and_incomparable_pairs_not_at_all():
    nan = np.nan
    forces = np.array([[nan, 2.0, 5.0], [2.0, nan, nan], [5.0, nan, nan]])
    problem = ForceObjective(forces, np.array([0, 1, 2]), 1)
    assert problem.loss(np.array([0, 0, 0])) == -7.0
