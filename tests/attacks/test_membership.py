"""Whether a known row is in a table: 100 rows that are, 100 of the same distribution that are not."""

from __future__ import annotations

import pytest

from intarsia import ReleasePolicy
from tests.attacks.listening import participant_of
from tests.attacks.membership import accuracy, accuracy_of_signs, by_min_points, sliding, targets, two_cuts

N = 100


def recognised(policy, n_clusters):
    table, members, others = targets(300, 6, N, 0)
    seen = [
        [two_cuts(participant_of(table, "a", policy), row, n_clusters, n) for n, row in enumerate(rows)]
        for rows in (members, others)
    ]
    return accuracy(*seen)


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_two_cuts_around_a_known_row(n_clusters):
    assert recognised(None, n_clusters) >= 0.95
    assert recognised(ReleasePolicy(), n_clusters) <= 0.55


def recognised_by(attack, n_columns, policy, n=N // 2):
    table, members, others = targets(300, n_columns, n, 0)
    scores = [
        [attack(participant_of(table, "a", policy), row, 300, n) for n, row in enumerate(rows)]
        for rows in (members, others)
    ]
    return accuracy_of_signs(*scores)


def test_which_of_two_groups_that_differ_by_a_known_row_is_told_first():
    assert recognised_by(sliding, 13, ReleasePolicy(), 30) <= 0.55


def test_a_centroid_that_is_ignored_unless_one_more_row_is_behind_it():
    assert recognised_by(by_min_points, 6, None) >= 0.75
    assert recognised_by(by_min_points, 6, ReleasePolicy()) <= 0.55
