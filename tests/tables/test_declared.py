from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import SettingError
from intarsia.tables.open import open_table

PRIVACY = DifferentialPrivacy(1, bounds={"age": (0, 100)}, levels={"code": ["7", "True", "f"]})
NAN = np.nan


def held(table, privacy=PRIVACY, **more):
    return open_table(table, "a", **more).hold(declared=privacy)


def cells(table):
    return table.values[:, 0].tolist(), table.categories["code"].tolist()


def test_each_cell_by_hand():
    table = held(
        {
            "age": [30, "40", "x", None, np.inf, True, 10**400, -1e300, "nan"],
            "code": ["f", 7, 7.0, "007", True, "true", "m", None, "1"],
        }
    )
    ages, codes = cells(table)
    np.testing.assert_array_equal(ages, [30, 40, NAN, NAN, NAN, 1, NAN, -1e8, NAN])
    assert codes == ["f", "7", "7", "7", "True", "True", None, None, "True"]


@pytest.mark.parametrize("odd", ["x", 0.5, None, True, 2**70])
def test_an_odd_cell_changes_no_other_cell_whatever_type_its_column_gets(odd, tmp_path):
    usual = {"age": [1, 2, 3], "code": [7, 7, 8]}
    more = {name: [*column, odd] for name, column in usual.items()}
    for read in (dict, pd.DataFrame, lambda columns: pl.DataFrame(columns, strict=False)):
        whole = held(read(usual)), held(read(more))
        np.testing.assert_array_equal(whole[0].values, whole[1].values[:3])
        assert whole[0].categories["code"].tolist() == whole[1].categories["code"].tolist()[:3] == ["7", "7", None]
    for name, columns in (("usual", usual), ("more", more)):
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [held(tmp_path / f"{name}.csv") for name in ("usual", "more")]
    np.testing.assert_array_equal(files[0].values, files[1].values[:3])


@pytest.mark.parametrize("rows", [{"age": [], "code": []}, {"age": [None], "code": [None]}])
def test_neither_empty_tables_nor_blank_rows_nor_empty_columns_are_refused_or_dropped(rows):
    table = held(rows)
    assert (table.names, table.given_names, table.levels) == (("age",), ("age", "code"), {"code": ("7", "True", "f")})


def test_a_table_in_batches_is_the_same_table(tmp_path):
    frame = pd.DataFrame({"age": [1.0, np.inf, NAN, 1e9], "code": ["f", "7", None, "other"]})
    frame.to_parquet(tmp_path / "t.parquet")
    streamed, whole = (held(tmp_path / "t.parquet", memory_limit=limit) for limit in (0, None))
    assert not streamed.in_memory
    assert streamed.levels == whole.levels
    numbers = whole.in_numbers()
    for piece in streamed.rows(centred=False).pieces():
        np.testing.assert_array_equal(piece.observed, numbers.observed)
        np.testing.assert_array_equal(piece.cells.T[piece.observed], numbers.values[numbers.observed])


@pytest.mark.parametrize("levels", [["1", "true"], ["7", "7.0"], [" ", "a"], ["nan", "a"]])
def test_levels_that_cannot_be_told_apart_are_refused(levels):
    with pytest.raises(SettingError, match="column 'code' cannot be told apart"):
        held({"code": ["a"]}, DifferentialPrivacy(1, levels={"code": levels}))


def test_a_number_too_long_for_an_integer_does_not_make_a_csv_file_unreadable(tmp_path):
    (tmp_path / "t.csv").write_text(f"x,y\n1,2\n1{50 * '0'},3\n")
    assert open_table(tmp_path / "t.csv", "a").hold().values[:, 0].tolist() == [1.0, 1e50]
    ids = open_table(tmp_path / "t.csv", "a", id_column="x").ids
    assert list(ids) == ["1", f"1{50 * '0'}"]
