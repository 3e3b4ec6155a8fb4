"""Weights of columns and participants: laws of whole studies, in both methods."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import intarsia
from intarsia.exceptions import IntarsiaWarning, SettingError
from tests.strategies import FEW

pytestmark = pytest.mark.filterwarnings(f"ignore::{IntarsiaWarning.__module__}.{IntarsiaWarning.__name__}")

METHODS = ("federated", "one_shot")
COLUMNS = {"p": "abcd", "q": "cdef", "r": "abef"}


def tables(seed, *, apart=8.0, sizes=(60, 40, 80)):
    """Three clusters in six columns, of which each participant has four, and a category that has nothing to do with them."""
    rng = np.random.default_rng([seed, 50])
    means = apart * rng.normal(size=(3, 6))
    result = {}
    for (name, columns), n in zip(COLUMNS.items(), sizes, strict=True):
        truth = rng.permutation(np.arange(n) % 3)
        rows = means[truth] + rng.normal(size=(n, 6))
        result[name] = {c: rows[:, k] for k, c in enumerate("abcdef") if c in columns}
        result[name]["s"] = np.array(["u", "v", "w"])[rng.integers(0, 3, n)]
    return result


def repeated(study, name, times):
    return {**study, name: {column: np.repeat(values, times) for column, values in study[name].items()}}


def cluster(study, method, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntarsiaWarning)
        return intarsia.cluster(study, **{"n_clusters": 3, "method": method, "random_state": 0} | settings)


def agreement(one, other):
    """The share of rows in the same cluster, after the best matching of numbers."""
    a, b = (np.concatenate([result.labels[name] for name in one.labels]) for result in (one, other))
    table = np.zeros((max(a.max(), b.max()) + 1,) * 2)
    np.add.at(table, (a, b), 1)
    return table[linear_sum_assignment(-table)].sum() / len(a)


def assert_same_to_the_bit(one, other):
    for name, labels in one.labels.items():
        np.testing.assert_array_equal(other.labels[name], labels)
    for what in ("centroids", "deviations", "counts"):
        np.testing.assert_array_equal(getattr(other, what), getattr(one, what))
    assert other.confidence == one.confidence or np.isnan(one.confidence)
    assert not other.outcome.row_weights


@FEW
@given(
    st.integers(0, 2**16),
    st.sampled_from(METHODS),
    st.sampled_from([None, "auto", "standard", "robust"]),
    st.sampled_from(["euclidean", "manhattan", "cosine"]),
    st.sampled_from([1, 2, "auto"]),
)
def test_weights_of_1_change_no_bit(seed, method, scale, metric, n_clusters):
    study = tables(seed, apart=2.0, sizes=(12, 9, 15))
    settings = {"scale": scale, "metric": metric, "n_clusters": n_clusters}
    plain = cluster(study, method, **settings)
    ones = cluster(
        study, method, feature_weights=dict.fromkeys("abcs", 1.0), participant_weights={"p": 1, "r": 1.0}, **settings
    )
    assert_same_to_the_bit(plain, ones)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ways", ["equal", "capped"])
def test_participants_with_as_many_rows_weigh_the_same_to_the_bit(method, ways):
    study = tables(1, sizes=(30, 30, 30))
    assert_same_to_the_bit(cluster(study, method), cluster(study, method, participant_weights=ways))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "settings",
    [{}, {"scale": "standard"}, {"scale": "robust"}, {"scale": None}, {"n_clusters": "auto"}, {"model": "mixture"},
     {"metric": "manhattan"}],
)  # fmt: skip
def test_a_row_that_stands_twice_is_a_row_of_weight_2(method, settings):
    study = tables(2)
    weighted = cluster(study, method, participant_weights={"q": 2}, **settings)
    twice = cluster(repeated(study, "q", 2), method, **settings)
    np.testing.assert_allclose(weighted.centroids, twice.centroids, atol=1e-9)
    np.testing.assert_array_equal(np.repeat(weighted.labels["q"], 2), twice.labels["q"])
    np.testing.assert_array_equal(weighted.labels["p"], twice.labels["p"])
    if method == "federated":  # variances of densities are shrunk by numbers of rows
        np.testing.assert_allclose(weighted.deviations, twice.deviations, atol=1e-9)
    np.testing.assert_allclose(weighted.weight_shares["q"], twice.weight_shares["q"])
    np.testing.assert_array_equal(2 * weighted.sizes["q"], twice.sizes["q"])  # sizes are numbers of rows


@pytest.mark.parametrize("method", METHODS)
def test_ten_times_the_rows_move_no_centroid_if_all_count_alike(method):
    study = tables(3)
    for name in COLUMNS:
        alike = cluster(study, method, participant_weights="equal")
        ten_times = cluster(repeated(study, name, 10), method, participant_weights="equal")
        np.testing.assert_allclose(alike.centroids, ten_times.centroids, atol=1e-9)
    overall = {name: share.sum() for name, share in alike.weight_shares.items()}
    assert overall == pytest.approx(dict.fromkeys(overall, 1.0), rel=0.01)  # clusters are equally large at each


def test_a_large_participant_that_differs_moves_the_centroids_by_its_weight():
    """Worked by hand: two clusters at 0 and 100, and at 10 and 110 at a participant with nine times the rows."""
    few, many = np.repeat([0.0, 100.0], 10), np.repeat([10.0, 110.0], 90)
    study = {"few": {"x": few}, "many": {"x": many}}
    first = {"rows": 9.0, "equal": 5.0, "capped": 5.0}
    for ways, expected in first.items():
        result = cluster(study, "federated", n_clusters=2, scale=None, participant_weights=ways)
        np.testing.assert_allclose(np.sort(result.centroids.ravel()), [expected, expected + 100], atol=0.05)
        assert result.weight_shares["many"] == pytest.approx([0.9, 0.9] if ways == "rows" else [0.5, 0.5])
        assert result.counts.tolist() == [[100.0], [100.0]]  # of values, whatever they weigh
    finding = next(each for each in cluster(study, "federated", n_clusters=2).findings if "dominates" in each.about)
    assert finding.state == "caution"
    assert "many: 90%, and 90% in cluster" in finding.seen
    light = cluster(study, "federated", n_clusters=2, scale=None, participant_weights={"few": 3})
    np.testing.assert_allclose(np.sort(light.centroids.ravel()), [7.5, 107.5], atol=0.05)


@pytest.mark.parametrize("rounds", [0, 3])
def test_counts_are_numbers_of_values_whatever_they_weigh(rounds):
    result = cluster(tables(4), "federated", participant_weights={"p": 0.01, "q": 30}, max_rounds=rounds)
    sizes = np.array(list(result.sizes.values()))
    has = np.array([[column in own for column in "abcdef"] for own in COLUMNS.values()])
    index = [result.feature_names.index(column) for column in "abcdef"]
    np.testing.assert_array_equal(result.counts[:, index], sizes.T @ has)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_column_that_stands_twice_is_a_column_of_weight_2(method, metric, scale):
    study = tables(5)
    settings = {"metric": metric, "scale": scale}
    weighted = cluster(study, method, feature_weights={"c": 2, "e": 2, "s": 2}, **settings)
    twice = {
        name: {**own, **{f"{column} again": own[column] for column in "ces" if column in own}}
        for name, own in study.items()
    }
    assert agreement(weighted, cluster(twice, method, **settings)) == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [None, "standard", "minmax"])
def test_a_column_with_a_huge_weight_decides_and_with_a_tiny_one_does_not_matter(method, scale):
    study = tables(6)
    heavy = cluster(study, method, feature_weights={"s": 1e6}, scale=scale)
    for name, own in study.items():
        assert len(set(zip(own["s"], heavy.labels[name].tolist(), strict=True))) == 3  # all levels weigh the same
    without = {name: {c: v for c, v in own.items() if c != "s"} for name, own in study.items()}
    assert (
        agreement(
            cluster(study, method, feature_weights={"s": 1e-6}, scale=scale), cluster(without, method, scale=scale)
        )
        == 1
    )


@pytest.mark.parametrize("method", METHODS)
def test_all_columns_with_the_same_weight_are_as_without(method):
    study = tables(7, apart=2.0)
    plain = cluster(study, method, scale="standard")
    fours = cluster(study, method, scale="standard", feature_weights=dict.fromkeys("abcdefs", 4.0))
    np.testing.assert_allclose(plain.centroids, fours.centroids, atol=1e-9)  # in original units
    np.testing.assert_allclose(plain.deviations, fours.deviations, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", ["kmeans", "mixture"])
def test_a_loaded_model_predicts_as_the_result(method, model, tmp_path):
    study = tables(8, apart=1.0)
    weights = {"feature_weights": {"a": 9, "s": 0.2}, "participant_weights": "equal"}
    result = cluster(study, method, model=model, **weights)
    for name, labels in result.predict(study).items():
        np.testing.assert_array_equal(labels, result.labels[name])
    result.save(tmp_path / "m.intarsia")
    loaded = intarsia.load(tmp_path / "m.intarsia")
    np.testing.assert_array_equal(loaded.predict(study)["p"], result.labels["p"])
    np.testing.assert_array_equal(loaded.predict_proba(study)["q"], result.predict_proba(study)["q"])
    np.testing.assert_array_equal(loaded.impute(study["p"]).values["f"], result.impute(study["p"]).values["f"])
    assert loaded.outcome.row_weights == result.outcome.row_weights
    assert loaded.run.settings["feature_weights"] == {"a": 9, "s": 0.2}
    np.testing.assert_array_equal(loaded.weight_shares["r"], result.weight_shares["r"])


@pytest.mark.parametrize("method", METHODS)
def test_stability_measures_the_weighted_clustering(method):
    study = tables(9, apart=1.0)
    result = cluster(study, method, feature_weights={"s": 1e4}, participant_weights={"p": 2})
    assert min(result.stability(n_resamples=4).scores) > 0.9  # the levels, which always come back


@pytest.mark.parametrize("scale", ["auto", None, "standard"])
def test_secure_sums_have_the_weights_of_columns(scale):
    pytest.importorskip("Crypto")
    study, weights = tables(10, apart=1.5), {"a": 5.0, "s": 0.1}
    plain, secure = (
        cluster(study, "federated", feature_weights=weights, scale=scale, secure_sums=on) for on in (False, True)
    )
    assert agreement(plain, secure) == 1.0


def test_robust_merging_keeps_its_caps():
    """A weight does not give one participant back what a robust merge takes from it: to move centroids alone."""
    honest = np.repeat([0.0, 100.0], 20)
    study = {name: {"x": honest} for name in "abc"} | {"d": {"x": honest + 10}}
    weights = {"participant_weights": {"d": 1000}, "n_clusters": 2, "scale": None}
    robust, mean = (cluster(study, "federated", merge=merge, **weights) for merge in ("robust", "mean"))
    np.testing.assert_allclose(np.sort(robust.centroids.ravel()), [0, 100], atol=0.1)
    np.testing.assert_allclose(np.sort(mean.centroids.ravel()), [10, 110], atol=0.1)
    about = {finding.about: finding for finding in robust.findings}
    assert "weights are capped" in about["No participant dominates the centroids"].seen


def test_jobs_change_nothing():
    study, weights = tables(12, apart=1.5), {"feature_weights": {"a": 3}, "participant_weights": "capped"}
    assert_equal = np.testing.assert_array_equal
    one, two = (cluster(study, "federated", n_jobs=n, **weights) for n in (None, 2))
    assert_equal(one.centroids, two.centroids)
    assert_equal(one.labels["p"], two.labels["p"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"feature_weights": {"A": 2}}, "'A' looks like 'a'"),
        ({"feature_weights": {"s=u": 2}}, "all levels of 's' share one weight"),
        ({"feature_weights": {"zzz": 2}}, "the columns are 'a', 'b'"),
        (
            {"feature_weights": {"b": 2, "a": 0}},
            r"feature_weights: the weight of 'a' must be from 1e-06 to 1e\+06. Got 0. Hint: to leave a column out, drop it",
        ),
        ({"feature_weights": {"a": -1}}, "the weight of 'a' .* Got -1"),
        ({"feature_weights": {"a": float("nan")}}, "the weight of 'a' .* Got nan"),
        ({"feature_weights": {"a": True}}, "the weight of 'a' .* Got True"),
        ({"participant_weights": {"p": 0}}, "participant_weights: the weight of 'p' .* leave a participant out"),
        ({"feature_weights": [1, 2]}, "a mapping of columns"),
        ({"participant_weights": "most"}, "'rows', 'equal', 'capped'"),
        ({"participant_weights": {"P": 2}}, "'P' looks like 'p'"),
        ({"participant_weights": {"p": "equal"}}, "the weight of 'p' .* Got 'equal'"),
        ({"feature_weights": {"zzz": 2}}, "1 column.s. that no participant has: 'zzz'"),
        ({"participant_weights": {"nobody": 2}}, "they are 'p', 'q', 'r'"),
    ],
)
def test_wrong_weights_are_refused_with_a_hint(method, weights, words):
    with pytest.raises(SettingError, match=words):
        cluster(tables(0), method, **weights)


def test_what_cannot_be_weighted_says_why():
    study = tables(0)
    with pytest.raises(SettingError, match="a total does not say which part of it is whose"):
        cluster(study, "federated", secure_sums=True, participant_weights="equal")
    bounds = dict.fromkeys("abcdef", (-50.0, 50.0))
    private = intarsia.DifferentialPrivacy(1.0, bounds=bounds, levels={"s": ("u", "v", "w")})
    with pytest.raises(SettingError, match="the noise of participants with few rows"):
        cluster(study, "federated", privacy=private, participant_weights="equal")
    cluster(study, "federated", privacy=private, feature_weights={"s": 0.1})


def test_keys_of_a_sequence_of_tables_are_numbers():
    study = list(tables(13).values())
    by_number = cluster(study, "federated", participant_weights={0: 2, 2: 0.5})
    by_name = cluster(tables(13), "federated", participant_weights={"p": 2, "r": 0.5})
    np.testing.assert_allclose(by_number.centroids, by_name.centroids, atol=1e-9)


@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_newcomer_gets_the_weights_of_the_study(scale):
    study = tables(14)
    weights = {"feature_weights": {"a": 5, "f": 4, "s": 0.5}, "scale": scale}
    early = cluster({name: study[name] for name in "pq"}, "federated", **weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntarsiaWarning)
        joined = early.join({"r": study["r"]})
    assert agreement(joined, cluster(study, "federated", **weights)) > 0.98
    model = joined.outcome.model
    unit = dict(zip(model.space.names, model.scale.tolist(), strict=True))
    if scale is None:
        assert {unit["a"], unit["b"], unit["f"]} == {5**-0.5, 1.0, 0.5}
    assert unit["s=u"] == pytest.approx(2.0)  # √2 / √0.5
