from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import InputError, SettingError
from intarsia.tables.csv import CsvFile
from intarsia.tables.open import open_table

PRIVACY = DifferentialPrivacy(1, bounds={"age": (0, 100)}, levels={"code": ["7", "True", "f"]})
NAN = np.nan


def held(table, privacy=PRIVACY, **more):
    return open_table(table, "a", declared=privacy, **more).hold(declared=privacy)


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
    assert cells(held({"age": [1, 10**5000], "code": ["f", 10**5000]}))[1] == ["f", None]


def of_polars(columns):
    try:
        return pl.DataFrame(columns, strict=False)
    except OverflowError:  # polars 1.0 has no other type for 2**70
        return pl.DataFrame([pl.Series(name, cells, dtype=pl.Object) for name, cells in columns.items()])


@pytest.mark.parametrize("odd", ["x", 0.5, None, True, 2**70])
def test_an_odd_cell_changes_no_other_cell_whatever_type_its_column_gets(odd, tmp_path):
    usual = {"age": [1, 2, 3], "code": [7, 7, 8]}
    more = {name: [*column, odd] for name, column in usual.items()}
    for read in (dict, pd.DataFrame, of_polars):
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


ODD = (
    "x", "1.5", "true", "NA", '""', '"7"', '"a, b"', '"two\nlines"', " 7 ", "+7", "1_0", "inf", "-0", "2020-01-01",
    "1e400", "9223372036854775808", f"1{50 * '0'}", f"1{400 * '0'}", "\u0661", "\uff17", "x" * 5000,
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("usual", [["7", "8", "7"], ["7.0", "0.1", ""], ["true", "false", "true"], ["f", "7", "m"], []])
def test_an_odd_cell_in_a_csv_file_changes_no_other_cell(usual, odd, tmp_path):
    """polars takes digits of any script for a number, and fails: one such cell made the file unreadable."""
    path, found = tmp_path / "t.csv", []
    for rows in (usual, [odd], [*usual, odd], [odd, *usual]):
        path.write_text("age,code\n" + "".join(f"{cell},{cell}\n" for cell in rows))
        table = held(path)
        found.append(list(zip(map(str, table.values[:, 0]), table.categories["code"].tolist(), strict=True)))
    assert found[2] == [*found[0], *found[1]]
    assert found[3] == [*found[1], *found[0]]


def test_a_private_csv_file_is_read_in_pieces_and_its_ids_are_texts(tmp_path):
    rows = [("007", "1", "f"), ("8", "x", "7.0"), ("\u0661", "", "true"), ("9", "2.5", "m")]
    (tmp_path / "t.csv").write_text("\n".join(",".join(row) for row in [("who", "age", "code"), *rows]))
    privacy = DifferentialPrivacy(1, bounds={"who": (0, 1), "age": (0, 100)}, levels=PRIVACY.levels)
    for piece in (8, 1 << 23):
        file = CsvFile(tmp_path / "t.csv", piece=piece)
        for source in (file, file.only(["who", "code", "age"])):
            opened = open_table(source, "a", id_column="who", declared=privacy)
            ages, codes = cells(opened.hold(declared=privacy))
            np.testing.assert_array_equal(ages, [1, NAN, NAN, 2.5])
            assert codes == ["f", "7", "True", None]
        assert list(opened.ids) == ["007", "8", "\u0661", "9"]


def test_a_csv_file_whose_types_were_inferred_is_not_read_as_declared(tmp_path):
    (tmp_path / "t.csv").write_text("age,code\n1,f\n")
    for table in (tmp_path / "t.csv", CsvFile(tmp_path / "t.csv").only(["age"])):
        with pytest.raises(ValueError, match="must be opened as it is declared"):
            open_table(table, "a").only(["age"]).hold(declared=PRIVACY)


def test_a_spreadsheet_is_refused_because_cells_decide_types(tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"")  # it is not even opened
    with pytest.raises(InputError, match="'a' is a spreadsheet, which cannot be used with differential privacy"):
        open_table(path, "a", declared=DifferentialPrivacy(1, bounds={"x": (0, 1)}))
