"""Repeats and joins: what months of runs over one record tell together, and what their own questions tell."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import intarsia
from intarsia import ReleasePolicy
from intarsia.coordinator.federated import FederatedAlgorithm
from intarsia.exceptions import ReleaseError
from intarsia.privacy.journal import Journal
from intarsia.privacy.record import Record
from intarsia.protocol import Failure, Gaussians, LabelBefore
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from tests.attacks.asking import centres_of, centroids, laid_out, line, refine
from tests.attacks.listening import Spy, participant_of
from tests.attacks.membership import accuracy, accuracy_of_signs, targets
from tests.attacks.repeating import (
    counts_told,
    growing,
    listen_for_months,
    moved,
    moves,
    sliding_moves,
    smallest_groups,
    solve_months,
)

MONTHLY = ReleasePolicy(max_rounds_per="month")
N = 30


def of_months(policy, folder, seed, n_months):
    return listen_for_months(growing(seed, n_months), policy, folder)


@pytest.mark.parametrize(
    ("seed", "n_months"), [(0, 3), *(pytest.param(seed, 6, marks=pytest.mark.attack) for seed in range(3))]
)
def test_months_of_honest_repeats_over_a_growing_table(seed, n_months, tmp_path):
    open_ = of_months(None, tmp_path, seed, n_months)
    assert sum(len(solve_months(each).rows) for each in open_.values()) >= 20
    for each in of_months(MONTHLY, tmp_path, seed, n_months).values():
        assert min(smallest_groups([heard.spied for heard in each], each[-1].rows.observed)) >= 5
        assert all(n == 0 or n >= 5 for n in counts_told(each))
        assert not solve_months(each).rows


def signs(attack, policy, n_rows=300, d=6):
    table, members, others = targets(n_rows, d, N, 5)
    return accuracy_of_signs(
        *(
            [attack(participant_of(table, "a", policy), row, k) for k, row in enumerate(rows)]
            for rows in (members, others)
        )
    )


def test_two_cuts_in_one_question_about_rows_that_changed_cluster():
    def share(policy):
        table, members, others = targets(300, 6, N, 3)
        seen = (
            [moved(participant_of(table, "a", policy), row, k) for k, row in enumerate(rows)]
            for rows in (members, others)
        )
        return accuracy(*seen)

    assert share(None) >= 0.95
    assert share(ReleasePolicy()) <= 0.6


def test_a_plane_that_turns_until_enough_rows_changed_side():
    def slide(participant, row, seed):
        return sliding_moves(participant, row, 300, seed)

    assert signs(slide, None) >= 0.95
    assert 0.4 <= signs(slide, ReleasePolicy()) <= 0.6


def test_two_public_files_around_one_new_row(tmp_path):
    """The mean of all rows is in the file: with one row more, whoever has both files has the row."""
    table, _, others = targets(300, 4, 1, 2)
    grown = {name: np.r_[values, others[0, j]] for j, (name, values) in enumerate(table.items())}
    totals = []
    for tables in ({"a": table, "b": table}, {"a": grown, "b": table}):
        path = tmp_path / f"{len(totals)}.intarsia"
        intarsia.cluster(tables, 2, scale="standard", random_state=0).save(path, public=True)
        public: Any = intarsia.load(path)
        totals.append(public.total_sizes.sum() * public.global_model.shift)
    np.testing.assert_allclose(totals[1] - totals[0], others[0], rtol=1e-6)
    record, algorithm = Record(tmp_path / "a.told"), FederatedAlgorithm(2, scale="standard")
    drive(algorithm, InProcessRuntime([participant_of(table, "a", ReleasePolicy(), record=record)]))
    with pytest.raises(ReleaseError, match="has changed since answers"):
        drive(algorithm, InProcessRuntime([participant_of(grown, "a", ReleasePolicy(), record=record)]))


@pytest.mark.parametrize("policy", [pytest.param(ReleasePolicy(), marks=pytest.mark.attack), MONTHLY])
def test_new_runs_of_the_same_study_bring_neither_rounds_nor_rows(policy, tmp_path):
    table, *_ = targets(300, 4, 1, 2)
    terms = FederatedAlgorithm(2, scale="standard", max_rounds=20, repeats=True).terms("a")
    rng, answered, spied = np.random.default_rng(0), {"before": 0, "moves": 0, "rounds": 0}, []
    for run in range(26):
        more: dict[str, Any] = {
            "journal": Journal(tmp_path / "j"),
            "record": Record(tmp_path / "t.told"),
            "terms": terms,
        }
        one = participant_of(table, "a", policy, **more, run=str(run))
        where, spy = line(one, 0), Spy(one)
        cuts = rng.normal(size=3).tolist()
        sent = centres_of(centroids(where, cuts[:1], 2))
        questions = {
            "before": LabelBefore(centres=sent, columns=where.columns),
            "moves": moves(where, cuts[0], cuts[1]),
            "rounds": refine(where, [cuts[2:]], 2, 1),
        }
        for name, question in questions.items():
            answered[name] += not isinstance(one.handle(question), Failure)
        spy.end_of_message()
        spied.append(spy.spied)
        observed = laid_out(table, where).observed
    assert answered == {"before": 20, "moves": 20, "rounds": 20}
    assert min(smallest_groups([month for month in spied if any(month)], observed)) >= 5


def test_moves_between_gaussians_are_no_question_of_a_study_that_labels_by_centroids():
    table, *_ = targets(50, 2, 1, 0)
    where = line(participant_of(table, "a", ReleasePolicy()), 0)
    k, d = 2, 2
    gaussians = Gaussians(
        np.zeros((k, d)), np.ones((k, d)), np.ones((k, d), bool), np.full(k, 0.5), np.zeros(d), np.ones(d)
    )
    request = msgspec.structs.replace(moves(where, 0.0, 1.0), gaussians_now=gaussians)
    terms = FederatedAlgorithm(2, scale="standard", repeats=True).terms("a")
    assert any("labels_by" in why for why in request.departures(terms))
    likeliest = FederatedAlgorithm(2, scale="standard", repeats=True, model="mixture").terms("a")
    assert not list(request.departures(likeliest))
