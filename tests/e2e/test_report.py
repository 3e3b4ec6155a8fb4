"""The report of a federated run has the figures of one in process."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace

import pytest

import intarsia
from intarsia.policy import ReleasePolicy

pytest.importorskip("nvflare")
pytest.importorskip("psutil")
from tests.e2e.federations import Federation

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
OF_THE_MACHINE = ("versions", "started", "seconds", "exchanges")


def figures(result):
    """All that a report says, but for when and on what it ran.

    Messages hold columns in the order of their names, so that nobody but the owner knows the owner's order.
    """
    found = json.loads(replace(result, feature_names=tuple(sorted(result.feature_names))).summarise().to_json())
    exchanged = [(e["phase"], e["bytes_in"], e["bytes_out"]) for e in found["exchanges"]]
    for party in found["parties"]:
        del party["seconds"]
    found["methods"] = re.sub(r", scikit-learn \d+(\.\d+)*", "", found["methods"])  # a coordinator runs without it
    rules = {"local", "missing", "release", "n_jobs", "verbose"}  # each participant's own in a federation
    found["settings"] = {key: value for key, value in found["settings"].items() if key not in rules}
    return {key: value for key, value in found.items() if key not in OF_THE_MACHINE} | {"exchanged": exchanged}


@pytest.mark.parametrize(("method", "k"), [("federated", 2), ("one_shot", 2), ("federated", "auto")])
def test_reports_of_both_have_the_same_figures(method, k, tmp_path):
    tables = dict(sorted(intarsia.datasets.load_heart_disease("polars").tables.items())[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = intarsia.cluster(tables, k, method=method, random_state=0, release=ReleasePolicy())
    with Federation(tmp_path, tables, method, k) as federation:
        process = federation.begin()
        assert process.wait(240) == 0, (tmp_path / "analyst.log").read_text()
        found = intarsia.load(federation.model)
    here, there = figures(expected), figures(found)
    assert here.keys() == there.keys()
    for key, value in here.items():
        assert there[key] == value, key
