from __future__ import annotations

import numpy as np
import pytest

import intarsia


def tables(features, seed=0, n=40):
    rng = np.random.default_rng(seed)
    result = {}
    for name, columns in features.items():
        truth = np.arange(n) % 2
        result[name] = {c: truth * 8 + rng.normal(size=n) for c in columns}
    return result


def test_a_core_satisfies_assumption_2():
    report = intarsia.cluster(tables({"a": "xy", "b": "xz", "c": "xw"}), 2, random_state=0).assumptions
    assert report.case == "2"
    assert report.complete
    assert report.explain() == ""


def test_a_chain_satisfies_items_1_and_2_of_assumption_1_only():
    report = intarsia.cluster(tables({"a": "xy", "b": "yz", "c": "zw"}), 2, random_state=0).assumptions
    assert report.case == "1"
    assert report.connected
    assert not report.complete


def test_a_cluster_that_nobody_with_some_feature_holds_gets_the_warning():
    rng = np.random.default_rng(1)
    both = np.repeat([0.0, 9.0], 20)
    a = {"x": both + rng.normal(size=40), "y": both + rng.normal(size=40)}
    b = {"x": rng.normal(size=20), "z": rng.normal(size=20)}  # holds only the first cluster
    with pytest.warns(intarsia.AssumptionWarning, match="1 of 2 clusters.*'z'.*neither Assumption 1 nor Assumption 2"):
        result = intarsia.cluster({"a": a, "b": b}, 2, n_local_clusters={"b": 1}, random_state=0)
    assert result.assumptions.case is None
    far = int(result.labels["a"][-1])
    assert np.isnan(result.centroids[far, result.feature_names.index("z")])


def test_doubtful_local_clusters_are_named():
    rng = np.random.default_rng(2)
    good = {"x": np.repeat([0.0, 10.0], 30) + rng.normal(size=60)}
    middling = {"x": 5 + rng.normal(size=30) * 0.1}
    result = intarsia.cluster({"a": good, "b": dict(good), "c": middling}, 2, n_local_clusters={"c": 1}, random_state=0)
    assert ("c", 0) in result.assumptions.doubtful
    assert ("a", 0) not in result.assumptions.doubtful


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_a_participant_that_holds_one_cluster_but_was_cut_into_many_is_pointed_out(method):
    rng = np.random.default_rng(6)
    truth = np.arange(90) % 3
    centres = np.array([[0.0, 0, 0, 0, 0], [12, -12, 12, -12, 12], [-12, 12, 12, 12, -12]])
    everything = {k: dict(zip("pqrst", (centres[truth] + rng.normal(size=(90, 5))).T, strict=True)) for k in "ab"}
    one = dict(zip("rstuv", rng.normal(size=(60, 5)).T, strict=True))
    with pytest.warns(
        intarsia.AssumptionWarning, match=r"1 participant\(s\) show no clusters.*'c'.*n_local_clusters={'c': 1}"
    ):
        result = intarsia.cluster({**everything, "c": one}, 3, method=method, random_state=0)
    assert result.assumptions.unstructured == ("c",)
    with pytest.warns(intarsia.AssumptionWarning, match="no participant measured some features"):
        told = intarsia.cluster({**everything, "c": one}, 3, method=method, n_local_clusters={"c": 1}, random_state=0)
    assert told.assumptions.unstructured == ()
    assert len(set(told.labels["c"])) == 1


def test_where_nobody_is_clear_nobody_is_pointed_out():
    rng = np.random.default_rng(7)
    tables = {k: {c: rng.normal(size=60) for c in "pqr"} for k in "abc"}
    assert intarsia.cluster(tables, 3, random_state=0).assumptions.unstructured == ()
