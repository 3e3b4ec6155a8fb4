"""Odd names, links and files: every command says in one sentence what is wrong, and loses nothing that was computed."""

from __future__ import annotations

import stat

import numpy as np
import polars as pl
import pytest

from .test_commands import inside

LONG = "x" * 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("odd")
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = 6.0 * (np.arange(40) % 2) + rng.normal(size=40)
        ids = [f"={name}{k}" if k % 2 else f"{name}{k}" for k in range(40)]
        pl.DataFrame({"x": rows, "y": -rows, "who": ids}).write_csv(where / f"{name}.csv")
    inside("fit", "a.csv", "b.csv", "-k", 2, "--id", "who", "-o", "study", where=where)
    return where


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", f"{LONG}.csv"),
        ("check", "a.csv", f"{LONG}/b.csv"),
        ("fit", "a.csv", "b.csv", "--id", "who", "-o", LONG),
        ("fit", "a.csv", "--id", "who", "--config", f"{LONG}.toml"),
        ("predict", "study", "a.csv", "--id", "who", "-o", LONG),
        ("predict", LONG, "a.csv"),
        ("explain", LONG),
        ("report", LONG),
        ("report", "study", "-o", LONG),
        ("participant", "preview", "--table", f"{LONG}.csv"),
    ],
)
def test_names_that_no_file_can_have_are_told_in_one_sentence(folder, arguments):
    done = inside(*arguments, where=folder, rc=1)
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["x" * 252, "ä" * 101])
def test_a_participant_s_name_that_cannot_name_its_labels_is_refused_at_the_start(folder, name):
    done = inside("fit", f"{name}=a.csv", "b.csv", "--id", "who", "-k", 2, "-o", "s", where=folder, rc=1)
    assert "have more than 200 bytes" in done.stderr
    assert not (folder / "s").exists()
    inside("check", f"{name}=a.csv", "b.csv", "-x", "who", where=folder, rc=1)


def test_the_longest_name_has_its_labels(folder, tmp_path):
    name = "x" * 200
    inside("fit", f"{name}=a.csv", "b.csv", "--id", "who", "-k", 2, "-o", tmp_path / "s", where=folder)
    assert (tmp_path / "s" / "labels" / f"{name}.csv").is_file()


@pytest.mark.parametrize("target", ["nowhere/labels.csv", "labels.csv", "link"])
@pytest.mark.parametrize(
    "command", [("predict", "study", "a.csv", "--id", "who", "-o"), ("fit", "a.csv", "--id", "who", "-k", 2, "-o")]
)
def test_an_output_that_is_a_link_to_nothing_is_refused(folder, tmp_path, command, target):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    assert "already exists" in inside(*command, link, where=folder, rc=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_labels_are_their_owner_s_alone_and_hold_no_formula(folder, tmp_path):
    inside("predict", "study", "a.csv", "--id", "who", "-o", tmp_path / "new.csv", where=folder)
    for path in (tmp_path / "new.csv", folder / "study" / "labels" / "a.csv"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert pl.read_csv(path)["id"].to_list()[:3] == ["a0", "'=a1", "a2"]
    printed = inside("predict", "study", "a.csv", "--id", "who", where=folder).stdout
    assert printed.encode() == (tmp_path / "new.csv").read_bytes()


def test_a_feature_in_the_file_of_centroids_is_no_formula(folder, tmp_path):
    for name in "ab":
        pl.read_csv(folder / f"{name}.csv").rename({"x": "=x"}).write_csv(tmp_path / f"{name}.csv")
    inside("fit", "a.csv", "b.csv", "-k", 2, "-x", "who", "-o", "s", where=tmp_path)
    assert set(pl.read_csv(tmp_path / "s" / "centroids.csv")["feature"]) == {"'=x", "y"}


def test_a_configuration_that_is_nested_too_deeply_is_refused(folder, tmp_path):
    config = tmp_path / "fit.toml"
    config.write_text("[settings]\nx = " + "[" * 5000 + "]" * 5000)
    assert "more than 20 levels deep" in inside("fit", "a.csv", "--config", config, where=folder, rc=1).stderr
