"""``intarsia report`` and the page that ``intarsia fit`` leaves, by real processes where one could make a difference."""

import json
import os
import stat

import numpy as np
import polars as pl
import pytest

import intarsia
from tests.cli.test_commands import inside, run


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    where = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    for name, columns in {"a": "xyz", "b": "yzw"}.items():
        rows = 6.0 * (np.arange(60) % 2)
        pl.DataFrame({c: rows + rng.normal(size=60) for c in columns}).write_csv(where / f"{name}.csv")
    run("fit", "a.csv", "b.csv", "-k", 2, "-o", "study", where=where)
    return where / "study"


def test_fit_leaves_a_report(study):
    page = (study / "report.html").read_text()
    assert "One clustering of a and b" in page
    assert stat.S_IMODE((study / "report.html").stat().st_mode) == stat.S_IMODE((study / "run.json").stat().st_mode)


def test_report_writes_the_same_page_again(study):
    before = (study / "report.html").read_text()
    (study / "report.html").unlink()
    done = run("report", "study/", where=study.parent)
    assert "written: study/report.html" in done.stdout
    assert (study / "report.html").read_text() == before


def test_report_for_machines_is_the_summary(study):
    told = json.loads(inside("report", "study/", "--json", "--title", "T", where=study.parent).stdout)
    assert told["title"] == "T"
    assert [participant["rows"] for participant in told["participants"]] == [60, 60]
    assert told["releases"]
    assert told["methods"] == intarsia.load(study / "model.intarsia").summarise().methods


def test_report_goes_where_it_is_told_and_replaces_nothing(study, tmp_path):
    inside("report", study / "model.intarsia", "-o", tmp_path / "r.html", "--title", "Clinics & labs", where=tmp_path)
    assert "<h1>Clinics &amp; labs</h1>" in (tmp_path / "r.html").read_text()
    refused = inside("report", study, "-o", tmp_path / "r.html", where=tmp_path, rc=1)
    assert "already exists" in refused.stderr
    missing = inside("report", tmp_path / "nothing", where=tmp_path, rc=1)
    assert "cannot be read" in missing.stderr


def test_report_never_replaces_what_is_not_a_report(study, tmp_path):
    model = (study / "model.intarsia").read_bytes()
    (tmp_path / "m.html").write_bytes(model)
    inside("report", "m.html", where=tmp_path, rc=1)
    assert (tmp_path / "m.html").read_bytes() == model
    (tmp_path / "notes.intarsia").write_bytes(model)
    (tmp_path / "notes.html").write_text("mine")
    inside("report", "notes.intarsia", where=tmp_path, rc=1)
    assert (tmp_path / "notes.html").read_text() == "mine"
    received = tmp_path / "received"
    received.mkdir()
    (received / "model.intarsia").write_bytes(model)
    (received / "report.html").symlink_to(tmp_path / "notes.html")
    inside("report", "received", where=tmp_path, rc=1)
    assert (tmp_path / "notes.html").read_text() == "mine"


def test_json_can_go_to_a_file(study, tmp_path):
    inside("report", study, "--json", "-o", "s.json", where=tmp_path)
    assert json.loads((tmp_path / "s.json").read_text())["title"]
    inside("report", study, "--json", "-o", "s.html", where=tmp_path, rc=1)


def test_names_that_are_no_text_are_refused(study, tmp_path):
    odd = run("fit", b"p\xff=" + bytes(study.parent / "a.csv"), study.parent / "b.csv", "-k", 2, where=tmp_path, rc=1)
    assert "cannot be file names" in odd.stderr
    run("report", study, "-o", "t.html", "--title", b"x\xff", where=tmp_path)


def test_open_shows_it_in_a_browser(study, tmp_path, monkeypatch):
    """$BROWSER is how a user says which; here one that writes down what it is asked to show."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    browser.chmod(0o755)
    monkeypatch.setitem(os.environ, "BROWSER", str(browser))
    import tests.cli.test_commands as cli

    monkeypatch.setitem(cli.ENVIRONMENT, "BROWSER", str(browser))
    run("report", study, "--open", where=tmp_path)
    assert (tmp_path / "shown").read_text().strip() == (study / "report.html").as_uri()


def test_force_replaces_a_study_with_its_report(study):
    inside("fit", "a.csv", "b.csv", "-k", 2, "-o", "study", "--force", where=study.parent)
    assert (study / "report.html").exists()
