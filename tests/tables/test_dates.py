# ruff: noqa: DTZ001
"""Dates as days since a declared day: from texts in all usual forms, and from typed columns of any library."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia
from intarsia.exceptions import InputError, SettingError
from intarsia.tables.date_texts import days_of, look_like_dates
from intarsia.tables.dates import days_in, since
from intarsia.tables.feasibility import check_feasibility
from intarsia.tables.open import open_table
from intarsia.tables.reading import Reading

START = since("2020-01-01")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2020-01-31", 30.0),
        ("2019-12-31", -1.0),
        ("31.01.2020", 30.0),
        ("1.2.2020", 31.0),
        ("20200131", 30.0),
        ("2020/1/31", 30.0),
        ("2020-01-31 12:00", 30.5),
        ("2020-01-31T06:00:00", 30.25),
        ("2020-01-31T06:00:00.000Z", 30.25),
        ("2020-01-31T06:00:00+06:00", 30.0),
        ("31.01.2020 18:00:00", 30.75),
        ("31/01/2020", 30.0),
        ("31-01-2020", 30.0),
        (" 2020-01-31 ", 30.0),
    ],
)
def test_a_date_by_hand(text, days):
    assert days_in([text, None, ""], START, "d", "a")[0] == days
    assert np.isnan(days_in([text, None, ""], START, "d", "a")[1:]).all()


@pytest.mark.parametrize(
    "text", ["2020-02-30", "32.01.2020", "31.01.20", "soon", "2020-01-31 25:00", "1/1/1", "12", "x2020-01-31"]
)
def test_what_is_no_date_is_refused_without_being_quoted(text):
    with pytest.raises(
        InputError, match="column 'seen' of 'nord' has 1 of 2 different values that are no dates"
    ) as error:
        days_in(["2020-05-05", text], START, "seen", "nord")
    assert text not in str(error.value).replace("31.01.2020", "")
    assert np.isnan(days_in([text], START, "seen", "nord", strict=False)[0])


def test_day_and_month_are_told_by_the_column_or_asked_for(tmp_path):
    assert days_in(["01/02/2020", "31/01/2020"], START, "d", "a").tolist() == [31.0, 30.0]
    assert days_in(["01/02/2020", "01/31/2020 6:00 pm"], START, "d", "a").tolist() == [1.0, 30.75]
    with pytest.raises(InputError, match=r"day and month cannot be told apart.*,dmy if the day comes first, or ,mdy"):
        days_in(["01/02/2020", "03/04/2020"], START, "d", "a")
    assert days_in(["01/02/2020"], since("2020-01-01,dmy"), "d", "a").tolist() == [31.0]
    assert days_in(["01/02/2020"], since("2020-01-01,mdy"), "d", "a").tolist() == [1.0]
    path = tmp_path / "a.csv"  # a later batch decides for an earlier one
    path.write_text("d,x\n" + "01/02/2020,1\n" * 4 + "31/01/2020,2\n")
    from intarsia.tables.csv import CsvFile

    opened = open_table(CsvFile(path, piece=20), "a", how=Reading(dates={"d": START}), memory_limit=0)
    assert np.concatenate([b["d"] for b in opened.batches()]).tolist() == [31.0] * 4 + [30.0]
    for wrong in ("2020", "01.01.2020", "2020-01-01,ymd", "2020-13-01", ""):
        with pytest.raises(SettingError, match="counted from a day such as"):
            since(wrong)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)))
def test_every_form_of_a_moment_is_the_same_number_of_days(moment):
    moment = moment.replace(microsecond=0)
    expected = (moment - datetime(2020, 1, 1)) / timedelta(days=1)
    forms = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M:%S", "%Y%m%d %H:%M:%S")
    offset = (date(2020, 1, 1) - date(1970, 1, 1)).days
    for form in forms:
        assert abs(days_of(moment.strftime(form), None) - offset - expected) < 1e-9
    assert abs(days_of(moment.strftime("%d/%m/%Y %H:%M:%S"), "dmy") - offset - expected) < 1e-9
    assert abs(days_of(moment.strftime("%m/%d/%Y %I:%M:%S %p"), "mdy") - offset - expected) < 1e-9


DAYS = [30.5, -1.0, None]
MOMENTS = [datetime(2020, 1, 31, 12), datetime(2019, 12, 31), None]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(MOMENTS),
        pd.Series(MOMENTS, dtype="datetime64[ns]"),
        pd.Series(pd.to_datetime(MOMENTS, utc=True)),
        pd.Series([m and m.isoformat() for m in MOMENTS], dtype=object),
        pl.Series(MOMENTS),
        pl.Series([m and m.replace(tzinfo=UTC) for m in MOMENTS]),
        pa.chunked_array([MOMENTS]),
        np.array(MOMENTS, dtype="datetime64[s]"),
        MOMENTS,
    ],
    ids=lambda column: f"{type(column).__module__} {getattr(column, 'dtype', getattr(column, 'type', ''))}",
)
def test_typed_columns_of_any_library(column):
    numbers = list(range(3))
    table = (
        pa.table({"d": column, "x": numbers}) if isinstance(column, pa.ChunkedArray) else {"d": column, "x": numbers}
    )
    if isinstance(column, pd.Series):
        table = pd.DataFrame(table)
    found = open_table(table, "a", how=Reading(dates={"d": START, "other": START}))
    np.testing.assert_array_equal(found.table["d"], [30.5, -1.0, np.nan])


def test_dates_of_a_streamed_parquet_file_and_of_excel(tmp_path):
    days = [date(2020, 1, 1) + timedelta(days=k) for k in range(20)]
    frame = pl.DataFrame({"d": days, "t": [datetime(d.year, d.month, d.day, 12) for d in days], "x": range(20)})
    frame.write_parquet(tmp_path / "a.parquet")
    how = Reading(dates={"d": START, "t": START})
    opened = open_table(tmp_path / "a.parquet", "a", how=how, memory_limit=0)
    assert opened.kinds() == {"d": "numbers", "t": "numbers", "x": "numbers"}
    (batch,) = opened.batches()
    assert (batch["d"].tolist(), batch["t"].tolist()) == (list(range(20)), [k + 0.5 for k in range(20)])
    assert opened.hold().statistics.low[0] == 0.0
    pytest.importorskip("xlsxwriter")
    frame.write_excel(tmp_path / "a.xlsx")
    assert open_table(tmp_path / "a.xlsx", "a", how=how).table["t"].tolist() == batch["t"].tolist()
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 20


def test_columns_of_dates_are_called_dates_and_the_hint_names_the_option(tmp_path):
    assert look_like_dates(["2020-01-01", "1.2.2020", "x"])
    assert not look_like_dates(["1.2", "a", "2020"])
    path = tmp_path / "a.csv"
    path.write_text("d,x\n" + "".join(f"{k % 28 + 1}.0{k % 9 + 1}.2{k:03d},{k}\n" for k in range(176)))
    report = check_feasibility({"a": path, "b": {"x": [1.0, 2.0]}})
    assert report.unusable == {"a": {"d": "dates"}}
    assert report.verdict().startswith("Yes, without the columns that cannot be used ('d')")
    with pytest.raises(InputError, match=r"'d \(dates\)'.*--dates"):
        intarsia.cluster({"a": path, "b": {"x": [1.0, 2.0]}}, 2)
