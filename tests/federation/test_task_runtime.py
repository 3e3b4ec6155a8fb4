"""The runtime of a federation over threads instead of machines: deadlines, absence, and bytes that are no reply."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

pytest.importorskip("nvflare")

from intarsia.exceptions import FederationError
from intarsia.federation.flare.presence import Connection
from intarsia.federation.flare.task_runtime import is_last
from intarsia.protocol import phase_of
from intarsia.runtime.drive import drive
from tests.runtime import cases
from tests.runtime.cases import NAMES, over_threads


def people():
    return [one.participant() for one in cases.joining()]


def test_whoever_does_not_answer_in_time_is_not_in_the_result_and_a_late_reply_is_discarded():
    runtime, calls = over_threads(people(), delays={"b": 1.0}, deadline=1), []
    replies = runtime.exchange(cases.algorithm().start(NAMES).requests, lambda name, *_: calls.append(name))
    runtime.engine.join()
    assert sorted(replies) == sorted(calls) == ["a", "c"]
    assert runtime.reasons == {"b": "no answer within the deadline"}


def test_a_participant_that_is_not_in_the_job_is_not_asked():
    runtime = over_threads(people(), in_job=("a", "b"))
    # without a last exchange about stability, which asks only those that labelled rows
    outcome = drive(replace(cases.algorithm(), stability=False), runtime, quorum=2)
    assert outcome.participants == ("a", "b")
    assert runtime.reasons == {"c": "not connected"}
    assert runtime.progress()["away"] == ["c"]


def test_a_reply_that_cannot_be_read_is_no_reply():
    class Garbled:
        name, handle = "b", staticmethod(lambda request: None)

    runtime = over_threads([Garbled() if one.name == "b" else one for one in people()])
    replies = runtime.exchange(cases.algorithm().start(NAMES).requests)
    assert sorted(replies) == ["a", "c"]
    assert "did not answer with a message" in runtime.reasons["b"]


def test_an_aborted_run_ends():
    runtime = over_threads(people(), delays=dict.fromkeys(NAMES, 0.5))
    runtime.abort.trigger(True)
    with pytest.raises(FederationError, match="aborted"):
        runtime.exchange(cases.algorithm().start(NAMES).requests)
    runtime.engine.join()


def died(runtime, monkeypatch, name="b"):
    monkeypatch.setattr(runtime.presence, "is_gone", lambda who, _: who == name)


def test_a_site_that_died_is_not_waited_for_until_the_deadline(monkeypatch):
    runtime = over_threads(people(), delays={"b": 1.0}, deadline=60)
    died(runtime, monkeypatch)
    started = time.monotonic()
    replies = runtime.exchange(cases.algorithm().start(NAMES).requests)
    assert time.monotonic() - started < 1.0
    runtime.engine.join()
    assert sorted(replies) == ["a", "c"]
    assert runtime.reasons == {"b": "its site is gone"}
    assert runtime.presence.in_job == {"a", "c"}
    told = runtime.progress()
    assert told["away"] == ["b"]
    assert set(told["seconds_away"]) == {"b"}
    assert told["deadline"] == 60


@pytest.mark.parametrize("quorum", [None, 2])
def test_sites_whose_processes_start_slowly_take_part(quorum):
    """Three looks found no process of the job; then it asks for its task, and no look came between."""
    runtime = over_threads(
        people(),
        dict.fromkeys(NAMES, 0.05),
        connections=lambda names: {name: Connection(True, False) for name in names},
    )
    for _ in range(3):
        runtime.presence.look()
    send = runtime.engine.send

    def fetched(task, fl_ctx, targets):
        runtime.presence.sign(*targets)
        send(task, fl_ctx, targets)

    runtime.engine.send = fetched
    outcome = drive(cases.algorithm(), runtime, quorum=quorum)
    runtime.engine.join()
    assert outcome.participants == NAMES
    assert runtime.reasons == {}
    assert runtime.presence.in_job == set(NAMES)


@pytest.mark.parametrize("labels", [True, False])
def test_a_site_that_dies_when_its_rows_are_to_be_labelled_has_until_the_deadline_to_come_back(labels, monkeypatch):
    monkeypatch.setattr("intarsia.federation.flare.task_runtime.is_last", lambda _: labels)
    runtime = over_threads(people(), delays={"b": 0.3}, deadline=1)
    died(runtime, monkeypatch)
    started = time.monotonic()
    runtime.exchange(cases.algorithm().start(NAMES).requests)
    assert (time.monotonic() - started >= 1.0) == labels
    runtime.engine.join()


def test_only_requests_for_labels_are_the_last_chance(monkeypatch):
    runtime, seen = over_threads(people()), []
    exchange = runtime.exchange
    monkeypatch.setattr(
        runtime, "exchange", lambda requests, *more: seen.extend(requests.values()) or exchange(requests, *more)
    )
    drive(cases.algorithm(), runtime)
    assert {phase_of(request) for request in seen if is_last(request)} == {"label"}
