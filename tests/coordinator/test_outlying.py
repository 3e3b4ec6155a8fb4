"""Somebody who lies within the rules cannot be refused, but is named."""

from __future__ import annotations

import warnings

import msgspec
import numpy as np
import pytest

import intarsia
from intarsia.participant import Participant
from intarsia.protocol import LocalSummary, Refinement
from intarsia.report.data import State

ROUNDS, SUMMARIES = "No participant's updates were outliers", "Columns mean the same everywhere"
HONEST = Participant.handle


def tables(seed=0, who="abc", n=60):
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    return {name: {c: rng.normal(size=n) + 6 * kind for c in "xyz"} for name in who}


def lights(found, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = intarsia.cluster(found, settings.pop("k", 3), random_state=0, **settings)
    return result, {finding.about: finding for finding in result.summarise().findings}


def at(values, place):
    values = values.copy()
    values[0, 0] = place
    return values


def lying(monkeypatch, about, place, liar="b"):
    """One entry of one centroid somewhere else, with the counts of honest ones."""

    def handle(participant, request):
        reply = HONEST(participant, request)
        if participant.name != liar or not isinstance(reply, about):
            return reply
        if isinstance(reply, LocalSummary):
            return msgspec.structs.replace(reply, values=at(reply.values, place))
        parts = (msgspec.structs.replace(part, values=at(part.values, place)) for part in reply.refined)
        return msgspec.structs.replace(reply, refined=tuple(parts))

    monkeypatch.setattr(Participant, "handle", handle)


@pytest.mark.parametrize("place", [1e9, -1e9])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_centroid_at_a_billion_in_a_round_is_named(monkeypatch, place, scale, tmp_path):
    lying(monkeypatch, Refinement, place)
    result, found = lights(tables(), scale=scale)
    assert found[ROUNDS].state is State.BAD
    assert "'b'" in found[ROUNDS].seen
    assert "'a'" not in found[ROUNDS].seen
    assert "'c'" not in found[ROUNDS].seen
    result.save(tmp_path / "model.intarsia")
    again = intarsia.load(tmp_path / "model.intarsia")
    assert again.outcome.strain == result.outcome.strain
    assert found[ROUNDS] in again.summarise().findings


@pytest.mark.parametrize("method", ["federated", "one_shot"])
@pytest.mark.parametrize("who", ["ab", "abc", "abcdef"])
def test_a_centroid_at_a_billion_in_a_summary_is_named(monkeypatch, method, who):
    lying(monkeypatch, LocalSummary, 1e9)
    _, found = lights(tables(who=who), method=method, scale=None)
    assert found[SUMMARIES].state is State.BAD
    assert "'b'" in found[SUMMARIES].seen


@pytest.mark.parametrize("seed", range(3))
def test_honest_participants_are_not(seed):
    rng = np.random.default_rng(seed)
    made = tables(seed, "abcd", n=30 + 10 * seed)
    made["a"]["x"] = made["a"]["x"] * np.exp(rng.normal(size=len(made["a"]["x"])))  # heavy tails
    made["b"]["y"][0] += 100.0  # somebody's slip of the pen
    made["c"]["z"] = np.full(len(made["c"]["z"]), 5.0)
    del made["d"]["x"]
    for settings in ({"k": 3}, {"k": 5, "scale": None}, {"k": "auto"}, {"k": 2, "local_iterations": 20}):
        result, found = lights(made, **settings)
        assert found[ROUNDS].state is State.GOOD, result.outcome.strain


def test_nor_are_real_hospitals():
    result, found = lights(intarsia.datasets.load_heart_disease("pandas").tables, k=2)
    assert found[ROUNDS].state is State.GOOD
    assert set(result.outcome.strain) == set(result.outcome.participants)
    assert max(result.outcome.strain.values()) < 10
