"""Private federations of real processes: what is spent, what is repeated, and what is refused."""

from __future__ import annotations

import shutil
import time

import numpy as np
import polars as pl
import pytest

import intarsia

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
pytest.importorskip("opendp")
from intarsia.privacy.ledger import Ledger
from intarsia.privacy.noise import epsilon_of
from tests.e2e.federations import PATIENCE, Federation
from tests.e2e.test_federation import ended

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
WHO = {"a": "xy", "b": "yz", "c": "zx"}
PRIVACY = "[privacy]\nepsilon = 8\n[privacy.bounds]\n" + "".join(f"{name} = [-5, 15]\n" for name in "xyz")
N = 2000


class Forgiving(Federation):
    """Participants that let a round be paid for twice: a kill may come between a debit and its answer."""

    more = ("--total-epsilon", "9")


def tables():
    rng = np.random.default_rng(0)
    side = 9 * (np.arange(N) % 2)
    return {name: pl.DataFrame({column: rng.normal(size=N) + side for column in own}) for name, own in WHO.items()}


def spent(federation):
    return {name: Ledger.beside(federation.folder / f"{name}.parquet").entries() for name in WHO}


def answers(federation):
    return {path.name: path.read_bytes() for path in federation.folder.glob("*.parquet.answers/*")}


def new_run(federation):
    """Nobody remembers the last run but the ledgers beside the tables."""
    shutil.rmtree(federation.folder / "kits" / "server" / "runs", ignore_errors=True)
    for name in WHO:
        shutil.rmtree(federation.folder / "kits" / name / "intarsia", ignore_errors=True)
        (federation.folder / "kits" / name / "labels.csv").unlink(missing_ok=True)
    federation.forget_releases()


def test_a_private_study_ends_repeats_for_nothing_survives_a_kill_and_is_refused_beyond_its_budget(tmp_path):
    with Forgiving(tmp_path, tables(), privacy=PRIVACY) as federation:
        process = federation.begin()
        federation.wait_for(4)  # three sketches, and one of the next exchange
        federation.kill("b")
        time.sleep(1)
        federation.start("b")
        ended(federation, process)
        first, debits, kept = intarsia.load(federation.model), spent(federation), answers(federation)
        assert (tmp_path / "study" / "report.html").is_file()
        for name in WHO:
            assert len(federation.labels(name)) == N
            assert 7.99 < epsilon_of(first.privacy.rho[name], 1e-6) <= 8
            paid = sum(entry["rho"] for entry in debits[name]) / 2**40
            assert paid == pytest.approx(first.privacy.rho[name], rel=0.11 if name == "b" else 1e-6)

        new_run(federation)
        ended(federation, federation.begin())
        np.testing.assert_array_equal(intarsia.load(federation.model).centroids, first.centroids)
        assert spent(federation) == debits  # the same questions get the same bytes, and cost nothing
        assert answers(federation) == kept
        assert len(federation.labels("b")) == N

        new_run(federation)
        federation.change(lambda study: study.update(n_clusters=3))
        for name in WHO:
            federation.kill(name)
            federation.agree(name)
            federation.start(name)
        federation.wait_connected()
        assert federation.begin().wait(PATIENCE) == 1
        assert "privacy budget of this participant's table does not allow it" in " ".join(federation.log().split())
        assert spent(federation) == debits
