"""Findings about the method that grouped local clusters."""

import numpy as np
import pytest

import intarsia
from intarsia.report.data import State

pytestmark = pytest.mark.filterwarnings(
    "ignore::intarsia.exceptions.AssumptionWarning", "ignore::intarsia.exceptions.UnitsWarning"
)
ABOUT = "The paper's assumptions hold for its method"
APART = "Local clusters of a participant stay apart"


def at(places, columns=("x", "y"), n=15):
    rng = np.random.default_rng(0)
    rows = np.repeat(np.array(places, dtype=float), n)[:, None] + 0.1 * rng.normal(size=(n * len(places), len(columns)))
    return dict(zip(columns, rows.T, strict=True))


def findings(tables, n_clusters, **settings):
    result = intarsia.cluster(tables, n_clusters, random_state=0, **settings)
    return {finding.about: finding for finding in result.summarise().findings}


@pytest.mark.parametrize("aggregation", ["paper", "method_a", "method_b"])
def test_assumptions_of_the_papers_methods_are_a_finding(aggregation):
    clear = {"a": at([0, 10]), "b": at([0, 10])}
    assert findings(clear, 2, aggregation=aggregation)[ABOUT].state is State.GOOD
    bare = {"a": at([0, 10]), "b": at([100, 200], ("x", "z"))}  # nobody has both y and z of a cluster
    finding = findings(bare, 4, aggregation=aggregation, n_local_clusters=2)[ABOUT]
    assert finding.state is State.CAUTION
    assert "4 of 4 clusters do not have all features together" in finding.seen
    assert "aggregation='search'" in finding.advice


def test_other_methods_have_no_such_finding():
    assert ABOUT not in findings({"a": at([0, 10]), "b": at([0, 10])}, 2)


def test_local_clusters_that_greedy_merging_joined_are_pointed_out():
    tables = {"near": at([0, 1, 100]), "far": at([100, 200])}
    finding = findings(tables, 3, method="one_shot", preset="paper", n_local_clusters={"near": 3, "far": 2})[APART]
    assert finding.state is State.CAUTION
    assert "'near'" in finding.seen
    assert "'far'" not in finding.seen
    assert APART not in findings(tables, 3, method="one_shot", n_local_clusters={"near": 3, "far": 2})
    assert APART not in findings(tables, 2, method="one_shot", preset="paper", n_local_clusters={"near": 3, "far": 2})
