"""Table sources from outside the package: one class or function and one call of ``register_source``."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import intarsia
from intarsia.cli.app import app
from intarsia.exceptions import InputError, NonNumericError, SettingError
from intarsia.tables import StreamedTable, open_table
from intarsia.tables.source import format_of

TYPES = {"REAL": "numbers", "INTEGER": "numbers", "TEXT": "text", "BLOB": "BLOB"}


class SqliteTable(intarsia.Source):
    """A table of a database, which is read a few rows at a time."""

    def __init__(self, database, name, n_batch=64):
        self.database, self.name, self.n_batch = database, name, n_batch
        self.n_passes = 0

    @property
    def kinds(self):
        return {row[1]: TYPES[row[2]] for row in self.database.execute(f"PRAGMA table_info({self.name})")}

    def __len__(self):
        return self.database.execute(f"SELECT COUNT(*) FROM {self.name}").fetchone()[0]

    def batches(self, columns=None):
        self.n_passes += 1
        names = list(columns or self.columns)
        cursor = self.database.execute(f"SELECT {', '.join(names)} FROM {self.name} ORDER BY rowid")
        while rows := cursor.fetchmany(self.n_batch):
            yield {name: [row[k] for row in rows] for k, name in enumerate(names)}


def frame_of(n=300, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {"age": 40.0 + 30 * group + rng.normal(size=n), "pulse": 80.0 - 20 * group + rng.normal(size=n)}
    )
    frame["sex"] = rng.choice(["f", "m", None], size=n)
    frame.loc[rng.random(n) < 0.1, "pulse"] = np.nan
    return frame, group


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    frame, _ = frame_of()
    connection.execute("CREATE TABLE patients (age REAL, pulse REAL, sex TEXT)")
    cells = frame.astype(object).where(frame.notna(), None)
    connection.executemany("INSERT INTO patients VALUES (?, ?, ?)", cells.itertuples(index=False, name=None))
    yield connection
    connection.close()


def others():
    frame, _ = frame_of(seed=1)
    return frame[["age"]].assign(chol=frame["age"] * 3)


@pytest.fixture
def streamed(monkeypatch):
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "0")


def test_a_source_from_outside_is_clustered_in_batches(database, streamed):
    source, (frame, group) = SqliteTable(database, "patients"), frame_of()
    assert isinstance(open_table(source, "a").hold(), StreamedTable)
    result = intarsia.cluster({"a": source, "b": others()}, 2, random_state=0)
    assert source.n_passes > 3
    assert intarsia.metrics.clustering_accuracy(group, result.labels["a"]) == 1.0
    in_memory = intarsia.cluster({"a": frame, "b": others()}, 2, random_state=0)
    assert result.levels == in_memory.levels == {"sex": ("f", "m")}
    assert intarsia.metrics.clustering_accuracy(in_memory.labels["a"], result.labels["a"]) == 1.0
    np.testing.assert_array_equal(result.predict(source), result.labels["a"])
    np.testing.assert_array_equal(result.predict(source), result.predict(frame))


def test_a_small_source_is_read_as_a_whole_with_the_same_result_as_its_rows(database):
    source, (frame, _) = SqliteTable(database, "patients"), frame_of()
    result = intarsia.cluster({"a": source, "b": others()}, 2, random_state=0)
    assert source.n_passes == 1
    in_memory = intarsia.cluster({"a": frame, "b": others()}, 2, random_state=0)
    np.testing.assert_array_equal(result.labels["a"], in_memory.labels["a"])
    np.testing.assert_array_equal(result.centroids, in_memory.centroids)


@pytest.mark.parametrize("limit", ["0", "1000000"])
def test_feasibility_takes_sources_and_tables_alike(database, monkeypatch, limit):
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", limit)
    database.execute("CREATE TABLE odd (age REAL, code TEXT, image BLOB)")
    database.executemany("INSERT INTO odd VALUES (?, ?, ?)", [(float(k), f"code {k}", b"") for k in range(30)])
    report = intarsia.check_feasibility(
        {
            "a": SqliteTable(database, "patients"),
            "b": others(),
            "odd": SqliteTable(database, "odd").only(["age", "code"]),
        }
    )
    assert report.kinds["a"] == {"age": "numbers", "pulse": "numbers", "sex": "categories"}
    assert report.rows == {"a": 300, "b": 300, "odd": 30}
    assert report.unusable == {"odd": {"code": "30 different texts in 30 rows"}}
    assert report.row_ids == {"odd": ("age",)}
    assert report.possible


def test_columns_that_a_source_cannot_use_are_named(database, streamed):
    database.execute("CREATE TABLE odd (age REAL, image BLOB)")
    database.execute("INSERT INTO odd VALUES (1.0, ?)", (b"secret",))
    source = SqliteTable(database, "odd")
    with pytest.raises(NonNumericError, match=r"1 column\(s\) of 'a' are neither .*'image \(BLOB\)'"):
        intarsia.cluster({"a": source, "b": others()}, 2)
    with pytest.raises(InputError, match="has no column 'weight'"):
        source.only(["weight"])
    assert source.only(["age"]).read() == {"age": [1.0]}


def test_a_source_is_opened_by_its_type(database):
    intarsia.register_source(
        "sqlite",
        lambda connection: SqliteTable(connection, "patients"),
        matches=lambda x: isinstance(x, sqlite3.Connection),
    )
    frame, _ = frame_of()
    result = intarsia.cluster({"a": database, "b": others()}, 2, random_state=0)
    assert len(result.labels["a"]) == len(frame)
    assert len(intarsia.cluster(database, 2, random_state=0).labels["table"]) == len(frame)


def read_pipes(path):
    """Return a file of lines such as ``1|2|x`` as a mapping of columns; a table in memory is enough."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="|"))
    return {name: [row[name] if name == "patient" else float(row[name]) for row in rows] for name in rows[0]}


def test_the_command_line_opens_a_source_by_its_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, group = frame_of()
    frame = frame[["age"]].assign(weight=frame["age"] * 2, patient=[f"p{k}" for k in range(len(frame))])
    frame.to_csv("ward.pipes", sep="|", index=False)
    others().to_csv("lab.csv", index=False)

    def run(*arguments, rc=0):
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == rc, (done.output, done.exception)
        return done

    assert "unsupported file type" in str(run("check", "ward.pipes", "lab.csv", rc=1).exception)
    intarsia.register_source("pipes", read_pipes, suffixes=[".PIPES"])
    assert "Yes" in run("check", "ward.pipes", "lab.csv", "-x", "patient").output
    told = run("fit", "ward.pipes", "lab.csv", "-k", "2", "--id", "patient", "-o", "patients", "-q").output
    assert "lab has no column 'patient'" in told
    assert pd.read_csv("patients/labels/ward.csv")["id"].tolist() == frame["patient"].tolist()
    assert list(pd.read_csv("patients/labels/lab.csv")) == ["row", "cluster"]
    frame.drop(columns="patient").to_csv("ward.pipes", sep="|", index=False)
    run("fit", "ward.pipes", "lab.csv", "-k", "2", "-o", "study", "-q")
    labels = pd.read_csv("study/labels/ward.csv")
    assert intarsia.metrics.clustering_accuracy(group, labels["cluster"]) == 1.0


def test_a_source_that_nothing_fits_is_refused():
    with pytest.raises(SettingError, match="neither suffixes nor matches"):
        intarsia.register_source("nothing", dict)
    assert format_of("a.unknown") is None
    assert format_of("a.PARQUET").name == "parquet"
