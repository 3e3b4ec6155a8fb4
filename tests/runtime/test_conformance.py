"""The laws of a runtime (see :mod:`intarsia.runtime.contract`), for each runtime.

A federation of real processes keeps those that can be seen from outside; ``make e2e`` runs them.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from intarsia.exceptions import InputError, IntarsiaError
from intarsia.protocol import Description, Failure
from intarsia.runtime.contract import AbsentError
from intarsia.runtime.drive import drive
from tests.runtime import cases
from tests.runtime.cases import N_ROWS, NAMES

CASES = {
    "in_process": cases.InProcess,
    "wire": cases.Wire,
    "processes": cases.Processes,
    "flare_tasks": cases.FlareTasks,
}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Returns the case of a name, always the same one."""
    made = {}

    def case_of(name):
        if name in ("flare_tasks", "federation"):
            pytest.importorskip("nvflare")
        if name == "federation":
            pytest.importorskip("psutil")
            from tests.runtime.federation_case import RealFederation

            made.setdefault(name, RealFederation(tmp_path_factory.mktemp("federation")))
        elif name not in made:
            made[name] = CASES[name]()
        return made[name]

    yield case_of
    for one in made.values():
        one.close()


@pytest.fixture(scope="module", params=CASES)
def case(request, make):
    """A runtime of which a test can hold the object."""
    return make(request.param)


# the engine's sessions warn in threads of this process, and a warning that is an error would end them
FEDERATION = pytest.param("federation", marks=[pytest.mark.e2e, pytest.mark.filterwarnings("default")])


@pytest.fixture(scope="module", params=[*CASES, FEDERATION])
def study(request, make):
    """A runtime of which a test sees whole runs: the same, and a federation of real processes."""
    return make(request.param)


@pytest.fixture(scope="module")
def expected():
    """What all runtimes must find, with all participants and without c."""
    return {names: cases.InProcess().run(names=names) for names in (NAMES, ("a", "b"))}


def same(run, expected):
    np.testing.assert_array_equal(run.outcome.model.values, expected.outcome.model.values)
    assert run.outcome.participants == expected.outcome.participants
    assert run.outcome.stability == expected.outcome.stability
    for name, labels in expected.labels.items():
        assert run.labels[name] == labels
        np.testing.assert_array_equal(run.outcome.sizes[name], expected.outcome.sizes[name])


# -- what a run leaves ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("transcripts")


@pytest.fixture(scope="module")
def run(study, folder):
    """A run in which all participants answer."""
    return study.run(folder=folder / type(study).__name__)


def test_all_runtimes_find_the_same(run, expected):
    same(run, expected[NAMES])
    assert set(run.answered.values()) == {1}  # nobody was asked the same twice
    assert {name for name, _ in run.answered} == set(NAMES)


def test_the_record_has_each_request_and_its_answer_with_seconds(run, expected):
    whole = expected[NAMES].record
    assert [exchange.phase for exchange in run.record.exchanges] == [exchange.phase for exchange in whole.exchanges]
    for exchange, other in zip(run.record.exchanges, whole.exchanges, strict=True):
        assert list(exchange.seconds) == list(exchange.bytes_in) == list(exchange.bytes_out) == list(NAMES)
        assert min(exchange.seconds.values()) >= 0
        assert (exchange.bytes_in, exchange.bytes_out) == (other.bytes_in, other.bytes_out)
    assert run.record.sent == whole.sent
    assert not run.record.absent


def test_a_transcript_is_resumed_without_asking_again(study, run, folder):
    again = study.run(folder=folder / type(study).__name__)
    assert not again.answered
    np.testing.assert_array_equal(again.outcome.model.values, run.outcome.model.values)
    assert again.record.sent == run.record.sent
    assert [e.seconds for e in again.record.exchanges] == [e.seconds for e in run.record.exchanges]


def test_a_failure_ends_a_run_without_a_quorum_and_names_its_participant(study):
    with pytest.raises(IntarsiaError, match="'c'"):
        study.run(failing=("c",))


def test_with_a_quorum_a_run_continues_without_an_absent_one(study, expected):
    run = study.run(quorum=2, absent=("c",))
    same(run, expected["a", "b"])
    assert set(run.record.absent) == {"c"}


