"""Labels of the one-shot method: by the nearest global cluster as ``predict``, or by the local cluster as in the paper."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import DBSCAN

import intarsia
from intarsia.exceptions import SettingError
from intarsia.privacy.policy import ReleasePolicy
from intarsia.results.metrics import clustering_accuracy

pytestmark = pytest.mark.filterwarnings(
    "ignore::intarsia.AssumptionWarning", "ignore::intarsia.exceptions.UnitsWarning"
)
COLUMNS = {"a": ["u", "v", "kind"], "b": ["v", "w", "kind"], "c": ["w", "u"]}


def mixed_tables(seed, gap=3.0, missing=0.2):
    """Three participants with numbers of different units, categories and missing values."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name, columns in COLUMNS.items():
        side = rng.integers(3, size=60)
        table = pd.DataFrame({c: rng.normal(size=60) + gap * side for c in "uvw"}) * [1.0, 50.0, 0.01]
        table = table.mask(rng.random(table.shape) < missing)
        table["kind"] = pd.Categorical(np.where(rng.random(60) < 0.8, "xyz"[seed % 3], "y"))
        blank = table[columns].isna().all(axis=1)
        table.loc[blank, columns[0]] = 0.0  # rows without any value are refused
        tables[name] = table[columns]
    return tables


def cluster(tables, k, **given):
    return intarsia.cluster(tables, k, **{"method": "one_shot", "random_state": 0, "n_starts": 5, **given})


@pytest.mark.parametrize(
    "given_settings",
    [
        {},
        {"scale": "standard"},
        {"scale": None},
        {"model": "mixture"},
        {"metric": "manhattan"},
        {"metric": "cosine"},
        {"release": ReleasePolicy()},
        {"density": "gaussian_diagonal", "missing": "impute"},
        {"missing": "drop"},
    ],
    ids=str,
)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_labels_are_those_that_predict_gives_the_same_rows(given_settings, missing):
    tables = mixed_tables(int(10 * missing), missing=missing)
    result = cluster(tables, 3, **given_settings)
    for name, table in tables.items():
        np.testing.assert_array_equal(result.labels[name], result.predict(table))
        assert (result.labels[name] >= 0).all()


@pytest.mark.parametrize("model", ["kmeans", "mixture"])
def test_sizes_are_those_of_the_labels(model):
    tables = mixed_tables(1)
    result = cluster(tables, 3, model=model)
    for name, labels in result.labels.items():
        assert result.outcome.sizes[name].tolist() == np.bincount(labels[labels >= 0], minlength=3).tolist()


def test_labels_of_the_local_cluster_are_the_papers():
    tables = mixed_tables(2, gap=1.0)
    result = cluster(tables, 3, labels="local")
    groups = {(c.participant, c.index): c.group for c in result.outcome.local_clusters}
    for name, labels in result.labels.items():
        local = result.local_labels[name]
        expected = [groups[name, k] if k >= 0 else -1 for k in local.tolist()]
        assert labels.tolist() == expected
    nearest = cluster(tables, 3)
    np.testing.assert_array_equal(nearest.centroids, result.centroids)  # the model is the same, the labels are not
    assert any((nearest.labels[name] != result.labels[name]).any() for name in tables)
    assert intarsia.OneShotClustering.from_preset("paper", 3).labels == "local"


def test_hospitals_are_labelled_better_by_the_nearest_centroid_than_by_the_local_cluster():
    hospitals = intarsia.datasets.load_heart_disease()
    truth = np.concatenate([hospitals.diagnosis[name] for name in hospitals.tables])
    share = {}
    for labels in ("nearest", "local"):
        result = intarsia.cluster(hospitals.tables, 2, method="one_shot", labels=labels, random_state=0)
        share[labels] = clustering_accuracy(truth, np.concatenate([result.labels[name] for name in hospitals.tables]))
    assert share["nearest"] > 0.78 > 0.74 > share["local"]


def test_noise_has_a_nearest_centroid_and_no_local_cluster():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 0.2, 30), rng.normal(9, 0.2, 30), [12.0]])
    tables = {"a": {"x": x}, "b": {"x": x}}
    near, local = (cluster(tables, 2, local=DBSCAN(eps=1.0), labels=labels) for labels in ("nearest", "local"))
    assert near.labels["a"][-1] == near.labels["a"][30]
    assert local.labels["a"][-1] == -1


@pytest.mark.parametrize("model", ["kmeans", "mixture"])
def test_a_centroid_that_shares_no_feature_with_a_participant_never_wins(model):
    rng = np.random.default_rng(0)
    side = 9 * (np.arange(60) % 2)
    tables = {name: {column: rng.normal(size=60) + side} for name, column in (("a", "x"), ("b", "x"), ("c", "z"))}
    tables["c"]["z"] = np.concatenate([tables["c"]["z"]] * 9)  # the largest clusters
    result = cluster(tables, 4, allow_partial=True, model=model)
    theirs = [set(np.unique(result.labels[name]).tolist()) for name in "abc"]
    assert theirs[0] == theirs[1]
    assert not theirs[0] & theirs[2]
    assert [len(each) for each in theirs] == [2, 2, 2]
    for name, table in tables.items():
        np.testing.assert_array_equal(result.predict(table), result.labels[name])


def test_no_more_leaves_a_participant_than_sizes_and_how_far_rows_are():
    tables = mixed_tables(3)
    told = {}
    for labels in ("nearest", "local"):
        run = cluster(tables, 3, labels=labels, release=ReleasePolicy()).run
        told[labels] = {
            (s.participant, s.message, s.field) for s in run.sent if s.times and s.message.startswith("reply.")
        }
    more = told["nearest"] ^ told["local"]
    assert {(message, field) for _, message, field in more} == {("reply.labelled", "tails")}
    assert not {field for _, message, field in told["nearest"] if message == "reply.labelled"} & {"counts", "squares"}


def test_two_ways_to_label_do_not_go_together():
    with pytest.raises(SettingError, match="labels='local'.*leave one of the two out"):
        cluster(mixed_tables(0), 3, labels="local", model="mixture")
    with pytest.raises(SettingError, match="labels must be one of"):
        cluster(mixed_tables(0), 3, labels="likeliest")
    with pytest.raises(SettingError, match="'labels' belongs to method='one_shot'"):
        intarsia.cluster(mixed_tables(0), 3, labels="local")
