"""Who has which columns is asked of sites before any run, and leaves no trace in runs."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

import intarsia
from intarsia.federation.site import RELEASES
from intarsia.privacy.journal import LEFT, Journal
from tests.e2e.federations import Federation

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]


def table(columns, seed, n=60):
    rng = np.random.default_rng(seed)
    side = 9 * (np.arange(n) % 2)
    return pl.DataFrame({name: rng.normal(size=n) + side for name in columns})


def left(folder, name):
    return [entry for entry in Journal(folder / "kits" / name / RELEASES).entries() if entry["event"] == LEFT]


def test_sites_tell_their_columns_before_a_run_and_nothing_else(tmp_path):
    sex = pl.Series("sex", ["planted-f", "planted-m"] * 30)
    tables = {"p": table("ab", 1).with_columns(sex), "q": table("cd", 2), "r": table("bc", 3)}
    with Federation(tmp_path, tables, late=("r",), head="feasibility = true\n") as federation:
        federation.wait_connected(["p", "q"])
        where = ("federation", "check", "--kit", "kits/analyst")
        first = federation.command(*where, "--json")
        assert first.returncode == 3, first.stderr + federation.log("server")
        told = json.loads(first.stdout)
        assert {name: each["columns"] for name, each in told["participants"].items()} == {
            "p": {"a": "numbers", "b": "numbers", "sex": "categories"},
            "q": {"c": "numbers", "d": "numbers"},
        }
        assert told["silent"] == {"r": "not connected"}
        (entry,) = left(tmp_path, "p")
        assert entry["reply"] == "reply.column_kinds"
        assert "planted" not in first.stdout
        assert not list(tmp_path.glob("*.told"))  # whoever sees that columns must be renamed may do so
        assert not (tmp_path / "kits" / "server" / "runs").exists()

        federation.start("r")
        federation.wait_connected()
        second = federation.command(*where)
        assert second.returncode == 0, second.stderr
        assert "The study depends on: r" in second.stdout

        assert federation.begin().wait() == 0, federation.log()
        assert federation.command(*where).returncode == 0
        federation.command("federation", "result", "--kit", "kits/analyst", "-o", "again", check=True)
        assert set(intarsia.load(tmp_path / "again" / "model.intarsia").outcome.sizes) == {"p", "q", "r"}
