"""The record of a table: over restarts, runs and studies, for the same rows only."""

from __future__ import annotations

import multiprocessing

import numpy as np
import polars as pl
import pytest

from intarsia import ReleasePolicy
from intarsia.exceptions import InputError, ReleaseError
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.record import ROWS, Record
from intarsia.protocol import Describe, Failure, LocalSummary
from intarsia.tables import open_table
from intarsia.tables.fingerprints import fingerprints_of
from intarsia.tables.in_memory import hold
from tests.privacy.cases import refine, summarize

N = 80


def frame(n=N, missing=0, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n)
    y[:missing] = np.nan
    return pl.DataFrame({"x": x, "y": y, "ward": [("north", "south")[k % 2] for k in range(n)]})


def participant_of(table, record, columns=None):
    held = open_table(table, "a", columns=columns).hold()
    return Participant(held, pipeline=Pipeline(ReleasePolicy(max_rounds=None), record=record))


def cut(at, d=4, round_=1):
    """A round that cuts rows by one column: x0 below or above a place."""
    request, sent = refine([at - 1.0, at + 1.0], d=d, round_=round_)
    return request


def atoms_in(record):
    return np.frombuffer(record._stored().atoms[ROWS], dtype=np.int32)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_restarted_participant_goes_on_where_it_was(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    frame().write_csv(path) if kind == "csv" else frame().write_parquet(path)
    record = Record.beside(path)
    for place in np.linspace(-1, 1, 9):
        reply = participant_of(path, record).handle(cut(place))  # a new process each time
        assert not isinstance(reply, Failure), reply
        sizes = np.bincount(atoms_in(record))
        assert sizes.min() >= 5
    assert len(sizes) > 2
    assert record.path.stat().st_mode & 0o077 == 0
    assert record.path.stat().st_size < 20 * N + 1000


def test_other_studies_with_other_columns_share_the_record(tmp_path):
    frame().write_parquet(tmp_path / "t.parquet")
    record = Record.beside(tmp_path / "t.parquet")
    first = participant_of(tmp_path / "t.parquet", record, ["x", "ward"])
    assert isinstance(first.handle(summarize(n_local_clusters=2)), LocalSummary)
    before = atoms_in(record)
    second = participant_of(tmp_path / "t.parquet", record, ["x", "y"])
    assert isinstance(second.handle(summarize(n_local_clusters=4, n_clusters=4, max_local_clusters=4)), LocalSummary)
    after = atoms_in(record)
    assert all(len(np.unique(before[after == atom])) == 1 for atom in np.unique(after))


def test_the_order_of_rows_and_columns_does_not_matter(tmp_path):
    table, path = frame(), tmp_path / "t.parquet"
    table.write_parquet(path)
    record = Record.beside(path)
    asked = summarize(n_local_clusters=3)
    sizes = participant_of(path, record).handle(asked).sizes
    order = np.random.default_rng(1).permutation(N)
    table[order].select("ward", "y", "x").write_parquet(path)
    assert sorted(participant_of(path, record).handle(asked).sizes) == sorted(sizes)
    assert np.bincount(atoms_in(record)).min() >= 5


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda t: pl.concat([t, t[:1]]), "fewer than 5 rows were added"),
        (lambda t: t[:-1], "1 row.s. of the table were changed or removed"),
        (lambda t: t.with_columns(x=pl.col("x") + (pl.arange(0, N) == 7)), "1 row.s. of the table were changed"),
        (lambda t: t[:-7].select("x", "y"), "other values"),
    ],
)
def test_a_table_that_changed_by_few_rows_needs_new_consent(tmp_path, change, seen):
    """Sums from before and after would differ by these rows."""
    table, path = frame(), tmp_path / "t.parquet"
    table.write_parquet(path)
    record = Record.beside(path)
    assert not isinstance(participant_of(path, record).handle(Describe(scale="standard")), Failure)
    change(table).write_parquet(path)
    refused = participant_of(path, record).handle(Describe(scale="standard"))
    assert isinstance(refused, Failure)
    assert refused.message.endswith("so that its owner must consent anew.")  # no word about rows
    with pytest.raises(ReleaseError, match=f"{seen}.*participant renew"):
        participant_of(path, record).check_record()
    aside = record.renew()
    assert aside.exists()
    assert not isinstance(participant_of(path, record).handle(Describe(scale="standard")), Failure)


def test_a_table_that_grew_by_enough_rows_keeps_its_atoms(tmp_path):
    path = tmp_path / "t.parquet"
    frame().write_parquet(path)
    record = Record.beside(path)
    assert not isinstance(participant_of(path, record).handle(summarize(n_local_clusters=3)), Failure)
    before = atoms_in(record)
    pl.concat([frame(7, seed=5), frame()]).write_parquet(path)
    assert not isinstance(participant_of(path, record).handle(Describe()), Failure)
    after = atoms_in(record)
    assert (after[7:] == before).all()
    assert (after[:7] == before.max() + 1).all()


def test_few_new_values_of_a_column_need_new_consent(tmp_path):
    path = tmp_path / "t.parquet"
    frame(missing=20).write_parquet(path)
    record = Record.beside(path)
    assert not isinstance(participant_of(path, record).handle(Describe(scale="standard")), Failure)
    pl.concat([frame(missing=20), frame(9, missing=7, seed=5)]).write_parquet(path)
    refused = participant_of(path, record).handle(Describe(scale="standard"))
    assert isinstance(refused, Failure)
    with pytest.raises(ReleaseError, match="'y' has few new values"):
        participant_of(path, record).check_record()


def test_a_file_that_is_not_a_record_is_refused(tmp_path):
    frame().write_parquet(tmp_path / "t.parquet")
    record = Record.beside(tmp_path / "t.parquet")
    record.path.write_bytes(b"no record")
    now = fingerprints_of(hold(open_table(tmp_path / "t.parquet", "a").hold(), all_rows=True))
    with pytest.raises(InputError, match="cannot be read"):
        record.read(now, None, 5)


def _cuts(path, places):
    for place in places:
        assert not isinstance(participant_of(path, Record.beside(path)).handle(cut(place)), Failure)


def test_two_jobs_over_the_same_table_share_the_record(tmp_path):
    path = tmp_path / "t.parquet"
    frame().write_parquet(path)
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=_cuts, args=(path, np.linspace(-1, 1, 6) + 0.1 * k)) for k in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0]
    assert np.bincount(atoms_in(Record.beside(path))).min() >= 5


def test_streamed_and_in_memory_fingerprints_are_the_same(tmp_path, monkeypatch):
    frame(missing=3).write_parquet(tmp_path / "t.parquet")
    memory = fingerprints_of(hold(open_table(tmp_path / "t.parquet", "a").hold(), all_rows=True))
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "1")
    streamed = fingerprints_of(hold(open_table(tmp_path / "t.parquet", "a").hold(), all_rows=False))
    assert (memory.rows == streamed.rows).all()
    assert memory.columns == streamed.columns
    assert len(np.unique(memory.rows)) == N
