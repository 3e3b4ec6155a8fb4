"""What the analyst's command tells while it waits, and how it learns how a job ended."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("nvflare")

from intarsia.exceptions import InputError
from intarsia.federation.flare import driver as module
from intarsia.federation.flare.driver import Driver
from intarsia.federation.flare.session import Ended, ended_from
from intarsia.federation.kit_folder import write_study
from intarsia.federation.study_file import Study

CLOCK = r"\d\d:\d\d:\d\d[+-]\d\d:\d\d"
REMEDY = "    → start the site there (intarsia participant serve), or stop this run and use "


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Make a driver whose lines are collected."""

    def make(**settings):
        monkeypatch.setattr(module, "check_engine", lambda: None)
        monkeypatch.setattr(module, "speak_tls_1_3", lambda: None)
        write_study(tmp_path, Study("heart", ("a", "b", "c"), **settings))
        lines = []
        return Driver(tmp_path, lines.append), lines

    return make


def wait(driver, monkeypatch, *connected, patience=600.0):
    statuses = iter(connected)
    now = iter(range(10_000))
    monkeypatch.setattr(module, "status_of", lambda _: module.ServerStatus(0.0, tuple(next(statuses)), ()))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(now)))
    return driver._wait_for_participants(None, patience)


def test_who_is_waited_for_since_when_and_until_when_is_told_once(told, monkeypatch):
    driver, lines = told()
    wait(driver, monkeypatch, "a", "a", "ab", "abc")
    remedy, lines = lines[1], [lines[0], *lines[2:]]
    assert remedy == f"{REMEDY}--without b --without c"  # once: for c, who is still away, it is not said again
    assert len(lines) == 2
    both = rf"waiting for b \(not connected at {CLOCK}\), c \(not connected at {CLOCK}\), until {CLOCK}; then the run pauses"
    assert re.fullmatch(both, lines[0])
    assert lines[1].startswith("waiting for c (not connected at ")
    assert driver.last()["state"] == "waiting"
    assert driver.last()["why"] == lines[1]


def test_with_the_quorum_the_end_of_waiting_is_the_deadline(told, monkeypatch):
    driver, lines = told(quorum=2, deadline=30)
    wait(driver, monkeypatch, "ab", *(["ab"] * 40))
    assert lines[1:] == [f"{REMEDY}--without c"]
    assert lines[0].endswith("; then the run goes on without (the quorum is there)")


def test_a_participant_that_leaves_again_is_told_again(told, monkeypatch):
    driver, lines = told()
    wait(driver, monkeypatch, "ab", "abc")
    wait(driver, monkeypatch, "ac", "abc")
    assert [line.split()[2] for line in lines[::2]] == ["c", "b"]
    assert lines[1::2] == [f"{REMEDY}--without c", f"{REMEDY}--without b"]


def test_a_line_about_progress_says_until_when_an_exchange_waits(told):
    driver, lines = told()
    progress = {"exchange": 2, "phase": "refine", "round": 1, "answered": ["a"], "waiting": ["b"], "away": ["c"]}
    for seconds in (1.0, 2.0):
        driver._say_progress(progress | {"seconds": seconds, "deadline": 60})
    line, remedy = lines
    assert remedy == f"{REMEDY}--without c"
    assert re.fullmatch(rf"refine 1: 1 of 2 answered, waiting for b until {CLOCK}; away: c", line)


def test_an_error_of_one_participant_says_where_to_correct_it(told):
    driver, _ = told()
    with pytest.raises(
        InputError, match="no column x. Hint: correct it at that site, or go on without it: --without b"
    ):
        driver._fail(Ended(error="InputError", message="participant 'b': no column x.", participant="b"))


def test_how_a_job_ended_is_read_from_what_its_controller_tells():
    ended = ended_from({"done": False, "error": "FederationError", "message": "m", "kept": 3, "absent": ["b"]})
    assert ended == Ended(message="m", kept=3, absent=("b",))
    assert not ended_from({"done": "perhaps"}).done
    assert "cannot be read" in ended_from(["x"]).message
