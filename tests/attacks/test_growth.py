"""A table that grows by one row, and is asked again."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.privacy.record import Record
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
    record = Record(tmp_path / "table.told")
    difference, row = added_row(ReleasePolicy(), request_, record=record)
    assert difference is None


def test_removed_and_changed_rows_are_no_second_table(tmp_path):
    table, _, others = targets(300, 6, 10, 0)
    less = {name: values[:-1] for name, values in table.items()}
    other = {name: np.r_[values[:-1], others[0, j]] for j, (name, values) in enumerate(table.items())}
    texts = set()
    for n, changed in enumerate((less, other)):
        record = Record(tmp_path / f"{n}.told")
        first, second = (participant_of(one, "a", ReleasePolicy(), record=record) for one in (table, changed))
        assert not isinstance(first.handle(Describe(scale="standard")), Failure)
        failure = second.handle(Describe(scale="standard"))
        assert isinstance(failure, Failure)
        texts.add(failure.message)
    assert len(texts) == 1  # the text does not tell what changed


def test_five_more_rows_are_an_atom_of_their_own(tmp_path):
    record = Record(tmp_path / "table.told")
    difference, rows = added_row(ReleasePolicy(), Describe(scale="standard"), n_more=5, record=record)
    assert difference == pytest.approx(rows, rel=1e-6)
