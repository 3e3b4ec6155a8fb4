"""Participants in other processes: the same result, the same failures, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from sklearn.cluster import KMeans

import intarsia
from intarsia import FederatedClustering, OneShotClustering, ReleasePolicy
from intarsia.exceptions import InputError, LocalAlgorithmError, SettingError, TooFewRowsError
from intarsia.privacy.policy import OPEN
from intarsia.runtime import processes
from intarsia.runtime.drive import drive
from intarsia.runtime.processes import Joining
from intarsia.tables.frame import read_table


def tables(n=5):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 6)) * 5
    found = {}
    for i in range(n):
        seen = np.sort(rng.choice(6, 4, replace=False)) if i else np.arange(6)
        rows = centres[rng.integers(3, size=60)][:, seen] + rng.normal(size=(60, len(seen)))
        rows[rng.random(rows.shape) < 0.05 * (i % 2)] = np.nan
        found[f"p{i}"] = {f"x{m}": rows[:, k] for k, m in enumerate(seen)}
        found[f"p{i}"]["kind"] = ["ab"[k % 2] for k in range(60)] if i else ["abc"[k % 3] for k in range(60)]
    return found


class Told:
    def __init__(self):
        self.names = []

    def asking(self, phase, requests, last):
        pass

    def answered(self, phase, name, reply, seconds):
        assert seconds >= 0
        self.names.append((phase, name))


class Fails(KMeans):
    """A local algorithm that fails where there are no gaps, and says so in words that stay at home."""

    def fit_predict(self, X, y=None):
        raise RuntimeError("secret")


class Dies(KMeans):
    """One whose process is killed, as for want of memory."""

    def fit_predict(self, X, y=None):
        os.kill(os.getpid(), signal.SIGKILL)


class Locked(KMeans):
    """One that cannot be sent."""

    def __init__(self, n_clusters=3, lock=None):
        super().__init__(n_clusters)
        self.lock = lock


@pytest.fixture
def workers(monkeypatch):
    """Every pool of processes that was started."""
    started = []
    kind = processes.ProcessPoolExecutor

    def start(*given, **settings):
        started.append(kind(*given, **settings))
        return started[-1]

    monkeypatch.setattr(processes, "ProcessPoolExecutor", start)
    yield started
    for executor in started:
        assert executor._flags.shutdown
        assert not [process for process in (executor._processes or {}).values() if process.is_alive()]


def same(one, other):
    assert list(one.labels) == list(other.labels)
    for name, labels in one.labels.items():
        np.testing.assert_array_equal(other.labels[name], labels)
        np.testing.assert_array_equal(other.local_labels[name], one.local_labels[name])
    assert one.centroids.tobytes() == other.centroids.tobytes()
    assert one.counts.tobytes() == other.counts.tobytes()
    assert one.run.sent == other.run.sent
    assert [list(e.seconds) for e in one.run.exchanges] == [list(e.seconds) for e in other.run.exchanges]


@pytest.mark.parametrize(
    "model",
    [
        FederatedClustering(3, random_state=0),
        OneShotClustering(3, random_state=0, release={"p1": ReleasePolicy(min_cluster_size=3)}),
        FederatedClustering(
            3,
            random_state=0,
            metric=lambda u, v: float(np.abs(u - v).max()),
            local={"p0": KMeans(3, n_init=2)},
            missing="impute",
            max_rounds=2,
        ),
    ],
    ids=["federated", "one_shot", "own"],
)
def test_two_processes_find_what_one_finds(workers, model):
    once, twice = Told(), Told()
    one = model.fit_result(tables(), once)
    other = model.set_params(n_jobs=2).fit_result(tables(), twice)
    assert len(workers) == 2
    same(one, other)
    assert sorted(once.names) == sorted(twice.names)
    assert other.run.settings["n_jobs"] == 2


def test_a_failure_is_the_same(workers):
    found = []
    for n_jobs in (1, 2):
        model = FederatedClustering(2, local={"p0": Fails(2)}, missing="impute", max_rounds=0)
        with pytest.raises(LocalAlgorithmError) as raised:
            model.set_params(n_jobs=n_jobs).fit(tables())
        assert raised.value.__cause__ is not None
        found.append((str(raised.value), type(raised.value.__cause__)))
    assert found[0] == found[1]
    assert "secret" not in found[0][0]


def test_whoever_cannot_take_part_says_so(workers):
    rules = {"p1": ReleasePolicy(min_cluster_size=61)}
    words = []
    for n_jobs in (None, 2):
        with pytest.raises(TooFewRowsError) as raised:
            intarsia.cluster(tables(), 2, release=rules, n_jobs=n_jobs)
        words.append(str(raised.value))
    assert words[0] == words[1]


def test_what_cannot_be_sent_is_refused_with_a_hint(workers):
    with pytest.raises(SettingError, match="n_jobs=1"):
        intarsia.cluster(
            tables(2), 2, local={"p0": Locked(2, threading.Lock())}, missing="impute", max_rounds=0, n_jobs=2
        )


def test_a_process_that_is_killed_is_an_error_that_says_so(workers):
    model = FederatedClustering(3, random_state=0, n_jobs=2, missing="impute", local={"p0": Dies(3)})
    with pytest.raises(LocalAlgorithmError, match="'p0': its process ended before it answered.*fewer processes"):
        model.fit(tables(3))
    assert len(workers) == 2


@pytest.mark.e2e
def test_with_a_quorum_a_run_survives_a_process_that_is_killed():
    joined = [
        Joining(read_table(table, name), Dies(3) if name == "p1" else None, "euclidean", "impute", OPEN)
        for name, table in tables(3).items()
    ]
    with processes.ProcessRuntime(joined, 3) as runtime:
        outcome = drive(FederatedClustering(3, random_state=0).algorithm_for(runtime.participants()), runtime, quorum=2)
        labels = runtime.labels()
    assert any("'p1': its process ended before it answered" in remark for remark in outcome.remarks)
    assert {name for name, kept in labels.items() if kept.labels is not None} == {"p0", "p2"}


def test_an_interrupted_run_leaves_no_process(workers):
    class Interrupts(Told):
        def answered(self, phase, name, reply, seconds):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FederatedClustering(2, n_jobs=2).fit_result(tables(3), Interrupts())
    assert len(workers) == 2


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "2"])
def test_a_number_of_processes_that_makes_no_sense(n_jobs):
    with pytest.raises(SettingError, match="n_jobs"):
        intarsia.cluster(tables(2), 2, n_jobs=n_jobs)


def test_processes_have_their_share_of_the_threads(monkeypatch):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shares = processes.thread_limits(2, n_cores=8)
    assert (shares["MKL_NUM_THREADS"], shares["OMP_NUM_THREADS"]) == ("4", "1")


def test_processes_start_before_tables_are_read_and_end_if_one_cannot_be(workers):
    """A start takes as long as reading a few hundred tables."""
    with pytest.raises(InputError):
        intarsia.cluster({"a": {"x": [1.0, 2.0]}, "b": {"x": ["one", "two"]}}, 2, n_jobs=2, random_state=0)
    assert len(workers) == 2
