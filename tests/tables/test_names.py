from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import intarsia
from intarsia.exceptions import (
    DuplicateColumnError,
    UnnamedColumnError,
)
from intarsia.tables.frame import read_table


def test_duplicate_columns_are_named():
    frame = pd.DataFrame(np.ones((2, 3)), columns=["age", "age", "sex"])
    with pytest.raises(DuplicateColumnError, match="1 column name.*'clinic'.*'age'"):
        read_table(frame, "clinic")


@pytest.mark.parametrize("names", [[0, 1], ["age", ""], ["age", " "], ["age", None]])
def test_unnamed_columns_are_refused_with_their_position(names):
    with pytest.raises(UnnamedColumnError, match="positions .*'1'"):
        read_table(pd.DataFrame(np.ones((2, 2)), columns=names), "clinic")


def test_names_of_a_subclass_of_str_are_names(tmp_path):
    x = np.r_[np.zeros(9), np.ones(9)] + np.arange(18) / 100
    table = {np.str_("x"): x, np.str_("kind"): np.array(["a", "b"] * 9)}
    result = intarsia.cluster({np.str_("a"): table, "b": table}, 2, random_state=0)
    assert set(result.feature_names) == {"x", "kind=a", "kind=b"}
    assert all(type(name) is str for name in result.feature_names)
    result.save(tmp_path / "m.intarsia")
    assert intarsia.load(tmp_path / "m.intarsia").predict(table).tolist() == result.predict(table).tolist()
