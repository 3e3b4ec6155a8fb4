"""Differential privacy on the command line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from intarsia.privacy.ledger import Ledger
from tests.cli.test_commands import ENVIRONMENT, inside

pytest.importorskip("opendp")
BOUNDS = '[bounds]\nu = [-6, 6]\nv = [-6, 6]\nw = [-6, 6]\n[levels]\nsex = ["f", "m"]\n'


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, columns in {"a": "uv", "b": "vw"}.items():
        side = rng.integers(2, size=800)
        table = {column: 3.0 - 6 * side + rng.normal(size=800) for column in columns}
        frame = pl.DataFrame(table | {"sex": np.where(rng.random(800) < 0.5, "f", "m")})
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    return tmp_path


def fit(*words, where, suffix="csv", rc=0):
    return inside("fit", f"a.{suffix}", f"b.{suffix}", "-q", *words, where=where, rc=rc)


PRIVATE = ("--epsilon", "1", "--bounds", "bounds.toml")


def test_a_private_fit_charges_the_ledgers_and_repeats_for_nothing(folder):
    done = fit("-k", 2, *PRIVATE, "-o", "one", where=folder)
    assert "this run spent epsilon 1 at delta 1e-06 on each table" in done.stdout
    assert "without one row" in done.stdout
    assert "by all runs so far: a 1, b 1." in done.stdout
    assert {entry["study"] for entry in Ledger.beside(folder / "a.csv").entries()} == {"fit"}
    again = json.loads(fit("-k", 2, *PRIVATE, "-o", "two", "--json", where=folder).stdout)["privacy"]
    assert again["spent"]["a"]["run"] == 0
    assert (folder / "one" / "centroids.csv").read_bytes() == (folder / "two" / "centroids.csv").read_bytes()
    refused = fit("-k", 3, *PRIVATE, "--total-epsilon", "1.2", "-o", "three", where=folder, rc=1)
    assert "privacy budget of this participant's table does not allow it" in refused.stderr.replace("\n", " ")
    assert "It costs rho 0.02436, and of rho 0.03" in refused.stderr.replace("\n", " ")
    assert Ledger.beside(folder / "a.csv").spent() < 0.025  # refused before anything was spent
    assert (
        "so far: a 1.45, b 1.45" in fit("-k", 3, *PRIVATE, "--total-epsilon", "1.5", "-o", "four", where=folder).stdout
    )


def test_tables_that_are_read_in_batches_are_private_too(folder, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "INTARSIA_MEMORY_LIMIT", "1000")
    done = fit("-k", 2, *PRIVATE, suffix="parquet", where=folder)
    assert "this run spent epsilon 1 at" in done.stdout
    said = [entry["what"] for entry in Ledger.beside(folder / "a.parquet").entries()]
    assert said[0] == "number of rows"  # noisy, and it decides how many passes there are: memory does not
    assert len(pl.read_csv(folder / "study" / "labels" / "a.csv")) == 800


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--epsilon", "1"), "--epsilon needs --bounds"),
        (("--bounds", "bounds.toml"), "--bounds is given without --epsilon"),
        (("--total-epsilon", "1"), "--total-epsilon is given without --epsilon"),
        ((*PRIVATE, "--stability"), "stability cannot be set together with privacy"),
        ((*PRIVATE, "--missing", "impute"), "missing cannot be set together with privacy"),
        (("--epsilon", "1", "--bounds", "few.toml"), "2 column(s) of 'a', 'b' have neither bounds nor levels"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(words, why, folder):
    (folder / "few.toml").write_text("[bounds]\nv = [-6, 6]\nu = [-6, 6]\n")
    refused = fit("-k", 2, *words, where=folder, rc=1)
    assert why in refused.stderr.replace("\n", " ")
    assert not (folder / "a.csv.budget").exists()


def test_check_writes_a_template_of_names_and_says_what_lacks_bounds(folder):
    inside("check", "a.csv", "b.csv", "--write-bounds", "new.toml", where=folder)
    text = (folder / "new.toml").read_text().partition("[bounds]")[2]
    lines = [*(f"# {name} = [low, high]  # fill in" for name in "uvw"), "[levels]", "# sex = []  # fill in"]
    assert [line for line in text.splitlines() if line] == lines
    missing = json.loads(inside("check", "a.csv", "b.csv", "--bounds", "new.toml", "--json", where=folder).stdout)
    assert missing["without_bounds"] == {"a": ["u", "v", "sex"], "b": ["v", "w", "sex"]}
    assert (
        "All columns have bounds" in inside("check", "a.csv", "b.csv", "--bounds", "bounds.toml", where=folder).stdout
    )
    twice = inside("check", "a.csv", "b.csv", "--write-bounds", "new.toml", where=folder, rc=1)
    assert "already exists" in twice.stderr


def test_check_forecasts_the_loss_and_spends_nothing(folder):
    done = inside("check", "a.csv", "b.csv", "-k", 2, *PRIVATE, where=folder)
    assert "epsilon 1     asked for" in done.stdout
    assert "With epsilon 1 most rows get the label that they would get without privacy." in done.stdout
    assert "not to be published" in done.stdout
    assert not list(folder.glob("*.budget"))
    refused = inside("check", "a.csv", "b.csv", "--epsilon", 1, where=folder, rc=1)
    assert "--epsilon needs --bounds" in refused.stderr


def test_whoever_owns_the_tables_sees_what_is_wrong_with_a_ledger(folder):
    (folder / "a.csv.budget").write_text("{}\n")
    refused = fit("-k", 2, *PRIVATE, where=folder, rc=1).stderr.replace("\n", " ")
    assert "participant 'a': it could not answer" in refused
    assert "a.csv.budget, the ledger of the table, was changed or damaged: line 1" in refused
