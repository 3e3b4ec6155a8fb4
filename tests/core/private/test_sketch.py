from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.core.private.sketch import Noisy, draw_sketch
from intarsia.core.private.synthetic import synthetic_rows
from tests.core.private.questions import rows_of


def asking(values, noise=0.0, seed=0, log=None):
    """Answers with Gaussian noise of ``noise`` norms for the whole budget."""
    rows, rng = rows_of(values), np.random.default_rng(seed)

    def ask(question, share):
        deviation = noise * question.norm / np.sqrt(share)
        if log is not None:
            log.append((question.words, share))
        return Noisy(question.sums(rows) + np.rint(rng.normal(size=question.size) * deviation), deviation)

    return ask


def clouds(seed, n, d, k, apart=1.0, within=0.2):
    rng = np.random.default_rng(seed)
    centres, labels = rng.uniform(-apart, apart, size=(k, d)), rng.integers(k, size=n)
    return centres[labels] + within * rng.normal(size=(n, d)), centres


@pytest.mark.parametrize("few_passes", [False, True])
def test_without_noise_synthetic_rows_have_the_moments_of_the_table(few_passes):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 4)) @ (rng.normal(size=(4, 4)) * 0.2) + [0.3, 0.0, -0.4, 0.1]
    drawn = draw_sketch(4, 3, asking(values), few_passes=few_passes)
    rows = synthetic_rows(drawn, 20_000, rng)
    assert drawn.n_rows == pytest.approx(20_000)
    np.testing.assert_allclose(rows.mean(axis=0), values.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(np.cov(rows.T), np.cov(values.T), atol=0.03)


@pytest.mark.parametrize("few_passes", [False, True])
@pytest.mark.parametrize(("k", "asked"), [(2, 2), (3, 3), (4, None)])
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_clear_clusters_are_found(few_passes, k, asked, noise):
    values, centres = clouds(2, 6_000, 6, k)
    drawn = draw_sketch(6, asked, asking(values, noise), few_passes=few_passes)
    apart = np.linalg.norm(drawn.centroids[:, None] - centres, axis=2)
    near = apart.min(axis=1) < 0.3
    assert set(apart.argmin(axis=1)[near]) == set(range(k))
    assert drawn.weights[near].sum() > 0.9


def test_questions_and_shares_are_fixed_before_any_data_is_seen():
    logs = []
    for values in (np.zeros((0, 3)), np.full((9, 3), np.nan), clouds(1, 500, 3, 3)[0]):
        for few in (False, True):
            logs.append((few, log := []))
            draw_sketch(3, 3, asking(values, 1.0, log=log), few_passes=few)
    for few in (False, True):
        assert len({tuple(log) for each, log in logs if each == few}) == 1
    assert [len(log) for _, log in logs[:2]] == [5, 3]
    assert all(sum(share for _, share in log) == pytest.approx(1.0) for _, log in logs)


@given(
    n=st.sampled_from([0, 1, 5, 60]),
    d=st.integers(1, 12),
    k=st.none() | st.integers(1, 9),
    noise=st.sampled_from([0.0, 0.1, 5.0, 1e3, 1e6]),
    kind=st.sampled_from(["constant", "missing", "normal", "extreme"]),
    few=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=60)
def test_any_table_and_any_noise_give_a_sketch(n, d, k, noise, kind, few, seed):
    rng = np.random.default_rng(seed)
    values = {
        "constant": np.full((n, d), 1.7),
        "missing": np.full((n, d), np.nan),
        "normal": rng.normal(size=(n, d)),
        "extreme": rng.choice([-1e9, 1e9], size=(n, d)),
    }[kind]
    drawn = draw_sketch(d, k, asking(values.reshape(n, d), noise, seed), few_passes=few)
    rows = synthetic_rows(drawn, 30, rng)
    assert rows.shape == (30, d)
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() <= 2
    assert drawn.weights.sum() == pytest.approx(1.0)
    assert drawn.n_rows > 0
    assert 0 < drawn.radius < np.inf


def test_many_features_give_a_sketch_whose_covariance_is_not_noise():
    rng = np.random.default_rng(0)
    values = 0.5 * rng.normal(size=(2_000, 200))
    drawn = draw_sketch(200, 3, asking(values, 5.0))
    assert np.linalg.eigvalsh(drawn.covariance).max() < 4 * 0.25
