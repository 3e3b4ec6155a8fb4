"""The finding about clusters that do not come back when rows are resampled."""

from dataclasses import replace

import pytest

import intarsia
from intarsia.report.data import State
from intarsia.report.stability import findings_of_stability
from intarsia.results.stability import Stability

ABOUT = "Clusters come back when rows are resampled"


@pytest.fixture(scope="module")
def outcome():
    return intarsia.cluster({"a": {"x": [0.0, 0.1, 9.0, 9.1]}, "b": {"x": [0.05, 9.05]}}, 2, random_state=0).outcome


def _finding(outcome, **figures):
    given = {"scores": (0.9, 0.8), "sizes": (3, 3), "jaccard": (0.95, 0.9), "dissolved": (0.0, 0.0), "reference": 0.5}
    (finding,) = findings_of_stability(replace(outcome, stability=Stability(**given | figures)))
    assert finding.about == ABOUT
    return finding


def test_nothing_is_said_where_nothing_was_measured(outcome):
    assert list(findings_of_stability(outcome)) == []
    unknown = Stability((None, None), (0, 0), local=True)
    assert list(findings_of_stability(replace(outcome, stability=unknown))) == []


def test_stable_clusters_are_green(outcome):
    finding = _finding(outcome)
    assert finding.state is State.GOOD
    assert "0.85 over all rows" in finding.seen
    assert "0.80" in finding.seen


def test_doubtful_clusters_are_yellow_and_named(outcome):
    finding = _finding(outcome, scores=(0.9, 0.7))
    assert finding.state is State.CAUTION
    assert "Not stable: cluster 1 (0.70)." in finding.seen
    assert finding.advice.startswith("Expect rows between these clusters.")


def test_clusters_that_dissolve_are_red_and_cuts_of_a_long_cloud_are_yellow(outcome):
    dissolved = _finding(outcome, scores=(0.9, 0.1), jaccard=(0.95, 0.6))
    assert dissolved.state is State.BAD
    assert dissolved.advice.startswith("Do not interpret")
    long = _finding(outcome, scores=(0.2, 0.1), jaccard=(0.94, 0.93), reference=0.92)
    assert long.state is State.CAUTION
    assert long.advice.startswith("Describe those below 0.6 as ends of a scale, not as groups.")
    assert "is 0.94, 0.93; parts of one Gaussian cloud reach 0.92" in long.seen


def test_scores_of_participants_are_never_red(outcome):
    finding = _finding(outcome, scores=(0.2, None), jaccard=(), dissolved=(), reference=None, local=True)
    assert finding.state is State.CAUTION
    assert "in the rows of each participant by itself" in finding.seen
    assert "0 (0.20)" in finding.seen
