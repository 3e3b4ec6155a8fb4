"""A run that dies goes on where it was: the same outcome, and nobody is asked again what they answered."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import IntarsiaError, TooFewRowsError, TranscriptError
from intarsia.participant import Participant
from intarsia.protocol import Failure, encode
from intarsia.results import model_file
from intarsia.results.outcome import RunRecord
from intarsia.runtime import transcript
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.runtime.recorder import Recorder
from intarsia.runtime.transcript import Transcript
from intarsia.tables.frame import read_table

ALGORITHMS = [
    FederatedAlgorithm(n_clusters=2, seed=0, scale="standard"),
    OneShotAlgorithm(n_clusters=2, seed=0, scale="standard"),
]


def participants():
    rng = np.random.default_rng(0)
    who = {"a": "xy", "b": "yz", "c/../d": "zx"}  # a name need not be a name of a file
    return [
        Participant(read_table({c: rng.normal(size=30) + 9 * (np.arange(30) % 2) for c in columns}, name))
        for name, columns in who.items()
    ]


class Counting(InProcessRuntime):
    """In process, and keeps what was asked. Dies, if told to, before a question is answered."""

    def __init__(self, people, dies_at=None):
        super().__init__(people)
        self.asked, self._dies_at = [], dies_at

    def exchange(self, requests, on_reply=None):
        replies = {}
        for name, request in requests.items():
            if len(self.asked) == self._dies_at:
                raise KeyboardInterrupt
            self.asked.append((name, encode(request)))
            replies |= super().exchange({name: request}, on_reply)
        return replies


def as_bytes(outcome, folder):
    run = RunRecord("federated", {}, 0, {}, "", 0.0)
    model_file.save(folder / "model", outcome, outcome.model.space.names, run)
    return (folder / "model").read_bytes()


def answered(folder):
    """Which answers are there, and whole."""
    return {
        path.relative_to(folder) for path in folder.glob("*/*.reply") if transcript.read_file(path, transcript.Answer)
    }


@pytest.fixture(scope="module", params=ALGORITHMS, ids=["federated", "one_shot"])
def whole(request, tmp_path_factory):
    """An uninterrupted run: algorithm, outcome, what was asked, and every file in the order of writing."""
    folder = tmp_path_factory.mktemp("whole")
    files, write = [], transcript.write_atomically

    def noted(path, content, *, secret):
        files.append((path.relative_to(folder / "t"), content))
        write(path, content, secret=secret)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript, "write_atomically", noted)
        runtime = Counting(participants())
        with Transcript(folder / "t") as kept:
            outcome = drive(request.param, runtime, None, kept)
    return request.param, as_bytes(outcome, folder), runtime.asked, files


def lay_out(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def warm_up(algorithm, people):
    """One-shot's last question refers to an earlier answer, which the participant itself knows again after a restart."""
    for name, request in algorithm.start([p.name for p in people]).requests.items():
        next(p for p in people if p.name == name).handle(request)


def test_without_a_transcript_the_outcome_is_the_same(whole, tmp_path):
    algorithm, expected, asked, _ = whole
    runtime = Counting(participants())
    assert as_bytes(drive(algorithm, runtime), tmp_path) == expected
    assert runtime.asked == asked


def test_killed_after_any_write_the_outcome_is_the_same_and_no_answered_question_is_asked_again(whole, tmp_path):
    algorithm, expected, asked, files = whole
    for n in range(len(files) + 1):
        lay_out(tmp_path / "t", files[:n])
        there = len(answered(tmp_path / "t"))
        people = participants()
        warm_up(algorithm, people)
        runtime = Counting(people)
        with Transcript(tmp_path / "t") as kept:
            outcome = drive(algorithm, runtime, None, kept)
        assert as_bytes(outcome, tmp_path) == expected
        assert runtime.asked == asked[there:]


def test_killed_while_writing_what_was_cut_off_counts_as_never_written(whole, tmp_path):
    algorithm, expected, asked, files = whole
    for n in range(len(files)):
        path, content = files[n]
        torn = (path, content[: (n * 37) % len(content)])
        beside = (path.with_name(".intarsia-x1y2"), torn[1])  # what a real kill leaves
        for extra in (torn, beside)[n % 2 :]:
            lay_out(tmp_path / "t", [*files[:n], extra])
            people = participants()
            warm_up(algorithm, people)
            runtime = Counting(people)
            with Transcript(tmp_path / "t") as kept:
                assert as_bytes(drive(algorithm, runtime, None, kept), tmp_path) == expected
            assert len(runtime.asked) == len(asked) - sum(p.suffix == ".reply" for p, _ in files[:n])
            assert not list((tmp_path / "t").rglob(".intarsia-*"))


def test_a_finished_run_asks_nobody_anything(whole, tmp_path):
    algorithm, expected, _, files = whole
    lay_out(tmp_path / "t", files)
    runtime = Counting(participants())
    with Transcript(tmp_path / "t") as kept:
        assert as_bytes(drive(algorithm, runtime, None, kept), tmp_path) == expected
    assert runtime.asked == []


