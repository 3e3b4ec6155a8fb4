"""Small clusters, and columns, levels and values of few rows, do not leave, also not as differences."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from intarsia import ReleasePolicy
from intarsia.exceptions import TooFewRowsError
from intarsia.privacy.policy import OPEN
from intarsia.protocol import (
    Assign,
    Centres,
    Columns,
    Describe,
    Label,
    encode,
)
from intarsia.protocol.refine import Refine
from tests.privacy.cases import blobs, check_not_subtractable, participant_with, refine, rivals, summarize


def test_a_small_cluster_is_merged_with_the_nearest():
    reply = participant_with(blobs([30, 3, 40])).handle(summarize())
    assert sorted(reply.sizes.tolist()) == [33, 40]


def test_a_small_cluster_that_is_withheld_is_counted_with_the_largest_so_that_it_cannot_be_subtracted():
    policy = ReleasePolicy(small="withhold")
    participant = participant_with(blobs([30, 3, 40, 6]), policy)
    reply = participant.handle(summarize(n_local_clusters=4, max_local_clusters=4))
    assert sorted(reply.sizes.tolist()) == [6, 30, 43]
    assert participant.handle(Assign(groups=np.arange(3), n_groups=3)).audited == 5
    assert (participant.labels >= 0).all()  # rows that were kept back have a label all the same


def test_an_open_policy_suppresses_nothing():
    reply = participant_with(blobs([30, 1, 40]), OPEN).handle(summarize())
    assert sorted(reply.sizes.tolist()) == [1, 30, 40]


def test_few_values_of_a_column_are_counted_with_another_cluster():
    table = blobs([20, 20])
    table["x1"] = table["x1"].copy()
    table["x1"][4:20] = np.nan  # four values are left in the first cluster
    reply = participant_with(table).handle(summarize(n_clusters=2, n_local_clusters=2, density="gaussian"))
    assert sorted(reply.counts[:, 1].tolist()) == [0, 24]
    assert sorted(len(density.parts["covariance"]) for density in reply.densities) == [1, 2]
    assert np.isclose(reply.values[:, 1].max(), np.nanmean(table["x1"]))


def test_columns_and_levels_with_few_rows_are_suppressed():
    table = blobs([20, 20])
    table["rare"] = np.where(np.arange(40) < 4, 1.0, np.nan)
    table["ward"] = ["x"] * 20 + ["y"] * 17 + ["secret"] * 3
    reply = participant_with(table).handle(Describe(scale="standard"))
    assert reply.features == ("x0", "x1")
    assert reply.levels == {"ward": ("x", "y")}
    assert b"secret" not in encode(reply)
    assert b"rare" not in encode(reply)


def test_a_table_with_too_few_rows_cannot_take_part():
    with pytest.raises(TooFewRowsError, match="fewer than the 5 rows"):
        participant_with({"x": [1.0, 2, 3, 4]})
    with pytest.raises(TooFewRowsError, match="every column"):
        participant_with({"x": [1.0, 2, 3, np.nan, np.nan, 3], "y": [np.nan] * 3 + [1.0, 2.0, np.nan]})


def test_small_clusters_are_counted_with_the_largest_in_rounds_and_labels():
    participant = participant_with(blobs([30, 3, 40, 9]))
    request, sent = refine([0.0, 20.0, 40.0, 60.0])
    refined = participant.handle(request).refined[0]
    assert refined.sizes.tolist() == [30, 0, 43, 9]
    assert (refined.counts[1] == 0).all()
    assert (refined.values[1] == 0).all()
    labelled = participant.handle(Label(centres=sent))
    assert labelled.sizes.tolist() == [30, 0, 43, 9]
    assert (labelled.squares[1] == 0).all()
    assert np.bincount(participant.labels).tolist() == [30, 3, 40, 9]  # the owner knows all the same


def test_few_values_cannot_be_subtracted_from_their_column():
    table = blobs([20, 30, 40])
    table["x1"] = table["x1"].copy()
    table["x1"][2:20] = np.nan  # two values are left in the first cluster
    participant = participant_with(table)
    cells = participant.handle(Describe(scale="standard")).moments.count
    assert cells.tolist() == [90, 72]
    reply = participant.handle(summarize())
    assert sorted(reply.counts[:, 1].tolist()) == [0, 30, 42]  # two are in the mean of the largest
    assert np.isclose(reply.values[reply.sizes == 40, 1], np.nanmean([*table["x1"][:20], *table["x1"][50:]]))
    request, _ = refine([0.0, 20.0, 40.0])
    assert sorted(participant.handle(request).refined[0].counts[:, 1].tolist()) == [0, 30, 42]
    assert sorted(participant.handle(request).refined[0].counts[:, 0].tolist()) == [20, 30, 40]


@pytest.mark.parametrize("small", ["merge", "withhold"])
@pytest.mark.parametrize("kind", ["noise", "dropped"])
def test_a_row_of_noise_is_not_the_difference_of_all_rows_and_clusters(small, kind):
    """All rows less those of the clusters: one row of noise, or one that took no part, cell by cell."""
    table = {name: np.concatenate([column, [9.5]]) for name, column in blobs([30, 20, 40]).items()}
    table["x2"] = np.concatenate([np.zeros(90), [np.nan if kind == "dropped" else 0.0]])
    local = DBSCAN(eps=4.0) if kind == "noise" else None
    participant = participant_with(
        table, ReleasePolicy(small=small), local=local, missing="drop" if local is None else "observed"
    )
    total = participant.handle(Describe(scale="standard")).moments
    reply = participant.handle(summarize(columns=Columns(np.zeros(3), np.ones(3))))
    secret = total.mean[0] * total.count[0] - (reply.values[:, 0] * reply.counts[:, 0]).sum()
    assert not np.isclose(secret, 9.5)
    check_not_subtractable(reply, total.count)
    assert sorted(reply.sizes.tolist()) == [20, 30, 41]
    labelled = participant.handle(Assign(groups=np.arange(len(reply.sizes)), n_groups=len(reply.sizes)))
    assert labelled.sizes.sum() == 91
    assert (participant.labels[-1] == -1) == (kind == "noise")  # the owner is told what its algorithm found
    assert participant.local_labels[-1] == -1
    assert (participant.labels[:90] >= 0).all()
    if kind == "dropped":  # DBSCAN does not start from given centres
        check_not_subtractable(participant.handle(refine([0.0, 20.0, 40.0], d=3)[0]).refined[0], total.count)


def test_noise_stays_noise_under_an_open_policy():
    table = {name: np.concatenate([column, [9.5]]) for name, column in blobs([30, 20, 40]).items()}
    participant = participant_with(table, OPEN, local=DBSCAN(eps=4.0))
    assert sorted(participant.handle(summarize()).sizes.tolist()) == [20, 30, 40]
    assert participant.handle(Assign(groups=np.arange(3), n_groups=3)).sizes.sum() == 90


def test_sets_of_centroids_in_one_request_cannot_be_subtracted():
    """Two cuts with a single row between them: the sums of the same side differ by that row."""
    column = np.arange(80.0)
    request = rivals([21.0, 60.0], [21.6, 61.2], [21.0, 60.0], [5.0, 60.0])
    open_ = [part.sizes.tolist() for part in participant_with({"x": column, "y": column}, OPEN).handle(request).refined]
    assert 0 < abs(open_[0][0] - open_[1][0]) < 5  # so it would have told
    first, close, same, other = participant_with({"x": column, "y": column}).handle(request).refined
    assert first.sizes.tolist() == same.sizes.tolist() == open_[0]
    for told in ("values", "counts", "sizes"):  # of the close one nothing new is told
        assert np.array_equal(getattr(close, told), getattr(first, told))
    assert other.sizes.tolist() == open_[3]


@pytest.mark.parametrize("seed", range(5))
def test_a_row_that_is_counted_elsewhere_leaves_no_trace_in_the_last_digit(seed):
    """Two cuts with one row between them: the same rows are told, and so must be the same bits."""
    rng = np.random.default_rng(seed)
    table = {"x": np.concatenate([rng.uniform(0, 1, 40), [1.15], rng.uniform(1.3, 2.3, 40)]), "y": rng.normal(size=81)}
    participant = participant_with(table)
    replies = []
    for cut in (1.1, 1.2):  # the row is right of the first cut and left of the second
        values = np.array([[cut - 1, 0.0], [cut + 1, 0.0]])
        sent = Centres(values, np.array([[True, True]] * 2), np.array([0.0, -3.0]), np.array([3.0, 3.0]))
        request = Refine(seed=0, round=1, rivals=(sent,), min_points=1, max_iter=1)
        replies.append(participant.handle(request).refined[0])
    assert all((getattr(replies[0], told) == getattr(replies[1], told)).all() for told in ("values", "counts", "sizes"))


@pytest.mark.parametrize("gaps", [False, True])
def test_no_two_clusters_of_a_request_differ_by_a_few_values(gaps):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=120), "y": rng.normal(size=120), "z": rng.normal(size=120)}
    if gaps:
        table["z"] = np.where(rng.random(120) < 0.7, np.nan, table["z"])
    for seed in range(20):
        places = np.random.default_rng(seed).normal(size=3)
        request = rivals(*(places + 0.2 * k for k in range(4)), d=3)
        refined = participant_with(table).handle(request).refined
        for n, later in enumerate(refined):
            for earlier in refined[:n]:
                apart = np.abs(later.counts[:, None] - earlier.counts[None])
                both = (later.counts[:, None] > 0) & (earlier.counts[None] > 0)
                shift = np.abs(later.values[:, None] - earlier.values[None])
                moved = both & (shift > 1e-9) & (apart > 0)
                sums = later.values[:, None] * later.counts[:, None] - earlier.values[None] * earlier.counts[None]
                for k, j, m in np.argwhere(moved & (apart < 5)):  # then many were exchanged, or they are others
                    few = sums[k, j, m] / apart[k, j, m]
                    assert not np.isclose(few, table["xyz"[m]]).any()
