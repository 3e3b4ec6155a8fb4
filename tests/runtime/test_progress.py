"""The first line of a run's progress: after some seconds, whether or not something happens then."""

from __future__ import annotations

import time

from intarsia.protocol import Describe
from intarsia.runtime.progress import Progress


def test_what_is_asked_is_said_after_the_silence_while_nobody_answers():
    lines: list[str] = []
    with Progress(lines.append, silent=0.05) as progress:
        progress.asking("describe", {"a": Describe()}, None)
        assert not lines
        deadline = time.monotonic() + 10
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(lines) == 1
    assert "asking a" in lines[0]


def test_a_run_that_ends_before_says_nothing():
    lines: list[str] = []
    with Progress(lines.append, silent=0.3) as progress:
        progress.asking("describe", {"a": Describe()}, None)
    time.sleep(0.4)
    assert not lines


def test_what_was_said_before_is_not_said_again():
    lines: list[str] = []
    with Progress(lines.append, silent=0.05, clock=iter([0.0, *range(1, 99)]).__next__) as progress:
        progress.asking("describe", {"a": Describe()}, None)
        time.sleep(0.15)
    assert len(lines) == 1
