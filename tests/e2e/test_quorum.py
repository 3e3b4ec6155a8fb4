"""Somebody stays away, is late or slow: real processes, and a run that goes on, pauses, or takes them back."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest

import intarsia

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
from tests.e2e.federations import PATIENCE, Federation, wait_until
from tests.e2e.test_federation import assert_same, ended, in_process

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
WHO = {"a": "xy", "b": "yz", "c": "zx", "d": "xyw"}
N = 60


def tables():
    rng = np.random.default_rng(0)
    sides = 9 * (np.arange(N) % 3)
    return {
        name: pl.DataFrame({c: rng.normal(size=N) + sides for c in columns} | {"noise": rng.normal(size=N)})
        for name, columns in WHO.items()
    }


def test_without_one_a_run_pauses_says_so_goes_on_and_takes_it_in_when_it_comes(tmp_path):
    """Two of four are needed. One: it pauses. Three: it goes on. The fourth comes in the middle, and joins."""
    held = tables()
    with Federation(tmp_path, held, k=3, quorum=2, deadline=15, late=("b", "c", "d")) as federation:
        federation.wait_connected("a")
        process = federation.begin(12)
        assert process.wait(PATIENCE) == 1
        assert "paused: 3 participant(s) are not connected: 'b', 'c', 'd'; 2 of 4 are needed" in flat(federation.log())
        now = federation.status()
        assert now["last"]["state"] == "paused"
        assert now["away"] == ["b", "c", "d"]
        assert now["needed"] == 2

        federation.start("b")
        federation.start("c")
        process = federation.begin()
        wait_until(lambda: federation.answered() >= 4)
        federation.hold("b")  # so that it does not end before the fourth is there
        federation.start("d")
        federation.wait_connected("d")
        time.sleep(3)  # one more knock
        federation.hold("b", stop=False)
        ended(federation, process)
        assert "came back" in flat(federation.log())  # d; on a slow machine also b, which was held
        assert "submitted to a, b, c, d" in federation.log()
        found = intarsia.load(federation.model)
        assert found.sizes["d"].sum() == N
        for name in WHO:
            assert len(set(zip(federation.labels(name).tolist(), (np.arange(N) % 3).tolist(), strict=True))) == 3
        # whoever stayed away is named, in the model and in the report
        assert "describe" in found.run.absent["d"]
        page = (tmp_path / "study" / "report.html").read_text()
        assert "Everybody answered" in page


def test_the_quorums_answer_is_that_of_the_quorum(tmp_path):
    """One that never comes could as well not be there."""
    held = tables()
    rest = {name: table for name, table in held.items() if name != "d"}
    with Federation(tmp_path, held, k=3, quorum=3, deadline=15, late=("d",)) as federation:
        ended(federation, federation.begin())
        federation.names = list(rest)
        assert_same(federation, in_process(rest, k=3))
        assert "away: d" in federation.log()
        assert set(intarsia.load(federation.model).run.absent) == {"d"}
        assert "No row of &#39;d&#39; has a label" in (tmp_path / "study" / "report.html").read_text()
        federation.kill("c")  # one that was killed is soon known to be away
        wait_until(lambda: "c" in federation.status().get("away", ()), every=3)


def test_a_site_that_fails_is_named_at_once_and_can_be_left_out(tmp_path):
    """A table that went away after it was checked; then the run goes on without that site."""
    held = tables()
    with Federation(tmp_path, held, k=3) as federation:
        federation.wait_connected()
        (tmp_path / "d.parquet").unlink()
        process = federation.begin()
        assert process.wait(PATIENCE) == 1
        said = flat(federation.log())
        assert "Error: participant 'd'" in said
        assert said.count("submitted") == 1
        assert "--without d" in said
        assert federation.status()["last"]["state"] == "failed"
        ended(federation, federation.begin(200, "--without", "d"))
        federation.names = ["a", "b", "c"]
        assert_same(federation, in_process({name: held[name] for name in "abc"}, k=3))


def flat(text):
    return " ".join(text.split())
