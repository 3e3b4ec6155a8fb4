"""Bad input gets its own exception, which says what was seen, what is needed and what to try, by names and counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import DBSCAN, KMeans

import intarsia
from intarsia import exceptions as ex

CANARY = 424242.4242


def table(columns="xy", n=12, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({c: rng.normal(size=n) + 9 * (np.arange(n) % 2) for c in columns})


def with_cell(frame, column, value):
    frame = frame.astype({column: object}) if isinstance(value, str) else frame.copy()
    frame.loc[1, column] = value
    return frame


CASES = {
    "disconnected": (
        {"a": table("xy"), "b": table("yz"), "c": table("pq")},
        ex.DisjointFeaturesError,
        r"1 of 3 participants share no feature with the other 2.*'c'.*Hint: leave them out",
    ),
    "near miss": (
        {"a": table("xy"), "b": table(["X ", "z"])},
        ex.DisjointFeaturesError,
        r"'x' \(a\) and 'X ' \(b\) look alike",
    ),
    "only constants shared": (
        {"a": table("xy").assign(x=1.0), "b": table("xz").assign(x=1.0)},
        ex.DisjointFeaturesError,
        r"share only features that cannot be compared",
    ),
    "no rows": ({"a": table("xy"), "b": table("xy", n=0)}, ex.EmptyTableError, r"'b' has 0 rows"),
    "duplicate columns": (
        {"a": pd.DataFrame(np.ones((3, 2)), columns=["x", "x"]), "b": table()},
        ex.DuplicateColumnError,
        r"'a'.*'x'",
    ),
    "unnamed columns": (
        {"a": pd.DataFrame(np.ones((3, 2))), "b": table()},
        ex.UnnamedColumnError,
        r"2 of 2 columns of 'a'",
    ),
    "text": (
        {"a": with_cell(table(), "y", "high"), "b": table()},
        ex.NonNumericError,
        r"1 column\(s\) of 'a' are neither numbers nor categories: 'y \(numbers and texts mixed\)'.*correct the cells",
    ),
    "blank rows": (
        {"a": with_cell(with_cell(table(), "y", np.nan), "x", np.nan), "b": table()},
        ex.MissingCellsError,
        r"1 of 12 rows of 'a' have no observed value.*\(counted from 0: \d+\)",
    ),
    "numbers and categories": (
        {"a": table().assign(x=["m", "f"] * 6), "b": table()},
        ex.MixedKindsError,
        r"1 column\(s\) are numbers for some.*'x \(numbers at b, categories elsewhere\)'",
    ),
    "a column with the name of a level": (
        {"a": table().assign(sex=["m", "f"] * 6), "b": table("xy").assign(**{"sex=m": 1.0})},
        ex.DuplicateColumnError,
        r"have the name of a level of another column: 'sex=m'",
    ),
    "numbers with a question mark": (
        {"a": table().assign(dose=["1", "2", "?"] * 4), "b": table()},
        ex.NonNumericError,
        r"'dose \(numbers stored as text, with 1 other text\(s\) among them\)'.*na_values",
    ),
    "truth values and numbers": (
        {"a": table().assign(x=[True, False] * 6), "b": table()},
        ex.MixedKindsError,
        r"'x \(numbers at b.*astype\(bool\)",
    ),
    "ids": (
        {"a": table().assign(id=[f"patient {k}" for k in range(12)]), "b": table()},
        ex.NonNumericError,
        r"'id \(12 different texts in 12 rows\)'.*drop ids",
    ),
    "too many levels": (
        {"a": table(n=60).assign(town=pd.Categorical([f"t{k}" for k in range(60)])), "b": table()},
        ex.NonNumericError,
        r"'town \(60 different levels, more than 50\)'.*join rare levels",
    ),
    "numbers stored as text": (
        {"a": table().assign(dose=["1,5", "2"] * 6), "b": table()},
        ex.NonNumericError,
        r"'dose \(numbers stored as text\)'.*decimal=','",
    ),
    "infinite": ({"a": with_cell(table(), "y", np.inf), "b": table()}, ex.NonFiniteError, r"'a'.*'y'"),
    "huge": ({"a": with_cell(table(), "y", 1e200), "b": table()}, ex.NonFiniteError, r"'a'.*beyond 1e\+100.*'y'"),
    "tiny": ({"a": table() * 1e-150, "b": table()}, ex.NonFiniteError, r"'a' differ by less than 1e-100"),
    "whole numbers beyond floats": (
        {"a": {"x": [10**400, 1, 2], "y": [1, 2, 3]}, "b": table()},
        ex.NonFiniteError,
        r"'a'.*'x'",
    ),
    "ragged": ({"a": {"x": [[1, 2], [3]]}, "b": table()}, ex.TableTypeError, r"column of 'a' cannot be read"),
    "a matrix among tables": (
        {"a": np.ones((3, 2)), "b": table()},
        ex.TableTypeError,
        r"'a' is of type ndarray.*name the columns",
    ),
    "nothing": ({}, ex.InputError, r"no table was given"),
    "same name twice": ({1: table(), "1": table()}, ex.InputError, r"same name: '1'"),
}


@pytest.mark.parametrize("method", ["federated", "one_shot"])
@pytest.mark.parametrize("case", CASES)
def test_bad_tables(case, method):
    tables, kind, text = CASES[case]
    with pytest.raises(kind, match=text) as error:
        intarsia.cluster(tables, 2, method=method, random_state=0)
    assert type(error.value) is kind
    assert isinstance(error.value, intarsia.IntarsiaError)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        "a.csv",
        ["a.csv", "b.csv"],
        [table(), None],
        7,
        [],
        [table(), np.ones((2, 2))],
        [np.ones((2, 2)), np.ones((3, 2))],
        {"a": {"x": 5}},
    ],
)
def test_what_is_no_table_at_all(thing):
    with pytest.raises(ex.InputError, match="Hint"):
        intarsia.cluster(thing, 2)


ONE_TABLE = {
    "text": (table().assign(name=[f"Mrs Secret {k}" for k in range(12)]), ex.NonNumericError),
    "date": (table().assign(day=pd.Timestamp("2020-01-01")), ex.NonNumericError),
    "gaps": (with_cell(table().assign(y=np.nan), "x", np.nan), ex.MissingCellsError),
    "infinite": (with_cell(table(), "y", np.inf), ex.NonFiniteError),
    "mixed names": (pd.DataFrame(np.ones((3, 2)), columns=["x", 1]), ex.UnnamedColumnError),
    "duplicate names": (pd.DataFrame(np.ones((3, 2)), columns=["x", "x"]), ex.DuplicateColumnError),
    "no rows": (table(n=0), ex.EmptyTableError),
}


@pytest.mark.parametrize("case", ONE_TABLE)
def test_one_table_goes_through_the_same_gate(case):
    frame, kind = ONE_TABLE[case]
    with pytest.raises(kind) as error:
        intarsia.FederatedClustering(2).fit(frame)
    assert "Secret" not in str(error.value)


def test_one_lazy_table_is_a_table():
    frame = table(n=40)
    lazy = intarsia.FederatedClustering(2, random_state=0).fit(pl.from_pandas(frame).lazy())
    np.testing.assert_array_equal(lazy.labels_, intarsia.FederatedClustering(2, random_state=0).fit(frame).labels_)


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_more_clusters_than_local_ones(method):
    with pytest.raises(ex.TooFewClustersError, match="9 global clusters .* at most 4 local.*at most 4"):
        intarsia.cluster({"a": table(), "b": table("yz")}, 9, method=method, n_local_clusters=2, random_state=0)


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_fewer_rows_than_clusters(method):
    with pytest.raises(ex.TooFewRowsError, match=r"'b' was asked for 5 clusters of 3 row"):
        intarsia.cluster({"a": table(), "b": table(n=3)}, 5, method=method, n_local_clusters=5, random_state=0)
    with pytest.raises(ex.TooFewRowsError, match=r"participant 'b': KMeans was asked for 5 clusters of 3 row"):
        intarsia.cluster({"a": table(), "b": table(n=3)}, 5, method=method, local=KMeans(5), random_state=0)
    with pytest.raises(ex.TooFewRowsError, match="n_clusters=5 is more than the number of rows"):
        intarsia.FederatedClustering(5).fit(np.ones((3, 2)))


def test_a_small_participant_is_no_error_when_it_may_choose():
    small = table(n=2)
    result = intarsia.cluster({"a": table(n=40), "b": small, "c": table("yz", n=40)}, 2, random_state=0)
    assert set(result.labels["b"].tolist()) <= {0, 1}


def test_everything_is_noise():
    with pytest.raises(ex.TooFewClustersError, match="'a': no local cluster was found"):
        intarsia.cluster({"a": table(), "b": table()}, 2, method="one_shot", local=DBSCAN(eps=1e-9, min_samples=3))


def test_gaps_and_a_local_algorithm_that_refuses_them():
    tables = {"a": with_cell(table(), "y", np.nan), "b": table()}
    with pytest.raises(
        ex.MissingCellsError,
        match=r"KMeans needs tables without missing values, but 1 of 2.*y \(8.3%\).*missing='impute'.*local=None",
    ):
        intarsia.cluster(tables, 2, local=KMeans(2), missing="observed", random_state=0)


class Broken:
    def fit_predict(self, X):
        raise ValueError(f"cannot digest {X[0, 0]}")

    def get_params(self, deep=True):
        return {}

    def __sklearn_clone__(self):
        return self


def test_a_failing_local_algorithm_is_named_without_its_text_but_in_process_the_cause_is_kept():
    frame = with_cell(table(), "x", CANARY)
    frame.loc[0, "x"] = CANARY
    with pytest.raises(
        ex.LocalAlgorithmError, match=r"participant 'a': Broken failed on 12 rows with a ValueError"
    ) as error:
        intarsia.cluster({"a": frame, "b": table()}, 2, local={"a": Broken()}, max_rounds=0, scale=None, random_state=0)
    assert str(CANARY) not in str(error.value)
    assert str(CANARY) in str(error.value.__cause__.__cause__)


def test_the_tree_in_the_docstring_is_the_tree():
    names = [name for name in vars(ex) if isinstance(getattr(ex, name), type)]
    assert all(name in ex.__doc__ for name in names)
    assert all(issubclass(getattr(ex, name), ex.IntarsiaError | ex.IntarsiaWarning) for name in names)


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_more_clusters_than_rows_for_them_fail_before_anything_is_clustered(method):
    rng = np.random.default_rng(0)
    tables = {name: pd.DataFrame(rng.normal(size=(21, 2)), columns=["x", "y"]) for name in "ab"}

    def fit(k, **settings):
        return intarsia.cluster(tables, k, method=method, random_state=0, n_starts=1, **settings).n_clusters

    with pytest.raises(
        ex.TooFewClustersError, match=r"at most 20 local clusters: 'a \(21 rows: 10\)', 'b .*Hint: .*at most 20"
    ):
        fit(21)
    with pytest.raises(ex.TooFewClustersError, match="at most 8 local clusters"):
        fit(9, n_local_clusters=4)
    assert fit(20) == 20  # the hint is true
    assert fit(11) == 11  # more than the pairs of rows of any participant
