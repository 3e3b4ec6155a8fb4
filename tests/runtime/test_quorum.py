"""Somebody stays away, comes late, or sends nonsense: the others go on, and whoever returns takes part again."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import InputError, LocalAlgorithmError, ProtocolError, ReleaseError
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Description, Failure, LocalSummary
from intarsia.results import model_file
from intarsia.results.outcome import RunRecord
from intarsia.runtime.contract import AbsentError
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.recorder import Recorder
from intarsia.runtime.transcript import Transcript
from intarsia.tables.frame import read_table

WHO = {"a": "xy", "b": "yz", "c": "zx", "d": "xyw"}
N = 40
ALGORITHMS = {
    "federated": FederatedAlgorithm(n_clusters=2, seed=0, scale="standard"),
    "auto": FederatedAlgorithm(n_clusters=None, seed=0, scale="standard"),
    "mixture": FederatedAlgorithm(n_clusters=2, seed=0, scale="standard", model="mixture"),
    "one_shot": OneShotAlgorithm(n_clusters=2, seed=0, scale="standard"),
}


def people(who=WHO, kinds=(), algorithm=None):
    """Participants; those of an algorithm answer what it may ask, and nothing else."""
    rng = np.random.default_rng(0)
    tables = {}
    for name, columns in who.items():
        side = np.arange(N) % 2
        table = {c: rng.normal(size=N) + 9 * side for c in columns}
        if name in kinds:
            table["kind"] = np.where(side, f"left {name}", "right").tolist()
        tables[name] = table
    pipelines = {name: None if algorithm is None else Pipeline(terms=algorithm.terms(name)) for name in tables}
    return {name: Participant(read_table(table, name), pipeline=pipelines[name]) for name, table in tables.items()}


class Some(InProcessRuntime):
    """In process, but ``away(exchange, name)`` says who does not answer, and ``says`` what somebody answers instead."""

    def __init__(self, parties, away, says=lambda _exchange, _name, reply: reply):
        super().__init__(list(parties.values()))
        self._away, self._says, self.n, self.asked = away, says, 0, []

    def exchange(self, requests, on_reply=None):
        replies = {}
        for name, request in requests.items():
            self.asked.append((self.n, name, type(request).__name__))
            if self._away(self.n, name):
                continue
            replies[name] = self._says(self.n, name, self._participants[name].handle(request))
            if on_reply is not None:
                on_reply(name, replies[name], 0.0)
        self.n += 1
        return replies


RUN = RunRecord("federated", {}, 0, {}, "2026-01-01T00:00:00+00:00", 0.0)


def as_bytes(outcome, folder):
    model_file.save(folder / "model", outcome, outcome.model.space.names, RUN)
    return (folder / "model").read_bytes()


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_a_quorum_changes_nothing_where_everybody_answers(kind, tmp_path):
    plain = drive(ALGORITHMS[kind], InProcessRuntime(list(people().values())))
    with Transcript(tmp_path / "t") as kept:
        found = drive(ALGORITHMS[kind], Some(people(), lambda n, name: False), None, kept, 2)
    assert as_bytes(found, tmp_path) == as_bytes(plain, tmp_path)
    assert not list(tmp_path.rglob("closed"))


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_whoever_never_comes_could_as_well_not_be_there(kind, tmp_path):
    rest = {name: columns for name, columns in WHO.items() if name != "d"}
    alone = drive(ALGORITHMS[kind], InProcessRuntime([people()[name] for name in rest]))
    found = drive(ALGORITHMS[kind], Some(people(), lambda n, name: name == "d"), None, None, 3)
    assert as_bytes(found, tmp_path) == as_bytes(alone, tmp_path)


@pytest.mark.parametrize("kind", ALGORITHMS)
@pytest.mark.parametrize("missed", [(0,), (1,), (0, 1), (2,), (1, 2, 3), (0, 1, 2)])
def test_a_latecomer_joins_at_the_next_exchange(kind, missed, tmp_path):
    parties = people(kinds="ad", algorithm=ALGORITHMS[kind])
    runtime = Some(parties, lambda n, name: name == "d" and n in missed)
    found = drive(ALGORITHMS[kind], runtime, None, None, 2)
    if kind == "one_shot" and 1 in missed:
        assert not found.sizes.get("d", np.zeros(1)).any()
        return
    assert found.sizes["d"].sum() == N
    labels = {name: party.labels for name, party in parties.items()}
    for name in WHO:
        assert (labels[name] == labels["a"]).all()  # rows are the same sides everywhere
    assert found.coverage.rows.tolist() == [N] * 4
    if kind != "one_shot" and len(missed) < 3:  # rounds were still to come
        assert found.model.centroids.seen[:, found.model.space.index(["w"])].all()  # which nobody else has
    as_bytes(found, tmp_path)
    assert model_file.load(tmp_path / "model")[0].participants == found.participants


def test_a_straggler_is_left_out_of_a_round_and_taken_back_in_the_next():
    parties = people(algorithm=ALGORITHMS["federated"])
    recorder = Recorder()
    found = drive(ALGORITHMS["federated"], Some(parties, lambda n, name: name == "b" and n == 2), recorder, None, 3)
    whole = drive(ALGORITHMS["federated"], InProcessRuntime(list(people().values())))
    assert len(found.rounds) > 1
    assert sum(found.rounds[0].sizes) == 3 * N
    assert sum(found.rounds[1].sizes) == 4 * N
    np.testing.assert_allclose(found.model.values, whole.model.values, atol=0.02)


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.sampled_from(["federated", "mixture", "one_shot"]),
    st.lists(st.sets(st.sampled_from("abcd"), max_size=2), max_size=12),
    st.integers(0, 11),
)
def test_whatever_the_pattern_the_run_ends_and_can_be_resumed(tmp_path_factory, kind, pattern, dies):
    """Absences at random; then the same from the transcript, with nobody asked anything that was answered."""
    folder = tmp_path_factory.mktemp("t")
    who = {"a": "xy", "b": "xy", "c": "yx", "d": "xyw"}  # any two of them hang together
    here = people(who, algorithm=ALGORITHMS[kind])

    def away(n, name):
        return n < len(pattern) and name in pattern[n]

    class Dies(Some):
        def exchange(self, requests, on_reply=None):
            if self.n == dies:
                raise KeyboardInterrupt
            return super().exchange(requests, on_reply)

    runtime = Some(here, away)
    with Transcript(folder / "t") as kept:
        while True:
            try:
                whole = drive(ALGORITHMS[kind], runtime, None, kept, 2)
                break
            except AbsentError:
                assert runtime.n <= len(pattern)  # then somebody was away
    for name, sizes in whole.sizes.items():
        assert sizes.sum() in (0, N), name
    silent = Some(people(who), lambda n, name: pytest.fail("asked again"))
    with Transcript(folder / "t") as kept:
        again = drive(ALGORITHMS[kind], silent, None, kept, 2)
    assert as_bytes(again, folder) == as_bytes(whole, folder)
    assert silent.asked == []
    # killed on the way, it goes on with those who are there then
    here = people(who, algorithm=ALGORITHMS[kind])
    with Transcript(folder / "u") as kept:
        try:
            drive(ALGORITHMS[kind], Dies(here, away), None, kept, 2)
        except (KeyboardInterrupt, AbsentError):
            drive(ALGORITHMS[kind], Some(here, lambda n, name: False), None, kept, 2)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_below_the_quorum_it_pauses_and_goes_on_later(kind, tmp_path):
    whole = drive(ALGORITHMS[kind], InProcessRuntime(list(people().values())))
    with Transcript(tmp_path / "t") as kept:
        with pytest.raises(AbsentError, match="'c' and 'd'|'c', 'd'") as error:
            drive(ALGORITHMS[kind], Some(people(), lambda n, name: n == 1 and name in "cd"), None, kept, 3)
        assert error.value.absent == ("c", "d")
        runtime = Some(people(), lambda n, name: False)
        parties = people()
        for party in parties.values():  # they have answered the first question in an earlier life
            for request in ALGORITHMS[kind].start(tuple(WHO)).requests.values():
                party.handle(request)
        runtime = Some(parties, lambda n, name: False)
        found = drive(ALGORITHMS[kind], runtime, None, kept, 3)
    assert as_bytes(found, tmp_path) == as_bytes(whole, tmp_path)
    assert [name for n, name, _ in runtime.asked if n == 0] == ["c", "d"]


def test_without_the_one_that_connects_the_others_it_waits():
    chain = people({"a": "wx", "b": "xy", "c": "yz"})
    for missed in (0, 1):
        with pytest.raises(AbsentError, match="'b' did not answer, and the others cannot continue alone") as error:
            drive(ALGORITHMS["federated"], Some(chain, lambda n, name: name == "b" and n == missed), None, None, 2)
        assert error.value.absent == ("b",)


def nonsense(n, name, reply):
    if name == "d" and isinstance(reply, LocalSummary):
        return Description(features=("x",), n_rows=3)
    if name == "d" and n == 3:
        return Failure(error="LocalAlgorithmError", message="participant 'd' failed with a KeyError")
    return reply


def test_a_reply_that_cannot_be_used_is_left_out_and_asked_again_later(tmp_path):
    with Transcript(tmp_path / "t") as kept:
        runtime = Some(people(), lambda n, name: False, nonsense)
        found = drive(ALGORITHMS["federated"], runtime, None, kept, 3)
        assert kept.closed(1).names == ("a", "b", "c")
    assert found.sizes["d"].sum() == N  # it came back
    assert any("'d' was excluded" in remark and "Description" in remark for remark in found.remarks)
    assert any("KeyError" in remark for remark in found.remarks)
    # without a quorum it is an error that names it, and what it sent is not kept
    with Transcript(tmp_path / "u") as kept:
        with pytest.raises(ProtocolError, match="'d' sent a Description"):
            drive(ALGORITHMS["federated"], Some(people(), lambda n, name: False, nonsense), None, kept)
        assert sorted(kept.opened(1, ask(1)))[-1:] != ["d"]
    with pytest.raises(LocalAlgorithmError, match="'d' failed"):
        drive(ALGORITHMS["federated"], Some(people(), lambda n, name: False, lambda n, m, r: nonsense(3, m, r)))


def ask(exchange):
    """What is asked in the first exchanges, if all answer."""
    algorithm, parties = ALGORITHMS["federated"], people()
    step = algorithm.start(tuple(parties))
    for _ in range(exchange):
        step = algorithm.advance(step.state, {n: parties[n].handle(r) for n, r in step.requests.items()})
    return step.requests


def test_a_latecomer_who_does_not_fit_stays_outside_and_is_named():
    parties = people()
    parties["d"] = Participant(read_table({"x": ["u", "v"] * 20, "w": np.arange(40.0)}, "d"))
    found = drive(ALGORITHMS["federated"], Some(parties, lambda n, name: name == "d" and n == 0), None, None, 3)
    assert "d" not in found.participants
    assert len([remark for remark in found.remarks if "'d' came later and could not join" in remark]) == 1


def test_a_failure_names_its_participant_and_cannot_be_one_of_the_network():
    """Errors of the network mean that another job may do better, which is not a participant's to say."""
    for error in ("FederationError", "TranscriptError", "Exception", "__doc__"):

        def says(_n, name, reply, error=error):
            return Failure(error=error, message="again!") if name == "d" else reply

        with pytest.raises(LocalAlgorithmError, match="participant 'd': again!") as found:
            drive(ALGORITHMS["federated"], Some(people(), lambda n, name: False, says))
        assert found.value.participant == "d"


