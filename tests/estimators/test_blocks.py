"""One pooled table with holes becomes participants, and its labels come back in its own order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import intarsia
from intarsia.exceptions import DuplicateColumnError, EmptyTableError, InputError, SettingError, TableTypeError
from intarsia.results.metrics import clustering_accuracy

NAN = np.nan


def hospitals():
    """All four in one table, and where each row is from."""
    four = intarsia.datasets.load_heart_disease("pandas")
    return pd.concat([table.assign(site=name) for name, table in four.tables.items()], ignore_index=True)


def planted(n=400, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    X = 5 * rng.normal(size=(3, 6))[truth] + rng.normal(size=(n, 6))
    X[: n // 2, :2] = NAN
    X[n // 2 :, 4:] = NAN
    return X, truth


def test_a_block_missing_table_is_clustered_in_one_call():
    X, truth = planted()
    shuffled = np.random.default_rng(1).permutation(len(X))
    blocks = intarsia.participants_from_blocks(pd.DataFrame(X[shuffled], columns=list("abcdef")))
    assert {name: tuple(table) for name, table in blocks.items()} in (
        {"block 0": tuple("cdef"), "block 1": tuple("abcd")},
        {"block 0": tuple("abcd"), "block 1": tuple("cdef")},
    )
    labels = blocks.in_order(intarsia.cluster(blocks, 3, random_state=0).labels)
    assert clustering_accuracy(truth[shuffled], labels) > 0.99


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_by_a_column_of_any_kind_of_table(kind):
    table = kind({"who": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0], "y": [NAN, 1.0, NAN, NAN]})
    blocks = intarsia.participants_from_blocks(table, by="who")
    assert {name: {c: v.tolist() for c, v in columns.items()} for name, columns in blocks.items()} == {
        "a": {"x": [1.0, 3.0]},
        "b": {"x": [2.0, 4.0], "y": pytest.approx([1.0, NAN], nan_ok=True)},
    }
    assert blocks.in_order({"a": [0, 1], "b": [2, 3]}).tolist() == [0, 2, 1, 3]


def test_by_a_column_is_what_the_parties_would_have_had():
    four = intarsia.datasets.load_heart_disease("pandas")
    settings = {"scale": "standard", "missing": "observed", "random_state": 0}
    blocks = intarsia.participants_from_blocks(hospitals(), by="site")
    ours, theirs = intarsia.cluster(blocks, 2, **settings), intarsia.cluster(four.tables, 2, **settings)
    assert {name: labels.tolist() for name, labels in ours.labels.items()} == {
        name: labels.tolist() for name, labels in theirs.labels.items()
    }


def test_hospitals_by_pattern_find_the_disease_too():
    table = hospitals().drop(columns="site")
    blocks = intarsia.participants_from_blocks(table)
    assert len(blocks) > 2
    result = intarsia.cluster(blocks, 2, scale="standard", missing="observed", random_state=0)
    diseased = np.concatenate(list(intarsia.datasets.load_heart_disease("pandas").diagnosis.values()))
    assert clustering_accuracy(diseased, blocks.in_order(result.labels)) > 0.75


def test_rare_patterns_join_the_nearest():
    x = np.ones((40, 3))
    x[:20, 2] = NAN  # twenty rows without c
    x[20, 0] = NAN  # one row without a: nearer to the complete ones
    x[0, 1] = NAN  # one with a alone: nearer to those without c
    blocks = intarsia.participants_from_blocks(dict(zip("abc", x.T, strict=True)))
    assert sorted(map(tuple, blocks.values())) == [("a", "b"), ("a", "b", "c")]
    assert sorted(len(rows) for rows in blocks.rows.values()) == [20, 20]
    assert blocks.n_left_out == 0
    few = intarsia.participants_from_blocks(dict(zip("abc", x.T, strict=True)), min_rows=1)
    assert len(few) == 4


def test_cells_that_a_block_has_no_column_for_are_counted():
    x = np.ones((30, 3))
    x[:29, 2] = NAN
    blocks = intarsia.participants_from_blocks(dict(zip("abc", x.T, strict=True)))
    assert blocks.n_left_out == 1
    assert "1 values left out" in repr(blocks)


def test_a_row_with_nothing_in_it_gets_no_label():
    x = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0)
    x[3] = NAN
    blocks = intarsia.participants_from_blocks({"a": x[:, 0], "b": x[:, 1]})
    labels = blocks.in_order(intarsia.cluster(blocks, 2, random_state=0).labels)
    assert labels[3] == -1
    assert (np.delete(labels, 3) >= 0).all()


def test_without_a_frequent_pattern_there_is_one_block():
    x = np.random.default_rng(0).normal(size=(30, 20))
    x[np.random.default_rng(1).random(x.shape) < 0.5] = NAN
    blocks = intarsia.participants_from_blocks({f"f{k}": x[:, k] for k in range(20)})
    assert list(blocks) == ["block 0"]
    assert len(blocks["block 0"]) == 20


@given(arrays(float, (25, 4), elements=st.sampled_from([1.0, 2.0, NAN])), st.integers(1, 30))
def test_every_row_with_a_cell_is_in_one_block_and_no_cell_is_invented(x, min_rows):
    if np.isnan(x).all():
        return
    blocks = intarsia.participants_from_blocks({f"f{k}": x[:, k] for k in range(4)}, min_rows=min_rows)
    everyone = np.concatenate(list(blocks.rows.values()))
    assert len(np.unique(everyone)) == len(everyone)
    inside = 0
    for name, table in blocks.items():
        for column, values in table.items():
            np.testing.assert_array_equal(values, x[blocks.rows[name], int(column[1])])
            inside += int((~np.isnan(values)).sum())
    assert inside + blocks.n_left_out == int((~np.isnan(x)).sum())
    assert blocks.n_rows_left_out == len(x) - len(everyone)


def test_what_cannot_be_split_is_refused_in_words():
    split = intarsia.participants_from_blocks
    with pytest.raises(SettingError, match="by must be the name of a column"):
        split({"x": [1.0]}, by="site")
    with pytest.raises(EmptyTableError, match="no column besides"):
        split({"site": ["a"]}, by="site")
    with pytest.raises(InputError, match="participant of 1 of 2 rows is missing"):
        split({"site": ["a", None], "x": [1.0, 2.0]}, by="site")
    with pytest.raises(EmptyTableError, match="no values"):
        split({"site": ["a", "b"], "x": [1.0, NAN]}, by="site")
    with pytest.raises(EmptyTableError, match="no values"):
        split({"x": [NAN, NAN]})
    with pytest.raises(InputError, match="2 values for 3 rows"):
        split({"site": ["a", "b"], "x": [1.0, 2.0, 3.0]}, by="site")
    with pytest.raises(InputError, match="mixes"):
        split({"site": [1, "1"], "x": [1.0, 2.0]}, by="site")
    with pytest.raises(DuplicateColumnError):
        split(pd.DataFrame([["a", 1.0, 2.0]], columns=["site", "x", "x"]), by="site")
    for what in (None, np.ones((3, 2))):
        with pytest.raises(TableTypeError):
            split(what, by="site")
    blocks = split({"site": ["a", "b"], "x": [1.0, 2.0]}, by="site")
    with pytest.raises(InputError, match="whole numbers"):
        blocks.in_order({"a": [0.5], "b": [1]})
    with pytest.raises(InputError, match="needed"):
        blocks.in_order({"a": [0]})
    with pytest.raises(InputError, match="2 labels"):
        blocks.in_order({"a": [0, 1], "b": [0]})


@pytest.mark.parametrize(
    "who",
    [
        pd.Series([1, None, 1], dtype="Int64"),
        pd.Series(["a", None, "a"], dtype="string"),
        pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-01"])),
        pd.Series([1.0, NAN, 1.0], dtype="float32"),
        ["a", NAN, "a"],
        [pd.NA, "a", "a"],
        [pd.NaT, "a", "a"],
    ],
)
def test_whoever_is_not_named_is_nobody(who):
    table = {"who": who, "x": [1.0, 2.0, 3.0]}
    with pytest.raises(InputError, match="participant of 1 of 3 rows is missing"):
        intarsia.participants_from_blocks(pd.DataFrame(table) if isinstance(who, pd.Series) else table, by="who")


def test_a_blank_row_by_column_gets_no_label():
    table = {"who": ["a"] * 5 + ["b"] * 5, "x": [0.0, NAN, 9.0, 0.1, 9.1] * 2}
    blocks = intarsia.participants_from_blocks(table, by="who")
    assert "2 rows without a block" in repr(blocks)
    labels = blocks.in_order(intarsia.cluster(blocks, 2, random_state=0).labels)
    assert labels.tolist()[1] == labels.tolist()[6] == -1
