from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import intarsia
from intarsia.datasets import load_heart_disease
from intarsia.exceptions import SettingError


def test_the_hospitals_are_as_published():
    hospitals = load_heart_disease()
    assert {k: len(v) for k, v in hospitals.diagnosis.items()} == {
        "cleveland": 303, "hungary": 294, "switzerland": 123, "long_beach": 200,
    }  # fmt: skip
    assert {k: int(v.sum()) for k, v in hospitals.diagnosis.items()} == {
        "cleveland": 139, "hungary": 106, "switzerland": 115, "long_beach": 149,
    }  # fmt: skip
    everything = set(hospitals.tables["cleveland"])
    absent = {name: everything - set(table) for name, table in hospitals.tables.items()}
    assert absent == {
        "cleveland": set(),
        "hungary": {"slope", "ca", "thal"},
        "switzerland": {"chol", "fbs", "ca"},
        "long_beach": {"slope", "ca", "thal"},
    }
    for table in hospitals.tables.values():
        assert not np.any(np.asarray(table["trestbps"]) == 0)
        assert not np.any(np.asarray(table.get("chol", [np.nan])) == 0)


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_the_hospitals_come_as_any_kind_of_table(backend, kind):
    tables = load_heart_disease(backend).tables
    assert all(isinstance(table, kind) for table in tables.values())
    result = intarsia.cluster(tables, 2, scale="standard", missing="observed", random_state=0)
    assert result.n_clusters == 2


def test_a_backend_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SettingError, match="pip install polars"):
        load_heart_disease("polars")


def test_an_unknown_backend_is_refused():
    with pytest.raises(SettingError, match="backend must be"):
        load_heart_disease("excel")