def saved(recorder, outcome, folder):
    """As the server of a federation writes it."""
    record = recorder.record("federated", {}, 0, {}, outcome.remarks, outcome.participants)
    model_file.save(folder / "model", outcome, outcome.model.space.names, record)
    return model_file.load(folder / "model")[1].run


@pytest.mark.parametrize("kind", ["federated", "one_shot"])
@pytest.mark.parametrize("answer", [Failure(error="InputError", message="no"), Description(features=(), n_rows=0)])
def test_one_that_only_fails_is_left_out_and_the_result_can_be_kept(kind, answer, tmp_path):
    recorder = Recorder()
    runtime = Some(people(), lambda n, name: False, lambda n, name, reply: answer if name == "d" else reply)
    found = drive(ALGORITHMS[kind], runtime, recorder, None, 3)
    assert "d" not in found.participants
    assert "d" in saved(recorder, found, tmp_path).absent


@pytest.mark.parametrize("kind", ["federated", "auto", "one_shot"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "table",
    [
        {"x": ["u", "v"] * 20, "w": np.arange(40.0)},  # categories here, numbers elsewhere
        {"quite": np.arange(40.0), "different": np.arange(40.0)},
    ],
)
def test_columns_that_do_not_fit_are_their_owners_and_can_be_mended(kind, late, table, tmp_path):
    """Left out with a quorum; without one an error that names it, and mending the table is enough."""
    parties = people() | {"d": Participant(read_table(table, "d"))}

    def away(n, name):
        return late and n == 0 and name == "d"

    found = drive(ALGORITHMS[kind], Some(parties, away), None, None, 3)
    assert "d" not in found.participants or not found.sizes["d"].any()
    assert any("'d'" in remark for remark in found.remarks)
    if late:
        return
    with Transcript(tmp_path / "t") as kept:
        with pytest.raises(InputError) as error:
            drive(ALGORITHMS[kind], Some(parties, away), None, kept)
        assert error.value.participant == "d"
        mended = drive(ALGORITHMS[kind], Some(people(), away), None, kept)
    assert mended.sizes["d"].sum() == N


@pytest.mark.parametrize("scale", ["minmax", "robust"])
def test_a_latecomer_that_says_less_than_units_need_stays_outside(scale):
    def says(n, name, reply):
        if name == "d" and isinstance(reply, Description):
            bare = msgspec.structs.replace(reply.moments, low=None, high=None, quantiles=None)
            return msgspec.structs.replace(reply, moments=bare)
        return reply

    runtime = Some(people(), lambda n, name: name == "d" and n == 0, says)
    found = drive(FederatedAlgorithm(n_clusters=2, seed=0, scale=scale), runtime, None, None, 3)
    assert "d" not in found.participants
    assert any("'d'" in remark for remark in found.remarks)


def refuses(*names):
    """What these participants answer instead: a refusal with their name."""

    def says(_n, name, reply):
        return Failure(error="ReleaseError", message=f"not {name}, without a new form.") if name in names else reply

    return says


def test_one_refused_and_one_away_is_a_reason_to_wait_for_the_one_that_is_away():
    with pytest.raises(AbsentError) as error:
        drive(ALGORITHMS["federated"], Some(people(), lambda n, name: name == "c", refuses("d")), None, None, 3)
    assert error.value.absent == ("c",)
    assert str(error.value) == (
        "1 of 4 participant(s) did not answer: 'c'. 1 refused or failed: participant 'd': not d, without a new form."
    )


@pytest.mark.parametrize(
    ("quorum", "refusing", "away"), [(3, "ad", "c"), (2, "acd", "b"), (4, "d", "c"), (4, "d", "abc")]
)
def test_a_refusal_is_an_error_at_once_if_the_quorum_is_out_of_reach(quorum, refusing, away, tmp_path):
    """Nobody waits for those who are away: with them, too, there would be too few."""
    with (
        Transcript(tmp_path / "t") as kept,
        pytest.raises(ReleaseError, match=f"participant '{refusing[0]}': not {refusing[0]}, without") as error,
    ):
        drive(
            ALGORITHMS["federated"],
            Some(people(), lambda n, name: name in away, refuses(*refusing)),
            None,
            kept,
            quorum,
        )
    assert error.value.participant == refusing[0]


@pytest.mark.parametrize("away", ["", "d"])
def test_the_one_that_connects_the_others_refuses(away):
    """Without anybody silent the refusal is the error; with one, who is waited for, it is named beside it."""
    chain = people({"a": "wx", "b": "xy", "c": "yz", "d": "xy"} if away else {"a": "wx", "b": "xy", "c": "yz"})
    with pytest.raises(AbsentError if away else ReleaseError, match="participant 'b': not b") as error:
        drive(ALGORITHMS["federated"], Some(chain, lambda n, name: name in away, refuses("b")), None, None, 2)
    if away:
        assert error.value.absent == ("d",)
        assert "'d' did not answer, and the others cannot continue alone" in str(error.value)
    else:
        assert error.value.participant == "b"
