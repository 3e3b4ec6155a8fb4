"""Requests that a policy forbids, or that are too many, are refused."""

from concurrent.futures import ThreadPoolExecutor

from intarsia import ReleasePolicy
from intarsia.privacy.journal import Journal
from intarsia.protocol import (
    Describe,
    Failure,
)
from tests.privacy.cases import blobs, participant_with, refine, rivals, summarize


def test_requests_for_values_of_single_rows_are_refused():
    participant = participant_with(blobs([20, 20]))
    for request in (
        Describe(scale="minmax"),
        Describe(scale="robust"),
        summarize(scale="minmax"),
        summarize(bounding_boxes=True),
        summarize(density="discrete"),
    ):
        reply = participant.handle(request)
        assert isinstance(reply, Failure)
        assert reply.error == "ReleaseError"
    allowed = participant_with(blobs([20, 20]), ReleasePolicy(allow_extremes=True, allow_discrete=True))
    assert allowed.handle(Describe(scale="minmax")).moments.low is not None
    assert allowed.handle(summarize(density="discrete", n_local_clusters=2)).densities


def test_rounds_are_counted_and_the_same_request_counts_once(tmp_path):
    policy, journal = ReleasePolicy(max_rounds=2), tmp_path / "released.jsonl"
    participant = participant_with(blobs([30, 40]), policy, Journal(journal))
    for round_ in (1, 1, 2):
        assert not isinstance(participant.handle(refine([0.0, 20.0], round_=round_)[0]), Failure)
    assert participant.handle(refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    again = participant_with(blobs([30, 40]), policy, Journal(journal))  # after a restart
    assert again.handle(refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    assert not isinstance(again.handle(refine([0.0, 20.0], round_=2)[0]), Failure)


def test_requests_that_end_in_a_failure_are_counted(tmp_path):
    policy, journal = ReleasePolicy(max_rounds=2), Journal(tmp_path / "released.jsonl")
    participant = participant_with(blobs([30, 40]), policy, journal)
    for round_ in (1, 2):  # three features, where there are two
        assert participant.handle(refine([0.0, 20.0], d=3, round_=round_)[0]).error == "ProtocolError"
    assert participant.handle(refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    again = participant_with(blobs([30, 40]), policy, journal)
    assert again.handle(refine([0.0, 20.0], round_=4)[0]).error == "ReleaseError"
    assert {entry["reply"] for entry in journal.entries("left")} == {"reply.failure"}


def test_jobs_at_the_same_time_are_counted_together(tmp_path):
    policy = ReleasePolicy(max_rounds=3)
    jobs = [participant_with(blobs([30, 40]), policy, Journal(tmp_path / "released.jsonl")) for _ in range(3)]

    def ask(job):
        return [jobs[job].handle(refine([0.0, 20.0], round_=10 * job + n)[0]) for n in range(4)]

    with ThreadPoolExecutor(3) as pool:
        replies = [reply for some in pool.map(ask, range(3)) for reply in some]
    assert sum(not isinstance(reply, Failure) for reply in replies) == 3
    assert {reply.error for reply in replies if isinstance(reply, Failure)} == {"ReleaseError"}


def test_rounds_with_several_sets_are_half_of_all():
    participant = participant_with(blobs([30, 40]), ReleasePolicy(max_rounds=12))
    for n in range(6):
        assert not isinstance(participant.handle(rivals([0.0, 20.0], [5.0, 9.0], round_=n)), Failure)
    refused = participant.handle(rivals([0.0, 20.0], [5.0, 9.0], round_=6))
    assert "several sets" in refused.message
    for n in range(6, 12):
        assert not isinstance(participant.handle(refine([0.0, 20.0], round_=n)[0]), Failure)
    assert participant.handle(refine([0.0, 20.0], round_=12)[0]).error == "ReleaseError"
