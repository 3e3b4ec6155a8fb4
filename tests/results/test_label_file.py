"""Labels as CSV: no formula for a spreadsheet, the same numbers when they are read again, and for their owner only."""

from __future__ import annotations

import stat

import numpy as np
import polars as pl
import pytest

from intarsia.results.label_file import columns_of, label_lines, without_formulas, write_labels
from intarsia.tables.csv import CsvFile
from intarsia.tables.open import Ids

RISKY = ["=1+1", "+49 30", "-a", "@sum", "\tx", "\rx", "'=1", "''+x"]
HARMLESS = ["-5", "+3.5", "-1e-3", "a=b", "'a", "", "x"]


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum([*RISKY, *HARMLESS])])
def test_texts_that_a_spreadsheet_would_compute_get_an_apostrophe(kind):
    frame = pl.DataFrame({"id": pl.Series([*RISKY, *HARMLESS, None], dtype=kind), "n": -1.5})
    escaped = without_formulas(frame)
    assert escaped["id"].to_list() == ["'" + text for text in RISKY] + [*HARMLESS, None]
    assert escaped["n"].to_list() == frame["n"].to_list()


def test_one_apostrophe_less_restores_every_text():
    texts = [prefix + text for prefix in ("", "'", "''") for text in (*RISKY, *HARMLESS)]
    escaped = without_formulas(pl.DataFrame({"id": texts}))["id"]
    assert escaped.str.replace(r"^'('*[=+\-@\t\r])", "$1").to_list() == texts


def test_a_file_of_labels_is_its_owner_s_alone_and_reads_back(tmp_path):
    path, labels = tmp_path / "labels.csv", np.arange(len(RISKY)) % 3
    write_labels(path, {"cluster": labels}, Ids(pl.Series(RISKY)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    columns = CsvFile(path).read()
    np.testing.assert_array_equal(columns["cluster"], labels)
    assert columns["id"].to_list() == ["'" + text for text in RISKY]
    assert b"".join(label_lines({"cluster": labels}, Ids(pl.Series(RISKY)))) == path.read_bytes()
    assert b"".join(label_lines({"cluster": labels}, Ids(pl.Series([-1, *range(7)])))).startswith(b"id,cluster\n-1,0\n")


def test_a_row_without_a_cluster_has_no_margin(tmp_path):
    columns = columns_of(np.array([0, -1]), {}, np.array([0.5, 1.0]))
    assert b"".join(label_lines(columns)) == b"row,cluster,margin\n0,0,0.5\n1,-1,\n"
    write_labels(tmp_path / "l.parquet", columns)
    assert pl.read_parquet(tmp_path / "l.parquet")["margin"].to_list() == [0.5, None]
