"""Federations of real processes with secure sums: the labels of a plain run, nothing but totals, and kills between steps."""

from __future__ import annotations

import shutil
import time
import warnings
from collections import Counter

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia import ReleasePolicy

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
pytest.importorskip("Crypto")
from intarsia.federation.site import RELEASES
from intarsia.privacy.journal import LEFT, Journal
from intarsia.protocol import decode_reply, tag_of
from intarsia.runtime.transcript import Answer, read_file
from tests.e2e.federations import SecureFederation
from tests.e2e.test_federation import ended

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
WHO = {"a": "xy", "b": "yz", "c": "zx", "d": "xyw"}  # w has one holder
N = 60


def tables():
    rng = np.random.default_rng(0)
    sides = 9 * (np.arange(N) % 3)
    return {
        name: pl.DataFrame({column: rng.normal(size=N) + sides for column in columns}) for name, columns in WHO.items()
    }


def in_process():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(tables(), 3, random_state=0, release=ReleasePolicy())


def assert_same_labels(federation):
    expected = in_process()
    for name in WHO:
        np.testing.assert_array_equal(federation.labels(name), expected.labels[name])
    found = intarsia.load(federation.model)
    np.testing.assert_array_equal(found.outcome.total_sizes, expected.outcome.total_sizes)
    assert found.sizes == {}  # nobody told its own


def seen_by_the_server(federation):
    """Replies that the server keeps, by kind."""
    answers = [read_file(path, Answer) for path in federation.folder.glob("kits/server/runs/*/*/*.reply")]
    return [(answer.participant, decode_reply(answer.reply)) for answer in answers]


def masked_once(federation):
    """Every request for a masked sum got one and the same reply, however often it was asked."""
    for name in WHO:
        entries = Journal(federation.folder / "kits" / name / RELEASES).entries(LEFT)
        masked = {(entry["digest"], entry["sha256"]) for entry in entries if entry["reply"] == "reply.masked"}
        assert max(Counter(digest for digest, _ in masked).values()) == 1


def new_run(federation):
    """Nobody remembers the last run."""
    shutil.rmtree(federation.folder / "kits" / "server" / "runs", ignore_errors=True)
    shutil.rmtree(federation.folder / "study", ignore_errors=True)
    for name in WHO:
        shutil.rmtree(federation.folder / "kits" / name / "intarsia", ignore_errors=True)
        (federation.folder / "kits" / name / "labels.csv").unlink(missing_ok=True)
    federation.forget_releases()


def killed_and_started(federation, name):
    federation.kill(name)
    time.sleep(1)
    federation.start(name)


def test_a_secure_federation_gives_the_labels_of_a_plain_one_also_when_sites_are_killed_between_steps(tmp_path):
    with SecureFederation(tmp_path, tables(), k=3) as federation:
        assert not list((tmp_path / "kits" / "authority").rglob("client.key"))
        ended(federation, federation.begin())
        assert_same_labels(federation)
        kinds = Counter(tag_of(reply) for _, reply in seen_by_the_server(federation))
        assert kinds["reply.keys"] == kinds["reply.shares"] == kinds["reply.summary"] == len(WHO)
        assert kinds["reply.masked"] == kinds["reply.unmasked"] >= 3 * len(WHO)
        assert not kinds.keys() & {"reply.refinement", "reply.labelled"}
        for name in WHO:
            (vault,) = (tmp_path / "kits" / name / "intarsia").glob("*.vault")
            assert vault.stat().st_mode & 0o777 == 0o600
        masked_once(federation)

        new_run(federation)
        process = federation.begin()
        federation.wait_for(5)  # keys of all, and shares of somebody
        killed_and_started(federation, "b")
        federation.wait_for(17)  # the first masked sums of all, and shares that open one
        killed_and_started(federation, "c")
        ended(federation, process)
        assert_same_labels(federation)
        masked_once(federation)
