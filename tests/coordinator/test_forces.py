"""Forces between local clusters: from as many points as the settings say, over the extent that they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from intarsia import cluster, load
from intarsia.coordinator import OneShotAlgorithm
from intarsia.core.densities.force import largest_exponent, sample_inside
from intarsia.core.grouping.linkages import LINKAGES, height_of
from intarsia.core.randomness import stream
from intarsia.exceptions import SettingError
from intarsia.participant import Participant
from intarsia.protocol.densities import unpacked
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.tables.frame import read_table
from tests import naive

SIZES = {"a": [12, 45, 200], "b": [70, 33, 8]}
SEED = 3


def participants():
    rng, result = np.random.default_rng(0), []
    for name, sizes in SIZES.items():
        rows = np.concatenate([rng.normal([10.0 * k, 3.0 * k * k], 2.0, size=(n, 2)) for k, n in enumerate(sizes)])
        result.append(Participant(read_table({"x": rows[:, 0], "y": rows[:, 1]}, name)))
    return result


def run(**settings):
    algorithm = OneShotAlgorithm(n_clusters=3, seed=SEED, n_local_clusters=3, aggregation="greedy", **settings)
    return algorithm, drive(algorithm, InProcessRuntime(participants()))


@pytest.mark.parametrize("n_proxies", [50, (30, 100), [np.int64(30), 100]])
def test_a_cluster_has_as_many_proxies_as_rows_within_the_bounds_and_counts_with_them(n_proxies):
    algorithm, outcome = run(n_proxies=n_proxies, force="sampled", softening=0.0, density="gaussian_full", shrink=False)
    proxies = []
    for participant in participants():
        request = algorithm.start([participant.name]).requests[participant.name]
        reply = participant.handle(request)
        for k, (mean, sent) in enumerate(zip(reply.values, reply.densities, strict=True)):
            n = 50 if n_proxies == 50 else min(max(int(reply.sizes[k]), 30), 100)
            proxies.append(sample_inside(unpacked(sent, mean), stream(SEED, participant.name, "proxies", k), n))
    assert {len(points) for points in proxies} == ({50} if n_proxies == 50 else {30, 33, 45, 70, 100})
    points = np.concatenate(proxies)
    largest = np.linalg.norm(points.max(axis=0) - points.min(axis=0))
    forces = np.array([[np.mean(naive_powers(p, q, largest)) for q in proxies] for p in proxies])
    weights = np.array([len(points) for points in proxies], dtype=float)
    merges, strengths = naive.agglomerate_in_order(forces, weights=weights)
    assert outcome.merge_tree.merges.tolist() == merges
    np.testing.assert_allclose(outcome.merge_tree.strengths, strengths, rtol=1e-9)


def naive_powers(p, q, largest):
    squared = np.square((p[:, None] - q[None]) / largest).sum(axis=2)
    return 1 / np.where(squared > 0, squared, 1.0)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_every_linkage_groups_clear_clusters_and_its_tree_survives_a_file(linkage, tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 40)
    rows = np.array([[0.0, 0.0, 9.0], [9.0, 9.0, 0.0], [0.0, 18.0, 0.0]])[truth] + rng.normal(size=(120, 3))
    tables = {name: {c: rows[:, "xyz".index(c)] for c in columns} for name, columns in (("a", "xy"), ("b", "yz"))}
    settings = {"aggregation": "greedy", "linkage": linkage, "random_state": 0}
    result = cluster(tables, 3, method="one_shot", **settings)
    for labels in result.labels.values():
        assert adjusted_rand_score(truth, labels) > 0.9
    result.save(tmp_path / "a.intarsia")
    tree = load(tmp_path / "a.intarsia").outcome.merge_tree
    assert tree.merges.tolist() == result.outcome.merge_tree.merges.tolist()
    assert len(tree.to_linkage(2.0)) == tree.n_leaves - 1
    assert result.summarise().tree.height == height_of(linkage)
    assert cluster(tables, "auto", method="one_shot", **settings).outcome.model.centroids.values.shape[0] >= 2


@pytest.mark.parametrize("deviations", [0.0, 1.0, 2.5])
def test_the_extent_of_exact_forces_reaches_so_many_deviations_from_the_means(deviations):
    algorithm, outcome = run(deviations=deviations, density="gaussian_diagonal")
    low, high = [], []
    for participant in participants():
        reply = participant.handle(algorithm.start([participant.name]).requests[participant.name])
        reach = deviations * np.sqrt([sent.parts["covariance"] for sent in reply.densities])
        low.append((reply.values - reach).min(axis=0))
        high.append((reply.values + reach).max(axis=0))
    np.testing.assert_allclose(outcome.model.extent.low, np.min(low, axis=0))
    np.testing.assert_allclose(outcome.model.extent.high, np.max(high, axis=0))


@pytest.mark.parametrize(("n", "ratio"), [(2, 1.5), (30, 3.0), (100, 10.0)])
def test_beyond_the_largest_exponent_an_outlier_is_stronger_than_all_others(n, ratio):
    w = largest_exponent(n, ratio)
    assert n * 1.0 > ratio ** (w - 0.01)
    assert n * 1.0 < ratio ** (w + 0.01)


@pytest.mark.parametrize(("n", "ratio"), [(0, 2.0), (10, 1.0), (10, float("nan"))])
def test_an_outlier_that_is_not_nearer_is_an_error(n, ratio):
    with pytest.raises(SettingError, match="ratio above 1"):
        largest_exponent(n, ratio)
