"""Attacks on secure sums: a server that lies, a capture of all messages, dropouts at any step, and restarts at any step.

Single lies that worked once are in ``test_secure_questions.py``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import msgspec
import numpy as np
import pytest

pytest.importorskip("Crypto")
from intarsia import FederatedClustering
from intarsia.coordinator.sums import FederatedSums
from intarsia.participant.secure import SecureParticipant
from intarsia.protocol import AskMasked, AskUnmask, Description, Labelled, Masked, Refinement, encode
from intarsia.results import model_file
from intarsia.results.outcome import RunRecord
from intarsia.runtime.contract import AbsentError
from intarsia.runtime.drive import drive
from intarsia.runtime.transcript import Transcript
from tests.attacks.lying import attack
from tests.attacks.summing import Listening, People, algorithm_of, ran, tables_of

FOUR = {"a": "xyw", "b": "yz", "c": "xz", "d": "xyz"}  # w stays at home
SIX = {"a": "xyw", "b": "yz", "c": "xz", "d": "xyz", "e": "xy", "f": "yz"}
few_or_many = partial(pytest.mark.parametrize, "n")


def long(*values):
    return pytest.param(*values, marks=pytest.mark.attack)


# a server that lies


@few_or_many([300, long(10_000)])
def test_no_lie_gets_an_answer_that_opens_a_mask(n):
    """Each reply is a failure, or the same as before; no shares reach the threshold for both kinds of anybody's seeds."""
    earlier = {"four": attack(FOUR, 0, most=0).said, "six": attack(SIX, 0, most=0).said}
    n_lies = n_refused = seed = 0
    while n_lies < n:
        columns, said = (FOUR, earlier["four"]) if seed % 3 else (SIX, earlier["six"])
        server = attack(columns, seed, said)
        assert not server.wrong, f"seed {seed}: {server.wrong}"
        assert not server.opened(2 * len(columns) // 3 + 1), f"seed {seed}"
        n_lies, n_refused, seed = n_lies + server.n_lies, n_refused + server.n_refused, seed + 1
    assert n_refused > 0.7 * n_lies


def test_the_lies_would_open_masks_of_participants_that_forget(monkeypatch):
    unmask = SecureParticipant._unmask

    def forgetful(self, request):
        self._state = msgspec.structs.replace(self._state, unmasked={})
        return unmask(self, request)

    monkeypatch.setitem(SecureParticipant.handlers, AskUnmask, forgetful)
    earlier = attack(FOUR, 0, most=0).said
    servers = [attack(FOUR, seed, earlier, most=8) for seed in range(10)]
    assert any("a second Unmasked" in each for server in servers for each in server.wrong)
    assert any(server.opened(3) for server in servers)


# a capture of all messages


def told_inside(people, at_home=("w",)):
    """Return the bytes of all numbers of single participants that must not leave: sums, counts, sizes and grains."""
    secrets = {}
    for name, replies in people.heard.inner.items():
        for n, reply in enumerate(replies):
            arrays = {}
            if isinstance(reply, Description):
                shared = ~np.isin(reply.features, at_home)
                arrays = {"mean": reply.moments.mean[shared], "m2": reply.moments.m2[shared]}
            if isinstance(reply, Refinement):
                for k, each in enumerate(reply.refined):
                    arrays |= {f"values {k}": each.values, f"counts {k}": each.counts, f"sizes {k}": each.sizes}
                    arrays |= {f"sums {k}": each.values * each.counts, f"misfit {k}": np.array([each.misfit])}
            if isinstance(reply, Labelled):
                arrays = {"sizes": reply.sizes, "counts": reply.counts, "squares": reply.squares}
            for what, array in arrays.items():
                whole = np.ascontiguousarray(array, dtype="<i8" if array.dtype.kind == "i" else "<f8")
                secrets[name, n, what] = whole.tobytes()
                if what.split()[0] in {
                    "values",
                    "sums",
                    "squares",
                    "mean",
                    "m2",
                    "misfit",
                }:  # any single number is enough
                    secrets |= {(name, n, what, k): each.tobytes() for k, each in enumerate(whole.ravel()) if each}
    for (name, index), vector in people.heard.vectors.items():
        secrets[name, index, "vector"] = vector.astype("<i8").tobytes()
        large = vector[np.abs(vector) > 1 << 16].astype("<i8")
        secrets |= {(name, index, "grains", k): each.tobytes() for k, each in enumerate(large)}
    # single numbers with few digits are in any capture
    return {what: secret for what, secret in secrets.items() if len(what) == 3 or len(set(secret)) > 4}


def leaked(secrets, said):
    """Return which secrets are in the bytes of any request or reply."""
    capture = b"|".join(encode(part) for _, *both in said for part in both)
    return {what for what, secret in secrets.items() if secret in capture}


ODD = {"a": 41, "b": 53, "c": 67, "d": 79}  # rows, so that no two participants have the same counts


def odd_tables():
    """Return tables whose local clusters are not the global ones, so that sums of rounds are not those of summaries."""
    rng = np.random.default_rng(5)
    tables = tables_of(FOUR)
    return {
        name: {each: rng.normal(size=ODD[name]) + rng.choice([0, 2, 4], size=ODD[name]) for each in table.columns}
        for name, table in tables.items()
    }


def captured(tables, algorithm):
    people = People(tables, algorithm)
    runtime = Listening(people)
    drive(algorithm, runtime)
    return people, runtime


@pytest.fixture(scope="module")
def secure_run():
    return captured(odd_tables(), algorithm_of(FOUR, max_rounds=4))


def test_a_capture_of_a_run_has_no_number_of_a_single_participant(secure_run):
    people, runtime = secure_run
    secrets = told_inside(people)
    assert len([what for what in secrets if what[2] == "vector"]) == len(runtime.of(AskMasked)) >= 12
    assert len(secrets) > 500
    assert leaked(secrets, runtime.said) == set()


def test_the_search_finds_them_in_a_run_without_secure_sums(secure_run):
    """In plain rounds, the numbers that the participants of the secure run told inside are in the capture."""
    settings = {"random_state": 0, "max_rounds": 4, "tol": 0, "scale": "standard"}
    plain = FederatedClustering(2, **settings).algorithm_for(list(FOUR))
    people, runtime = captured(odd_tables(), plain)
    secrets = told_inside(people)
    found = leaked(secrets, runtime.said)
    assert {what for what in secrets if what[2].split()[0] in {"values", "counts", "sizes", "squares", "m2"}} <= found
    secure = {what for what in told_inside(secure_run[0]) if what[2] in {"m2", "values 0"} and what[1] < 2}
    assert leaked({what: told_inside(secure_run[0])[what] for what in secure}, runtime.said)  # the same rows


# dropouts


@pytest.fixture
def totals(monkeypatch):
    """All totals that the coordinator opened: their participants, and what came out."""
    opened, summed = [], FederatedSums.summed

    def spied(self, state, layout, total, names):
        opened.append((tuple(names), total))
        return summed(self, state, layout, total, names)

    monkeypatch.setattr(FederatedSums, "summed", spied)
    return opened


def random_columns(rng, n):
    """Return columns of n participants, each with two or more of the first four, and some with one of their own."""
    names = [f"p{k:02}" for k in range(n)]
    columns = {name: "".join(rng.permutation(list("xyz"))[: rng.integers(2, 4)]) for name in names}
    return {name: each + (chr(65 + k) if rng.random() < 0.2 else "") for k, (name, each) in enumerate(columns.items())}


@few_or_many([30, long(1000)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_totals_are_those_of_the_survivors_or_the_run_pauses(n, totals):
    ends = defaultdict(int)
    for seed in range(n):
        rng = np.random.default_rng([seed, 21])
        size = int(rng.integers(3, 8 if n < 100 else 21))
        columns = random_columns(rng, size)
        quorum, often = 2 * size // 3 + 1, rng.choice([0.01, 0.03, 0.1])
        algorithm = algorithm_of(columns, quorum, refinement=str(rng.choice(["auto", "crosswise"])))
        people = People(tables_of(columns, seed), algorithm)
        runtime = Listening(people, lambda name, request, rng=rng, often=often: rng.random() < often)
        totals.clear()
        try:
            drive(algorithm, runtime, quorum=quorum)
            ends["ended"] += 1
        except AbsentError:
            ends["paused"] += 1
        for index, (names, total) in enumerate(totals):
            parts = [people.heard.vectors[name, index] for name in names]
            np.testing.assert_array_equal(total, np.sum(parts, axis=0), err_msg=f"seed {seed}, sum {index}")
            assert len(names) >= quorum
        assert len({names for names, _ in totals}) <= 1  # differences of totals tell nothing
        ends["totals"] += len(totals)
        ends["dropped"] += any(len(names) < size for names, _ in totals)
    assert min(ends["ended"], ends["paused"], ends["dropped"]) >= n // 10
    assert ends["totals"] >= n


# restarts


def as_bytes(outcome, path):
    model_file.save(path, outcome, outcome.model.space.names, RunRecord("federated", {}, 0, {}, "", 0.0))
    return path.read_bytes()


class Dying(Listening):
    """Dies before or after the question with a number is answered."""

    def __init__(self, people, dies_at=None, *, answered=False):
        super().__init__(people)
        self._dies_at, self._answered = dies_at, answered

    def _ask(self, name, request):
        dies = len(self.said) == self._dies_at
        if dies and not self._answered:
            raise KeyboardInterrupt
        reply = super()._ask(name, request)
        if dies:
            raise KeyboardInterrupt
        return reply


@few_or_many([14, long(200)])
def test_a_run_that_dies_at_any_step_goes_on_and_no_sum_is_answered_twice(n, tmp_path):
    """The coordinator dies, and all participants start anew from their vaults; also where a reply was lost on its way."""
    algorithm, tables = algorithm_of(FOUR), tables_of(FOUR)
    whole = Listening(People(tables, algorithm))
    expected = as_bytes(drive(algorithm, whole), tmp_path / "whole")
    for k, dies_at in enumerate(np.linspace(0, len(whole.said) - 1, n).round().astype(int).tolist()):
        people = People(tables, algorithm)
        first = Dying(people, dies_at, answered=bool(k % 2))
        with Transcript(tmp_path / f"{k}") as kept, pytest.raises(KeyboardInterrupt):
            drive(algorithm, first, None, kept)
        for name in tables:
            people.restart(name)
        second = Listening(people)
        with Transcript(tmp_path / f"{k}") as kept:
            assert as_bytes(drive(algorithm, second, None, kept), tmp_path / "again") == expected
        assert len(first.said) + len(second.said) == len(whole.said) + k % 2
        answers = defaultdict(set)
        for name, request, reply in (*first.said, *second.said):
            if isinstance(reply, Masked):
                answers[name, request.index].add(encode(reply))
        assert len(answers) == len(whole.of(AskMasked))
        assert all(len(each) == 1 for each in answers.values())


def test_a_run_that_paused_goes_on_when_the_participant_is_back(tmp_path):
    away = {"d"}
    algorithm, tables = algorithm_of(FOUR, quorum=3), tables_of(FOUR)
    people = People(tables, algorithm)

    def is_away(name, request):
        return name in away and isinstance(request, AskMasked) and request.index == 1

    with Transcript(tmp_path / "t") as kept, pytest.raises(AbsentError, match="'d' was in the last one"):
        drive(algorithm, Listening(people, is_away), None, kept, 3)
    away.clear()
    for name in tables:
        people.restart(name)
    with Transcript(tmp_path / "t") as kept:
        outcome = drive(algorithm, Listening(people, is_away), None, kept, 3)
    assert as_bytes(outcome, tmp_path / "model") == as_bytes(ran(FOUR)[2], tmp_path / "whole")
