from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.densities.base import fit_densities
from intarsia.core.densities.dirichlet import Dirichlet, DirichletFamily
from intarsia.exceptions import DensityError
from tests.core.densities.fitting import clustered, fit

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("alpha", [[1.0, 2.0, 5.0], [0.3, 0.3, 0.3, 4.0], [50.0, 100.0, 20.0, 10.0, 7.0]])
@pytest.mark.parametrize("total", [1.0, 100.0])
def test_dirichlet_is_recovered(alpha, total):
    rows = Dirichlet(np.array(alpha), total).sample(np.random.default_rng(7), 5000)
    density = fit(rows, "dirichlet")
    np.testing.assert_allclose(density.alpha, alpha, rtol=0.1)
    assert density.total == pytest.approx(total)
    np.testing.assert_allclose(density.mean, rows.mean(axis=0), rtol=0.05)


def test_dirichlet_moments_by_hand():
    # α = (1, 2, 1), total 8: means 2, 4, 2; variances 64 · m(1 − m)/5
    density = Dirichlet(np.array([1.0, 2.0, 1.0]), 8.0)
    np.testing.assert_allclose(density.mean, [2, 4, 2])
    np.testing.assert_allclose(density.variances, [64 * 3 / 16 / 5, 64 / 4 / 5, 64 * 3 / 16 / 5])
    scaled = density.in_units(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(scaled.mean, [0, 1, 0])
    np.testing.assert_allclose(scaled.variances[1:], [0.8, 64 * 3 / 16 / 5 / 16])
    np.testing.assert_allclose(density.sample(np.random.default_rng(0), 5).sum(axis=1), 8)


@given(SEEDS, st.integers(1, 20), st.integers(1, 6), st.floats(0, 0.9))
def test_dirichlet_takes_zeros_and_few_rows(seed, n, d, empty):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, d)) * (rng.random((n, d)) > empty)
    rows[np.arange(n), rng.integers(d, size=n)] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    density = fit(rows, "dirichlet")
    assert np.isfinite(density.alpha).all()
    assert ((density.alpha > 0) == (rows > 0).any(axis=0)).all()
    points = density.sample(rng, 20)
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    assert (points[:, density.alpha == 0] == 0).all()


def test_equal_compositions_end_in_a_narrow_density():
    density = fit(np.tile([20.0, 30.0, 50.0], (8, 1)), "dirichlet")
    np.testing.assert_allclose(density.mean, [20, 30, 50])
    assert (np.sqrt(density.variances) < 0.06).all()


def test_rounded_percentages_are_a_composition():
    rows = np.round(Dirichlet(np.array([8.0, 9.0, 10.0]), 100.0).sample(np.random.default_rng(8), 400))
    assert (rows.sum(axis=1) != 100).any()
    assert fit(rows, "dirichlet").total == 100.0


def test_what_is_no_composition_is_told_by_counts():
    rows = Dirichlet(np.ones(3)).sample(np.random.default_rng(9), 20)
    bad = rows.copy()
    bad[:4, 1] = -0.777
    with pytest.raises(DensityError, match=r"a few of 20 rows have a value below 0 \(in 1 of 3 columns: '1'\)") as told:
        fit(bad, "dirichlet")
    assert "777" not in str(told.value)
    bad = rows.copy()
    bad[5] *= 3
    with pytest.raises(DensityError, match="a few of 20 rows do not add up.*Hint: use density='gaussian'"):
        fit(bad, "dirichlet")
    bad[5, 2] = np.nan
    with pytest.raises(DensityError, match="a few of 20 rows have a missing value .*'2'"):
        fit(bad, "dirichlet")
    with pytest.raises(DensityError, match="20 of 20 rows"):
        fit(np.zeros((20, 3)), "dirichlet")


def test_categories_are_refused_by_name():
    with pytest.raises(DensityError, match=r"'dirichlet' does not support categories, and 1 column\(s\) .*'sex'"):
        fit(np.full((4, 2), 0.5), "dirichlet", categories={"sex": np.array([1])})


def test_the_total_is_a_median_however_many_totals_are_held_in_memory():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([3.0, 2.0, 1.0], size=999) * 100 * rng.uniform(0.995, 1.005, size=(999, 1))
    clusters = clustered(rows, np.ones(rows.shape, dtype=bool), np.arange(999) % 2)
    for k, density in enumerate(fit_densities(clusters, "dirichlet")):
        assert density.total == np.median(rows[np.arange(999) % 2 == k].sum(axis=1))
    for density in DirichletFamily(n_totals=10).fit(clusters, "dirichlet"):
        assert density.total == pytest.approx(100, rel=0.01)
