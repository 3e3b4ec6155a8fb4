from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from intarsia.core.grouping.agglomeration import agglomerate
from intarsia.core.grouping.silhouettes import (
    silhouettes_of_complete_rows,
    silhouettes_of_cuts,
    silhouettes_of_rows,
)
from tests.naive import silhouette


def test_silhouettes_of_rows_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 3))
    labels = rng.integers(4, size=30)
    labels[7] = 4  # a cluster of one row
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(silhouettes_of_rows(d, labels), silhouette_samples(points, labels), atol=1e-12)
    assert (silhouettes_of_rows(np.zeros((4, 4)), np.array([0, 0, 1, 1])) == 0).all()


@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_silhouettes_along_the_tree_are_those_of_every_cut(hidden):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(25, 2))
    d = np.linalg.norm(points[:, None] - points[None], axis=2) + 0.1
    incomparable = np.triu(rng.random(d.shape) < hidden, 1)
    d[incomparable | incomparable.T] = np.nan
    weights = rng.integers(1, 50, size=25).astype(float)
    tree = agglomerate(1 / d)
    slow = {k: silhouette(d, tree.cut(k), weights) for k in range(max(2, tree.fewest_groups), 26)}
    found = silhouettes_of_cuts(tree, d, weights)
    assert list(found) == [k for k in slow if not np.isnan(slow[k])]
    np.testing.assert_allclose(list(found.values()), [slow[k] for k in found])


@pytest.mark.parametrize("n", [3, 200, 450])
def test_silhouettes_without_the_matrix_of_distances_are_the_same(n):
    rng = np.random.default_rng(n)
    rows, labels = 50 + rng.normal(size=(n, 4)), rng.integers(-1, 3, size=n)
    rows[1] = rows[0]  # no distance at all
    apart = np.sqrt(np.square(rows[:, None] - rows).sum(axis=2))
    np.testing.assert_allclose(
        silhouettes_of_complete_rows(rows, labels), silhouettes_of_rows(apart, labels), atol=1e-7
    )
