"""Assumptions as rates: cases worked by hand, laws, and naive loops over all triplets in the paper's own words."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import InputError, SettingError
from intarsia.results.rates import Purity, draw_proxies
from intarsia.results.triplets import Points, triplets_of
from tests import naive
from tests.strategies import FEW, SHAPES, masks

SEEDS = st.integers(0, 2**32 - 1)
METRICS = st.sampled_from(["euclidean", "manhattan"])


def study(seed, shape, n_rows=14, n=3, d=6, k=2):
    """Complete rows, true clusters, participants, masks and local clusters, all at random."""
    rng = np.random.default_rng(seed)
    labels, owner = rng.integers(k, size=n_rows), rng.integers(n, size=n_rows)
    X = rng.normal(size=(n_rows, d)) + rng.normal(size=(k, d))[labels]
    return X, labels, owner, masks(shape, n, d), rng.integers(2, size=n_rows)


def of(rate, *study, **settings):
    """A rate over all triplets; None if there is no triplet."""
    try:
        return rate(*study, n_triplets=None, **settings)
    except InputError:
        return None


def neighbours(seen):
    return [[j for j in range(len(seen)) if (seen[i] & seen[j]).any()] for i in range(len(seen))]


def share(outcomes, vacuous):
    """Of pairs (left side, right side), where None is incomparable; None if there is no pair at all."""
    if not outcomes:
        return None
    kept = [not left or right for left, right in outcomes if (vacuous if not left else right is not None)]
    return sum(kept) / len(kept) if kept else float("nan")


def less(near, far):
    return None if near is None or far is None else near < far


def naive_rate(points, seen, unmasked, truth, owner, graph, ext, metric, vacuous):
    """∀ a ≠ b, ∀ i, j ∈ V^a, ∀ k ∈ V^b with j, k ∈ N(i), ∀ x1, x2, x3 of these."""
    outcomes = []
    for x1, x2, x3 in product(range(len(points)), repeat=3):
        if x1 == x2 or truth[x1] != truth[x2] or truth[x1] == truth[x3]:
            continue
        if owner[x2] not in graph[owner[x1]] or owner[x3] not in graph[owner[x1]]:
            continue
        near, far = (naive.distance(points[x1], seen[x1], points[x], seen[x], ext, metric) for x in (x2, x3))
        left = naive.phi(unmasked[x1], unmasked[x2], metric) < naive.phi(unmasked[x1], unmasked[x3], metric)
        outcomes.append((left, less(near, far)))
    return share(outcomes, vacuous)


def naive_centroids(X, labels, owner, seen, local):
    """Local centroids, their masks, the same rows unmasked, majority classes, owners and sizes."""
    result = []
    for i, c in sorted({(i, c) for i, c in zip(owner.tolist(), local.tolist(), strict=True) if c >= 0}):
        rows = [r for r in range(len(X)) if owner[r] == i and local[r] == c]
        classes = [sum(labels[r] == a for r in rows) for a in range(max(labels) + 1)]
        whole = sum(X[r] for r in rows) / len(rows)
        result.append((np.where(seen[i], whole, 0.0), seen[i], whole, int(np.argmax(classes)), i, len(rows)))
    return [np.array(part) for part in zip(*result, strict=True)]


@FEW
@given(SEEDS, st.sampled_from(SHAPES), METRICS, st.booleans())
def test_rates_of_rows_are_those_of_a_loop_over_all_triplets(seed, shape, metric, vacuous):
    X, labels, owner, seen, _ = study(seed, shape)
    ext = naive.extent(X, np.ones(X.shape))
    expected = naive_rate(X, seen[owner], X, labels, owner, neighbours(seen), ext, metric, vacuous)
    rate = of(intarsia.order_preservation_rate, X, labels, owner, seen, metric=metric, vacuous=vacuous)
    assert rate == pytest.approx(expected, nan_ok=True)


@FEW
@given(SEEDS, st.sampled_from(SHAPES), METRICS, st.booleans())
def test_local_rates_are_those_of_a_loop_over_all_triplets(seed, shape, metric, vacuous):
    X, labels, owner, seen, _ = study(seed, shape, n_rows=9)
    outcomes = []
    for i, x1, x2, x3 in product(range(len(seen)), *[range(len(X))] * 3):
        a, b = labels[x1], labels[x3]
        held = {labels[r] for r in range(len(X)) if owner[r] == i}
        if x1 != x2 and labels[x2] == a != b and {a, b} <= held:
            left = naive.phi(X[x1], X[x2], metric) < naive.phi(X[x1], X[x3], metric)
            near, far = (naive.phi(X[x1][seen[i]], X[x][seen[i]], metric) for x in (x2, x3))
            outcomes.append((left, near < far))
    rate = of(intarsia.local_order_rate, X, labels, owner, seen, n_combined=1, metric=metric, vacuous=vacuous)
    assert rate == pytest.approx(share(outcomes, vacuous), nan_ok=True)


@FEW
@given(SEEDS, st.sampled_from(SHAPES), METRICS, st.booleans())
def test_rates_of_centroids_are_those_of_a_loop_over_all_triplets(seed, shape, metric, vacuous):
    X, labels, owner, seen, local = study(seed, shape, n_rows=20)
    values, known, whole, truth, of_whom, _ = naive_centroids(X, labels, owner, seen, local)
    ext = naive.extent(values, known)
    expected = naive_rate(values, known, whole, truth, of_whom, neighbours(seen), ext, metric, vacuous)
    rate = of(intarsia.centroid_order_rate, X, labels, owner, seen, local, metric=metric, vacuous=vacuous)
    assert rate == pytest.approx(expected, nan_ok=True)
    # with single centroids, Method B compares the same triplets and those of participants that are not neighbours
    everybody = [list(range(len(seen)))] * len(seen)
    expected = naive_rate(values, known, whole, truth, of_whom, everybody, ext, metric, vacuous)
    rate = of(intarsia.merged_order_rate, X, labels, owner, seen, local, n_combined=1, metric=metric, vacuous=vacuous)
    assert rate == pytest.approx(expected, nan_ok=True)


@FEW
@given(SEEDS, st.sampled_from(SHAPES), METRICS, st.booleans())
def test_rates_of_proxies_are_those_of_a_loop_over_all_triplets(seed, shape, metric, vacuous):
    X, labels, owner, seen, local = study(seed, shape)
    settings = {"density": "gaussian_diagonal", "shrink": True, "n_proxies": 3, "metric": metric, "random_state": seed}
    values, rows = draw_proxies(X, owner, seen, local, **settings)
    for point, row in zip(values, rows, strict=True):  # the nearest row of the same local cluster, as it is seen
        mask = seen[owner[row]]
        own = [r for r in range(len(X)) if owner[r] == owner[row] and local[r] == local[row]]
        assert row == min(own, key=lambda r: naive.phi(point[mask], X[r][mask], metric))
    ext = naive.extent(values, seen[owner[rows]])
    expected = naive_rate(
        values, seen[owner[rows]], X[rows], labels[rows], owner[rows], neighbours(seen), ext, metric, vacuous
    )
    rate = of(intarsia.proxy_order_rate, X, labels, owner, seen, local, vacuous=vacuous, **settings)
    assert rate == pytest.approx(expected, nan_ok=True)


@FEW
@given(SEEDS)
def test_without_masks_every_rate_is_one(seed):
    rng = np.random.default_rng(seed)
    labels, owner, local = np.tile([0, 1], 12), np.arange(24) % 3, np.arange(24) % 4
    X, seen = rng.normal(size=(24, 4)) + labels[:, None], np.ones((3, 4), dtype=bool)
    for vacuous in (False, True):
        settings = {"n_triplets": 50, "vacuous": vacuous, "random_state": seed}
        assert intarsia.order_preservation_rate(X, labels, owner, seen, **settings) == 1.0
        assert intarsia.local_order_rate(X, labels, owner, seen, **settings) == 1.0
        assert intarsia.centroid_order_rate(X, labels, owner, seen, local, **settings) == 1.0
        assert intarsia.merged_order_rate(X, labels, owner, seen, local, **settings) == 1.0
        # proxies of single rows are these rows
        assert intarsia.proxy_order_rate(X, labels, owner, seen, np.arange(24), **settings) == 1.0


def test_order_preservation_worked_by_hand():
    # x1 = (0, 0), x2 = (1, 0), x3 = (0, 9): in full x2 is nearer; the mask shows the first feature only, where x3 is
    X, seen = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 9.0]]), [[True, False]]
    for settings in ({"n_triplets": 200}, {"n_triplets": None}):
        # triplets start at x1 (broken) or at x2 = (1, 0): φ 1 < √82, masked 1 < 1 is false too
        assert intarsia.order_preservation_rate(X, [0, 0, 1], [0, 0, 0], seen, **settings) == 0.0


def test_vacuous_triplets_count_only_if_asked_for():
    # x1 = 0: x2 = 4 is farther than x3 = 1, so nothing is claimed; x1 = 4: x2 = 0 is farther (4) than x3 = 1 (3)
    X, everything = np.array([[0.0], [4.0], [1.0]]), {"n_triplets": None}
    study = X, [0, 0, 1], [0, 0, 0], [[True]]
    assert np.isnan(intarsia.order_preservation_rate(*study, **everything))
    assert intarsia.order_preservation_rate(*study, vacuous=True, **everything) == 1.0


def test_points_of_hulls_lie_between_the_rows():
    # in full the clusters are 9 apart; seen are the segments from 0 to 1 and from 5 to 6 (kept), or 0 to 1 twice (broken)
    X = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [5.0, 9.0, 0.0], [6.0, 9.0, 1.0]])
    study = X, [0, 0, 1, 1], [0, 0, 0, 0]
    assert intarsia.local_order_rate(*study, [[True, False, False]]) == 1.0
    assert 0.0 < intarsia.local_order_rate(*study, [[False, False, True]]) < 1.0


def test_only_participants_with_both_clusters_count_locally():
    # participant 1 sees what breaks the order, and has rows of one cluster only
    X, seen = np.array([[0.0, 0.0], [1.0, 9.0], [5.0, 0.0], [6.0, 9.0]]), [[True, False], [False, True]]
    study = X * [10, 1], [0, 0, 1, 1], [0, 1, 0, 0], seen
    assert intarsia.local_order_rate(*study, n_triplets=None, n_combined=1) == 1.0


def test_merged_centroids_can_keep_an_order_that_single_ones_break():
    # one local cluster each: x = (0, 0), p = (4, −1) and q = (−4, 1) of one true cluster, r = s = (3, 9) of the other. In
    # full the clusters are apart; seen is the first feature
    X = np.array([[0.0, 0.0], [4.0, -1.0], [-4.0, 1.0], [3.0, 9.0], [3.0, 9.0]])
    study = X, [0, 0, 0, 1, 1], [0, 1, 2, 1, 2], [[True, False]] * 3, [0, 0, 0, 1, 1]
    # single: kept from q to x (4 < 7, against r and s) and from r and s to each other (against x, p and q); 18 triplets
    assert intarsia.merged_order_rate(*study, n_combined=1, n_triplets=None) == pytest.approx(8 / 18)
    # merged: p and q are at 0 from x (kept), x and q at 6 from p (broken: 1), x and p at 6 from q (kept: 7)
    assert intarsia.merged_order_rate(*study, n_combined=2, n_triplets=500) == pytest.approx(4 / 5, abs=0.05)


def test_merged_centroids_weigh_rows_per_feature():
    # x2 merges 3 rows at 0 with 1 row at 8: 2 in the feature both see, 8 where only the second sees; x3 is at 5 everywhere
    X = np.array([[0.0, 0.0]] + [[0.0, 8.0]] * 3 + [[8.0, 8.0]] + [[5.0, 5.0]])
    seen = [[True, True], [True, False], [True, True]]
    study = X, [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 2, 2], seen, [0, 0, 0, 0, 0, 1]
    # unmasked: x2 = (2, 8), at √68 from x1, which is farther than x3 (√50): nothing is claimed about x1. From (0, ·) of
    # participant 1, x2 = merge of (0, 0) and (8, 8) = (4, 4) against x3 = (5, 5): unmasked from (0, 8): √32 < √34, and over
    # the first feature 4 < 5: kept. From (8, 8), x2 = merge of (0, 0) and 3 × (0, ·) = (0, 0): farther than x3.
    assert intarsia.merged_order_rate(*study, n_combined=2, n_triplets=300) == 1.0


def test_proxies_need_not_keep_the_order():
    rng = np.random.default_rng(3)
    labels = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + labels[:, None]
    study = X, labels, np.arange(60) % 3, np.ones((3, 3), dtype=bool), labels
    assert 0.5 < intarsia.proxy_order_rate(*study, n_proxies=20) < 1.0
    assert intarsia.proxy_order_rate(*study, n_proxies=20) == intarsia.proxy_order_rate(*study, n_proxies=20)


def test_bounds_give_as_many_proxies_as_rows():
    X, owner, local = np.arange(18.0).reshape(9, 2), np.zeros(9, dtype=int), np.array([0] * 6 + [1] * 3)
    settings = {"density": "gaussian_full", "shrink": False, "metric": "euclidean", "random_state": 0}
    drawn = draw_proxies(X, owner, np.ones((1, 2), dtype=bool), local, n_proxies=(4, 5), **settings)
    assert np.bincount(local[drawn.nearest_row]).tolist() == [5, 4]


def test_purity_worked_by_hand():
    # participant 0: {a, a} pure, {a, b} not; participant 1: {b} pure, and one row in no local cluster
    purity = intarsia.local_purity(list("aaabba"), [0, 0, 0, 0, 1, 1], [4, 4, 7, 7, 4, -1])
    assert purity == Purity(clusters=pytest.approx(2 / 3), rows=pytest.approx(3 / 5), majority=pytest.approx(4 / 5))


def test_rows_of_impure_local_clusters_can_be_ignored():
    X, seen = np.array([[0.0], [1.0], [9.0], [10.0], [5.0]]), [[True], [True]]
    study = X, [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], seen
    assert intarsia.centroid_order_rate(*study, [0, 0, 1, 1, -1], n_triplets=None) == 1.0


def test_inputs_must_agree():
    one = np.ones((1, 2), dtype=bool)
    with pytest.raises(InputError, match="rows and features must agree"):
        intarsia.order_preservation_rate(np.ones((3, 2)), [0, 1], [0, 0, 0], one)
    with pytest.raises(InputError, match="no triplet"):
        intarsia.order_preservation_rate(np.ones((3, 2)), [0, 0, 0], [0, 0, 0], one)
    with pytest.raises(InputError, match="no triplet"):
        intarsia.local_order_rate(np.ones((3, 2)), [0, 0, 0], [0, 0, 0], one)
    with pytest.raises(InputError, match=r"missing or infinite values in 1 column\(s\)"):
        intarsia.local_order_rate([[1.0, np.nan], [2.0, 3.0]], [0, 1], [0, 0], one)
    with pytest.raises(InputError, match="participants must be numbers from 0 to 0: there are 1 masks"):
        intarsia.order_preservation_rate(np.ones((2, 2)), [0, 1], [0, 1], one)
    with pytest.raises(InputError, match="2 local labels for 3 rows"):
        intarsia.centroid_order_rate(np.ones((3, 2)), [0, 0, 1], [0, 0, 0], one, [0, 1])
    with pytest.raises(InputError, match="no row is in a local cluster"):
        intarsia.local_purity([0, 1], [0, 0], [-1, -1])
    with pytest.raises(SettingError, match="n_combined=1"):
        intarsia.local_order_rate(np.ones((3, 2)), [0, 0, 1], [0, 0, 0], one, n_triplets=None)
    with pytest.raises(SettingError, match="n_combined must be"):
        intarsia.local_order_rate(np.ones((3, 2)), [0, 0, 1], [0, 0, 0], one, n_combined=0)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"participants": ["north", "south", "south"]}, InputError, "participants must be whole numbers"),
        ({"local_labels": [0.0, np.nan, 1.0]}, InputError, "local_labels must be whole numbers"),
        ({"X": [1.0, 2.0, 3.0]}, InputError, "X and masks must be tables. Got arrays of 1 and 2 dimensions"),
        ({"n_triplets": 0}, SettingError, "n_triplets must be a whole number of at least 1 or None. Got 0"),
        ({"n_triplets": -1}, SettingError, "n_triplets must be"),
        ({"n_proxies": (100, 30)}, SettingError, "the smaller one first. Got 100 and 30 instead"),
        ({"n_proxies": 0}, SettingError, "n_proxies must be at least 1"),
    ],
)
def test_wrong_values_are_errors_in_words(change, error, words):
    given = {"X": [[0.0], [1.0], [5.0]], "labels": [0, 0, 1], "participants": [0, 0, 0], "masks": [[True]]}
    with pytest.raises(error, match=words):
        intarsia.proxy_order_rate(**given | {"local_labels": [0, 0, 1]} | change)
    if not {"local_labels", "n_proxies"} & set(change):
        with pytest.raises(error, match=words):
            intarsia.order_preservation_rate(**given | change)
        with pytest.raises(error, match=words):
            intarsia.local_order_rate(**given | change)


def test_rows_without_any_point_have_no_triplet():
    nothing = np.zeros((0, 1)), [], [], [[True]]
    for rate in (intarsia.order_preservation_rate, intarsia.local_order_rate):
        with pytest.raises(InputError, match="no triplet"):
            rate(*nothing)


def test_numbers_of_proxies_may_be_of_numpy():
    X, labels, masks = [[0.0], [1.0], [5.0]], [0, 0, 1], [[True]]
    rates = {
        intarsia.proxy_order_rate(X, labels, [0, 0, 0], masks, [0, 0, 1], n_proxies=n)
        for n in (20, np.int64(20), (20, 20))
    }
    assert len(rates) == 1


def test_all_triplets_need_not_fit_into_memory():
    n, d = 120, 64
    points = Points(np.zeros((n, d)), np.ones((n, d), dtype=bool), np.zeros((n, d)))
    tracemalloc.start()
    blocks = triplets_of(points, np.arange(n) % 2, np.zeros(n, dtype=int), points.seen[:1], None, None)
    assert len(next(blocks)[0].values) < n * (n // 2 - 1) * (n // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24e6  # all triplets take 40 MB
