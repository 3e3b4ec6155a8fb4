"""A table that grows by one row, and is asked again."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.privacy.record import Record
from intarsia.protocol import Centres, Columns, Describe, Failure, Label, Summarize
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


def rare_level(n_rows, rows_with_it):
    """Rows along a line, and a category with a level that only these rows have."""
    kind = np.where(np.arange(n_rows) % 2 == 0, "a", "b").astype(object)
    kind[list(rows_with_it)] = "rare"
    return {"x": np.arange(n_rows) / 150, "kind": kind}


def values_by_cluster(one):
    """Ask for the number of values of the category in each third of the line."""
    description = one.handle(Describe(scale="standard"))
    assert not isinstance(description, Failure)
    (moments,), levels = (description.moments,), description.levels
    names = sorted(["x", *(f"kind={level}" for level in levels["kind"])])
    at, d = names.index("x"), len(names)
    shift, scale = np.zeros(d), np.full(d, np.sqrt(2.0))
    shift[at], scale[at] = moments.mean[0], np.sqrt(moments.m2[0] / moments.count[0])
    values = np.zeros((3, d))
    values[:, at] = (np.array([1 / 6, 1 / 2, 5 / 6]) - shift[at]) / scale[at]
    centres = Centres(values, np.ones((3, d), dtype=bool), np.full(d, -9.0), np.full(d, 9.0))
    reply = one.handle(Label(centres=centres, columns=Columns(shift, scale, dict(levels))))
    assert not isinstance(reply, Failure)
    return reply.counts[:, names.index("kind=a")].astype(int)


def test_a_level_that_becomes_frequent_does_not_tell_where_its_few_old_rows_are(tmp_path):
    """Its rows had a missing value when the table was first told of: then counts of values were without them."""
    first = rare_level(150, (10, 60, 70, 80))
    more = {"x": np.full(12, 0.9), "kind": np.array(["a", "b"] * 5 + ["rare"] * 2, dtype=object)}
    second = {name: np.r_[first[name], more[name]] for name in first}
    record = Record(tmp_path / "table.told")
    before, after = (
        values_by_cluster(participant_of(table, "a", ReleasePolicy(), record=record)) for table in (first, second)
    )
    assert before.sum() == 146
    assert after.sum() == 162
    difference = after - before
    assert ((difference == 0) | (difference >= 5)).all()
    assert difference[0] == 0  # 1 if the level's old rows were told where they are


def test_a_column_with_few_values_takes_part_when_it_has_enough(tmp_path):
    def table(n_rows, filled):
        y = np.full(n_rows, np.nan)
        y[list(filled)] = 1.0
        return {"x": np.arange(n_rows) / 150, "y": y}

    record = Record(tmp_path / "table.told")
    replies = [
        participant_of(one, "a", ReleasePolicy(), record=record).handle(Describe(scale="standard"))
        for one in (
            table(100, range(4)),
            table(110, (*range(4), *range(100, 106))),
            table(115, (*range(4), *range(100, 106))),
        )
    ]
    assert [reply.features for reply in replies] == [("x",), ("x", "y"), ("x", "y")]
