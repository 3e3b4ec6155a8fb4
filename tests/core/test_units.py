"""Common units: pooled exactly where they can be, closely where not, and never by the unit somebody happens to use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.units import QUANTILES, choose_units, pool, statistics_of, units_differ


def pooled_units(parts, way, inside=None):
    d = parts[0].shape[1]
    observed = [~np.isnan(part) for part in parts]
    statistics = [
        (np.arange(d), statistics_of(part, seen, way or "standard")) for part, seen in zip(parts, observed, strict=True)
    ]
    return choose_units(pool(statistics, d), way, np.zeros(d, dtype=bool) if inside is None else inside)


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 4))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        rows = rng.normal(draw(st.sampled_from([0.0, 5.0, -1e6])), 10.0 ** draw(st.integers(-3, 3)), size=(40, d))
        rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
        rows[0] = 1.0
        parts.append(rows)
    return parts


@given(parts=tables())
def test_standard_and_minmax_are_those_of_the_pooled_table(parts):
    together = np.concatenate(parts)
    standard, minmax = pooled_units(parts, "standard"), pooled_units(parts, "minmax")
    np.testing.assert_allclose(standard.shift, np.nanmean(together, axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(standard.scale, np.nanstd(together, axis=0), rtol=1e-7)
    np.testing.assert_allclose(minmax.shift, np.nanmin(together, axis=0))
    np.testing.assert_allclose(minmax.scale, np.nanmax(together, axis=0) - np.nanmin(together, axis=0))


def test_quantiles_of_one_are_its_own_and_of_many_close_to_the_pooled_ones():
    rng = np.random.default_rng(0)
    parts = [rng.gamma(2.0, 3.0, size=(400, 2)) + shift for shift in (0.0, 1.0, 8.0)]
    alone = pooled_units(parts[:1], "robust")
    first, middle, third = np.quantile(parts[0], [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(alone.shift, middle)
    np.testing.assert_allclose(alone.scale, third - first)
    together = pooled_units(parts, "robust")
    first, middle, third = np.quantile(np.concatenate(parts), [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(together.shift, middle, rtol=0.02)
    np.testing.assert_allclose(together.scale, third - first, rtol=0.03)


def test_robust_units_do_not_follow_outliers_and_survive_columns_that_are_mostly_one_value():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(100, 2))
    spoilt = rows.copy()
    spoilt[:5, 0] = 1e9
    spoilt[:, 1] = np.where(np.arange(100) < 3, 7.0, 0.0)
    units = pooled_units([spoilt], "robust")
    assert units.scale[0] < 2.0
    assert units.scale[1] == pytest.approx(1.3489795 * spoilt[:, 1].std())


@pytest.mark.parametrize("way", ["standard", "minmax", "robust"])
@given(parts=tables(), factor=st.sampled_from([1e-4, 3.0, 2.0**30]))
def test_units_move_with_the_unit_of_a_column(way, parts, factor):
    before, after = pooled_units(parts, way), pooled_units([part * factor for part in parts], way)
    np.testing.assert_allclose(after.shift, before.shift * factor, rtol=1e-7, atol=1e-7 * factor)
    varies = np.nanstd(np.concatenate(parts), axis=0) > 0
    np.testing.assert_allclose(after.scale[varies], before.scale[varies] * factor, rtol=1e-6)


def test_indicators_are_one_unit_apart_when_they_disagree():
    rows = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 9.0]])
    for way in ("standard", "minmax", "robust", "auto", None):
        units = pooled_units([rows], way, np.array([True, True, False]))
        yes, no = (rows - units.shift) / units.scale
        assert np.linalg.norm((yes - no)[:2]) == pytest.approx(1.0)


def test_units_that_differ_are_noticed_and_pixels_at_the_rim_are_not():
    rng = np.random.default_rng(0)
    same, inside = rng.normal(size=(50, 9)) * rng.uniform(0.001, 3.0, size=9), np.zeros(9, dtype=bool)
    statistics = pool([(np.arange(9), statistics_of(same, np.ones(same.shape, dtype=bool), "auto"))], 9)
    assert not units_differ(statistics, inside)
    same[:, 4] *= 1000
    statistics = pool([(np.arange(9), statistics_of(same, np.ones(same.shape, dtype=bool), "auto"))], 9)
    assert units_differ(statistics, inside)
    assert choose_units(statistics, "auto", inside).way == "standard"
    assert units_differ(statistics, np.arange(9) == 0)  # categories beside numbers
    assert not units_differ(statistics, np.ones(9, dtype=bool))  # nothing but categories
    assert len(QUANTILES) == 19


def test_quantiles_jump_where_the_cells_are_equal():
    codes = (np.arange(100) % 100 < 29).astype(float)[:, None]
    assert pooled_units([codes, codes], "robust").scale[0] == pooled_units([codes], "robust").scale[0] == 1.0
    apart = pooled_units([np.zeros((50, 1)), np.full((50, 1), 10.0)], "robust")
    assert apart.scale[0] == pytest.approx(10.0)
