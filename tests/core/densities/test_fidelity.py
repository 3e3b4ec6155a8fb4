from __future__ import annotations

import numpy as np
import pytest

from intarsia.core.densities.discrete import Discrete
from intarsia.core.densities.fidelity import fidelity
from intarsia.core.densities.gaussian import Gaussian
from tests.core.densities.fitting import fit


def _fidelity(rows, density, seed=0, **settings):
    return fidelity(rows, np.ones(rows.shape, dtype=bool), density, np.random.default_rng(seed), **settings)


def test_fidelity_is_chance_where_the_model_is_right_and_worse_where_it_is_not():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(400, 2)) * [1.0, 50.0]
    right = _fidelity(rows, fit(rows))
    assert right.wasserstein < 1.4 * right.chance
    assert np.isnan(right.total_variation)
    assert np.isnan(right.bound)
    lumps = rows * 0.05 + rng.choice([-1.0, 1.0], size=(400, 1)) * [1.0, 50.0]
    wrong = _fidelity(lumps, fit(lumps))
    assert wrong.wasserstein > 2.5 * wrong.chance


def test_fidelity_is_free_of_units():
    rows = np.random.default_rng(12).normal(size=(50, 3))
    unit = np.array([1e-3, 1.0, 1e5])
    here = _fidelity(rows, fit(rows, "gaussian_diagonal"))
    there = _fidelity(rows * unit, fit(rows * unit, "gaussian_diagonal"))
    np.testing.assert_allclose(here[:2], there[:2])


def test_wasserstein_by_hand():
    # rows 0 and 2 (deviation 1, mean 1), proxies all at 1: everybody moves by 1
    got = _fidelity(np.array([[0.0], [2.0]]), Gaussian(np.ones(1), np.zeros(1)))
    assert got.wasserstein == pytest.approx(1.0)
    assert np.isnan(got.chance)


def test_total_variation_is_within_the_bound_where_columns_are_independent():
    rng = np.random.default_rng(13)
    rows = rng.integers(2, size=(2000, 3)).astype(float)
    right = _fidelity(rows, fit(rows, "discrete"), n_proxies=1000)
    b, n, m = 8, 2000, 1000
    assert right.bound == pytest.approx(np.sqrt(b / n) / 2 + np.sqrt((b - 1) / n) + np.sqrt(b / m) / 2)
    assert right.total_variation < right.bound < 0.2
    equal = np.repeat(
        rows[:, :1], 3, axis=1
    )  # dependent: rows are 000 or 111, six of eight kinds of proxies are neither
    assert _fidelity(equal, fit(equal, "discrete"), n_proxies=1000).total_variation == pytest.approx(0.75, abs=0.05)


def test_fidelity_uses_complete_rows_and_says_nothing_without_two():
    rows = np.array([[1.0, np.nan], [2.0, 3.0], [0.0, np.nan]])
    density = fit(rows)
    assert np.isnan(fidelity(rows, ~np.isnan(rows), density, np.random.default_rng(0))).all()
    rows[2, 1] = 5.0
    got = fidelity(rows, ~np.isnan(rows), density, np.random.default_rng(0))
    assert np.isfinite(got.wasserstein)
    assert np.isnan(got.chance)


def test_fidelity_of_constant_rows():
    rows = np.full((6, 2), 3.0)
    assert _fidelity(rows, fit(rows))[:2] == (0.0, 0.0)
    discrete = _fidelity(rows, fit(rows, "discrete"))
    assert discrete.total_variation == 0.0
    assert isinstance(fit(rows, "discrete"), Discrete)


def test_fidelity_leaves_out_what_is_constant_but_for_rounding():
    rows = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    close = fidelity(rows, np.ones(rows.shape, dtype=bool), fit(rows, "gaussian_diagonal"), np.random.default_rng(0))
    assert close.wasserstein < 3.0