@settings(max_examples=25)
@given(data=st.data())
def test_a_damaged_file_never_changes_the_outcome(whole, data, tmp_path_factory):
    algorithm, expected, _, files = whole
    folder = tmp_path_factory.mktemp("damaged")
    hurt = list(files)
    for _ in range(data.draw(st.integers(1, 4))):
        k = data.draw(st.integers(0, len(hurt) - 1))
        path, content = hurt[k]
        match data.draw(st.sampled_from(["flip", "cut", "grow", "swap", "empty"])):
            case "flip" if content:
                at = data.draw(st.integers(0, len(content) - 1))
                content = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
            case "cut":
                content = content[: data.draw(st.integers(0, len(content)))]
            case "grow":
                content += data.draw(st.binary(max_size=40))
            case "swap":
                content = files[data.draw(st.integers(0, len(files) - 1))][1]
            case _:
                content = b""
        hurt[k] = (path, content)
    lay_out(folder / "t", hurt)
    people = participants()
    warm_up(algorithm, people)
    with Transcript(folder / "t") as kept:
        try:
            outcome = drive(algorithm, Counting(people), None, kept)
        except TranscriptError:
            return  # a whole file in the place of another is refused, not used
    assert as_bytes(outcome, folder) == expected


@pytest.mark.parametrize(
    "other",
    [
        FederatedAlgorithm(n_clusters=3, seed=0, scale="standard"),
        FederatedAlgorithm(n_clusters=2, seed=7, scale="standard"),
        FederatedAlgorithm(n_clusters=2, seed=0),
        OneShotAlgorithm(n_clusters=2, seed=0, scale="standard"),
    ],
)
def test_another_study_is_refused(other, tmp_path):
    with Transcript(tmp_path) as kept:
        drive(ALGORITHMS[0], Counting(participants()), None, kept)
    with (
        Transcript(tmp_path) as kept,
        pytest.raises(TranscriptError, match="transcript of another run: exchange [01] had"),
    ):
        drive(other, Counting(participants()), None, kept)


def test_other_participants_are_refused_by_name(tmp_path):
    with Transcript(tmp_path) as kept:
        drive(ALGORITHMS[0], Counting(participants()), None, kept)
    with Transcript(tmp_path) as kept, pytest.raises(TranscriptError, match="other participants: 'c/../d'"):
        drive(ALGORITHMS[0], Counting(participants()[:2]), None, kept)


def test_an_interrupted_run_has_the_same_record_in_the_end(tmp_path):
    whole, parts = Recorder(), Recorder()
    drive(ALGORITHMS[0], Counting(participants()), whole)
    with Transcript(tmp_path) as kept, pytest.raises(KeyboardInterrupt):
        drive(ALGORITHMS[0], Counting(participants(), dies_at=4), None, kept)
    with Transcript(tmp_path) as kept:
        drive(ALGORITHMS[0], Counting(participants()), parts, kept)
    assert parts.sent == whole.sent
    assert [e.bytes_out for e in parts.exchanges] == [e.bytes_out for e in whole.exchanges]
    assert all(set(e.seconds) == {"a", "b", "c/../d"} for e in parts.exchanges)


def test_a_failure_is_asked_again(tmp_path):
    class Failing(Counting):
        def exchange(self, requests, on_reply=None):
            reply = Failure(error="TooFewRowsError", message="m")
            on_reply("b", reply, 0.0)
            return super().exchange({n: r for n, r in requests.items() if n != "b"}, on_reply) | {"b": reply}

    with Transcript(tmp_path) as kept, pytest.raises(TooFewRowsError):
        drive(ALGORITHMS[0], Failing(participants()), None, kept)
    runtime = Counting(participants())
    with Transcript(tmp_path) as kept:
        drive(ALGORITHMS[0], runtime, None, kept)
    assert [name for name, _ in runtime.asked[:2]] == ["b", "a"]


def test_one_run_at_a_time(tmp_path):
    with Transcript(tmp_path), pytest.raises(TranscriptError, match="in use"):
        Transcript(tmp_path)
    Transcript(tmp_path).close()


def test_a_place_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TranscriptError, match="cannot be written"):
        Transcript(tmp_path / "file" / "t")
    with Transcript(tmp_path / "t") as kept:
        (tmp_path / "t" / "0000").write_text("")
        with pytest.raises(IntarsiaError, match="cannot be written"):
            drive(ALGORITHMS[0], Counting(participants()), None, kept)


KILLED = """
import os, signal, sys
from tests.runtime.test_transcript import ALGORITHMS, Counting, Transcript, drive, participants
class Killed(Counting):
    def exchange(self, requests, on_reply=None):
        if len(self.asked) >= int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().exchange(requests, on_reply)
drive(ALGORITHMS[0], Killed(participants()), None, Transcript(sys.argv[1]))
"""


def test_a_process_that_was_really_killed_leaves_no_lock(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "t"), "6"], check=False)
    assert done.returncode == -9
    runtime = Counting(participants())
    with Transcript(tmp_path / "t") as kept:
        outcome = drive(ALGORITHMS[0], runtime, None, kept)
    assert as_bytes(outcome, tmp_path) == as_bytes(drive(ALGORITHMS[0], InProcessRuntime(participants())), tmp_path)
