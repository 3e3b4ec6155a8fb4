"""Algorithms decide and never send; participants answer and never show rows."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.algorithms import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ProtocolError, TooFewRowsError
from intarsia.frames import read_table
from intarsia.messages import (
    Assign,
    Describe,
    Description,
    Failure,
    LocalSummary,
    Refinement,
    decode_reply,
    decode_request,
    encode,
)
from intarsia.participant import Participant
from intarsia.runtime import InProcessRuntime, drive
from intarsia.runtime.base import exception_of

ALGORITHMS = [
    FederatedAlgorithm(n_clusters=2, seed=0),
    FederatedAlgorithm(n_clusters=2, seed=0, scale=True),
    OneShotAlgorithm(n_clusters=2, seed=0, bounding_boxes=True),
    OneShotAlgorithm(n_clusters=None, seed=0, scale=True, force="sampled"),
]


def participants(canary=None):
    rng = np.random.default_rng(0)
    found = []
    for name, columns in {"a": "xy", "b": "yz"}.items():
        columns = {c: rng.normal(size=30) + 9 * (np.arange(30) % 2) for c in columns}
        if canary is not None:
            columns["y"][3] = canary
        found.append(Participant(read_table(columns, name)))
    return found


class WireRuntime(InProcessRuntime):
    """In process, but every message is bytes in between, as it would be between machines."""

    def __init__(self, participants):
        super().__init__(participants)
        self.replies = []

    def exchange(self, requests):
        replies = {}
        for name, request in requests.items():
            raw = encode(self._participants[name].handle(decode_request(encode(request))))
            self.replies.append(raw)
            replies[name] = decode_reply(raw)
        return replies


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_runtime_gives_the_same_labels_and_centroids(algorithm):
    here, there = participants(), participants()
    direct, wired = drive(algorithm, InProcessRuntime(here)), drive(algorithm, WireRuntime(there))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(direct.model.values, wired.model.values)


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
def test_no_cell_leaves_a_participant(algorithm):
    canary = 9.123456789
    runtime = WireRuntime(participants(canary))
    drive(algorithm, runtime)
    assert runtime.replies
    assert not any(np.float64(canary).tobytes() in raw for raw in runtime.replies)


def test_labels_never_travel():
    runtime = WireRuntime(participants())
    drive(ALGORITHMS[0], runtime)
    for raw in runtime.replies:
        reply = decode_reply(raw)
        arrays = [getattr(reply, f) for f in reply.__struct_fields__ if isinstance(getattr(reply, f), np.ndarray)]
        assert all(30 not in array.shape for array in arrays)


def test_a_participant_answers_only_requests():
    (participant, _) = participants()
    reply = participant.handle("rows, please")
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"


def test_groups_before_clusters_are_refused():
    (participant, _) = participants()
    reply = participant.handle(Assign(groups=np.array([0]), n_groups=1))
    assert isinstance(reply, Failure)
    assert "'a' was told the groups of clusters that it does not have" in reply.message


def test_a_failure_becomes_the_exception_it_names_and_never_a_foreign_one():
    assert type(exception_of(Failure(error="TooFewRowsError", message="m"))) is TooFewRowsError
    for name in ("SystemExit", "quote", "IntarsiaWarning", "__doc__"):
        assert type(exception_of(Failure(error=name, message="m"))) is LocalAlgorithmError


def test_an_unforeseen_error_tells_its_kind_but_not_its_text(monkeypatch):
    (participant, _) = participants()
    monkeypatch.setattr("intarsia.participant.responder.moments_of", lambda *_: 1 / 0)
    reply = participant.handle(Describe(moments=True))
    assert reply.message == "participant 'a' failed with a ZeroDivisionError while answering Describe"
    assert isinstance(participant.last_error, ZeroDivisionError)


class Liar:
    """Answers everything rightly but one kind of reply, which it replaces."""

    def __init__(self, kind, change):
        self.runtime, self.kind, self.change = InProcessRuntime(participants()), kind, change

    def participants(self):
        return self.runtime.participants()

    def exchange(self, requests):
        replies = self.runtime.exchange(requests)
        if isinstance(replies["b"], self.kind):
            replies["b"] = self.change(replies["b"])
        return {name: reply for name, reply in replies.items() if reply is not None}


def changed(reply, **fields):
    return type(reply)(**{f: fields.get(f, getattr(reply, f)) for f in reply.__struct_fields__})


LIES = {
    "silence": (Description, lambda r: None),
    "another kind": (
        Description,
        lambda r: Refinement(values=np.ones((1, 1)), counts=np.ones((1, 1)), sizes=np.ones(1, dtype=int)),
    ),
    "no features": (Description, lambda r: changed(r, features=())),
    "a feature twice": (Description, lambda r: changed(r, features=("y", "y"))),
    "other features": (LocalSummary, lambda r: changed(r, features=("y", "w"))),
    "wrong shape": (LocalSummary, lambda r: changed(r, values=r.values[:, :1])),
    "sizes in two dimensions": (LocalSummary, lambda r: changed(r, sizes=np.ones((2, 2), dtype=int))),
    "not a number": (LocalSummary, lambda r: changed(r, values=r.values * np.nan)),
    "negative counts": (LocalSummary, lambda r: changed(r, counts=-r.counts)),
    "infinite counts": (LocalSummary, lambda r: changed(r, counts=r.counts * np.inf)),
    "empty clusters": (LocalSummary, lambda r: changed(r, sizes=r.sizes * 0)),
    "refined to nothing": (Refinement, lambda r: changed(r, values=r.values * np.nan)),
    "refined sizes": (Refinement, lambda r: changed(r, sizes=r.sizes - 1000)),
    "refined shape": (Refinement, lambda r: changed(r, counts=r.counts[:1])),
    "failure": (LocalSummary, lambda r: Failure(error="InputError", message="no")),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_malformed_reply_is_refused_by_name(lie):
    kind, change = LIES[lie]
    with pytest.raises(IntarsiaError) as error:
        drive(FederatedAlgorithm(n_clusters=2, seed=0), Liar(kind, change))
    if lie != "failure":
        assert isinstance(error.value, ProtocolError)
        assert "'b'" in str(error.value)


ONE_SHOT_LIES = {
    "too few covariances": lambda r: changed(r, covariances=r.covariances[:1]),
    "a covariance of the wrong shape": lambda r: changed(r, covariances=(np.ones(5),) * len(r.covariances)),
    "an infinite covariance": lambda r: changed(r, covariances=tuple(c * np.inf for c in r.covariances)),
    "a box of the wrong shape": lambda r: changed(r, low=r.low[:, :1]),
    "moments that do not fit": lambda r: changed(r, moments=changed_moments(r)),
    "no covariances": lambda r: changed(r, covariances=None),
}


def changed_moments(reply):
    from intarsia.messages import Moments

    return Moments(count=np.ones(9), mean=np.ones(9), m2=np.ones(9))


@pytest.mark.parametrize("lie", ONE_SHOT_LIES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_malformed_density_is_refused_by_name(lie):
    with pytest.raises(ProtocolError, match="'b'"):
        drive(OneShotAlgorithm(n_clusters=2, seed=0, bounding_boxes=True), Liar(LocalSummary, ONE_SHOT_LIES[lie]))


def test_an_algorithm_can_be_answered_by_hand():
    """No runtime at all: start, read the questions, write the answers."""
    algorithm = FederatedAlgorithm(n_clusters=1, max_rounds=0)
    step = algorithm.start(["a", "b"])
    assert {name: type(request) for name, request in step.requests.items()} == {"a": Describe, "b": Describe}
    step = algorithm.advance(
        step.state, {"a": Description(features=("x",), n_rows=2), "b": Description(features=("x",), n_rows=2)}
    )
    summary = {"features": ("x",), "sizes": np.array([2])}
    step = algorithm.advance(
        step.state,
        {
            "a": LocalSummary(values=np.array([[1.0]]), counts=np.array([[2.0]]), **summary),
            "b": LocalSummary(values=np.array([[4.0]]), counts=np.array([[1.0]]), **summary),
        },
    )
    assert step.requests["a"].centres.values.tolist() == [[2.0]]


def test_result_is_the_same_as_through_the_estimator():
    people = participants()
    drive(FederatedAlgorithm(n_clusters=2, seed=0), InProcessRuntime(people))
    tables = {p.name: dict(zip(p._table.names, p._table.values.T, strict=True)) for p in people}
    result = intarsia.cluster(tables, 2, random_state=0)
    for person in people:
        np.testing.assert_array_equal(result.labels[person.name], person.labels)
