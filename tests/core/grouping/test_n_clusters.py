from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples, silhouette_score

from intarsia import OneShotClustering
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import extent_of_densities
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.grouping.agglomeration import LocalForces, agglomerate
from intarsia.core.grouping.n_clusters import (
    Summaries,
    choose_n_clusters,
    expected_distances,
    found_by_participants,
    silhouette_of_halves,
    silhouettes_of_complete_rows,
    silhouettes_of_cuts,
    silhouettes_of_rows,
)
from intarsia.core.grouping.tried_numbers import TriedNumbers
from tests.naive import silhouette


def test_expected_distance_worked_by_hand():
    # one feature, extent 10; means 0 and 6, variances 1 and 3: E d² = (36 + 4) / 100
    extent = extent_of_densities([Gaussian(np.array([5.0]), np.array([0.0]))] * 2, np.ones((2, 1), dtype=bool), 0.0)
    extent = extent._replace(low=np.array([0.0]), high=np.array([10.0]))
    densities = [Gaussian(np.array([0.0]), np.array([1.0])), Gaussian(np.array([6.0]), np.array([3.0]))]
    d = expected_distances(densities, np.ones((2, 1), dtype=bool), extent)
    np.testing.assert_allclose(d, np.sqrt([[0.02, 0.4], [0.4, 0.06]]))


def test_on_points_it_is_the_silhouette_of_scikit_learn_with_the_own_point_counted():
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 6])
    labels = np.repeat([0, 1], 20)
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    # a point is at distance 0 from itself; scikit-learn leaves it out of the mean, we count it: 20/19 of a difference
    assert silhouette(d, labels) == pytest.approx(silhouette_score(points, labels), abs=0.02)


def test_incomparable_pairs_are_ignored_and_nothing_to_compare_is_nan():
    nan = np.nan
    d = np.array([[0.1, 0.9, nan], [0.9, 0.1, 0.1], [nan, 0.1, 0.1]])
    assert silhouette(d, np.array([0, 1, 1])) == pytest.approx(np.mean([8 / 9, 8 / 9]))
    assert np.isnan(silhouette(np.array([[0.1, nan], [nan, 0.1]]), np.array([0, 1])))


def test_the_planted_number_has_the_highest_silhouette():
    means = np.array([0.0, 0.1, 5.0, 5.1, 10.0, 10.1])[:, None]
    densities = [Gaussian(m, np.array([0.05])) for m in means]
    seen = np.ones((6, 1), dtype=bool)
    d = expected_distances(densities, seen, extent_of_densities(densities, seen, 2.0))
    scores = {2: [0, 0, 0, 0, 1, 1], 3: [0, 0, 1, 1, 2, 2], 4: [0, 0, 1, 1, 2, 3], 6: [0, 1, 2, 3, 4, 5]}
    assert max(scores, key=lambda k: silhouette(d, np.array(scores[k]))) == 3


def test_weighted_silhouette_worked_by_hand():
    # own distances 1, between 4; cluster 0 and 1 together, 1 standing for three points, and 2 alone
    d = np.array([[1.0, 2.0, 4.0], [2.0, 1.0, 4.0], [4.0, 4.0, 1.0]])
    w = np.array([1.0, 3.0, 2.0])
    # cluster 0: own (1·1 + 3·2)/4 = 7/4; cluster 1: (1·2 + 3·1)/4 = 5/4; cluster 2: own 1; the others at 4
    by_hand = (1 * (1 - 7 / 16) + 3 * (1 - 5 / 16) + 2 * (1 - 1 / 4)) / 6
    assert silhouette(d, np.array([0, 0, 1]), w) == pytest.approx(by_hand)


def test_what_participants_with_a_quarter_of_the_rows_find():
    assert found_by_participants([5], [10]) == 5
    assert found_by_participants([3, 4, 9], [100, 100, 100]) == 9
    assert found_by_participants([3, 4, 9], [100, 100, 50]) == 4
    assert found_by_participants([2, 3, 4, 9], [100, 100, 100, 100]) == 4  # of four, one alone does not count
    assert found_by_participants([2, 3, 4, 9], [100, 100, 20, 20]) == 3
    assert found_by_participants([1, 2], [90, 10]) == 1


