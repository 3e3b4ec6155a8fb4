"""Large tables: the command holds few copies, and what makes that true changes no result."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from benchmarks.memory import CASES, MOST, ONE_SHOT, SMALL, Case, copies
from sklearn import cluster

import intarsia
from intarsia import FederatedClustering
from intarsia.participant.kmeans import KMeans
from intarsia.tables.frame import read_table


@pytest.mark.e2e  # it is long, and measures whole processes
@pytest.mark.parametrize("case", [Case(2), Case(2, gaps=True, options=ONE_SHOT)], ids=lambda case: case.name)
def test_fit_holds_no_more_than_three_copies(monkeypatch, case):
    """`make bench-memory` does this with a million rows; below 100,000, what a process has beside the data weighs more."""
    assert case in CASES
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("POLARS_MAX_THREADS", "2")
    assert copies(case, rows=150_000, columns=50) <= MOST


def test_tables_that_are_handed_over_are_let_go():
    tables = intarsia.datasets.load_heart_disease("polars").tables
    expected = FederatedClustering(2, random_state=0).fit_result(tables)
    read = {name: read_table(table, name) for name, table in tables.items()}
    result = FederatedClustering(2, random_state=0).fit_handed_over(read)
    assert not read
    for name, labels in expected.labels.items():
        np.testing.assert_array_equal(result.labels[name], labels)


@pytest.mark.parametrize(("n", "d", "k"), [(50, 1, 2), (12, 3, 12), (3000, 40, 5), (2000, 30, 10), (70_000, 32, 3)])
def test_our_k_means_is_scikit_learn_s(n, d, k):
    rows = np.random.default_rng(n).normal(size=(n, d))
    ours = KMeans(k, n_init=2, random_state=1, copy_x=False).fit(rows.copy())
    theirs = cluster.KMeans(k, n_init=2, random_state=1).fit(rows)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert (ours.n_iter_, ours.inertia_) == (theirs.n_iter_, theirs.inertia_)


def peak_of(folder, options, expected):
    """The largest memory, in bytes, that a fit of the two files takes."""
    command = ["-m", "intarsia.cli", "fit", "a.csv", "b.csv", "-k", "2", "-q", *options]
    done = subprocess.run(
        [sys.executable, "-c", SMALL, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == expected, done.stderr
    return int(done.stdout.splitlines()[-1]) * 1024


def write_files(folder, rows, letters):
    for name, long in (("a", letters), ("b", 1)):
        with (folder / f"{name}.csv").open("w") as file:
            file.write("x,y,note\n")
            file.writelines(f"{k % 2 * 50},{k % 9},{'x' * (long if k == 5 else 1)}\n" for k in range(rows))


@pytest.fixture(scope="module")
def smallest(tmp_path_factory):
    """What a fit of small files takes: libraries alone take 200 to 300 MiB, which depends on the machine."""
    folder = tmp_path_factory.mktemp("small")
    write_files(folder, 60, 1)
    return peak_of(folder, [], 0)


@pytest.mark.parametrize(
    ("rows", "letters", "options"),
    [(60_000, 600_000, []), (60, 50_000_000, []), (60, 50_000_000, ["-x", "note"]), (60, 20_000_000, ["--id", "note"])],
)
def test_a_csv_file_with_one_long_text_takes_memory_for_its_size_only(
    tmp_path, monkeypatch, smallest, rows, letters, options
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("POLARS_MAX_THREADS", "2")  # a thread more takes memory of its own
    write_files(tmp_path, rows, letters)
    peak, file = peak_of(tmp_path, options, 0 if options else 1), (tmp_path / "a.csv").stat().st_size
    assert peak <= 3 * file + max(300 << 20, smallest + (64 << 20))
