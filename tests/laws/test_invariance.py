"""What must not matter does not: order of participants, rows and columns, constants, common factors, hidden entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import intarsia

pytestmark = pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
METHODS = ["federated", "one_shot"]
LAYOUTS = {
    "chain": [["f0", "f1", "f2"], ["f2", "f3", "f4"], ["f4", "f5", "f6"]],
    "core": [["f0", "f1", "f2"], ["f0", "f3", "f4"], ["f0", "f5", "f6"]],
    "complete": [[f"f{k}" for k in range(7)]] * 3,
}


@st.composite
def studies(draw, gap=6.0):
    """Three participants with clusters that are there to be found, so that a row's label does not hang by a thread."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(2, 3))
    centres = np.array([rng.permutation(k) for _ in range(7)]).T * gap
    tables, truths = {}, {}
    for name, columns in zip("abc", LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))], strict=True):
        truth = rng.integers(k, size=40)
        X = centres[truth] + rng.normal(size=(40, 7))
        tables[name], truths[name] = pd.DataFrame(X, columns=[f"f{j}" for j in range(7)])[columns], truth
    return Study(tables, k, truths)


class Study(NamedTuple):
    tables: dict
    k: int
    truths: dict


def run(tables, k, method, **settings):
    return intarsia.cluster(tables, k, method=method, random_state=0, n_starts=5, **settings)


def assert_same(left, right, tables):
    for name in tables:
        np.testing.assert_array_equal(left.labels[name], right.labels[name])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(case=studies(), seed=st.integers(0, 1000))
def test_the_order_of_participants_and_columns_does_not_matter_to_the_last_bit(method, case, seed):
    tables, k, _ = case
    rng = np.random.default_rng(seed)
    shuffled = {name: tables[name][rng.permutation(tables[name].columns)] for name in rng.permutation(list(tables))}
    before, after = run(tables, k, method), run(shuffled, k, method)
    assert_same(before, after, tables)
    order = [after.feature_names.index(name) for name in before.feature_names]
    np.testing.assert_array_equal(before.centroids, after.centroids[:, order])
    assert before.confidence == after.confidence


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gap", [6.0, 0.0], ids=["clear", "no structure at all"])
@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_permuting_rows_permutes_labels_and_nothing_else(method, gap, data, seed):
    tables, k, _ = data.draw(studies(gap=gap))
    rng = np.random.default_rng(seed)
    orders = {name: rng.permutation(len(table)) for name, table in tables.items()}
    before = run(tables, k, method)
    after = run({name: table.iloc[orders[name]] for name, table in tables.items()}, k, method)
    for name in tables:
        np.testing.assert_array_equal(before.labels[name][orders[name]], after.labels[name])
    np.testing.assert_array_equal(before.centroids, after.centroids)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(case=studies(), constant=st.sampled_from([-1e4, 0.5, 777.0]), feature=st.sampled_from(["f0", "f2", "f4"]))
def test_adding_a_constant_to_a_feature_for_everyone_changes_no_label(method, case, constant, feature):
    tables, k, _ = case
    moved = {n: t.assign(**{feature: t[feature] + constant}) if feature in t else t for n, t in tables.items()}
    before, after = run(tables, k, method), run(moved, k, method)
    assert_same(before, after, tables)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(case=studies(), factor=st.sampled_from([2.0**-20, 0.25, 3.0, 1e6]))
def test_scaling_everything_by_one_factor_changes_no_label(method, case, factor):
    tables, k, _ = case
    before, after = run(tables, k, method), run({n: t * factor for n, t in tables.items()}, k, method)
    assert_same(before, after, tables)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15)
@given(case=studies(), factors=st.lists(st.sampled_from([1e-4, 0.5, 8.0, 1e5]), min_size=7, max_size=7))
def test_with_standard_units_any_factor_for_any_feature_changes_no_label(method, case, factors):
    tables, k, _ = case
    by = {f"f{j}": factor for j, factor in enumerate(factors)}
    other = {n: t.mul(pd.Series(by)[t.columns], axis=1) for n, t in tables.items()}
    assert_same(run(tables, k, method, scale="standard"), run(other, k, method, scale="standard"), tables)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(case=studies())
def test_a_column_that_is_constant_everywhere_changes_no_label(method, case):
    tables, k, _ = case
    more = {n: t.assign(same=4.0) for n, t in tables.items()}
    before, after = run(tables, k, method), run(more, k, method)
    assert_same(before, after, tables)
    assert (after.centroids[:, after.feature_names.index("same")] == 4.0).all()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(case=studies())
def test_clear_clusters_are_labelled_as_if_pooled(method, case):
    """The promise itself: rows of one cluster have one label, whoever holds them, whatever they see."""
    tables, k, truths = case
    result = run(tables, k, method)
    truth, labels = (np.concatenate([part[name] for name in tables]) for part in (truths, result.labels))
    assert adjusted_rand_score(truth, labels) > 0.97
