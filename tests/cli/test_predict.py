"""``intarsia predict``: where labels are written, and what is refused before a file is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.cli.app import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=40) + 9 * (np.arange(40) % 2)
    result = intarsia.cluster({"a": {"x": x}, "b": {"x": x + 0.1}}, 2, random_state=0)
    result.save("s.intarsia")
    pl.DataFrame({"x": x[:6]}).write_csv("new.csv")
    return result.predict({"x": x[:6]}).tolist()


def call(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


def test_json_is_printed_and_a_file_written_as_well(folder, capsys):
    assert call("predict", "s.intarsia", "new.csv", "--json", "-o", "labels.parquet") == 0
    assert json.loads(capsys.readouterr().out)["cluster"] == folder
    assert pl.read_parquet("labels.parquet")["cluster"].to_list() == folder


@pytest.mark.parametrize("name", ["labels.xlsx", "labels.txt", "labels"])
def test_labels_are_csv_or_parquet(name, folder, tmp_path, capsys):
    assert call("predict", "s.intarsia", "new.csv", "-o", name) == 1
    assert f"{name} is neither .csv nor .parquet. Hint: --output labels.csv" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_a_wrong_share_is_refused_before_the_file_is_opened(folder, capsys):
    Path("broken.csv").write_bytes(b"\x00\x01")
    assert call("predict", "s.intarsia", "broken.csv", "--none-beyond", 0.3) == 1
    assert "none_beyond must be a number of at least 0.5" in capsys.readouterr().err.replace("\n", " ")


def test_a_table_that_is_given_as_the_study_is_called_a_table(folder, capsys):
    assert call("predict", "new.csv", "new.csv") == 1
    assert "new.csv is not a saved study (a CSV file?)." in capsys.readouterr().err


def test_a_cluster_gets_one_name(folder, capsys):
    assert call("rename", "s.intarsia", "0=a", "0=b") == 1
    assert "cluster 0 is given two names" in capsys.readouterr().err
    assert intarsia.load("s.intarsia").cluster_names == {}
