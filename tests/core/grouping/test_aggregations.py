from __future__ import annotations

import numpy as np
import pytest

from intarsia.coordinator import FederatedAlgorithm
from intarsia.core.grouping.aggregations import AGGREGATIONS, Aggregation, centroid_methods, force_methods
from intarsia.core.grouping.local_centroids import objective
from intarsia.core.grouping.search import Grouping
from intarsia.participant import Participant
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.tables.frame import read_table
from tests.core.grouping.cases import options, planted


def by_first_feature(local, n_groups, _):
    order = np.argsort(np.argsort(local.centroids.values[:, 0], kind="stable"))
    groups = order * n_groups // len(order)
    return Grouping(groups, objective(local, groups, n_groups))


def test_methods_are_listed_by_what_they_group():
    assert centroid_methods() == ("search", "paper", "method_a", "method_b")
    assert force_methods() == ("search", "greedy")


def test_a_method_that_is_added_groups_the_local_clusters_of_a_run(monkeypatch):
    monkeypatch.setitem(AGGREGATIONS, "by_first_feature", Aggregation("its first feature", by_first_feature))
    assert "by_first_feature" in centroid_methods()
    rng = np.random.default_rng(0)
    centres = np.repeat([0.0, 9.0], 20)
    people = [Participant(read_table({c: centres + rng.normal(size=40) for c in "xy"}, name)) for name in "ab"]
    outcome = drive(FederatedAlgorithm(2, aggregation="by_first_feature"), InProcessRuntime(people))
    assert outcome.aggregation.method == "by_first_feature"
    assert sorted(outcome.groups.tolist()) == [0, 0, 1, 1]


@pytest.mark.parametrize("name", ["paper", "method_a", "method_b"])
def test_a_method_that_tries_one_grouping_has_a_loss_and_no_confidence(name):
    local, _ = planted(np.random.default_rng(0))
    grouping = AGGREGATIONS[name].of_centroids(local, 3, options(local, 0))
    assert grouping.loss == pytest.approx(objective(local, grouping.groups, 3))
    assert grouping.runner_up is None
    assert np.isnan(grouping.confidence)
