"""Large tables: the command holds few copies, and what makes that true changes no result."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from benchmarks.memory import CASES, MOST, ONE_SHOT, Case, copies
from sklearn import cluster

import intarsia
from intarsia import FederatedClustering
from intarsia.participant.kmeans import KMeans
from intarsia.tables import csv
from intarsia.tables.frame import read_table


@pytest.mark.parametrize("case", [Case(2), Case(2, gaps=True, options=ONE_SHOT)], ids=lambda case: case.name)
def test_fit_holds_no_more_than_three_copies(monkeypatch, case):
    """`make bench` does this with a million rows. What a process has beside the data weighs more here."""
    assert case in CASES
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("POLARS_MAX_THREADS", "2")
    assert copies(case, rows=60_000, columns=50) <= MOST


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
    assert (ours.n_iter_, ours.inertia_, ours._tol) == (theirs.n_iter_, theirs.inertia_, theirs._tol)


CELLS = {
    "whole": lambda rng: str(rng.randint(-9, 99)),
    "large": lambda rng: str(2**53 + rng.randint(0, 9)),
    "number": lambda rng: repr(rng.gauss(0.0, 1.0)),
    "text": lambda rng: rng.choice(["ab", "é", '"a, b; c"', '"two\nlines"', '"say ""hi"""', "+5"]),
    "truth": lambda rng: rng.choice(["true", "false"]),
    "gap": lambda rng: rng.choice(["", "NA", "?"]),
}


@pytest.mark.parametrize("seed", range(100))
def test_a_csv_file_in_pieces_is_read_as_polars_reads_it_at_once(monkeypatch, tmp_path, seed):
    """Columns change what they look like somewhere in the file; cells have line ends, quotes and separators in them."""
    rng = random.Random(seed)
    n, end, separator = rng.randint(0, 40), rng.choice(["\n", "\r\n"]), rng.choice(",;\t")
    names = [rng.choice(["x", f"x{k}", f'"x {k}"', f'"x\n{k}"']) for k in range(rng.randint(1, 5))]
    kinds = [rng.choices(list(CELLS), k=3) for _ in names]
    change = [rng.randint(0, n) for _ in names]
    lines = [
        [CELLS[own[0] if row < until else rng.choice(own)](rng) for own, until in zip(kinds, change, strict=True)]
        for row in range(n)
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(separator.join(line) for line in [names, *lines]).encode() + rng.choice([b"", b"\n"]))
    monkeypatch.setattr(csv, "_PIECE", 50)
    whole = pl.read_csv(path, separator=separator, null_values=list(csv.EMPTY), infer_schema_length=None)
    found = csv.read_csv(path, separator, kept=[whole.columns[0]])
    assert list(found) == whole.columns
    for column in whole.get_columns():
        if isinstance(found[column.name], np.ndarray):
            assert column.dtype.is_numeric()
            np.testing.assert_array_equal(found[column.name], column.cast(pl.Float64).to_numpy())
        else:
            assert column.dtype == found[column.name].to_native().dtype
            assert column.to_list() == found[column.name].to_list()
            assert column.name == whole.columns[0] or not column.dtype.is_numeric()
