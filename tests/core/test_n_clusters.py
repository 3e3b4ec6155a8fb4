from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from intarsia.core.densities import Gaussian
from intarsia.core.force import gaussian_extent
from intarsia.core.n_clusters import expected_distances, silhouette


def test_expected_distance_worked_by_hand():
    # one feature, extent 10; means 0 and 6, variances 1 and 3: E d² = (36 + 4) / 100
    extent = gaussian_extent([Gaussian(np.array([5.0]), np.array([0.0]))] * 2, np.ones((2, 1), dtype=bool), 0.0)
    extent = extent._replace(low=np.array([0.0]), high=np.array([10.0]))
    densities = [Gaussian(np.array([0.0]), np.array([1.0])), Gaussian(np.array([6.0]), np.array([3.0]))]
    d = expected_distances(densities, np.ones((2, 1), dtype=bool), extent)
    np.testing.assert_allclose(d, np.sqrt([[0.02, 0.4], [0.4, 0.06]]))


def test_on_points_it_is_the_silhouette_of_scikit_learn_with_the_own_point_counted():
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 6])
    labels = np.repeat([0, 1], 20)
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    # a point is at distance 0 from itself; scikit-learn leaves it out of the mean, we count it: 20/19 of a difference
    assert silhouette(d, labels) == pytest.approx(silhouette_score(points, labels), abs=0.02)


def test_incomparable_pairs_are_ignored_and_nothing_to_compare_is_nan():
    nan = np.nan
    d = np.array([[0.1, 0.9, nan], [0.9, 0.1, 0.1], [nan, 0.1, 0.1]])
    assert silhouette(d, np.array([0, 1, 1])) == pytest.approx(np.mean([8 / 9, 8 / 9]))
    assert np.isnan(silhouette(np.array([[0.1, nan], [nan, 0.1]]), np.array([0, 1])))


def test_the_planted_number_has_the_highest_silhouette():
    means = np.array([0.0, 0.1, 5.0, 5.1, 10.0, 10.1])[:, None]
    densities = [Gaussian(m, np.array([0.05])) for m in means]
    seen = np.ones((6, 1), dtype=bool)
    d = expected_distances(densities, seen, gaussian_extent(densities, seen, 2.0))
    scores = {2: [0, 0, 0, 0, 1, 1], 3: [0, 0, 1, 1, 2, 2], 4: [0, 0, 1, 1, 2, 3], 6: [0, 1, 2, 3, 4, 5]}
    assert max(scores, key=lambda k: silhouette(d, np.array(scores[k]))) == 3
