from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from intarsia.exceptions import (
    DuplicateColumnError,
    EmptyTableError,
    MissingCellsError,
    NonFiniteError,
    NonNumericError,
    TableTypeError,
    UnnamedColumnError,
)
from intarsia.tables.frame import is_table, read_table
from intarsia.tables.missing import settle_missing

COLUMNS = {"b": [1.0, 2.0, 3.0], "a": [4, 5, 6]}
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "columns": dict,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_reads_alike_with_columns_in_the_order_of_names(kind):
    table = read_table(KINDS[kind](COLUMNS), "clinic")
    assert table.names == ("a", "b")
    assert table.given_names == ("b", "a")
    assert table.values.tolist() == [[4.0, 1.0], [5.0, 2.0], [6.0, 3.0]]
    assert table.is_complete
    assert is_table(KINDS[kind](COLUMNS))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_nulls_are_gaps_and_booleans_are_categories(kind):
    table = read_table(KINDS[kind]({"x": [1, None, 3], "y": [True, False, True]}), "clinic")
    assert table.observed.tolist() == [[True], [False], [True]]
    assert table.levels == {"y": ("False", "True")}
    assert table.in_numbers().names == ("x", "y=False", "y=True")
    assert table.in_numbers().values[:, 1:].tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


STAGES = ["late", None, "early", "late", "early", "late"]
CATEGORICAL = {
    "pandas text": lambda: pd.DataFrame({"stage": STAGES}),
    "pandas object": lambda: pd.DataFrame({"stage": pd.Series(STAGES, dtype=object)}),
    "pandas category": lambda: pd.DataFrame({"stage": pd.Categorical(STAGES)}),
    "polars text": lambda: pl.DataFrame({"stage": STAGES}),
    "polars category": lambda: pl.DataFrame({"stage": pl.Series(STAGES, dtype=pl.Categorical)}),
    "polars enum": lambda: pl.DataFrame({"stage": pl.Series(STAGES, dtype=pl.Enum(["late", "early"]))}),
    "pyarrow text": lambda: pa.table({"stage": STAGES}),
    "pyarrow dictionary": lambda: pa.table({"stage": pa.array(STAGES).dictionary_encode()}),
    "list": lambda: {"stage": STAGES},
    "array": lambda: {"stage": np.array(["" if cell is None else cell for cell in STAGES])},
}


@pytest.mark.parametrize("kind", CATEGORICAL)
def test_categories_are_read_from_every_kind_of_table(kind):
    table = read_table(CATEGORICAL[kind](), "clinic")
    assert table.levels == {"stage": ("early", "late")}
    assert table.categories["stage"].codes.tolist() == [1, -1, 0, 1, 0, 1]
    assert table.column("stage").tolist() == STAGES


def test_indicators_of_levels_that_a_table_never_had_are_observed_zeros():
    table = read_table({"x": [1.0] * 6, "stage": STAGES}, "clinic").in_numbers({"stage": ("early", "end", "late")})
    assert table.names == ("stage=early", "stage=end", "stage=late", "x")
    assert table.given_names == ("x", "stage=early", "stage=end", "stage=late")
    np.testing.assert_array_equal(table.values[:3, :3], [[0, 0, 1], [np.nan] * 3, [1, 0, 0]])
    assert table.observed[:, 1].tolist() == [True, False, True, True, True, True]


def test_codes_have_one_name_whether_gaps_made_them_floats_or_not():
    whole = read_table(pd.DataFrame({"cp": pd.Categorical([1, 2, 1])}), "a")
    gappy = read_table(pd.DataFrame({"cp": pd.Categorical([1.0, np.nan, 3.0])}), "b")
    assert (whole.levels, gappy.levels) == ({"cp": ("1", "2")}, {"cp": ("1", "3")})


def test_pandas_nullable_numbers_and_objects_with_none_are_read():
    frame = pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "y": pd.Series([1.5, None], dtype=object)})
    table = read_table(frame, "clinic")
    assert table.observed.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "columns"])
def test_free_text_is_refused_with_column_and_counts_but_no_value(kind):
    with pytest.raises(
        NonNumericError, match=r"1 column\(s\) of 'clinic' are neither .*: 'city \(2 different"
    ) as error:
        read_table(KINDS[kind]({"age": [1, 2], "city": ["Padova", "3"]}), "clinic")
    assert "Padova" not in str(error.value)
    assert "Hint" in str(error.value)


def test_everything_that_is_not_a_number_is_listed_at_once_by_bare_type():
    frame = pd.DataFrame(
        {
            "id": ["Mrs Secret", "Mr X"],
            "seen": pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "many": pd.Series([{"early"}, {"late"}], dtype=object),
            "age": [1, 2],
        }
    )
    with pytest.raises(NonNumericError, match="3 column.*days since") as error:
        read_table(frame, "clinic")
    assert not {"Secret", "early", "2020"} & set(re.split(r"\W+", str(error.value)))


