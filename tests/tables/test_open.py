"""The one door for tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import intarsia
from intarsia.exceptions import InputError, SettingError, TableTypeError
from intarsia.tables import StreamedTable, open_table, scan_parquet
from intarsia.tables.frame import Table
from intarsia.tables.open import named_paths, needs_all_rows

FRAME = pd.DataFrame({"id": range(100, 120), "x": np.linspace(0, 1, 20), "sex": ["f", "m"] * 10})


@pytest.fixture(params=["mapping", "pandas", "polars", "lazy", "pyarrow", "csv", "parquet", "arrow", "excel", "scan"])
def given(request, tmp_path):
    path = tmp_path / f"a.{ {'arrow': 'feather', 'excel': 'xlsx'}.get(request.param, request.param) }"
    native = pl.DataFrame(FRAME)
    match request.param:
        case "mapping":
            return dict(FRAME.items())
        case "pandas":
            return FRAME
        case "polars":
            return native
        case "lazy":
            return native.lazy()
        case "pyarrow":
            return native.to_arrow()
        case "csv":
            native.write_csv(path)
        case "arrow":
            native.write_ipc(path)
        case "excel":
            native.write_excel(path)
        case _:
            native.write_parquet(path)
    return scan_parquet(path) if request.param == "scan" else path


def test_every_type_of_table_goes_through_the_same_door(given):
    opened = open_table(given, "a", id_column="id", leave_out=["sex", "unknown"])
    assert (opened.columns, opened.all_columns) == (("x",), ("id", "x", "sex"))
    assert list(opened.ids) == FRAME["id"].tolist()
    assert opened.n_rows == 20
    held = opened.hold()
    assert isinstance(held, Table)
    np.testing.assert_allclose(held.values[:, 0], FRAME["x"])
    assert open_table(given, "a").kinds() == {"id": "numbers", "x": "numbers", "sex": "categories"}
    assert open_table(given, "a").row_id_columns() == ["id"]
    assert open_table(opened, "b") is opened


def test_small_or_large_is_decided_by_the_limit(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "a.parquet", index=False)
    size = 8 * FRAME.size
    for limit, kind in ((size, Table), (size - 1, StreamedTable)):
        assert isinstance(open_table(tmp_path / "a.parquet", "a", memory_limit=limit).hold(), kind)
        monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", str(limit))
        assert isinstance(open_table(tmp_path / "a.parquet", "a").hold(), kind)
    large = open_table(tmp_path / "a.parquet", "a", id_column="id", all_rows=needs_all_rows("drop"))
    assert isinstance(large.hold(), Table)
    large = open_table(tmp_path / "a.parquet", "a", id_column="id")
    assert large.is_streamed
    assert list(large.ids) == FRAME["id"].tolist()
    assert large.only(["x"]).columns == ("x",)
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "a lot")
    with pytest.raises(SettingError, match="INTARSIA_MEMORY_LIMIT must be a number of bytes"):
        open_table(tmp_path / "a.parquet", "a")


def test_columns_that_are_not_there_are_named():
    with pytest.raises(InputError, match="'a' has no column 'name'. It has 'id', 'x', 'sex'"):
        open_table(FRAME, "a", id_column="name")
    with pytest.raises(InputError, match="'a' has no column 'y'"):
        open_table(FRAME, "a", columns=["x", "y"])
    with pytest.raises(InputError, match="no column of 'a' is left"):
        open_table(FRAME, "a", leave_out=list(FRAME)).hold()


@pytest.mark.parametrize("text", ["", "f" * 5000, "nul\0", "data.unknown"])
def test_a_text_that_is_no_table_is_refused(text):
    with pytest.raises(TableTypeError, match="'a' is of type str.*Hint"):
        open_table(text, "a")


def test_arguments_name_participants_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "k=v.csv", "notes.doc"):
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "folder").mkdir()
    assert named_paths(["a.csv", "b=a.csv", "k=v.csv"]) == {"a": "a.csv", "b": "a.csv", "k=v": "k=v.csv"}
    for arguments, text in {
        ("gone.csv", "b=gone.parquet"): r"2 file\(s\) not found: 'gone.csv', 'gone.parquet'",
        ("a.csv", "notes.doc"): r"unsupported file type of 1 file\(s\): 'notes.doc'. Supported are .*\.parquet",
        ("folder",): r"1 folder\(s\) contain no Parquet files",
        ("a.csv", "a=k=v.csv"): r"1 participant name\(s\) occur more than once: 'a'",
        ("a/b=a.csv",): r"1 participant name\(s\) cannot be file names",
    }.items():
        with pytest.raises(InputError, match=text):
            named_paths(arguments)
    with pytest.raises(InputError, match="unsupported file type"):
        intarsia.cluster({"a": "notes.doc", "b": "a.csv"}, 2)
