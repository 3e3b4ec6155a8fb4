"""How a run is shown: the forecast by hand with a clock that stands still, the live line, and the lines of a log."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from intarsia.cli import progress
from intarsia.cli.console import harmless
from intarsia.cli.progress import Watch, few
from intarsia.estimators import FederatedClustering, OneShotClustering
from intarsia.protocol import Describe, Description, Summarize
from intarsia.results.outcome import RoundInfo
from intarsia.runtime.forecast import Forecast, Left, forecast_for
from intarsia.runtime.progress import duration, time_left


class Clock:
    """Stands still unless told."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def moved(number, movement, kind="plain"):
    return RoundInfo(number, movement, (1,), kind=kind)


def answers(forecast, clock, **seconds):
    for name, took in seconds.items():
        clock.now += took
        forecast.answered(name, took)


def rounds(forecast, clock, movements, kinds=None, seconds=4.0):
    """Rounds of two participants, and then the next one is asked."""
    forecast.asking("rounds", "ab", None, a_round=True)
    for number, movement in enumerate(movements, 1):
        answers(forecast, clock, a=seconds / 2, b=seconds / 2)
        kind = "plain" if kinds is None else kinds[number - 1]
        forecast.asking("rounds", "ab", moved(number, movement, kind), a_round=True)


def test_nothing_is_known_until_somebody_has_answered():
    clock = Clock()
    forecast = Forecast(clock=clock)
    assert forecast.left() is None
    forecast.asking("describe", "abc")
    assert forecast.left() is None
    assert forecast.waiting == forecast.asked == ("a", "b", "c")


def test_those_who_wait_are_expected_to_take_as_long_as_those_who_answered():
    clock = Clock()
    forecast = Forecast(clock=clock)
    forecast.asking("summarize", "abcd")
    answers(forecast, clock, a=2.0, b=4.0)
    assert forecast.waiting == ("c", "d")
    assert forecast.left() == Left(6.0, of_step=True)  # 3 s each
    clock.now += 1.0
    assert forecast.left() == Left(5.0, of_step=True)
    clock.now += 10.0  # c takes longer than thought, which says nothing of d
    assert forecast.left() == Left(3.0, of_step=True)
    answers(forecast, clock, c=11.0)
    clock.now += 60.0  # d should have been done long ago
    assert forecast.left() is None
    forecast.answered("d", 60.0)
    assert forecast.waiting == ()
    assert forecast.left() is None


def test_the_same_step_is_expected_to_take_as_long_as_last_time_at_today_s_pace():
    clock = Clock()
    forecast = Forecast(clock=clock)
    forecast.asking("summarize", "abc")
    answers(forecast, clock, a=1.0, b=2.0, c=5.0)
    forecast.asking("label", "abc")
    assert forecast.left() is None  # another step
    answers(forecast, clock, a=0.1, b=0.1, c=0.1)
    forecast.asking("summarize", "abc")
    assert forecast.left() == Left(8.0, of_step=True)
    answers(forecast, clock, a=2.0)  # twice as long as last time
    assert forecast.left() == Left(14.0, of_step=True)


def test_rounds_are_forecast_from_how_fast_the_movement_shrinks():
    clock = Clock()
    forecast = Forecast(max_rounds=20, tol=0.001, clock=clock)
    rounds(forecast, clock, [0.08, 0.04, 0.02])
    # 0.02 halves until 0.000625 in 5 rounds: this one and 4 more, of 4 s
    assert forecast.left() == Left(20.0, at_most=True)
    answers(forecast, clock, a=2.0)
    assert forecast.left() == Left(18.0, at_most=True)
    answers(forecast, clock, b=2.0)
    assert forecast.waiting == ()
    assert forecast.left() == Left(16.0, at_most=True)  # what comes after this round


def test_only_the_last_rounds_say_how_fast_it_shrinks():
    clock = Clock()
    forecast = Forecast(max_rounds=50, tol=0.01, clock=clock)
    rounds(forecast, clock, [1e6, 0.8, 0.4, 0.2, 0.1])
    assert forecast.left() == Left(4 * 4.0, at_most=True)  # 0.05, 0.025, 0.0125, 0.00625


@pytest.mark.parametrize("movements", [[], [0.5], [0.2, 0.3], [0.2, 0.2], [0.0, 0.1]])
def test_without_a_rate_all_rounds_may_be_needed(movements):
    clock = Clock()
    forecast = Forecast(max_rounds=6, tol=0.001, clock=clock)
    rounds(forecast, clock, movements)
    answers(forecast, clock, a=2.0)
    further = 6 - len(movements) - 1
    assert forecast.left() == Left(2.0 + 4.0 * further, at_most=True)