def test_with_a_quorum_a_run_continues_without_the_one_that_fails(study, expected):
    run = study.run(quorum=2, failing=("c",))
    same(run, expected["a", "b"])
    assert any("'c' was excluded from an exchange" in note for note in run.record.notes)
    assert set(run.record.absent) == {"c"}


def test_a_late_one_misses_an_exchange_and_takes_part_again(study):
    run = study.run(quorum=2, late=("c",))
    assert sum(run.outcome.rounds[-1].sizes) == 3 * N_ROWS
    assert run.outcome.sizes["c"].sum() == len(run.labels["c"]) == N_ROWS
    assert set(run.record.absent) == {"c"}
    assert len(run.record.absent["c"]) < len(run.record.exchanges)


# -- what a runtime does -------------------------------------------------------------------------------------------


def describe(names=NAMES):
    return {name: request for name, request in cases.algorithm().start(NAMES).requests.items() if name in names}


def test_replies_are_returned_in_the_order_of_the_requests_also_of_some_participants(case):
    runtime = case.runtime()
    assert runtime.participants() == NAMES
    for names in (NAMES, NAMES[::-1], ("c",)):
        asked = {name: describe()[name] for name in names}
        replies = runtime.exchange(asked)
        assert list(replies) == list(names)
        assert all(isinstance(reply, Description) for reply in replies.values())


def test_on_reply_is_called_once_for_each_reply_and_never_twice_at_the_same_time(case):
    calls, inside = [], []

    def on_reply(name, reply, seconds):
        assert not inside
        inside.append(name)
        time.sleep(0.02)
        assert seconds >= 0
        calls.append((name, reply))
        inside.clear()

    replies = case.runtime(failing=("b",)).exchange(describe(), on_reply)
    assert sorted(name for name, _ in calls) == sorted(NAMES)
    assert all(replies[name] is reply for name, reply in calls)


def test_a_failure_is_a_reply_and_its_cause_is_in_reach_of_one_machine(case):
    runtime = case.runtime(failing=("c",))
    replies = runtime.exchange(describe())
    assert isinstance(replies["c"], Failure)
    assert isinstance(replies["a"], Description)
    assert (runtime.cause_of("c") is not None) == case.has_cause
    assert runtime.cause_of("a") is None


def test_the_cause_of_a_failure_is_the_cause_of_the_error(case):
    runtime = case.runtime(failing=("c",))
    with pytest.raises(IntarsiaError) as error:
        drive(cases.algorithm(), runtime)
    assert error.value.participant == "c"
    assert (error.value.__cause__ is not None) == case.has_cause


def test_what_on_reply_raises_ends_the_exchange(case):
    def on_reply(name, reply, seconds):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        case.runtime().exchange(describe(), on_reply)


def test_unknown_names_are_refused(case):
    with pytest.raises(InputError, match="unknown participants: 'nobody'"):
        case.runtime().exchange({"nobody": describe()["a"]})


class Watching:
    def __init__(self):
        self.events = []

    def asking(self, phase, requests, last):
        self.events.append((phase, sorted(requests)))

    def answered(self, phase, name, reply, seconds):
        assert seconds >= 0
        self.events.append((phase, name, type(reply).__name__))


@pytest.mark.parametrize("failing", [(), ("c",)])
def test_the_watcher_is_told_of_each_request_and_then_of_its_answer_once(case, failing):
    watching, plain = Watching(), Watching()
    for runtime, watcher in ((case.runtime(failing), watching), (cases.InProcess().runtime(failing), plain)):
        drive(cases.algorithm(), runtime, watcher, quorum=2)
    position = -1
    for event in watching.events:
        if len(event) == 2:
            waiting, position = set(event[1]), position + 1
        else:
            waiting.remove(event[1])
    assert position >= 3
    assert sorted(watching.events, key=str) == sorted(plain.events, key=str)


def test_below_the_quorum_the_absent_are_named(case):
    runtime = cases.Between(case.runtime(), lambda name, request: name in "bc")
    with pytest.raises(AbsentError, match="'b', 'c'") as error:
        drive(cases.algorithm(), runtime, quorum=2)
    assert error.value.absent == ("b", "c")


def test_duplicate_names_are_refused(case):
    twice = [*cases.joining(), *cases.joining(names=("b",))]
    with pytest.raises(InputError, match="more than once: 'b'"):
        case.over(twice)
