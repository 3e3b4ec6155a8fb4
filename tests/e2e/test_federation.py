"""Federations of real processes: the same answer as in process, whatever dies meanwhile."""

from __future__ import annotations

import json
import re
import time
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia import ReleasePolicy

pytest.importorskip("nvflare")
psutil = pytest.importorskip("psutil")
from tests.e2e.federations import PATIENCE, Federation  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]


OF_THE_MACHINE = ("versions", "started", "seconds", "exchanges")


def figures(result):
    """All that a report says, but for when and on what it ran.

    Messages hold columns in the order of their names, so that nobody but the owner knows the owner's order.
    """
    exchanges = tuple(each for each in result.run.exchanges if each.phase != "keep_model")  # only between machines
    sent = tuple(each for each in result.run.sent if each.message not in ("query.keep_model", "reply.model_kept"))
    result = replace(result, run=replace(result.run, exchanges=exchanges, sent=sent))
    found = json.loads(replace(result, feature_names=tuple(sorted(result.feature_names))).summarise().to_json())
    exchanged = [(e["phase"], e["bytes_in"], e["bytes_out"]) for e in found["exchanges"]]
    for participant in found["participants"]:
        del participant["seconds"]
    found["methods"] = re.sub(r", scikit-learn \d+(\.\d+)*", "", found["methods"])  # a coordinator runs without it
    rules = {"local", "missing", "release", "n_jobs", "verbose"}  # each participant's own in a federation
    found["settings"] = {key: value for key, value in found["settings"].items() if key not in rules}
    return {key: value for key, value in found.items() if key not in OF_THE_MACHINE} | {"exchanged": exchanged}


@pytest.fixture(scope="module")
def hospitals():
    return dict(sorted(intarsia.datasets.load_heart_disease("polars").tables.items())[:3])


def in_process(tables, method="federated", k=2):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(tables, k, method=method, random_state=0, release=ReleasePolicy())


def assert_same(federation, expected):
    found = intarsia.load(federation.model)
    order = [found.feature_names.index(name) for name in expected.feature_names]
    np.testing.assert_array_equal(found.centroids[:, order], expected.centroids)
    for name in federation.names:
        np.testing.assert_array_equal(federation.labels(name), expected.labels[name])
        np.testing.assert_array_equal(found.outcome.sizes[name], expected.outcome.sizes[name])
    np.testing.assert_array_equal(found.outcome.total_sizes, expected.outcome.total_sizes)
    assert found.labels == {}
    assert found.confidence == expected.confidence


def ended(federation, process, timeout=PATIENCE):
    assert process.wait(timeout) == 0, (federation.folder / "analyst.log").read_text()


@pytest.mark.parametrize(("method", "k"), [("federated", 2), ("one_shot", 2), ("federated", "auto")])
def test_in_process_and_federated_runs_are_identical_whatever_dies(method, k, hospitals, tmp_path):
    with Federation(tmp_path, hospitals, method, k) as federation:
        ended(federation, federation.begin())
        expected = in_process(hospitals, method, k)
        assert_same(federation, expected)
        assert_copies(federation)
        here, there = figures(expected), figures(intarsia.load(federation.model))
        assert here.keys() == there.keys()
        for key, value in here.items():
            assert there[key] == value, key  # of the report, word for word
        for name in hospitals:
            assert len(set(federation.released(name))) == len(federation.released(name))  # nothing was asked twice
        # the analyst's other commands
        assert (
            federation.command("federation", "status", "--kit", "kits/analyst", "--json").stdout.count("cleveland") == 1
        )
        again = federation.command("federation", "result", "--kit", "kits/analyst", "-o", "again")
        assert again.returncode == 0, again.stderr
        assert (tmp_path / "again" / "report.html").is_file()
        for name in ("hungary", "server", "analyst"):
            assert_examined(federation, name)
        for hurt in KILLS.get((method, k), ()):
            goes_on_after(hurt, federation, expected)


def assert_copies(federation):
    """Each kit has the public model of the run, by which its own table gets the labels of the run."""
    study = intarsia.load(federation.model)
    study.save(federation.folder / "expected.intarsia", public=True)
    assert [each.phase for each in study.run.exchanges].count("keep_model") == 1
    for name in federation.names:
        copy = federation.folder / "kits" / name / "model.intarsia"
        assert copy.read_bytes() == (federation.folder / "expected.intarsia").read_bytes()
        assert copy.stat().st_mode & 0o777 == 0o600
    table, out = f"{name}.parquet", federation.folder / "at-home.csv"
    federation.here(
        *("participant", "label", "--kit", str(copy.parent), "--table", str(federation.folder / table), "-o", str(out))
    )
    np.testing.assert_array_equal(pl.read_csv(out)["cluster"], federation.labels(name))


def assert_examined(federation, name):
    """The doctor goes to the real server with this kit, and compares clocks with it."""
    done = federation.command("doctor", "--kit", f"kits/{name}", "--json")
    assert done.returncode == 0, done.stdout
    states = {finding["about"]: finding["state"] for finding in json.loads(done.stdout)}
    assert states["TLS"] == states["clock"] == "fine", done.stdout


def goes_on_after(hurt, federation, expected):
    """One kill in a run of its own: the run goes on, and nothing is asked twice."""
    forget(federation)
    process = federation.begin()
    federation.wait_for(1 if hurt is kill_analyst else 7)
    before, started = federation.kept(), time.monotonic()
    times = {(name, digest): federation.released(name).count(digest) for name, digest in before}
    process = hurt(federation, process) or process
    ended(federation, process)
    print(f"{hurt.__name__}: {len(before)} answers were there, {time.monotonic() - started:.1f} s to the end")  # noqa: T201
    assert_same(federation, expected)
    for name, digest in before:
        assert federation.released(name).count(digest) == times[name, digest]  # what is kept is not asked again


def forget(federation):
    """A new run: nothing was answered yet."""
    import shutil

    shutil.rmtree(federation.folder / "kits" / "server" / "runs", ignore_errors=True)
    shutil.rmtree(federation.folder / "study", ignore_errors=True)
    for name in federation.names:
        (federation.folder / "kits" / name / "labels.csv").unlink(missing_ok=True)
    federation.forget_releases()


def kill_job_process(federation, _):
    for process in federation.job_processes("hungary"):
        process.kill()


def kill_participant(federation, _):
    federation.kill("hungary")
    time.sleep(1)
    federation.start("hungary")


def kill_participant_but_not_its_job(federation, _):
    federation.kill("hungary", jobs=False)
    time.sleep(1)
    federation.start("hungary")


def kill_server(federation, _):
    federation.kill("server")
    time.sleep(1)
    federation.start("server")


def kill_analyst(federation, process):
    process.kill()
    process.wait()
    return federation.begin()  # the same command once more


KILLS = {
    ("federated", 2): (kill_job_process, kill_participant, kill_participant_but_not_its_job, kill_server),
    ("one_shot", 2): (kill_analyst,),
}


def test_a_study_that_cannot_work_says_why_and_ends(tmp_path):
    rng = np.random.default_rng(0)
    tables = {name: pl.DataFrame({c: rng.normal(size=6) for c in "xy"}) for name in "ab"}
    with Federation(tmp_path, tables, k=50) as federation:
        done = federation.command(
            "federation", "run", "--kit", "kits/analyst", "-o", "study", "--patience", str(PATIENCE)
        )
    assert done.returncode == 1
    assert "Error: 50 global clusters were requested" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
