"""Where rounds start from: groupings of halves, and when they are tried."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.coordinator.candidates import Start
from intarsia.coordinator.local_clusters import Halves
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.kmeans import observed_kmeans
from intarsia.datasets import Split, mask_features, partition


def halves_of(sizes, half_of):
    values = np.arange(len(sizes), dtype=float)[:, None]
    return Halves(
        MaskedCentroids.of(values, np.asarray(sizes, dtype=float)[:, None]), np.array(sizes), np.array(half_of)
    )


def test_a_local_cluster_belongs_where_most_of_its_rows_are():
    halves = halves_of([10, 4, 6, 5, 8], [0, 0, 1, 1, 2])
    start = Start.of_halves(halves, np.array([0, 1, 0, 1, 1]), 2)
    # group 1 has 17 rows, group 0 has 16, so that they change numbers
    assert start.groups.tolist() == [1, 1, 0]
    assert start.centres.counts[:, 0].tolist() == [17.0, 16.0]


def test_every_group_gets_a_local_cluster():
    halves = halves_of([10, 9, 10, 8, 10], [0, 0, 1, 1, 2])
    start = Start.of_halves(halves, np.array([0, 1, 0, 1, 0]), 2)
    assert start.groups.tolist() == [1, 0, 0]  # of the two with rows there, the one with the larger share


def uneven_split(seed):
    """Six clusters of very unequal size and spread, of which local k-means cuts some and joins others."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(6, 900, p=rng.dirichlet(np.full(6, 0.7)))
    X = (
        2.0 * rng.normal(size=(6, 10))[truth]
        + rng.normal(size=(900, 10)) * np.exp(0.4 * rng.normal(size=(6, 1)))[truth]
    )
    owner = partition(900, 6, random_state=rng)
    return Split.of(X, truth, owner, mask_features(10, 6, layout="random", random_state=rng))


def squares_of(split, labels):
    rows = split.masked()
    return sum(np.nansum((rows[labels == k] - np.nanmean(rows[labels == k], axis=0)) ** 2) for k in np.unique(labels))


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning", "ignore:Mean of empty slice")
def test_pooled_starts_reach_what_restarts_on_pooled_rows_reach():
    excess = {0: [], 3: []}
    for seed in range(4):
        split = uneven_split(seed)
        rows = split.masked()
        best = observed_kmeans(rows, ~np.isnan(rows), 6, np.random.default_rng(seed), n_init=20).loss
        for n_rivals, found in excess.items():
            result = intarsia.cluster(split.tables(), 6, scale=None, n_rivals=n_rivals, random_state=seed)
            found.append(squares_of(split, split.in_order(result.labels)) / best - 1)
    assert np.mean(excess[3]) < 0.002
    assert np.mean(excess[3]) < np.mean(excess[0]) / 2


def test_clear_clusters_need_no_trial():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=600)
    X = 8.0 * rng.normal(size=(3, 12))[truth] + rng.normal(size=(600, 12))
    split = Split.of(
        X, truth, partition(600, 4, random_state=rng), mask_features(12, 4, layout="random", random_state=rng)
    )
    result = intarsia.cluster(split.tables(), 3, random_state=0)
    assert result.outcome.aggregation.n_compared == 1
    assert adjusted_rand_score(truth, split.in_order(result.labels)) == 1.0


@pytest.mark.parametrize("layout", ["chain", "core"])
def test_participants_that_share_little_tell_no_halves(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) + 3.0 * rng.integers(0, 2, size=(400, 1))
    split = Split.of(
        X, np.zeros(400), partition(400, 4, random_state=rng), mask_features(20, 4, layout=layout, random_state=rng)
    )
    result = intarsia.cluster(split.tables(), 2, n_local_clusters=2, random_state=0)
    assert len(result.outcome.local_clusters) == 8
