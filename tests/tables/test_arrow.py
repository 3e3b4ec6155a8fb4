"""Tables as Arrow C streams, of whatever library."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import intarsia
from intarsia.tables import arrow


class Stream:
    """What a library shows that is known to nobody here: its rows as a stream, and nothing else."""

    def __init__(self, table):
        self._table, self.n_reads = table, 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.n_reads += 1
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 40)) + 9 * (np.arange(40) % 2)
    a = pa.table({"x": x[0], "y": x[1], "sex": ["f", "m"] * 20})
    b = pa.table({"x": x[1]})
    return {"a": a, "b": b}


@pytest.mark.parametrize("without_pyarrow", [False, True])
def test_streams_are_clustered_as_the_tables_that_they_hold(tables, without_pyarrow, monkeypatch):
    if without_pyarrow:
        try:
            pl.DataFrame(Stream(tables["a"]))
        except TypeError:
            pytest.skip("this version of polars reads no streams")
        monkeypatch.setattr(arrow, "find_spec", lambda _: None)
    expected = intarsia.cluster(tables, 2, random_state=0)
    result = intarsia.cluster({name: Stream(table) for name, table in tables.items()}, 2, random_state=0)
    readers = intarsia.cluster({name: table.to_reader() for name, table in tables.items()}, 2, random_state=0)
    for name, labels in expected.labels.items():
        assert np.array_equal(result.labels[name], labels)
        assert np.array_equal(readers.labels[name], labels)
    assert len(intarsia.cluster([Stream(table) for table in tables.values()], 2).labels) == 2
    assert np.array_equal(result.predict(Stream(tables["a"])), expected.labels["a"])
    assert np.array_equal(result.predict(tables["a"].to_reader()), expected.labels["a"])


def test_one_column_is_no_stream_of_rows(tables):
    for column in (tables["a"]["x"], pl.Series([1.0]), pd.Series([1.0]), [1.0], "stream"):
        assert not arrow.is_stream(column)


def test_relations_of_duckdb_are_clustered_as_the_tables_that_they_hold(tables):
    expected = intarsia.cluster(tables, 2, random_state=0)
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        relations = {name: database.sql(f"select * from {name}") for name in tables}
        result = intarsia.cluster(relations, 2, random_state=0)
        some = database.sql("select x, y from a where x > 4")
        n_some = len(some)
        again = result.predict(some)
    for name, labels in expected.labels.items():
        assert np.array_equal(result.labels[name], labels)
    assert len(again) == n_some > 0


def test_a_stream_is_read_once(tables):
    """A second scan of a query without an order could have other rows in its first places: labels would land on them."""
    streams = {name: Stream(table) for name, table in tables.items()}
    result = intarsia.cluster(streams, 2, random_state=0)
    assert [stream.n_reads for stream in streams.values()] == [1, 1]
    result.predict(streams["a"])
    assert streams["a"].n_reads == 2
