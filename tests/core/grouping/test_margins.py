from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.margins import margins
from intarsia.core.grouping.objective import CentroidObjective, ForceObjective


def test_margins_tell_the_clear_from_the_doubtful():
    values = np.array([[0.0], [10.0], [0.0], [10.0], [5.01]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((5, 1))), np.array([0, 0, 1, 1, 2]))
    margin = margins(CentroidObjective(local, 2), np.array([0, 1, 0, 1, 1]))
    assert margin[0] == 1.0
    assert margin[4] < 0.02


def test_a_cluster_that_only_one_participant_has_is_not_doubtful():
    values = np.array([[0.0], [10.0], [20.0], [0.1]])
    local = LocalCentroids(MaskedCentroids.of(values, np.ones((4, 1))), np.array([0, 0, 0, 1]))
    groups = np.array([0, 1, 2, 0])
    assert (margins(CentroidObjective(local, 3), groups) > 0.9).all()
    forces = 1.0 / (np.abs(values - values.T) + 0.1)
    assert (margins(ForceObjective(forces, local.owner, 3), groups) > 0.9).all()
