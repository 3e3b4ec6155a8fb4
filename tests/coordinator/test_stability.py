"""The coordinator asks for stability once, after the labels, and weighs the answers by rows."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import LocalStability, phase_of
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from intarsia.tables.frame import read_table


def _tables():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=(2, 80))
    rows = 9.0 * truth[..., None] + rng.normal(size=(2, 80, 2))
    return {"a": {"x": rows[0][:, 0], "y": rows[0][:, 1]}, "b": {"y": rows[1][:, 0], "z": rows[1][:, 1]}}


ALGORITHMS = {
    "federated": FederatedAlgorithm(2, n_starts=2, stability=True),
    "mixture": FederatedAlgorithm(2, n_starts=2, model="mixture", stability=True),
    "K chosen": FederatedAlgorithm(None, n_starts=2, stability=True),
    "one shot": OneShotAlgorithm(2, n_starts=2, stability=True),
}


class Watching(WireRuntime):
    """Keeps the phases, and may change the last replies."""

    def __init__(self, change=None):
        super().__init__([Participant(read_table(t, name), pipeline=Pipeline()) for name, t in _tables().items()])
        self.phases, self._change = [], change

    def exchange(self, requests, on_reply=None):
        self.phases.append(phase_of(next(iter(requests.values()))))
        replies = super().exchange(requests, on_reply)
        if self._change is not None and self.phases[-1] == "stability":
            replies["b"] = self._change(replies["b"])
        return replies


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_is_the_last_exchange_and_part_of_the_outcome(name):
    runtime = Watching()
    outcome = drive(ALGORITHMS[name], runtime)
    assert runtime.phases[-1] == "stability"
    assert runtime.phases.count("stability") == 1
    figures = outcome.stability
    assert figures.local
    assert figures.smallest >= 0.9
    assert figures.sizes == tuple(sum(outcome.sizes.values()).tolist())


def test_nobody_is_asked_unless_the_study_says_so_or_about_one_cluster():
    for algorithm in (FederatedAlgorithm(2, n_starts=2), FederatedAlgorithm(1, n_starts=2, stability=True)):
        runtime = Watching()
        assert drive(algorithm, runtime).stability is None
        assert "stability" not in runtime.phases


def test_answers_are_weighted_by_rows():
    def lower(reply):
        return LocalStability(scores=np.array([0.0, np.nan]), fewest=reply.fewest)

    outcome = drive(ALGORITHMS["federated"], Watching(lower))
    honest = drive(ALGORITHMS["federated"], Watching())
    a, b = (outcome.sizes[name] for name in "ab")
    assert outcome.stability.scores[0] < honest.stability.scores[0]
    assert outcome.stability.sizes == (int(a[0] + b[0]), int(a[1]))


def test_with_a_quorum_the_others_are_enough():
    class Silent(InProcessRuntime):
        def exchange(self, requests, on_reply=None):
            if phase_of(next(iter(requests.values()))) == "stability":
                requests = {"a": requests["a"]}
            return super().exchange(requests, on_reply)

    held = [Participant(read_table(table, name), pipeline=Pipeline()) for name, table in _tables().items()]
    outcome = drive(ALGORITHMS["federated"], Silent(held), quorum=1)
    assert outcome.stability.sizes == tuple(outcome.sizes["a"].tolist())


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_estimators_measure_it_where_they_are_told_to(method):
    result = intarsia.cluster(_tables(), 2, method=method, stability=True, n_starts=2, random_state=0)
    figures = result.outcome.stability
    assert figures.local
    assert "local, by each participant" in str(figures)
    about = "Clusters come back when rows are resampled"
    (finding,) = [f for f in result.summarise().findings if f.about == about]
    assert finding.state == "good"
    assert "in the rows of each participant by itself" in finding.seen
    assert not result.stability(n_resamples=2).local  # measured anew, over all rows
