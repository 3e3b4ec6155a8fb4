from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import (
    MissingCellsError,
)
from intarsia.tables.frame import read_table
from intarsia.tables.missing import settle_missing


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
