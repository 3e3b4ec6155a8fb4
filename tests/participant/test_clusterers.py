from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import intarsia
from intarsia.core.rows import ArrayRows
from intarsia.exceptions import MissingCellsError, SettingError
from intarsia.participant.clusterers import (
    BUILT_IN,
    BuiltInKMeans,
    ScikitLearnClusterer,
    accepts_missing_values,
    clusterer_for,
)
from intarsia.participant.samples import LEFT_OUT, MissingValues, Sample


def sample(values):
    values = np.array(values, dtype=float)
    observed = ~np.isnan(values)
    return Sample(values, observed, {f"x{m}": float(observed[:, m].mean()) for m in range(values.shape[1])})


ROWS = sample([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0], [9.1, np.nan]])


def test_rows_with_missing_values_are_left_out_or_imputed():
    dropped = BuiltInKMeans(MissingValues("drop")).cluster(ROWS, 2, np.random.default_rng(0))
    assert dropped[3] == LEFT_OUT
    assert dropped[0] == dropped[1] != dropped[2]
    imputed = BuiltInKMeans(MissingValues("impute")).cluster(ROWS, 2, np.random.default_rng(0))
    assert imputed[2] == imputed[3] != imputed[0] == imputed[1]


def test_an_estimator_that_needs_complete_rows_is_refused_by_name_and_share():
    with pytest.raises(
        MissingCellsError, match=r"KMeans needs tables without missing values, but 1 of 2 .*x1 \(25.0%\)"
    ):
        ScikitLearnClusterer(KMeans(2)).cluster(ROWS, 0, np.random.default_rng(0))
    discreet = ScikitLearnClusterer(KMeans(2), MissingValues(discreet=True))
    with pytest.raises(MissingCellsError, match=r"\(columns: 'x1'\)"):
        discreet.cluster(ROWS, 0, np.random.default_rng(0))


def test_a_pipeline_that_imputes_accepts_missing_values():
    pipeline = make_pipeline(SimpleImputer(), KMeans(2, n_init=3))
    assert accepts_missing_values(pipeline)
    labels = ScikitLearnClusterer(pipeline).cluster(ROWS, 0, np.random.default_rng(0))
    assert labels[0] == labels[1] != labels[2] == labels[3]


class Halves(BuiltInKMeans):
    """A built-in clusterer from outside: the upper and the lower half of the first feature."""

    name = "halves"

    def _cluster(self, rows, n_clusters, rng, n_init):
        return (rows.values[:, 0] > np.median(rows.values[:, 0])).astype(np.intp)


def test_a_registered_clusterer_is_chosen_by_name(monkeypatch):
    monkeypatch.setitem(BUILT_IN, "halves", Halves)  # the registry is the public way to add one
    assert isinstance(clusterer_for("halves", MissingValues()), Halves)
    rng = np.random.default_rng(0)
    tables = {name: {"x": rng.normal(size=40), "y": rng.normal(size=40)} for name in "ab"}
    result = intarsia.cluster(tables, 2, local="halves", n_local_clusters=2, max_rounds=0, random_state=0)
    for name, table in tables.items():
        expected = table["x"] > np.median(table["x"])
        assert len(np.unique(result.local_labels[name][expected])) == 1
    with pytest.raises(SettingError, match="local must be .*k-means"):
        intarsia.cluster(tables, 2, local="thirds")


def refined(clusterer, values, start, max_iter):
    rows = ArrayRows(values, np.ones(values.shape, dtype=bool))
    return clusterer.refine(rows, lambda: sample(values), start, max_iter, np.random.default_rng(0))


def test_one_iteration_of_a_given_k_means_is_one_lloyd_step():
    """From 0 and 3 the row 2 belongs to the second cluster, and only after the step to the first."""
    values, start = np.array([[0.0], [2.0], [3.0], [10.0]]), np.array([[0.0], [3.0]])
    for clusterer in (BuiltInKMeans(), ScikitLearnClusterer(KMeans(2))):
        assert refined(clusterer, values, start, 1).centres.values.tolist() == [[0.0], [5.0]]
        assert refined(clusterer, values, start, 2).centres.values.tolist() == [[1.0], [6.5]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_a_given_k_means_refines_as_the_built_in_one(seed, max_iter):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, 2)) + 4.0 * rng.integers(3, size=(60, 1))
    start = values[rng.choice(60, 3, replace=False)]
    ours = refined(BuiltInKMeans(), values, start, max_iter)
    theirs = refined(ScikitLearnClusterer(KMeans(3, tol=0.0)), values, start, max_iter)
    assert theirs.labels.tolist() == ours.labels.tolist()
    np.testing.assert_allclose(theirs.centres.values, ours.centres.values, rtol=1e-12)