def test_rounds_never_go_beyond_the_most():
    clock = Clock()
    slow = Forecast(max_rounds=5, tol=1e-9, clock=clock)
    rounds(slow, clock, [0.5, 0.49, 0.48])
    assert slow.left() == Left(8.0, at_most=True)  # this one, and the fifth
    last = Forecast(max_rounds=4, tol=1e-9, clock=clock)
    rounds(last, clock, [0.5, 0.6, 0.7])
    assert last.left() == Left(4.0)  # there is no other after it
    never = Forecast(max_rounds=10, tol=0.0, clock=clock)
    rounds(never, clock, [0.5, 0.25])
    assert never.left() == Left(4.0 * 8, at_most=True)


def test_a_round_at_rest_is_followed_by_one_at_most():
    clock = Clock()
    forecast = Forecast(max_rounds=20, tol=0.001, clock=clock)
    rounds(forecast, clock, [0.5, 0.0005])
    assert forecast.left() == Left(4.0)


def test_a_new_kind_of_round_begins_anew_and_trials_say_nothing():
    clock = Clock()
    forecast = Forecast(max_rounds=10, tol=0.001, clock=clock)
    rounds(forecast, clock, [0.4, 0.2, 0.1, 0.0001], kinds=["trial"] * 4)
    assert forecast.left() == Left(4.0 * 6, at_most=True)
    other = Forecast(max_rounds=10, tol=0.001, clock=clock)
    rounds(other, clock, [0.4, 0.1], kinds=["plain", "crosswise"])
    assert other.left() == Left(4.0 * 8, at_most=True)


def test_after_the_rounds_it_is_a_step_again():
    clock = Clock()
    forecast = Forecast(max_rounds=20, tol=0.001, clock=clock)
    rounds(forecast, clock, [0.08, 0.04])
    answers(forecast, clock, a=2.0, b=2.0)
    forecast.asking("label", "ab", moved(3, 0.0001))
    answers(forecast, clock, a=1.0)
    assert forecast.left() == Left(1.0, of_step=True)


def test_steps_that_take_no_time_are_no_trouble():
    clock = Clock()
    forecast = Forecast(max_rounds=20, tol=0.001, clock=clock)
    rounds(forecast, clock, [0.08, 0.04], seconds=0.0)
    assert forecast.left() is None
    forecast.answered("a", 0.0)
    assert forecast.left() is None


def test_the_estimator_says_when_it_stops():
    federated = forecast_for(FederatedClustering(2, max_rounds=7, tol=0.5))
    assert (federated._max_rounds, federated._tol) == (7, 0.5)
    assert forecast_for(OneShotClustering(2))._max_rounds is None


def test_durations_in_words():
    seconds = (0.1, 1.4, 9.4, 11, 13, 57, 58, 100, 3569, 3570, 5000)
    words = ["1 s", "1 s", "9 s", "10 s", "15 s", "55 s", "1 min", "2 min", "59 min", "1 h 0 min", "1 h 23 min"]
    assert [duration(s) for s in seconds] == words
    assert time_left(None) == ""
    assert time_left(Left(20)) == "~20 s left"
    assert time_left(Left(20, at_most=True)) == "at most ~20 s left"
    assert time_left(Left(20, of_step=True)) == "~20 s left of this step"


def test_a_few_names_and_a_count_in_the_columns_that_there_are():
    assert few(["a"]) == "a"
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c +2"
    names = ["hungary", "switzerland", "cleveland", "long-beach"]
    assert few(names, 40) == "hungary, switzerland, cleveland +1"
    assert few(names, 30) == "hungary, switzerland +2"
    assert few(names, 15) == "hungary +3"
    assert few(names, 8) == "hung… +3"
    assert few(names, 4) == few(names, -5) == few([], 10) == ""
    assert few(["病院病院病院", "b"], 8) == "病院… +1"  # two columns each


def test_names_cannot_steer_a_terminal():
    assert harmless("a\x1b[31mb\r\nc\u202ed\udcff") == "a�[31mb��c�d�"
    assert harmless("one\ntwo", lines=True) == "one\ntwo"


@pytest.fixture
def screen(monkeypatch):
    """A terminal of 80 columns, that is a string."""

    def made(*, terminal=True, width=80):
        file = io.StringIO()
        # fmt: off
        monkeypatch.setattr(progress, "err", Console(
            file=file, force_terminal=terminal, width=width, height=24, color_system=None, legacy_windows=False,
            _environ={"TERM": "xterm"},
        ))
        # fmt: on
        return file

    return made


