"""Newcomers to a result: labels as if they had been there from the start, and nothing else changes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import (
    AssumptionWarning,
    DisjointFeaturesError,
    InputError,
    MixedKindsError,
    SettingError,
    UnitsWarning,
)

CENTRES = np.array([[0.0, 0, 0, 0, 0], [9, 9, 9, 9, 9], [0, 9, 18, 9, 0]])
COLUMNS = "abcde"


def table(columns, seed, n=30, centres=CENTRES):
    """n rows around each centre, in the columns of these names."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([centre + rng.normal(size=(n, len(COLUMNS))) for centre in centres])
    return {name: rows[:, k] for k, name in enumerate(COLUMNS) if name in columns}


@pytest.fixture(scope="module")
def fitted():
    tables = {"p": table("abc", 1), "q": table("bcd", 2)}
    return intarsia.cluster(tables, 3, random_state=0), tables


def test_new_columns_enter_with_the_means_of_the_newcomers_rows_by_hand():
    x = [0.0, 1.0, 10.0, 11.0]
    result = intarsia.cluster({"a": {"x": x}, "b": {"x": x}}, 2, scale=None, random_state=0)
    joined = result.join({"c": {"x": [0.4, 0.6, 10.0, 10.2, 10.4], "y": [1.0, 3.0, 7.0, 8.0, 9.0]}})
    order = np.argsort(result.centroids[:, 0])
    np.testing.assert_array_equal(joined.centroids[:, 0], result.centroids[:, 0])
    np.testing.assert_allclose(joined.centroids[order, 1], [2.0, 8.0])
    np.testing.assert_array_equal(joined.counts[order, 1], [2, 3])
    np.testing.assert_allclose(joined.deviations[order, 1], [1.0, np.sqrt(2 / 3)])
    assert joined.sizes["c"][order].tolist() == [2, 3]