@pytest.mark.parametrize("d", [1, 5])
def test_halves_of_a_gaussian(d):
    spread = np.ones(d)
    spread[0] = 1 - 2 / np.pi
    side = np.eye(1, d)[0] * np.sqrt(2 / np.pi)
    densities = [Gaussian(-side, spread), Gaussian(side, spread)]
    seen = np.ones((2, d), dtype=bool)
    distances = expected_distances(densities, seen, extent_of_densities(densities, seen, 2.0))
    assert silhouette(distances, np.array([0, 1])) == pytest.approx(silhouette_of_halves(d))


def told(best: int, most: int = 8):
    """What the rows of a participant show that has so many clear clusters."""
    numbers, yes = np.arange(2, most + 1), np.ones(most - 1)
    clear = (numbers <= best) * 1.0
    return TriedNumbers(0.7 - 0.1 * abs(numbers - best), 0.2 * yes, 0.01 * yes, yes, yes, clear, 0.1 * numbers)


def test_one_participant_does_not_decide_alone_and_tables_are_weighted_by_rows():
    local = planted([[0.0, 9.0, 18.0, 27.0], [0.0, 9.0], [0.0, 9.0]])
    alone = local._replace(tried={0: told(4), 1: told(2), 2: told(2)})
    alone = with_rows(alone, np.array([25] * 4 + [150] * 4))
    assert choose(alone).found == 2
    assert choose(with_rows(alone, np.array([500] * 4 + [50] * 4))).found == 4
    assert choose(alone).tried.silhouette[0] == pytest.approx((100 * 0.5 + 600 * 0.7) / 700)
    assert choose(local).found == 4  # without tables: what participants with a quarter of the rows find


def test_a_cut_with_a_tiny_cluster_is_no_reason_to_leave_the_number_of_the_participants():
    sizes = np.array([50, 50, 50, 50, 1])
    far = planted([[0.0, 9.0], [0.0, 9.0, 500.0]])._replace(tried={0: told(2), 1: told(2)}, sizes=sizes)
    assert choose(far._replace(sizes=np.full(5, 50))).n_clusters == 3
    assert choose(far).n_clusters == 2


def test_of_larger_cuts_the_best_without_a_tiny_cluster_is_taken():
    local = planted([[0.0, 30.0], [0.0, 30.0, 60.0, 82.0]])._replace(tried={0: told(2), 1: told(2)})
    assert choose(local).n_clusters == 4
    few = choose(local._replace(sizes=np.array([50, 50, 50, 50, 50, 4])))
    assert max(few.silhouettes, key=few.silhouettes.get) == 4
    assert few.n_clusters == 3


def test_where_silhouettes_are_nearly_perfect_a_small_difference_counts():
    # with 39 of 40 clusters, two are joined, and only their rows have lower silhouettes
    means = [list(1000.0 * np.arange(40))] * 2
    chosen = choose(planted(means)._replace(tried={i: told(39, 45) for i in range(2)}))
    assert 0.95 < chosen.silhouettes[39] < chosen.silhouettes[40] < chosen.silhouettes[39] + 0.03
    assert (chosen.found, chosen.n_clusters) == (39, 40)


@pytest.mark.parametrize(("apart", "chosen"), [(4.0, 3), (1.2, 2)])
def test_a_cut_without_structure_is_no_reason_to_leave_the_number_of_the_participants(apart, chosen):
    # three clusters, each as far from the others, at three participants that see two of them
    densities = [Gaussian(apart * axis, np.ones(3)) for axis in np.eye(3)] * 3
    local = Summaries(
        densities,
        np.ones((9, 3), dtype=bool),
        np.repeat([0, 1, 2], 3),
        np.full(9, 50),
        np.full(9, 50.0),
        np.ones(9, dtype=bool),
    )
    found = choose(local._replace(tried=dict.fromkeys(range(3), told(2))))
    assert found.silhouettes[3] > found.silhouettes[2] + 0.03
    assert (found.silhouettes[3] > 0.25) == (chosen == 3)
    assert (found.found, found.n_clusters) == (2, chosen)


def test_there_are_no_more_clusters_than_local_clusters():
    alone = planted([[0.0], [9.0]])._replace(tried={0: told(4), 1: told(4)})
    assert choose(alone).n_clusters == 2


def of_rows(sizes):
    """Sizes, and weights that are these."""
    return sizes, sizes.astype(float)


def with_rows(local, sizes):
    return local._replace(sizes=sizes, weight=sizes.astype(float))


