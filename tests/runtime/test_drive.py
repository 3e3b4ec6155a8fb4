"""The loop of the coordinator: failures become errors, and no cell of a table is in any message."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import InputError, LocalAlgorithmError, TooFewRowsError
from intarsia.protocol import (
    Failure,
    encode,
)
from intarsia.runtime.drive import drive, exception_of
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from tests.two import columns_of_two, participants

ALGORITHMS = [
    FederatedAlgorithm(n_clusters=2, seed=0),
    FederatedAlgorithm(n_clusters=2, seed=0, scale="standard"),
    OneShotAlgorithm(n_clusters=2, seed=0, bounding_boxes=True, force="sampled"),
    OneShotAlgorithm(n_clusters=None, seed=0, scale="standard", force="sampled"),
]


class Tapped(WireRuntime):
    """Keeps the bytes of all replies."""

    def __init__(self, participants):
        super().__init__(participants)
        self.replies = []

    def exchange(self, requests, on_reply=None):
        replies = super().exchange(requests, on_reply)
        self.replies += [encode(reply) for reply in replies.values()]
        return replies


@pytest.mark.parametrize("algorithm", ALGORITHMS[:2])
def test_no_cell_leaves_a_participant(algorithm):
    canary = 9.123456789
    runtime = Tapped(participants(canary))
    drive(algorithm, runtime)
    assert runtime.replies
    assert not any(np.float64(canary).tobytes() in raw for raw in runtime.replies)


def test_a_failure_becomes_the_exception_it_names_and_never_a_foreign_one():
    assert type(exception_of(Failure(error="TooFewRowsError", message="m"))) is TooFewRowsError
    for name in ("SystemExit", "quote", "IntarsiaWarning", "__doc__"):
        assert type(exception_of(Failure(error=name, message="m"))) is LocalAlgorithmError


def test_without_a_quorum_nobody_is_asked_after_a_failure():
    asked = []

    class Failing(InProcessRuntime):
        def _ask(self, name, request):
            asked.append(name)
            return Failure(error="InputError", message="no")

    with pytest.raises(InputError, match="participant 'a': no"):
        drive(ALGORITHMS[0], Failing(participants()))
    assert asked == ["a"]


def test_result_is_the_same_as_through_the_estimator():
    people = participants()
    drive(FederatedAlgorithm(n_clusters=2, seed=0), InProcessRuntime(people))
    result = intarsia.cluster(columns_of_two(), 2, random_state=0)
    for person in people:
        np.testing.assert_array_equal(result.labels[person.name], person.labels)