def test_labels_are_those_of_a_run_with_the_newcomer_from_the_start(fitted):
    result, tables = fitted
    late = table("bce", 3)
    whole = intarsia.cluster(tables | {"late": late}, 3, random_state=0)
    joined = result.join({"late": late})
    number = {int(a): int(b) for a, b in zip(result.labels["p"], whole.labels["p"], strict=True)}
    assert [number[label] for label in joined.labels["late"].tolist()] == whole.labels["late"].tolist()
    mapped = [number[k] for k in range(3)]
    np.testing.assert_allclose(joined.centroids[:, 4], whole.centroids[mapped][:, 4], atol=0.5)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"model": "mixture"},
        {"scale": "standard"},
        {"metric": "manhattan"},
        {"method": "one_shot"},
        {"method": "one_shot", "labels": "local"},
        {"method": "one_shot", "model": "mixture"},
        {"merge": "robust"},
        {"preset": "paper"},
    ],
    ids=str,
)
def test_nothing_changes_for_the_others_under_any_setting(chosen):
    tables = {"p": table("abc", 1), "q": table("bcd", 2)}
    result = intarsia.cluster(tables, 3, random_state=0, **chosen)
    joined = result.join({"late": table("bce", 3)})
    d = len(result.feature_names)
    np.testing.assert_array_equal(joined.centroids[:, :d], result.centroids)
    np.testing.assert_array_equal(joined.deviations[:, :d], result.deviations)
    for name, rows in tables.items():
        np.testing.assert_array_equal(joined.labels[name], result.labels[name])
        np.testing.assert_array_equal(joined.predict(rows), result.predict(rows))
        np.testing.assert_array_equal(joined.sizes[name], result.sizes[name])
    np.testing.assert_array_equal(joined.predict(table("bce", 3)), joined.labels["late"])


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sets(st.sampled_from("bcde"), min_size=1), st.sampled_from([None, "auto", "standard"]))
def test_rows_without_new_columns_get_the_label_that_they_had(seed, columns, scale):
    result = intarsia.cluster({"p": table("abc", 1, 8), "q": table("abc", 2, 8)}, 3, scale=scale, random_state=0)
    rng = np.random.default_rng(seed)
    late = {name: np.where(rng.random(12) < 0.8, rng.normal(4, 6, 12), np.nan) for name in {*columns, "b"}}
    late |= {"b": rng.normal(4, 6, 12)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joined = result.join({"late": late})
    rows = {name: rng.normal(4, 9, 50) for name in "abc"}
    np.testing.assert_array_equal(joined.predict(rows), result.predict(rows))


def test_only_newcomers_are_asked(fitted):
    result, _ = fitted
    asked = []

    class Watcher:
        def asking(self, phase, requests, last):
            asked.extend(requests)

        def answered(self, *_):
            pass

    joined = result.join({"late": table("bce", 3)}, watcher=Watcher())
    assert set(asked) == {"late"}
    before = len(result.run.exchanges)
    assert joined.run.exchanges[:before] == result.run.exchanges
    assert joined.run.sent[: len(result.run.sent)] == result.run.sent
    for exchange in joined.run.exchanges[before:]:
        assert set(exchange.bytes_out) == set(exchange.bytes_in) == {"late"}
    assert {entry.participant for entry in joined.run.sent[len(result.run.sent) :]} == {"late"}
    assert list(joined.run.joined) == ["late"]


def test_the_order_of_newcomers_does_not_matter_and_their_new_columns_are_merged(fitted):
    result, _ = fitted
    y, z = table("ce", 3), table("bce", 4, n=60)
    joined = result.join({"y": y, "z": z})
    again = result.join({"z": z, "y": y})
    np.testing.assert_array_equal(joined.centroids, again.centroids)
    assert joined.outcome.participants == again.outcome.participants == ("p", "q", "y", "z")
    e = np.concatenate([y["e"], z["e"]])
    labels = np.concatenate([joined.labels["y"], joined.labels["z"]])
    np.testing.assert_allclose(joined.centroids[:, 4], [e[labels == k].mean() for k in range(3)], rtol=1e-3)


def test_newcomers_can_join_one_after_the_other(fitted):
    result, _ = fitted
    joined = result.join({"y": table("ce", 3)})
    twice = joined.join({"z": table("e", 4)})
    np.testing.assert_array_equal(twice.centroids, joined.centroids)
    assert list(twice.run.joined) == ["y", "z"]
    truth = np.repeat(range(3), 30)
    assert len({*zip(truth.tolist(), twice.labels["z"].tolist(), strict=True)}) >= 2  # clusters 0 and 2 agree in e


def test_a_result_with_newcomers_is_saved_and_loaded(fitted, tmp_path):
    result, tables = fitted
    joined = result.join({"late": table("bce", 3)})
    joined.save(tmp_path / "joined.intarsia", labels=True)
    loaded = intarsia.load(tmp_path / "joined.intarsia")
    assert loaded.run == joined.run
    assert loaded.outcome.model.n_joined == 1
    np.testing.assert_array_equal(loaded.predict(tables["p"]), result.labels["p"])
    np.testing.assert_array_equal(loaded.labels["late"], joined.labels["late"])


def test_the_report_says_who_joined_and_when(fitted):
    result, _ = fitted
    joined = result.join({"late": table("bce", 3)})
    said = joined.summarise().methods
    assert f"On {joined.run.joined['late'][:10]} 'late' joined the finished clustering" in said
    assert "joined" not in result.summarise().methods


def test_a_loaded_result_can_be_joined_without_the_tables_of_the_others(fitted, tmp_path):
    result, _ = fitted
    result.save(tmp_path / "study.intarsia")
    joined = intarsia.load(tmp_path / "study.intarsia").join({"late": table("bce", 3)})
    np.testing.assert_array_equal(joined.labels["late"], result.join({"late": table("bce", 3)}).labels["late"])
    assert list(joined.labels) == ["late"]
    assert "270 rows from 3 participants" in str(joined)


def test_numbered_participants_are_continued(tmp_path):
    result = intarsia.cluster([table("abc", 1), table("bcd", 2)], 3, random_state=0)
    joined = result.join([table("bce", 3)])
    assert list(joined.labels) == [0, 1, 2]
    joined.save(tmp_path / "joined.intarsia")
    with pytest.raises(SettingError, match="numbered"):
        result.join({"late": table("bce", 3)})


def test_a_newcomer_may_have_more_local_clusters_than_the_model(fitted):
    result, _ = fitted
    joined = result.join({"late": table("bce", 3)}, n_local_clusters=7)
    assert sum(cluster.participant == "late" for cluster in joined.local_clusters) == 7
    np.testing.assert_array_equal(joined.labels["late"], result.join({"late": table("bce", 3)}).labels["late"])


def test_a_new_level_of_a_known_column_is_in_the_model_and_decides_nothing():
    colours = {"x": [0.0, 1, 0, 10, 11, 10], "colour": ["red", "red", "red", "blue", "blue", "blue"]}
    result = intarsia.cluster({"a": colours, "b": colours}, 2, random_state=0)
    late = {"x": [0.0, 0.5, 10, 10.5] * 2, "colour": ["red", "green", "blue", "green"] * 2}
    joined = result.join({"c": late})
    assert joined.levels["colour"] == ("blue", "green", "red")
    np.testing.assert_array_equal(joined.predict(colours), result.labels["a"])
    near = result.labels["a"][[0, 0, 3, 3] * 2]
    np.testing.assert_array_equal(joined.labels["c"], near)
    green = joined.centroids[:, joined.feature_names.index("colour=green")]
    np.testing.assert_allclose(green, [0.5, 0.5])


def test_a_new_column_in_much_larger_units_does_not_dominate_where_units_were_left_as_they_are(fitted):
    result, _ = fitted
    assert result.units is None
    late = table("bce", 3)
    noise = np.random.default_rng(5).normal(size=90) * 1e6
    np.testing.assert_array_equal(
        result.join({"late": late | {"noise": noise}}).labels["late"], result.join({"late": late}).labels["late"]
    )


def test_local_clusters_that_are_unlike_every_cluster_are_named(fitted):
    result, _ = fitted
    far = table("bce", 3, centres=np.vstack([CENTRES[:2], [[60.0] * 5]]))
    with pytest.warns(AssumptionWarning, match="1 of 3 local clusters of 'late'"):
        joined = result.join({"late": far})
    assert any("far from every cluster" in note for note in joined.run.notes)
    assert not result.join({"late": table("bce", 3)}).outcome.remarks


def with_colours(n_changed=0, ages=(30.0, 55.0, 75.0), colours=("red", "green", "blue")):
    """99 rows of three clusters with a colour each; the first rows have that of the second cluster."""
    cluster = np.arange(99) % 3
    colour = np.array(colours)[cluster]
    colour[:n_changed] = "green"
    return {"age": np.array(ages)[cluster] + np.random.default_rng(1).normal(size=99) * 3, "colour": colour.tolist()}


@pytest.mark.parametrize("n_changed", [0, 1, 3])
def test_a_few_rows_with_the_level_of_another_cluster_are_not_far_from_all(n_changed):
    result = intarsia.cluster({"a": with_colours(), "b": with_colours()}, 3, random_state=0)
    joined = result.join({"c": with_colours(n_changed)})  # in the model, all rows of a cluster have the same colour
    assert not joined.outcome.remarks


@pytest.mark.parametrize("far", [{"ages": (30.0, 55.0, 200.0)}, {"colours": ("red", "green", "red")}])
def test_among_levels_that_coincide_with_clusters_outlying_newcomers_are_named(far):
    result = intarsia.cluster({"a": with_colours(), "b": with_colours()}, 3, random_state=0)
    with pytest.warns(AssumptionWarning, match=r"1 of 3 local clusters of 'c' \(33 rows\) are far from every cluster"):
        result.join({"c": with_colours(**far)})


def test_a_column_in_other_units_is_named(fitted):
    result, _ = fitted
    rng = np.random.default_rng(7)
    height = {name: rng.normal(170, 8, 60) for name in "abcdef"}
    tables = {name: {"height": height[name], "x": np.repeat([0.0, 9.0], 30) + rng.normal(size=60)} for name in "abcde"}
    study = intarsia.cluster(tables, 2, random_state=0)
    metres = {"height": height["f"] / 100, "x": np.repeat([0.0, 9.0], 30) + rng.normal(size=60)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        joined = study.join({"f": metres})
    assert [(odd.participant, odd.column) for odd in joined.outcome.odd_columns] == [("f", "height")]
    assert any(each.category is UnitsWarning and "height" in str(each.message) for each in said)


@pytest.mark.parametrize(
    ("newcomers", "error", "text"),
    [
        ({"p": {"a": [1.0, 2.0]}}, InputError, "part of the model already: 'p'"),
        ({"late": {"z": [1.0, 2.0]}}, DisjointFeaturesError, "'late' shares no feature"),
        ({"late": {"a": ["x", "x", "y", "y"], "b": [1.0, 2, 3, 4]}}, MixedKindsError, "a .numbers at the others"),
        ({}, InputError, "no table"),
        ([{"a": [1.0, 2.0]}], SettingError, "have names"),
        ({"a": [1.0, 2.0]}, SettingError, "need names"),
    ],
)
def test_what_cannot_join_is_refused_by_name(fitted, newcomers, error, text):
    with pytest.raises(error, match=text):
        fitted[0].join(newcomers)


def test_a_shared_column_that_is_the_same_in_all_clusters_is_not_enough():
    rows = {"x": [0.0, 1, 10, 11], "same": [5.0] * 4}
    result = intarsia.cluster({"a": rows, "b": rows}, 2, random_state=0)
    with pytest.raises(DisjointFeaturesError, match="cannot be compared"):
        result.join({"c": {"same": [5.0, 5.0, 6.0], "y": [1.0, 2.0, 3.0]}})


def test_nobody_joins_a_study_with_secure_sums():
    result = intarsia.cluster(
        {name: table("abc", k) for k, name in enumerate("pqr")}, 3, random_state=0, secure_sums=True
    )
    with pytest.raises(SettingError, match="secure sums"):
        result.join({"late": table("bce", 3)})


def test_release_rules_of_the_newcomer_hold(fitted):
    result, _ = fitted
    late = table("bce", 3)
    late["e"] = np.where(np.arange(90) < 3, late["e"], np.nan)  # of three rows
    joined = result.join({"late": late}, release=intarsia.ReleasePolicy(min_cluster_size=5))
    assert joined.feature_names == ("a", "b", "c", "d")
    own = [entry for entry in joined.run.sent if entry.participant == "late"]
    assert all(entry.fewest_rows is None or entry.fewest_rows >= 5 for entry in own)
