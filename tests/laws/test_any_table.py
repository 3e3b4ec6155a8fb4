"""Whatever tables come in: a right answer or one of our exceptions, never a bare numpy error, a silent NaN or a hang."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import IntarsiaError, IntarsiaWarning

NAMES = ["age", "Größe", "血圧", "x y", "a=b", "🫀", "sex", "sex=m", "z", "Age"]
KINDS = [
    "normal", "whole", "constant", "huge", "tiny", "two values", "outlier", "truth", "category", "text", "empty", "id",
    "nullable",
]  # fmt: skip


def column(kind, rng, n, truth):
    """One column of a kind; where it can, it tells something about the truth."""
    if kind == "normal":
        return truth * 3.0 + rng.normal(size=n)
    if kind == "whole":
        return truth * 4 + rng.integers(-2, 3, size=n)
    if kind == "constant":
        return np.full(n, 7.5)
    if kind in {"huge", "tiny"}:
        return (truth + 0.1 * rng.normal(size=n)) * (1e90 if kind == "huge" else 1e-90)
    if kind == "two values":
        return rng.integers(2, size=n) * 1.0
    if kind == "outlier":
        return np.where(np.arange(n) == 0, 1e12, rng.normal(size=n))
    if kind == "truth":
        return (truth > 0) ^ (rng.random(n) < 0.1)
    if kind == "category":
        return pd.Categorical.from_codes(rng.integers(3, size=n), ["früh", "spät", "?"])
    if kind == "text":
        return np.where(truth > 0, "ja", "nein").astype(object)
    if kind == "empty":
        return np.full(n, np.nan)
    if kind == "id":
        return np.array([f"patient {k}" for k in rng.permutation(n)], dtype=object)
    return pd.array([None if rng.random() < 0.2 else int(t) for t in truth], dtype="Int64")


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind_of = {
        name: draw(st.sampled_from(KINDS))
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    }
    found = {}
    for who in ["a", "b", "ç"][: draw(st.integers(1, 3))]:
        n = draw(st.sampled_from([1, 2, 3, 7, 25, 40]))
        truth = rng.integers(3, size=n)
        mine = draw(st.lists(st.sampled_from(sorted(kind_of)), min_size=1, unique=True))
        frame = pd.DataFrame({name: column(kind_of[name], rng, n, truth) for name in mine})
        if draw(st.booleans()):
            frame = frame.mask(rng.random(frame.shape) < draw(st.sampled_from([0.1, 0.6])))
        found[who] = frame
    return found


SETTINGS = st.fixed_dictionaries(
    {
        "scale": st.sampled_from(["auto", None, "standard", "minmax", "robust"]),
        "missing": st.sampled_from(["observed", "observed", "error", "impute", "drop"]),
        "n_starts": st.just(3),
    }
)


OF_METHOD = {
    "federated": st.fixed_dictionaries({"model": st.sampled_from(["kmeans", "mixture"])}),
    "one_shot": st.sampled_from(
        [
            {},
            {"fidelity": True},
            {"density": "gaussian_full"},
            {"density": "gaussian_low_rank"},
            {"density": "gaussian_diagonal", "force": "sampled", "bounding_boxes": True},
            {"density": "discrete", "fidelity": True},
            {"density": "dirichlet"},
            {"aggregation": "greedy", "allow_partial": True},
        ]
    ),
}


@pytest.mark.parametrize("method", ["federated", "one_shot"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_right_answer_or_one_of_our_exceptions(method, data):
    given_tables, chosen = data.draw(tables()), data.draw(SETTINGS) | data.draw(OF_METHOD[method])
    k = data.draw(st.sampled_from(["auto", 1, 2, 2, 3, 4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", IntarsiaWarning)
        try:
            result = intarsia.cluster(given_tables, k, method=method, random_state=0, **chosen)
        except IntarsiaError as error:
            assert "patient 0" not in str(error)  # noqa: PT017  (either outcome is fine)
            return
        check(result, given_tables, "auto" if chosen.get("allow_partial") else k)
        check_afterwards(result, given_tables)


def check(result, given_tables, k):
    assert set(result.labels) == set(given_tables)
    assert k == "auto" or result.n_clusters == k
    for name, table in given_tables.items():
        labels = result.labels[name]
        assert labels.shape == (len(table),)
        assert labels.dtype.kind == "i"
        assert ((labels >= -1) & (labels < result.n_clusters)).all()
        assert result.sizes[name].sum() == (labels >= 0).sum()
    assert (np.isfinite(result.centroids) | (result.counts == 0)).all()
    assert len(set(result.feature_names)) == len(result.feature_names) == result.centroids.shape[1]


def check_afterwards(result, given_tables):
    for table in given_tables.values():
        belongs = result.predict_proba(table)
        assert np.isfinite(belongs).all()
        np.testing.assert_allclose(belongs.sum(axis=1), 1.0)
        filled = result.impute(table)
        assert all(np.isfinite(column).all() for column in filled.values.values())
    assert str(result)
    assert result.explain() is not None
    assert len(result.coverage) >= len(given_tables)
    assert len(result.to_frame()) == result.n_clusters * len(result.feature_names)