def planted(means: list[list[float]], *, chose: bool = True):
    """Participants with a cluster around each of these means, as the choice of K sees them."""
    owner = np.repeat(np.arange(len(means)), [len(row) for row in means])
    densities = [Gaussian(np.array([m, 0.0]), np.array([1.0, 1.0])) for row in means for m in row]
    n = len(densities)
    return Summaries(densities, np.ones((n, 2), dtype=bool), owner, *of_rows(np.full(n, 50)), np.full(n, chose))


def choose(local: Summaries, *, separate: bool = True):
    extent = extent_of_densities(local.densities, local.seen, 2.0)
    forces = exact_forces(local.densities, local.seen, extent, 2.0, 0.01)
    return choose_n_clusters(local, LocalForces(forces, local.owner), extent, separate=separate)


@pytest.mark.parametrize("separate", [True, False])
def test_chosen_from_summaries(separate):
    # two near pairs: the highest silhouette is that of 2 groups, but participants tell the pairs apart
    pairs = [[0.0, 4.0, 40.0, 44.0]] * 3
    assert choose(planted(pairs, chose=False), separate=False).n_clusters == 2
    chosen = choose(planted(pairs), separate=separate)
    assert chosen.n_clusters == 4
    assert chosen.found == 4
    assert max(chosen.silhouettes, key=chosen.silhouettes.get) == 2
    # nobody holds all of them
    assert choose(planted([[0.0, 20.0], [20.0, 40.0], [40.0, 60.0]]), separate=separate).n_clusters == 4


def test_one_cluster_can_be_chosen():
    assert choose(planted([[0.0], [0.1], [-0.1]])).n_clusters == 1
    assert choose(planted([[0.0], [0.0], [9.0]])).n_clusters == 2  # everybody holds one, not the same
    assert choose(planted([[3.0]])) == (1, {}, 1, None)


def test_a_cloud_is_one_cluster_and_a_participant_with_a_single_one_does_not_split_it():
    rng = np.random.default_rng(0)
    cloud = {
        name: dict(zip(columns, rng.normal(size=(3, 150)), strict=True))
        for name, columns in zip("pqr", ("abc", "bcd", "cde"), strict=True)
    }
    assert OneShotClustering(random_state=0).fit_result(cloud).n_clusters == 1
    centres = {"p": (0.0, 9.0, 18.0), "q": (0.0, 9.0, 18.0), "r": (18.0,)}
    tables = {
        name: {column: np.repeat(middle, 50) + rng.normal(size=50 * len(middle)) for column in "abc"}
        for name, middle in centres.items()
    }
    assert OneShotClustering(random_state=0).fit_result(tables).n_clusters == 3
    # numbers that were given say nothing about K
    assert OneShotClustering(n_local_clusters=6, random_state=0).fit_result(tables).n_clusters == 3


def test_silhouettes_of_rows_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 3))
    labels = rng.integers(4, size=30)
    labels[7] = 4  # a cluster of one row
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(silhouettes_of_rows(d, labels), silhouette_samples(points, labels), atol=1e-12)
    assert (silhouettes_of_rows(np.zeros((4, 4)), np.array([0, 0, 1, 1])) == 0).all()


@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_silhouettes_along_the_tree_are_those_of_every_cut(hidden):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(25, 2))
    d = np.linalg.norm(points[:, None] - points[None], axis=2) + 0.1
    incomparable = np.triu(rng.random(d.shape) < hidden, 1)
    d[incomparable | incomparable.T] = np.nan
    weights = rng.integers(1, 50, size=25).astype(float)
    tree = agglomerate(1 / d)
    slow = {k: silhouette(d, tree.cut(k), weights) for k in range(max(2, tree.fewest_groups), 26)}
    found = silhouettes_of_cuts(tree, d, weights)
    assert list(found) == [k for k in slow if not np.isnan(slow[k])]
    np.testing.assert_allclose(list(found.values()), [slow[k] for k in found])


@pytest.mark.parametrize("n", [3, 200, 450])
def test_silhouettes_without_the_matrix_of_distances_are_the_same(n):
    rng = np.random.default_rng(n)
    rows, labels = 50 + rng.normal(size=(n, 4)), rng.integers(-1, 3, size=n)
    rows[1] = rows[0]  # no distance at all
    apart = np.sqrt(np.square(rows[:, None] - rows).sum(axis=2))
    np.testing.assert_allclose(
        silhouettes_of_complete_rows(rows, labels), silhouettes_of_rows(apart, labels), atol=1e-7
    )
