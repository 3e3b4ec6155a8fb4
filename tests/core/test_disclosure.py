"""Small clusters join the nearest."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.disclosure import merged_small
from intarsia.core.distances import Extent


def test_the_smallest_cluster_joins_the_nearest_until_all_are_large_enough():
    centroids = MaskedCentroids.of(np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([[9.0], [2.0], [3.0], [1.0]]))
    extent = Extent(np.array([0.0]), np.array([10.0]))
    assert merged_small(centroids, np.array([9, 2, 3, 1]), extent, 4).tolist() == [0, 0, 2, 2]
    assert merged_small(centroids, np.array([9, 2, 3, 1]), extent, 16).tolist() == [-1] * 4
