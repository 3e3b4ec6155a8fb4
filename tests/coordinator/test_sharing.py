"""At the end of a run each participant is given the public model, and the result does not wait for anybody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator import sharing as module
from intarsia.coordinator.sharing import SharingAlgorithm
from intarsia.exceptions import ProtocolError
from intarsia.participant import Participant
from intarsia.participant.copies import keep_model
from intarsia.protocol import Failure, KeepModel, Labelled, ModelKept, encode, phase_of
from intarsia.results.model_file import public_from_bytes, public_to_bytes
from intarsia.results.public import public_from
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.tables.frame import read_table


def participants():
    rng = np.random.default_rng(0)
    far = 9.0 * (np.arange(60) % 2)
    tables = {"a": "xy", "b": "yz", "c": "xz"}
    found = {n: {c: rng.normal(size=60) + far for c in columns} for n, columns in tables.items()}
    return {name: Participant(read_table(table, name)) for name, table in found.items()}


class Sites(InProcessRuntime):
    """Participants that keep the model; ``answers`` are others' replies to it, None for one that is gone."""

    def __init__(self, answers=()):
        self.people, self.phases, self.kept, self.answers = participants(), [], {}, dict(answers)
        super().__init__(list(self.people.values()))

    def exchange(self, requests, on_reply=None):
        self.phases.append(phase_of(next(iter(requests.values()))))
        if self.phases[-1] != "keep_model":
            return super().exchange(requests, on_reply)
        replies = {}
        for name, request in requests.items():
            if name not in self.answers:
                keep = {name: request.model}
                replies[name] = keep_model(
                    self.people[name], request, None, lambda _, keep=keep: self.kept.update(keep)
                )
            elif self.answers[name] is not None:
                replies[name] = self.answers[name]
        return replies


ALGORITHMS = {
    "federated": FederatedAlgorithm(2, scale="standard", n_starts=2, stability=True),
    "one shot": OneShotAlgorithm(2, scale="standard", n_starts=2),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_model_is_given_last_to_everybody_and_the_result_is_that_of_the_other_algorithm(name):
    plain, shared = Sites(), Sites()
    expected = drive(ALGORITHMS[name], plain)
    outcome = drive(SharingAlgorithm(ALGORITHMS[name]), shared)
    assert shared.phases == [*plain.phases, "keep_model"]
    public = public_to_bytes(public_from(expected, expected.model.space.names))
    assert shared.kept == dict.fromkeys("abc", public)
    assert public_to_bytes(public_from(outcome, outcome.model.space.names)) == public
    assert outcome.remarks == expected.remarks


def test_who_is_gone_or_refuses_is_named_and_holds_up_nobody():
    answers = {"b": None, "c": Failure(error="ReleaseError", message="no")}
    sites = Sites(answers)
    outcome = drive(SharingAlgorithm(ALGORITHMS["one shot"]), sites, quorum=3)
    assert set(sites.kept) == {"a"}
    assert any("'b', 'c' got no copy of the model" in remark for remark in outcome.remarks)
    nobody = drive(SharingAlgorithm(ALGORITHMS["one shot"]), Sites(dict.fromkeys("abc")), quorum=3)
    assert nobody.total_sizes.tolist() == outcome.total_sizes.tolist()


def test_another_reply_than_a_receipt_is_refused_and_the_others_have_their_copy():
    sites = Sites({"b": Labelled(sizes=np.array([30, 30]))})
    outcome = drive(SharingAlgorithm(ALGORITHMS["one shot"]), sites, quorum=3)
    assert set(sites.kept) == {"a", "c"}
    assert any("'b' sent a Labelled" in remark for remark in outcome.remarks)
    algorithm = SharingAlgorithm(ALGORITHMS["one shot"])
    with pytest.raises(ProtocolError, match="expected from"):
        algorithm.advance(module.AskedToKeep(outcome), {"mallory": ModelKept()})


@pytest.mark.parametrize(
    ("change", "why"),
    [({"scale": "minmax"}, "values of single rows"), ({"metric": "cosine"}, "metric='euclidean' or 'manhattan'")],
)
def test_where_there_is_no_public_model_nothing_is_sent_and_the_result_says_why(change, why):
    sites = Sites()
    outcome = drive(SharingAlgorithm(replace(ALGORITHMS["one shot"], **change)), sites)
    assert "keep_model" not in sites.phases
    (remark,) = [remark for remark in outcome.remarks if "got no copy" in remark]
    assert why in remark


def test_a_model_that_is_too_large_for_a_message_is_not_sent(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    sites = Sites()
    outcome = drive(SharingAlgorithm(ALGORITHMS["one shot"]), sites)
    assert "keep_model" not in sites.phases
    assert any("Hint: give them the file public.intarsia" in remark for remark in outcome.remarks)


def test_entries_with_too_few_holders_are_hidden_in_the_copies():
    hidden = {}
    for min_holders in (1, 3):  # each column has two
        sites = Sites()
        drive(SharingAlgorithm(ALGORITHMS["one shot"], min_holders), sites)
        hidden[min_holders] = bool(public_from_bytes(sites.kept["a"], "m").known.any())
    assert hidden == {1: True, 3: False}


def test_the_terms_say_that_the_model_is_shared():
    plain = ALGORITHMS["one shot"].terms("a")
    assert not plain.share_model
    shared = plain.listed() | {"share_model": True}
    assert SharingAlgorithm(ALGORITHMS["one shot"]).terms("a").listed() == shared
    hiding = SharingAlgorithm(ALGORITHMS["one shot"], 2).terms("a")
    assert hiding.listed() == shared | {"share_min_holders": 2}
    request = KeepModel(model=b"m")
    assert list(request.departures(plain)) == ["share_model is True, and the study says False"]
    assert encode(ModelKept()).count(b"reply.model_kept") == 1
