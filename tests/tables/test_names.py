from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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
