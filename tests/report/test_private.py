"""The report of a private study: what it says, and that it has no exact number of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache

import msgspec
import numpy as np
import pytest

import intarsia
from intarsia import DifferentialPrivacy
from intarsia.exceptions import ModelFileError
from intarsia.report import render
from intarsia.report.data import State
from intarsia.results import model_file

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")
ROWS = {"a": 1237, "b": 1409}


def tables():
    rng, parts = np.random.default_rng(5), {}
    for name, columns in (("a", "xy"), ("b", "yz")):
        side = 6.0 * rng.integers(2, size=ROWS[name]) - 3.0
        parts[name] = {column: side + rng.normal(size=ROWS[name]) for column in columns}
    return parts


@cache
def study(epsilon=1.0, run=0, **settings):
    del run
    privacy = DifferentialPrivacy(epsilon, bounds=dict.fromkeys("xyz", (-10.0, 10.0)))
    return intarsia.cluster(tables(), 2, privacy=privacy, random_state=0, **settings)


def light(result, about):
    return {finding.about: finding for finding in result.findings}[about]


def test_the_light_says_what_one_row_can_change():
    finding = light(study(), "What one row can change")
    assert finding.state is State.GOOD
    assert "epsilon 1 of the 1 that were agreed" in finding.seen
    assert "at most 73 % sure" in finding.seen
    assert light(study(5.0), "What one row can change").state is State.CAUTION
    assert light(study(20.0), "What one row can change").state is State.BAD


def test_lights_about_real_rows_are_absent():
    about = {finding.about for finding in study().findings}
    assert not about & {
        "Rounds converged",
        "Few values are missing in columns that a participant has",
        "Replies of each participant fit each other",
        "What sums of one participant can be subtracted to",
    }
    assert light(study(), "Noise hardly moved the centroids").state in {State.GOOD, State.CAUTION}
    assert "synthetic tables" in light(study(method="one_shot"), "Noise hardly moved the centroids").seen


def test_errors_decide_the_light():
    result = study()
    moved = replace(result.outcome.privacy, errors=((99.0,) * 3, (None,) * 3))
    finding = light(replace(result, outcome=replace(result.outcome, privacy=moved)), "Noise hardly moved the centroids")
    assert finding.state is State.BAD
    assert "1 cluster had too few rows" in finding.seen


def test_sentences_say_that_numbers_are_noisy():
    data = study().summarise()
    assert data.headline[0].startswith("About ")
    assert "clusters of about" in data.headline[0]
    assert "noise" not in data.headline[0]
    assert "differentially private (epsilon 1, delta 1e-06, neighbouring tables differ in one row)" in data.methods
    assert "then 2 noisy rounds moved the centroids" in data.methods
    assert "Canonne" in data.references[-1]
    assert "Algorithm 2 of [1]" in study(method="one_shot").summarise().methods
    assert "of about" in str(study())


def test_the_page_shows_spending_and_error_bars():
    pytest.importorskip("plotly")
    page = render(study().summarise())
    assert page.count("Private study:") == 5
    assert "Spent privacy (agreed: epsilon 1.0, delta 1e-06)" in page.replace("&#34;", '"')
    assert "error of the mean from noise" in page
    data = json.loads(study().summarise().to_json())
    assert data["privacy"]["spent"][0]["exchange"] == "sketch"
    assert all(error > 0 for row in data["profiles"]["errors"] for error in row)
    assert all(each["error"] > 0 for cluster in data["clusters"] for each in cluster["separating"])


def places(value, at=""):
    """Yield where a document has an exact number of rows, as a number or as a length."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    exact = {*ROWS.values(), sum(ROWS.values())}
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from places(part, f"{at}.{key}")
    elif isinstance(value, list | tuple):
        if len(value) in exact:
            yield at
        for k, part in enumerate(value):
            yield from places(part, f"{at}.{k}")
    elif isinstance(value, int | float) and value in exact:
        yield at
    if isinstance(value, str) and any(str(n) in value.replace(",", "") for n in exact):
        yield at


def test_no_exact_number_of_rows_is_in_report_or_file(tmp_path):
    """Three runs with noise of hundreds of rows: the same place has the exact number in all of them only if it is told."""
    found = []
    for run in range(3):
        result = study(0.1, run)
        result.save(tmp_path / "study.intarsia")
        stored = model_file.load(tmp_path / "study.intarsia")[1]
        assert stored.labels is None
        found.append({*places(json.loads(result.summarise().to_json())), *places(stored, "file")})
    assert not set.intersection(*found)


def test_labels_are_saved_only_if_asked_for(tmp_path):
    study().save(tmp_path / "study.intarsia", labels=True)
    assert set(places(model_file.load(tmp_path / "study.intarsia")[1].labels)) == {".a", ".b"}


@pytest.mark.parametrize("errors", [((1.0,),), ((-1.0,) * 3,) * 2, ((1.0,) * 3,), ((float("inf"),) * 3,) * 2])
def test_impossible_errors_are_refused(tmp_path, errors):
    result = study()
    wrong = replace(result.outcome, privacy=replace(result.outcome.privacy, errors=errors))
    with pytest.raises(ModelFileError, match="errors of centroids"):
        replace(result, outcome=wrong).save(tmp_path / "study.intarsia")