def line_of(watch, width=80):
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system=None).print(watch)
    return file.getvalue()


REPLY = Description(features=("x",), n_rows=1)
SLOW = "[bold]" + "clinic" * 10


def watched(clock, names):
    forecast = Forecast(max_rounds=20, tol=0.001, clock=clock)
    watch = Watch(quiet=False, forecast=forecast, clock=clock)
    watch.asking("refine", dict.fromkeys(names, Describe()), None)
    for name in names:
        clock.now += 30.0
        watch.answered("refine", name, REPLY, 30.0)
    watch.asking("refine", dict.fromkeys(names, Describe()), moved(1, 0.5))
    return watch


def test_the_live_line_says_it_all_and_never_wraps(screen):
    screen()
    clock = Clock()
    watch = watched(clock, ["hungary", "switzerland", "cleveland", "long-beach"])
    clock.now += 31.0
    watch.answered("refine", "hungary", REPLY, 31.0)
    assert line_of(watch, 120)[2:] == (
        "2:31 round 2 · 1/4 · at most ~39 min left · moved 50.00% · asking switzerland, cleveland, long-beach\n"
    )
    assert line_of(watch)[2:] == "2:31 round 2 · 1/4 · at most ~39 min left · moved 50.00% · asking switzerl… +2\n"
    for width in range(10, 130):
        assert line_of(watch, width).count("\n") == 1
        assert len(line_of(watch, width)) <= width + 1


def test_names_in_the_live_line_are_text(screen):
    screen()
    line = line_of(watched(Clock(), [SLOW, "x\x1b[2Jy", "\n"]), 200)
    assert f"asking {SLOW}, x�[2Jy, �" in line
    assert "\x1b" not in line


def test_a_log_has_lines_at_each_step_and_now_and_then(screen):
    file = screen(terminal=False)
    clock = Clock()
    watch = Watch(quiet=False, forecast=Forecast(clock=clock), clock=clock)
    names = ["a", "b", "[red]c", "d", "e"]
    requests = dict.fromkeys(names, Summarize(seed=0, n_clusters=None, n_local_clusters=None, max_local_clusters=9))
    with watch:
        watch.asking("describe", dict.fromkeys(names, Describe()), None)
        watch.asking("summarize", requests, None)
        for name in names:
            clock.now += 6.0
            watch.answered("summarize", name, REPLY, 6.0)
        watch.asking("label", dict.fromkeys(names, Describe()), moved(1, 0.25))
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in file.getvalue().splitlines()]
    assert lines == [
        "who has what: asking a, b, [red]c +2",
        "how many clusters: asking a, b, [red]c +2",
        "how many clusters: 2 of 5 have answered; asking [red]c, d, e; ~20 s left of this step",
        "how many clusters: 4 of 5 have answered; asking e; ~6 s left of this step",
        "labels: asking a, b, [red]c +2; centroids moved by 25.00% of their extent",
    ]


def test_quiet_is_quiet(screen):
    file = screen()
    clock = Clock()
    with Watch(quiet=True, clock=clock) as watch:
        watch.asking("describe", {"a": Describe()}, None)
        watch.answered("describe", "a", REPLY, 0.5)
    assert file.getvalue() == ""


def on_a_terminal(arguments, where, columns=80):
    """What a terminal of so many columns is sent on standard error."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "intarsia.cli", *arguments], cwd=where, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=child,
    )  # fmt: skip
    os.close(child)
    seen = b""
    while True:
        try:
            chunk = os.read(parent, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(parent)
    assert process.wait(60) == 0, seen
    return seen.decode()


def test_on_a_terminal_of_80_columns_the_time_left_is_shown(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"[bold]hospital of the city {k}" for k in range(4)]
    for k, name in enumerate(names):
        rows = rng.normal(size=(600, 8)) + 2.0 * (np.arange(600) % 3)[:, None]
        table = pl.DataFrame(rows, schema=[f"f{3 * k + j}" for j in range(8)])
        table.write_parquet(Path(tmp_path / f"{name}.parquet"))
    seen = on_a_terminal(["fit", *(f"{name}.parquet" for name in names), "-o", "s"], tmp_path)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", seen)]
    lines = [line for line in lines if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert "\n" not in seen.split("labels")[0].split("who has what")[1]  # one line, drawn again in its place
    assert any(re.search(r"how many clusters · [123]/4 · ~\d+ s left of this step · asking \[bold\]", x) for x in lines)
    assert any(re.search(r"round 2 · \d/4 · (at most )?~\d+ s left · moved \d", line) for line in lines)
    assert any("labels · " in line for line in lines)
    assert not any("who has what: asking" in line for line in lines)  # which is for logs
