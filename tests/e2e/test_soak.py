"""Kill -9 at random moments, one run after the other: the answer is the right one, and nothing is asked twice."""

from __future__ import annotations

import os
import time

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia import ReleasePolicy

pytest.importorskip("nvflare")
psutil = pytest.importorskip("psutil")
from intarsia.runtime.transcript import Answer, Questions, read_file  # noqa: E402
from tests.e2e.federations import Federation, SecureFederation  # noqa: E402
from tests.e2e.test_federation import assert_same  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
RUNS = int(os.environ.get("INTARSIA_SOAK", "1"))  # in each of four federations; make soak: 10
SECONDS = 300.0  # that a run may take, whatever dies
SECURE = "secure sums"  # of the federated method: a kill may come in any of their four steps
VICTIMS = ("site", "its job", "server", "server's job", "driver")


def tables(rng):
    side = 4 * (np.arange(80) % 3)
    return {
        name: pl.DataFrame({c: rng.normal(size=80) + side for c in columns})
        for name, columns in {"a": "uvw", "b": "vwx", "c": "wxyu"}.items()
    }


def server_job(federation):
    for process in federation.job_processes("server"):
        process.kill()


def site_job(federation, name):
    for process in federation.job_processes(name):
        process.kill()


def restarted(federation, name):
    federation.kill(name)
    time.sleep(0.5)
    federation.start(name)


def kill(victim, name, federation, process):
    match victim:
        case "site":
            restarted(federation, name)
        case "its job":
            site_job(federation, name)
        case "server":
            restarted(federation, "server")
        case "server's job":
            server_job(federation)
        case _:
            process.kill()
            process.wait()


def federation_of(folder, held, method):
    rules = 'max_rounds = "any"'  # of all runs together
    if method == SECURE:
        pytest.importorskip("Crypto")
        return SecureFederation(folder, held, k=3, release=rules)
    return Federation(folder, held, method, k=3, release=rules)


PARTS = [(0, "federated"), (1, "federated"), (2, "one_shot"), (3, SECURE)]


@pytest.mark.parametrize(
    ("part", "method"), PARTS if RUNS > 1 else [PARTS[0], PARTS[3]]
)  # kills of others: test_federation
def test_whatever_dies_the_run_ends_with_the_right_answer(part, method, tmp_path):
    rng = np.random.default_rng(part)
    held = tables(rng)
    settings = {"secure_sums": True} if method == SECURE else {"method": method}
    with federation_of(tmp_path, held, method) as federation:
        for k in range(RUNS):
            seed = 1000 * part + k
            victim, name = VICTIMS[(k + part) % len(VICTIMS)], str(rng.choice(list(held)))
            expected = intarsia.cluster(held, 3, random_state=seed, release=ReleasePolicy(), **settings)
            # a federated run sends the very replies of a run in process: the kill comes after some share of them
            n_replies = sum(len(exchange.bytes_out) for exchange in expected.run.exchanges)
            moment, delay = int(rng.integers(0, n_replies)), float(rng.uniform(0, 0.4))
            federation.forget_releases()
            federation.reseed(seed)
            earlier, so_far, started = federation.kept(), federation.answered(), time.monotonic()
            process = federation.begin(SECONDS)
            federation.wait_for(so_far + moment, SECONDS) if moment else time.sleep(float(rng.uniform(0, 8)))
            time.sleep(delay)
            kill(victim, name, federation, process)
            before = federation.kept() - earlier
            whole(federation)
            if victim == "driver":
                process = federation.begin(SECONDS)
            assert process.wait(SECONDS) == 0, federation.log()
            whole(federation)
            what = f"run {k} of {part}: {victim} ({name}) after {moment} of {n_replies} replies and {delay:.1f} s"
            print(f"{what}: done in {time.monotonic() - started:.0f} s", flush=True)  # noqa: T201
            assert_same(federation, expected)
            for who, digest in before:
                assert federation.released(who).count(digest) == 1, what


def whole(federation):
    """No file of a transcript is ever half there."""
    for path in federation.folder.glob("kits/server/runs/*/*/*"):
        if not path.name.startswith(".intarsia-"):
            assert read_file(path, Questions if path.name == "questions" else Answer) is not None, path