def test_nested_columns_are_refused_and_do_not_shift_others():
    nested = pl.Series([[9.0, 9.0]] * 2, dtype=pl.Array(pl.Float64, 2))
    for column in (nested, pl.Series([{"s": 1.0, "d": 2.0}] * 2), pl.Series([[1.0], [2.0, 3.0]])):
        with pytest.raises(NonNumericError, match="embed"):
            read_table(pl.DataFrame({"embed": column, "age": [1.0, 2.0]}), "clinic")


def test_numbers_in_unusual_clothes_are_read():
    frame = pd.DataFrame(
        {"x": pd.Series([1.5, pd.NA], dtype=object), "y": pd.Series([Decimal("2.5"), None], dtype=object)}
    )
    np.testing.assert_array_equal(read_table(frame, "clinic").values, [[1.5, 2.5], [np.nan, np.nan]])
    assert read_table({"x": pd.Series([1.0, 2.0])}, "clinic").values.tolist() == [[1.0], [2.0]]


def test_whole_numbers_that_no_float_holds_exactly_are_read_without_quoting_them():
    assert read_table(pa.table({"x": [2**63 - 1, 1, None]}), "clinic").observed.tolist() == [[True], [True], [False]]


def test_masked_cells_are_gaps():
    table = read_table({"x": np.ma.array([1.0, 2.0, 1e6], mask=[0, 0, 1])}, "clinic")
    assert table.observed.tolist() == [[True], [True], [False]]


def test_the_index_that_pyarrow_keeps_of_a_pandas_table_is_no_feature():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=[5, 3, 9])
    assert read_table(pa.Table.from_pandas(frame), "clinic").names == ("x",)


def test_a_lazy_table_that_fails_is_named():
    with pytest.raises(TableTypeError, match="'clinic' cannot be read"):
        read_table(pl.LazyFrame({"x": ["a"]}).select(pl.col("x").str.to_integer()), "clinic")


def test_a_table_without_rows_or_columns_is_refused():
    with pytest.raises(EmptyTableError, match="'clinic' has 0 rows and 2 columns"):
        read_table(pd.DataFrame({"a": [], "b": []}, dtype=float), "clinic")
    with pytest.raises(EmptyTableError, match="no columns"):
        read_table(pd.DataFrame(index=[0, 1]), "clinic")


def test_duplicate_columns_are_named():
    frame = pd.DataFrame(np.ones((2, 3)), columns=["age", "age", "sex"])
    with pytest.raises(DuplicateColumnError, match="1 column name.*'clinic'.*'age'"):
        read_table(frame, "clinic")


@pytest.mark.parametrize("names", [[0, 1], ["age", ""], ["age", " "], ["age", None]])
def test_unnamed_columns_are_refused_with_their_position(names):
    with pytest.raises(UnnamedColumnError, match="positions .*'1'"):
        read_table(pd.DataFrame(np.ones((2, 2)), columns=names), "clinic")


def test_infinite_cells_are_refused():
    with pytest.raises(NonFiniteError, match="1 column.*'clinic'.*'a'"):
        read_table({"a": [1.0, np.inf], "b": [1.0, 2.0]}, "clinic")


@pytest.mark.parametrize("thing", [np.ones((2, 2)), [[1, 2], [3, 4]], 7, "table.csv"])
def test_what_has_no_named_columns_is_refused_with_a_hint(thing):
    assert not is_table(thing)
    with pytest.raises(TableTypeError, match="Hint"):
        read_table(thing, "clinic")


def test_columns_of_different_length_are_refused():
    with pytest.raises(TableTypeError, match="2 different lengths"):
        read_table({"a": [1.0], "b": [1.0, 2.0]}, "clinic")


def test_gaps_are_refused_by_column_and_share_or_kept():
    table = read_table({"age": [1.0, 2.0], "chol": [np.nan, 222.125]}, "clinic")
    with pytest.raises(
        MissingCellsError, match=r"1 of 2 columns of 'clinic'.*chol \(50.0%\).*missing='observed'"
    ) as error:
        settle_missing(table, "error")
    assert "222" not in str(error.value)
    assert settle_missing(table, "observed") is table


def test_a_column_that_is_all_gaps_is_one_the_participant_does_not_have():
    table = settle_missing(read_table({"b": [1.0, 2.0], "a": [np.nan, np.nan]}, "clinic"), "observed")
    assert table.names == table.given_names == ("b",)


def test_rows_without_any_cell_are_refused_by_count():
    table = read_table({"a": [1.0, np.nan], "b": [1.0, np.nan]}, "clinic")
    with pytest.raises(MissingCellsError, match="1 of 2 rows of 'clinic'"):
        settle_missing(table, "observed")


def test_dates_beside_texts_are_refused_in_our_words():
    frame = pl.DataFrame({"x": [1.0, 2.0] * 4, "t": ["a", "b"] * 4}).with_columns(pl.date(2020, 1, 1).alias("d"))
    with pytest.raises(NonNumericError, match=r"'d \(Date\)'.*days since"):
        read_table(frame, "clinic")
    assert not is_table({"a": frame})
