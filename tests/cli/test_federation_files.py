"""A federation leaves the files that fit leaves, but for labels."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import intarsia
from intarsia.cli.run_file import RunFile
from intarsia.cli.study_folder import report_on, unlabelled  # what run does after the network

FILES = Path(__file__).parents[1] / "results/files"


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_the_folder_of_a_federation_has_what_that_of_fit_has_but_labels(method, tmp_path):
    x = np.random.default_rng(0).normal(size=(2, 60)) + 9 * (np.arange(60) % 2)
    tables = {"a": {"x": x[0], "y": x[1]}, "b": {"x": x[1]}}
    result = intarsia.cluster(tables, 2, method=method, random_state=0)
    result.save(tmp_path / "model.intarsia")  # what the server hands over
    report_on(tmp_path)
    names = {"model.intarsia", "public.intarsia", "centroids.csv", "report.html", "report.json", "run.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    record = msgspec.convert(json.loads((tmp_path / "run.json").read_text()), RunFile)
    assert (record.method, record.n_clusters, record.files) == (method, 2, {})
    assert np.array_equal(intarsia.load(tmp_path / "public.intarsia").predict({"x": x[0]}), result.predict({"x": x[0]}))


def test_a_model_that_cannot_be_shared_is_no_reason_to_lose_the_rest(tmp_path, capsys):
    x = np.arange(40.0) % 2
    result = intarsia.cluster({"a": {"x": x}, "b": {"x": x}}, 2, scale="minmax", random_state=0)
    result.save(tmp_path / "model.intarsia")
    report_on(tmp_path)
    assert not (tmp_path / "public.intarsia").exists()
    assert (tmp_path / "run.json").exists()
    assert "values of single rows" in " ".join(capsys.readouterr().err.split())


def test_participants_without_labels_are_known(tmp_path):
    (tmp_path / "model.intarsia").write_bytes((FILES / "federated-quorum.intarsia").read_bytes())
    assert unlabelled(tmp_path) == ["late"]  # "ü" missed a round, and has labels
