"""Tables of several participants: errors about several of them are one error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import intarsia
from intarsia.exceptions import InputError, MissingCellsError, NonFiniteError, NonNumericError, TableTypeError


def table(**more):
    return pd.DataFrame({"x": np.arange(60.0) % 7} | more)


def test_a_column_that_several_participants_cannot_use_is_named_once_with_all_of_them():
    ids = {name: table(id=[f"{name} {k}" for k in range(60)]) for name in "abc"}
    with pytest.raises(NonNumericError) as error:
        intarsia.cluster(ids | {"d": table()}, 2)
    text = str(error.value)
    assert text.startswith(
        "1 column(s) of 3 participants are neither numbers nor categories: 'id' of 'a' (60 different "
    )
    assert text.count("Hint") == text.count("neither") == text.count("'id'") == 1
    assert all(f"'{name}' (60 different levels" in text for name in "abc")


def test_missing_values_of_several_participants_are_one_error_with_one_hint():
    gaps = table(y=[np.nan] + [1.0] * 59)
    with pytest.raises(MissingCellsError) as error:
        intarsia.cluster({"a": gaps, "b": table(), "c": gaps}, 2, missing="error")
    assert "of 'a' have missing values" in str(error.value)
    assert "of 'c' have missing values" in str(error.value)
    assert str(error.value).count("Hint") == 1


def test_errors_of_different_types_are_one_error():
    with pytest.raises(InputError) as error:
        intarsia.cluster({"a": table(y=np.inf), "b": 7, "c": table()}, 2)
    assert not isinstance(error.value, NonFiniteError | TableTypeError)
    assert "'a' have values that are infinite" in str(error.value)
    assert "'b' is of type int" in str(error.value)


def test_many_errors_are_cut_short():
    with pytest.raises(NonFiniteError, match="3 more participants have such errors"):
        intarsia.cluster({f"p{k}": table(y=np.inf) for k in range(8)}, 2)


def test_unknown_columns_of_several_new_tables_are_one_error():
    result = intarsia.cluster({"a": table(), "b": table()}, 2, random_state=0)
    with pytest.raises(intarsia.exceptions.UnknownFeaturesError) as error:
        result.predict({"a": {"z": [1.0]}, "b": {"z": [1.0]}})
    assert str(error.value).count("'z'") == 2
    assert str(error.value).count("Hint") == 1


@pytest.mark.parametrize("row", [{"x": 55}, {"x": 55.5, "sex": "f"}, {"x": [1.0, 2.0], "y": 3}, {"sex": "f"}])
def test_single_values_in_the_place_of_columns_are_explained(row):
    result = intarsia.cluster({"a": table(), "b": table()}, 2, random_state=0)
    for use in (result.predict, intarsia.check_feasibility, lambda tables: intarsia.cluster(tables, 2)):
        with pytest.raises(
            TableTypeError, match="single value.*needs a list or an array for each column.*Hint"
        ) as error:
            use(row)
        assert "55" not in str(error.value)


def test_feasibility_takes_what_cluster_takes(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    table(chol=np.arange(60.0) % 11).to_parquet(tmp_path / "b.parquet", index=False)
    report = intarsia.check_feasibility(
        {"a": tmp_path / "a.csv", "b": str(tmp_path / "b.parquet"), "c": table(id=range(60)), "d": {"x": "numbers"}},
        rows={"d": 5},
    )
    assert report.rows == {"a": 60, "b": 60, "c": 60, "d": 5}
    assert report.row_ids == {"c": ("id",)}
    assert report.single == {"chol": "b", "id": "c"}
    left = intarsia.check_feasibility([table(), table(id=range(60))], leave_out=["id"])
    assert left.participants == ("0", "1")
    assert left.columns == ("x",)
    with pytest.raises(InputError, match="1 column.s. to leave out are in no table: 'di'"):
        intarsia.check_feasibility([table()], leave_out=["di"])
    assert intarsia.check_feasibility(table()).verdict().startswith("Yes: there is one table")
