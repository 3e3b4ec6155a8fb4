from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from intarsia.core.kmeans_path import FewRows, agreement, back, lloyd, path


def rows_of(n=300, d=4, k=6, seed=0):
    rng = np.random.default_rng(seed)
    centres = 6 * rng.normal(size=(k, d))
    return centres[np.arange(n) % k] + rng.normal(size=(n, d))


def steps(values, observed=None, most=8):
    few = FewRows(values, np.ones(values.shape, dtype=bool) if observed is None else observed)
    return few, list(path(few, most, np.arange(len(values))))


@pytest.mark.parametrize("seed", range(5))
def test_the_path_is_about_as_good_as_ten_restarts(seed):
    values = rows_of(seed=seed)
    few, found = steps(values)
    for k, step in enumerate(back(few, found), 1):
        best = KMeans(k, n_init=10, random_state=0).fit(values).inertia_
        assert len(step.centres) == k
        assert step.squares <= 1.1 * best


def test_it_is_the_same_each_time_and_for_rows_elsewhere():
    values = rows_of()
    for step, again in zip(steps(values)[1], steps(values + 1e6)[1], strict=True):
        np.testing.assert_array_equal(step.labels, again.labels)


def test_missing_values_are_left_out_of_squares_and_means():
    values = rows_of(n=60, k=2)
    observed = np.random.default_rng(1).random(values.shape) < 0.8
    few, found = steps(np.where(observed, values, 999.0), observed, most=2)
    centres = found[1].centres + few.mean
    for k in range(2):
        at = found[1].labels == k
        expected = [values[at & observed[:, m], m].mean() for m in range(values.shape[1])]
        np.testing.assert_allclose(lloyd(few, found[1].centres, 1).centres[k] + few.mean, expected)
    apart = (np.where(observed[:, None], values[:, None] - centres, 0.0) ** 2).sum(axis=2)
    np.testing.assert_allclose(few.squares_to(found[1].centres), apart, atol=1e-9)


def test_agreement_is_the_adjusted_rand_index():
    rng = np.random.default_rng(0)
    first, second = rng.integers(4, size=50), rng.integers(3, size=50)
    assert agreement(first, second) == pytest.approx(adjusted_rand_score(first, second))
    assert agreement(np.zeros(5, dtype=int), np.zeros(5, dtype=int)) == 1.0
