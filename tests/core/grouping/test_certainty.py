from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.certainty import margins, neighbours, turned_blocks
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.objective import CentroidObjective, ForceObjective, members_of_each
from intarsia.core.grouping.search import search_centroids
from tests.core.grouping.cases import masks_of, options


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


def test_everything_behind_a_weak_link_is_turned_as_one():
    # a and b agree on x, d and e on z; c links them by clusters that hardly differ in either
    values = np.zeros((10, 3))
    values[:, 0] = [0, 9, 0, 9, 4.4, 4.6, 0, 0, 0, 0]
    values[:, 2] = [0, 0, 0, 0, 4.6, 4.4, 0, 9, 0, 9]
    seen = np.repeat([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], 2, axis=0).astype(float)
    seen[:, 1] = 0
    local = LocalCentroids(MaskedCentroids.of(values, seen), np.repeat(np.arange(5), 2))
    best = np.array([0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
    other = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    objective = CentroidObjective(local, 2)
    assert objective.loss(best) < objective.loss(other)
    assert not any((renumber(g) == other).all() for g in neighbours(objective, best, members_of_each(local.owner)))
    assert any((renumber(g) == other).all() for g in turned_blocks(objective, best, masks_of(local)))
    found = search_centroids(local, 2, options(local, 5))
    assert (found.groups == best).all()
    assert any((g == other).all() for g in found.rivals)
    assert found.confidence < 0.1
