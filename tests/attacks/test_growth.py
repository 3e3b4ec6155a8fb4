"""A table that grows by one row, and is asked again."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.protocol import Describe, Failure, Summarize
from tests.attacks.listening import participant_of
from tests.attacks.membership import targets

SUMMARIZE = Summarize(seed=0, n_clusters=1, n_local_clusters=1, max_local_clusters=1)


def totals(reply):
    """The number of rows, and the sums of all columns, of a description or of a summary of one cluster."""
    if isinstance(reply, Failure):
        return None
    if hasattr(reply, "values"):
        return int(reply.sizes[0]), reply.values[0] * reply.counts[0]
    return reply.n_rows, reply.moments.mean * reply.moments.count


def added_row(policy, request, n_more=1, **more):
    """Ask, add rows at the end of the table, ask again; return the difference of the sums, and the last row."""
    table, _, others = targets(300, 6, 10, 0)
    grown = {name: np.r_[values, others[:n_more, j]] for j, (name, values) in enumerate(table.items())}
    before, after = (totals(participant_of(one, "a", policy, **more).handle(request)) for one in (table, grown))
    difference = None if before is None or after is None else after[1] - before[1]
    return difference, others[:n_more].sum(axis=0)


@pytest.mark.parametrize("request_", [Describe(scale="standard"), SUMMARIZE], ids=["describe", "summarize"])
def test_one_more_row_is_the_difference_of_two_descriptions(request_, tmp_path):
    difference, row = added_row(None, request_)
    assert difference == pytest.approx(row, rel=1e-6)
