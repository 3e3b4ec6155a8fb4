from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.core.densities.discrete import Discrete, DiscreteFamily
from intarsia.exceptions import DensityError
from tests.core.densities.fitting import fit

SEEDS = st.integers(0, 2**32 - 1)


def test_discrete_by_hand():
    # a code 1, 1, 4, 4 and a group whose rows are level a, level b, none, none
    rows = np.array([[1.0, 1, 0], [1, 0, 1], [4, 0, 0], [4, 0, 0]])
    density = fit(rows, "discrete", categories={"sex": np.array([1, 2])})
    np.testing.assert_allclose(density.mean, rows.mean(axis=0))
    np.testing.assert_allclose(density.variances, rows.var(axis=0))
    assert density.n_outcomes == 2 * 3
    points = density.sample(np.random.default_rng(10), 20000)
    assert set(points[:, 0]) == {1.0, 4.0}
    assert points[:, 1:].sum(axis=1).max() == 1
    np.testing.assert_allclose(points.mean(axis=0), [2.5, 0.25, 0.25], atol=0.03)


def test_missing_values_are_ignored():
    rows = np.array([[1.0, 1, 0], [2, np.nan, 1], [np.nan, 0, 1], [2, 0, 1]])
    density = fit(rows, "discrete", categories={"sex": np.array([1, 2])})
    np.testing.assert_allclose(density.mean, [5 / 3, 1 / 3, 2 / 3])


@given(SEEDS, st.integers(1, 40), st.integers(1, 5))
def test_discrete_keeps_the_frequencies_of_every_column(seed, n, d):
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, size=(n, d)).astype(float)
    density = fit(rows, "discrete")
    np.testing.assert_allclose(density.mean, rows.mean(axis=0))
    np.testing.assert_allclose(density.variances, rows.var(axis=0), atol=1e-12)
    points = density.sample(rng, 50)
    assert all(set(points[:, k]) <= set(rows[:, k]) for k in range(d))


def test_what_is_no_code_is_told_by_counts():
    rows = np.column_stack([np.arange(60.0) + 0.25, np.arange(60.0) % 50])
    with pytest.raises(DensityError, match="1 of 2 columns have more: '0'.*Hint: use density='gaussian'") as told:
        fit(rows, "discrete")
    assert "0.25" not in str(told.value)
    with pytest.raises(DensityError, match="'sex' is not one-hot.*48 of 50 rows"):
        fit(rows[:50], "discrete", categories={"sex": np.array([1])})


def test_categories_that_are_not_one_hot_are_refused():
    rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    both = {"sex": np.array([0, 1])}
    with pytest.raises(DensityError, match="a few of 2 rows"):
        fit(rows, "discrete", categories=both)
    with pytest.raises(DensityError, match="0 of 0 rows without missing values"):
        fit(rows, "discrete", np.eye(2, dtype=bool), categories=both)


def test_blocks_become_flat_arrays_and_blocks_again():
    rng = np.random.default_rng(0)
    levels = rng.integers(4, size=50)
    rows = np.column_stack([rng.integers(3, size=50), levels[:, None] == np.arange(3), np.full(50, 0.1)])
    density = fit(rows.astype(float), "discrete", categories={"sex": np.array([1, 2, 3])})
    family = DiscreteFamily()
    parts = family.to_parts(density)
    assert parts["widths"].tolist() == [1, 1, 3]
    assert parts["lengths"].tolist() == [3, 1, 4]
    assert family.problem(parts, 5) is None
    for one, other in zip(family.from_parts(parts, np.zeros(5)).blocks, density.blocks, strict=True):
        for part in ("columns", "outcomes", "probabilities"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    nothing = family.to_parts(Discrete(()))
    assert family.problem(nothing, 0) is None
    assert family.from_parts(nothing, np.zeros(0)).blocks == ()


def test_the_fewest_rows_are_those_with_the_rarest_outcome():
    parts = DiscreteFamily().to_parts(fit(np.array([[1.0], [2.0], [2.0], [2.0]]), "discrete"))
    assert DiscreteFamily().fewest_rows(parts, 4, 4) == 1
    assert DiscreteFamily().fewest_rows(parts, 400, 4) == 100
