"""The experiments run, resume where they stopped, and render: a smoke on data that needs no file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from experiments import render, store
from experiments.__main__ import one_split
from experiments.baselines import BASELINES
from experiments.measuring import CEILING, COLUMNS, OURS, measure
from experiments.studies import STUDIES, gaussian_split


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_RESULTS", str(tmp_path))
    return tmp_path


CHEAP = [
    *(way for way in OURS if "K chosen" not in way),
    CEILING,
    *(name for name, baseline in BASELINES.items() if baseline.needs is None),
]


@pytest.mark.parametrize("way", CHEAP)
def test_every_way_labels_clear_clusters_better_than_chance(way):
    row = measure(gaussian_split(1.5)("core", 0), 4, 0, way)
    assert set(row) == set(COLUMNS)
    assert row["accuracy"] > 0.5
    assert row["seconds"] > 0


def test_ours_is_ahead_of_pooled_imputation_and_sends_less_than_the_rows():
    split = gaussian_split(1.0)("chain", 0)
    ours, pooled = (measure(split, 4, 0, way) for way in ("federated, search", "pooled, mean imputation, k-means"))
    assert ours["adjusted_rand"] > pooled["adjusted_rand"]
    assert ours["bytes_out"] < pooled["bytes_out"]
    assert measure(split, 4, 0, CEILING)["accuracy"] >= ours["accuracy"] - 0.01


def test_a_stopped_run_goes_on_where_it_stopped(results):
    name = "Gaussian 1.5"
    rows = one_split(name, "chain", 0)
    store.append(name, rows[:3])
    path = store.path_of(name)
    with path.open("a") as file:
        file.write('Gaussian 1.5,chain,0,"one-sh')  # killed in the middle of a line
    assert len(store.read(name)) == 3
    again = one_split(name, "chain", 0)
    assert len(again) == len(rows) - 3
    store.append(name, again)
    assert len(store.read(name)) == len(rows)
    assert one_split(name, "chain", 0) == []
    assert store.read(name)[0]["way"] == rows[0]["way"]
    np.testing.assert_allclose(store.read(name)[0]["accuracy"], rows[0]["accuracy"], rtol=1e-5)


def test_tables_show_mean_spread_and_worst(results):
    name = "HAR"
    fake = dict.fromkeys(COLUMNS, 1.0)
    store.append(
        name,
        [
            {"study": name, "layout": "chain", "split": k, "way": "federated, search", **fake, "accuracy": accuracy}
            for k, accuracy in enumerate([0.9, 1.0])
        ],
    )
    assert "| chain | **federated, search** | 2 | 2 of 2 clear | 95.00 ± 5.00 | 90.00 |" in render.table(
        name, store.read(name)
    )


def test_who_is_ahead_is_said(results):
    name = "QMNIST 0/3/7"
    fake = dict.fromkeys(COLUMNS, 1.0)
    pairs = [
        ("federated, search", 0.8),
        ("pooled, OPIMC", 0.9),
        (CEILING, 0.95),
        ("pooled, mean imputation, k-means", 0.7),
    ]
    store.append(
        name, [{"study": name, "layout": "core", "split": 0, "way": w, **fake, "accuracy": a} for w, a in pairs]
    )
    rows = {study: store.read(study) for study in STUDIES}
    assert render.ahead(rows) == "- **QMNIST 0/3/7, core**: pooled, OPIMC: accuracy 0.900, ours 0.800."


def test_the_command_line_names_the_studies():
    out = subprocess.run(
        [sys.executable, "-m", "experiments", "list"], capture_output=True, text=True, check=True
    ).stdout
    assert out.split("\n")[: len(STUDIES)] == list(STUDIES)
