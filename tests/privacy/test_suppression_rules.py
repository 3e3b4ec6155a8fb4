"""What the rules of :class:`Suppression` decide, from counts alone."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.exceptions import TooFewRowsError
from intarsia.privacy.policy import ReleasePolicy
from intarsia.privacy.suppression import Suppression

EXTENT = Extent(np.array([0.0]), np.array([10.0]))


def settle(small, sizes):
    rules = Suppression(ReleasePolicy(min_cluster_size=5, small=small))
    sizes = np.array(sizes)
    centroids = MaskedCentroids.of(np.arange(float(len(sizes)))[:, None], sizes[:, None].astype(float))
    return rules.settle(sizes, EXTENT, lambda: centroids).tolist(), rules


def test_rare_levels_and_sparse_columns_are_suppressed_and_counted():
    rules = Suppression(ReleasePolicy(min_cluster_size=5))
    assert rules.kept_levels({"c": {"u": 9, "v": 4}, "d": {"w": 5}}) == {"c": {"u"}, "d": {"w"}}
    assert rules.sparse_columns("a", {"x": 4, "y": 5}) == {"x"}
    rules.start_request()
    assert rules.counts == {"levels": 1, "columns": 1}
    with pytest.raises(TooFewRowsError, match="every column of 'a' has fewer than 5 observed values: 'x'"):
        rules.sparse_columns("a", {"x": 4})
    with pytest.raises(TooFewRowsError, match="'a' has fewer than the 5 rows"):
        rules.check_rows("a", 4)


def test_small_clusters_are_merged_into_the_nearest():
    assert settle("merge", [9, 2, 7])[0] == [0, 0, 1]
    assert settle("merge", [9, 6, 7])[0] == [0, 1, 2]
    assert settle("merge", [9, 2, 7])[1].counts["clusters"] == 1


def test_small_clusters_are_withheld():
    assert settle("withhold", [9, 2, 7])[0] == [0, -1, 1]
    assert settle("withhold", [9, 6, 7])[0] == [0, 1, 2]


def test_clusters_that_are_all_small_are_refused():
    for small in ("merge", "withhold"):
        with pytest.raises(TooFewRowsError, match="all 2 local clusters have fewer than the 5 rows"):
            settle(small, [2, 2])
    assert settle("merge", [])[0] == []
