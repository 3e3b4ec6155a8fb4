"""What is red or yellow is said where a user looks: after the result line of ``fit``, and by ``check`` before it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from intarsia.cli import lights
from intarsia.report.data import Finding, State
from tests.cli.test_commands import inside

FILES = ("a.csv", "b.csv", "c.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three hospitals with two clusters; 'b' has creatinine in other units."""
    where, rng = tmp_path_factory.mktemp("units"), np.random.default_rng(0)
    for file in FILES:
        z = rng.normal(size=(80, 3)) + 4.0 * (np.arange(80) % 2)[:, None]
        factor = 1.0 / 88.4 if file == "b.csv" else 1.0
        columns = {"height": 160 + 5 * z[:, 0], "sbp": 120 + 6 * z[:, 1], "creatinine": factor * (70 + 8 * z[:, 2])}
        pl.DataFrame(columns).write_csv(where / file)
    return where


def test_check_names_column_participant_and_factor_before_any_fit(folder):
    shown = inside("check", *FILES, where=folder, columns=300).stdout
    assert "'creatinine' at 'b': values there are about 88.4 times as small (creatinine in mg/dl and µmol/l)" in shown
    assert "multiply by 88.42 there" in shown
    (odd,) = json.loads(inside("check", *FILES, "--json", where=folder).stdout)["other_units"]
    assert (odd["column"], odd["participant"]) == ("creatinine", "b")
    assert inside("check", "a.csv", "c.csv", where=folder).stdout.count("times as") == 0


def test_check_says_how_much_deviations_differ_and_what_auto_does(folder):
    same, other = (inside("check", *files, where=folder, columns=300).stdout for files in (("a.csv", "c.csv"), FILES))
    assert (
        "from 'height' to 'creatinine'; fit leaves them as they are (--scale auto, the default); --scale standard"
        in same
    )
    assert "from 'height' to 'creatinine'" in other
    pl.DataFrame({"x": np.arange(9.0), "y": 1e-2 * np.arange(9.0) ** 2, "z": 0.5 * np.arange(9.0)}).write_csv(
        folder / "d.csv"
    )
    assert "from 'y' to 'x'; fit leaves" in inside("check", "d.csv", where=folder, columns=300).stdout
    pl.DataFrame({"x": 1e3 * np.arange(9.0), "y": np.arange(9.0) ** 2}).write_csv(folder / "e.csv")
    assert json.loads(inside("check", "e.csv", "--json", where=folder).stdout)["units"] == "standard"


def test_check_and_fit_name_levels_that_may_be_other_words_for_the_same(tmp_path):
    rng = np.random.default_rng(0)
    for name, words in {"a": ("m", "w"), "b": ("m", "f")}.items():
        columns = {
            "x": rng.normal(size=80) + 9.0 * (np.arange(80) % 2),
            "sex": np.array(words)[rng.integers(2, size=80)],
        }
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
    words = "other words for the same thing: 'sex' ('a' has 'w' and not 'f', 'b' the reverse)"
    assert words in inside("check", "a.csv", "b.csv", where=tmp_path, columns=300).stdout
    (odd,) = json.loads(inside("check", "a.csv", "b.csv", "--json", where=tmp_path).stdout)["other_levels"]
    assert (odd["column"], odd["left_levels"], odd["right_levels"]) == ("sex", ["w"], ["f"])
    done = inside("fit", "a.csv", "b.csv", "-k", 2, "-o", "s", where=tmp_path, columns=2000)
    assert words in done.stderr
    assert f"! Columns mean the same everywhere? Levels may be {words}." in done.stdout
    new = pl.DataFrame({"x": [0.0, 9.0], "sex": ["männlich", "m"]})
    new.write_csv(tmp_path / "new.csv")
    told = inside("predict", "s", "new.csv", "--margins", where=tmp_path, columns=300).stderr
    assert told.count("'sex' (1 in 1 rows; known are 'f', 'm', 'w')") == 1


@pytest.mark.parametrize("more", [(), ("--one-shot",), ("--scale", "none")])
def test_fit_prints_what_is_red_after_its_result_line(folder, tmp_path, more):
    done = inside("fit", *FILES, "-k", 2, "-o", tmp_path / "study", *more, where=folder, columns=2000)
    lines = done.stdout.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("2 clusters of"))
    red = [line for line in lines[at + 1 :] if line.startswith("✗ Columns mean the same everywhere? ")]
    assert len(red) == 1
    assert "'creatinine' averages" in red[0]
    assert "at 'b'" in red[0]


def test_lights_are_sorted_and_many_are_cut(capsys):
    findings = [Finding(f"condition {k}", State.CAUTION if k else State.BAD, "seen.", "do.") for k in range(9)]
    lights.print_lights([*findings[1:], Finding("fine", State.GOOD, "all"), findings[0]])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "✗ condition 0? seen. do."
    assert shown[1:] == [f"! condition {k}? seen. do." for k in range(1, lights.MOST)] + ["and 3 more: see the report"]
