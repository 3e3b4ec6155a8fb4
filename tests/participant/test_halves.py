"""Local clusters that are told as two halves each: the halves add up to the clusters, and none is small."""

import msgspec
import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from intarsia.coordinator.settings import FederatedSettings, OneShotSettings
from intarsia.exceptions import ProtocolError, ReleaseError, TooFewClustersError
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Failure, Summarize
from intarsia.tables.frame import read_table
from tests.participant.test_participant import LIMITS, POLICIES, assert_same, both, frame_of

WHOLE = Summarize(seed=1, n_clusters=3, n_local_clusters=None, max_local_clusters=3)
HALVES = msgspec.structs.replace(WHOLE, halves=True)


def sums_of(summary, groups):
    """Rows, values and sums of each group of the summary's clusters."""
    member = (groups == np.arange(groups.max() + 1)[:, None]).astype(float)
    return member @ summary.sizes, member @ summary.counts, member @ (summary.counts * summary.values)


def sorted_sums(summary):
    groups = np.arange(len(summary.sizes)) if summary.half_of is None else summary.half_of
    sizes, counts, sums = sums_of(summary, groups)
    order = np.lexsort((sums[:, 0], sizes))
    return sizes[order], counts[order], sums[order]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_halves_add_up_to_the_local_clusters(missing):
    table = read_table(frame_of(600, missing), "a")
    whole, halves = (Participant(table).handle(request) for request in (WHOLE, HALVES))
    assert halves.half_of.tolist() == [0, 1, 2, 0, 1, 2]
    for one, other in zip(sorted_sums(whole), sorted_sums(halves), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert halves.clarity == whole.clarity


def test_the_owner_sees_local_clusters_not_halves():
    participants = [Participant(read_table(frame_of(600), "a")) for _ in range(2)]
    for participant, request in zip(participants, (WHOLE, HALVES), strict=True):
        participant.handle(request)
    assert (participants[0].local_labels == participants[1].local_labels).all()


def test_a_cluster_with_few_rows_stays_whole():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0.0, 1.0, 200), rng.normal(50.0, 1.0, 9)])
    table = read_table({"x": x, "y": rng.normal(size=209)}, "a")
    asked = msgspec.structs.replace(HALVES, n_clusters=2, max_local_clusters=2)
    found = Participant(table).handle(asked)
    assert sorted(np.bincount(found.half_of).tolist()) == [1, 2]
    assert found.sizes.min() == 9


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("limits", LIMITS)
def test_streamed_rows_give_the_same_halves(policy, limits, tmp_path):
    one, other = both(frame_of(missing=0.1), tmp_path, POLICIES[policy], LIMITS[limits])
    replies = [participant.handle(HALVES) for participant in (one, other)]
    assert not isinstance(replies[0], Failure), replies[0]
    assert_same(*(msgspec.structs.asdict(reply) for reply in replies))


def test_no_half_is_below_the_minimum():
    policy = ReleasePolicy(min_cluster_size=20)
    participant = Participant(read_table(frame_of(150), "a"), pipeline=Pipeline(policy))
    found = participant.handle(HALVES)
    assert found.sizes.min() >= 20
    assert (found.counts[found.counts > 0] >= 20).all()


def test_only_a_study_with_halves_asks_for_them():
    allowed, refused = FederatedSettings(3).terms("a"), FederatedSettings(3, n_rivals=0).terms("a")
    asked = msgspec.structs.replace(HALVES, seed=0)
    assert list(asked.departures(allowed)) == []
    assert list(asked.departures(refused)) == ["halves is True, and the study says False"]
    assert not OneShotSettings(3).terms("a").halves
    participant = Participant(read_table(frame_of(150), "a"), pipeline=Pipeline(ReleasePolicy(), terms=refused))
    participant.handle(asked)
    assert isinstance(participant.last_error, ReleaseError)


@pytest.mark.parametrize("wrong", [[0, 2, 2, 0, 2, 2], [0, 1, 2, -1, 1, 2], [0, 1, 2, 0, 1, 1 << 53], [0, 1, 2]])
def test_halves_must_be_those_of_clusters(wrong):
    reply = Participant(read_table(frame_of(600), "a")).handle(HALVES)
    with pytest.raises(ProtocolError, match="numbered from 0 without a break"):
        msgspec.structs.replace(reply, half_of=np.array(wrong)).check()


def test_rows_that_are_all_noise_are_told_to_have_no_cluster():
    participant = Participant(read_table(frame_of(60), "a"), DBSCAN(eps=1e-9, min_samples=50))
    with pytest.raises(TooFewClustersError, match="every row is noise"):
        participant.handle(HALVES).check()
