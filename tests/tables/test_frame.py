from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import intarsia
from intarsia.exceptions import (
    EmptyTableError,
    NonFiniteError,
    TableTypeError,
)
from intarsia.tables.frame import is_table, read_table

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


def test_pandas_nullable_numbers_and_objects_with_none_are_read():
    frame = pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "y": pd.Series([1.5, None], dtype=object)})
    table = read_table(frame, "clinic")
    assert table.observed.tolist() == [[True, True], [False, False]]


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


def test_texts_that_are_not_valid_utf_8_are_refused():
    from intarsia.exceptions import InputError

    for tables in ({"a": {"y\ud800": [1.0, 2.0]}}, {"a\ud800": {"y": [1.0, 2.0]}}, {"a": {"y": ["\ud800", "b"]}}):
        with pytest.raises(InputError, match="not valid UTF-8"):
            intarsia.cluster(tables, 1)


def test_a_missing_whole_number_of_r_is_no_number():
    with pytest.raises(NonFiniteError, match=r"1 column\(s\) of 'a' contain -2147483648, .* NA in R: 'age'.*nullable"):
        read_table({"age": np.array([51, -(2**31), 60]), "x": [1.0, 2.0, 3.0]}, "a")
