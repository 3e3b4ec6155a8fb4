"""``intarsia join``: a folder with newcomers, and the labels of the others byte for byte."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.cli import main


def call(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for k, (name, columns) in enumerate({"a": "xy", "b": "xy", "c": "xz", "d": "w"}.items()):
        centres = np.repeat([0.0, 9.0], 20) + k % 2
        pl.DataFrame({column: centres + rng.normal(size=40) for column in columns}).write_csv(f"{name}.csv")
    assert call("fit", "a.csv", "b.csv", "-k", 2, "-o", "study", "-q") == 0
    return tmp_path


def test_a_newcomer_joins_and_the_labels_of_the_others_are_copied(folder, capsys):
    assert call("join", "study", "c.csv", "-o", "study2", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)["joined"]) == ["c"]
    record = json.loads((folder / "study2/run.json").read_text())
    assert list(record["joined"]) == ["c"]
    for name in "ab":
        assert (folder / f"study2/labels/{name}.csv").read_bytes() == (folder / f"study/labels/{name}.csv").read_bytes()
    joined = intarsia.load(folder / "study2/model.intarsia")
    assert joined.feature_names == ("x", "y", "z")
    assert (
        pl.read_csv(folder / "study2/labels/c.csv")["cluster"].to_list()
        == joined.predict(pl.read_csv("c.csv")).tolist()
    )
    assert (folder / "study2/report.html").is_file()


def test_from_the_model_alone_others_have_no_label_files(folder, capsys):
    assert call("join", "study/model.intarsia", "late=c.csv", "-o", "study2") == 0
    assert sorted(path.name for path in (folder / "study2/labels").iterdir()) == ["late.csv"]
    assert "no labels of a, b" in capsys.readouterr().err.replace("\n", " ")


def test_what_cannot_join_leaves_no_folder(folder, capsys):
    for words, text in ((("d.csv",), "shares no feature"), (("a.csv",), "part of the model already")):
        assert call("join", "study", *words, "-o", "study2") == 1
        assert text in capsys.readouterr().err.replace("\n", " ")
    assert not (folder / "study2").exists()


def test_the_repeat_of_an_earlier_run_is_not_printed_under_a_join(folder, capsys):
    assert call("fit", "a.csv", "b.csv", "--previous", "study", "-o", "again", "-q") == 0
    assert "changed cluster" in capsys.readouterr().out
    assert call("join", "again", "c.csv", "-o", "study2") == 0
    printed = capsys.readouterr().out
    assert "changed cluster" not in printed
    assert "joined: c. Clusters and labels of all others are unchanged." in printed
