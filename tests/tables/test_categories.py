from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from intarsia.exceptions import (
    NonNumericError,
)
from intarsia.tables.frame import is_table, read_table

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "columns": dict}


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


def test_dates_beside_texts_are_refused_in_our_words():
    frame = pl.DataFrame({"x": [1.0, 2.0] * 4, "t": ["a", "b"] * 4}).with_columns(pl.date(2020, 1, 1).alias("d"))
    with pytest.raises(NonNumericError, match=r"'d \(Date\)'.*days since"):
        read_table(frame, "clinic")
    assert not is_table({"a": frame})
