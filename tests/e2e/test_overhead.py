"""What the network adds to the work: three participants on this machine, with certificates, as always."""

from __future__ import annotations

import os
import time
import warnings

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import encode
from intarsia.tables.frame import read_table

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
from sklearn.cluster import DBSCAN

from tests.e2e.federations import Federation

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]


class Wide(Federation):
    """Sites that cluster in no time."""

    more = ("--local", "DBSCAN(eps=1000, min_samples=2)")


def ran(federation):
    """Seconds of the analyst's whole command, and the record of the run."""
    federation.wait_connected()  # so that what follows is the run alone
    started = time.monotonic()
    process = federation.begin()
    assert process.wait(280) == 0, (federation.folder / "analyst.log").read_text()
    return time.monotonic() - started, intarsia.load(federation.model).run


def test_five_rounds_take_one_exchange_each_and_their_times_are_printed(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(400) % 2  # with few rows, what a participant may tell does not change after the second round
    who = {"a": "xy", "b": "yz", "c": "xz"}  # partly apart, so that no round is at rest
    tables = {
        name: pl.DataFrame({c: 2 * rng.normal(size=400) + 3 * kind for c in columns}) for name, columns in who.items()
    }
    settings = "max_rounds = 5\ntol = 0.0\nn_rivals = 0\nrefinement = 'crosswise'"
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = {"max_rounds": 5, "tol": 0.0, "n_rivals": 0, "refinement": "crosswise", "release": ReleasePolicy()}
        intarsia.cluster(tables, 2, random_state=0, **same)
    local = time.monotonic() - started
    with Federation(tmp_path, tables, settings=settings) as federation:
        whole, run = ran(federation)
    each = [max(exchange.seconds.values()) for exchange in run.exchanges]
    assert [exchange.phase for exchange in run.exchanges] == [
        "describe",
        "summarize",
        *["refine"] * 5,
        "label",
        "keep_model",
    ]
    print(  # noqa: T201
        f"exchanges: median {np.median(each):.2f} s, {[round(s, 2) for s in each]}; "
        f"from the command to the result {whole:.1f} s, in process {local:.1f} s"
    )


@pytest.mark.skipif(not os.environ.get("INTARSIA_LARGE"), reason="minutes for one figure: make network")
def test_ten_megabytes_from_each_take_less_than_two_seconds(tmp_path):
    k, d = 40, 16_000
    names = [f"c{m:05d}" for m in range(d)]
    rng = np.random.default_rng(0)
    centres = 50.0 * rng.normal(size=(k, d))
    rows = {name: np.repeat(centres, 6, axis=0) + rng.normal(size=(6 * k, d)) for name in "abc"}
    tables = {name: pl.DataFrame(values, schema=names) for name, values in rows.items()}
    settings = "max_rounds = 0\nn_starts = 0"
    with Wide(tmp_path, tables, k=k, settings=settings, deadline=120) as federation:
        _, run = ran(federation)
    (exchange,) = (exchange for exchange in run.exchanges if exchange.phase == "summarize")
    local = in_process(tables, k)
    sizes = [round(n / 1e6, 1) for n in exchange.bytes_out.values()]
    took = max(exchange.seconds.values())
    print(f"summaries of {sizes} MB: {took:.2f} s, the work alone {local:.2f} s")  # noqa: T201
    assert min(exchange.bytes_out.values()) >= 10e6
    assert took - local < 2


def in_process(tables, k):
    """Seconds of the slowest participant for the same question."""
    from intarsia.coordinator import FederatedAlgorithm

    answering = {
        name: Participant(read_table(table, name), DBSCAN(eps=1000, min_samples=2), pipeline=Pipeline(ReleasePolicy()))
        for name, table in tables.items()
    }
    algorithm = FederatedAlgorithm(n_clusters=k, scale="auto", max_rounds=0)
    step = algorithm.start(tuple(answering))
    step = algorithm.advance(step.state, {name: answering[name].handle(r) for name, r in step.requests.items()})
    slowest = 0.0
    for name, request in step.requests.items():
        started = time.monotonic()
        assert len(encode(answering[name].handle(request))) > 10e6
        slowest = max(slowest, time.monotonic() - started)
    return slowest
