"""A coordinator that asks cleverly: cuts along a line, adaptive or in a known order; searches; labels only."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.protocol import Failure
from tests.attacks.asking import Asked, ask, asked_sums, cut_at, label_around, laid_out, line, overheard
from tests.attacks.blind import blind
from tests.attacks.listening import different, participant_of, squares_told, sums_told
from tests.attacks.membership import targets, unexplained_misfit
from tests.attacks.searching import is_a_row, misfit_search, missing_tail, search, search_for_value
from tests.attacks.solving import rounds, solve, solve_sets

RULES = ReleasePolicy()


def rows_of_asker(n_clusters, policy, n_rows=300, seed=0, **more):
    table, _, _ = targets(n_rows, 6, 10, seed)
    asked = ask(participant_of(table, "a", policy), n_clusters, seed=seed, **more)
    heard = overheard(asked, table)
    return len(solve(heard).rows | blind(asked_sums(asked.messages), heard.rows, 0).rows)


@pytest.mark.parametrize(("n_clusters", "fewest"), [(2, 8), (4, 30), (10, 100)])
def test_adaptive_cuts_with_k_of_the_study_within_all_its_rounds(n_clusters, fewest):
    assert rows_of_asker(n_clusters, None) >= fewest
    assert rows_of_asker(n_clusters, RULES) == 0


def test_adaptive_cuts_with_rival_sets():
    assert rows_of_asker(4, None, n_rounds=10, n_sets=4) >= 60
    assert rows_of_asker(4, RULES, n_rounds=10, n_sets=4) == 0


def test_forty_centroids_give_the_whole_table_without_terms_and_rules():
    assert rows_of_asker(40, None, n_rounds=18) == 300
    assert rows_of_asker(40, RULES, n_rounds=18) == 0


@pytest.mark.parametrize("policy", [None, RULES], ids=["without", "rules"])
def test_cuts_whose_groups_all_differ_by_five_rows_isolate_a_row(policy):
    """Behind rows 10, 20, 30 and then 15, 21, 36: no two groups differ by fewer than five rows, but row 21 follows."""
    table, _, _ = targets(300, 6, 10, 0)
    participant = participant_of(table, "a", policy)
    where = line(participant)
    order = np.sort(laid_out(table, where).values @ where.u)
    cuts = [[(order[n - 1] + order[n]) / 2 for n in behind] for behind in ((10, 20, 30), (15, 21, 36))]
    asked = Asked(cut_at(participant, where, cuts, 4), where, [])
    solved = solve(overheard(asked, table))
    assert len(solved.single) == (1 if policy is None else 0)
    assert len(solved.rows) == (1 if policy is None else 0)


@pytest.mark.parametrize("n_clusters", [2, 4, 10])
def test_a_search_for_the_place_of_one_row_along_a_line(n_clusters):
    found = dict.fromkeys((None, RULES), 0)
    for policy in found:
        for seed in range(20):
            table, _, _ = targets(300, 6, 10, seed)
            where, place = search(participant_of(table, "a", policy), 300, n_clusters, seed)
            found[policy] += is_a_row(where, place, laid_out(table, where).values)
    assert found[None] >= 18
    assert found[RULES] == 0


def test_a_search_by_the_misfit_finds_no_row():
    """Sums are told without rules, so that there is nothing to search for."""
    found = 0
    for seed in range(20):
        table, _, _ = targets(300, 6, 10, seed)
        where, place = misfit_search(participant_of(table, "a", RULES), 300, seed)
        found += is_a_row(where, place, laid_out(table, where).values)
    assert found == 0


def test_a_search_for_a_mean_over_other_values_than_were_told():
    found = 0
    for seed in range(5):
        table = missing_tail(seed)
        participant = participant_of(table, "a", ReleasePolicy(max_rounds=40))
        value = search_for_value(participant)
        where = line(participant)
        j = where.names.index("j")
        found += abs(laid_out(table, where).values[193, j] - value) < 1e-3
    assert found == 0


def test_the_misfit_tells_nothing_that_the_sums_do_not():
    table, _, _ = targets(300, 6, 10, 0)
    for policy in (None, RULES):
        asked = ask(participant_of(table, "a", policy), 2)
        assert not isinstance(asked.messages[-1][1], Failure)
        assert max(unexplained_misfit(*pair) for pair in asked.messages) < 1e-6


def labelled_only(policy):
    """Requests for labels and no round: two cuts around a row, each with two pairs of centroids."""
    table, _, _ = targets(60, 4, 10, 1)
    participant = participant_of(table, "a", policy)
    where = line(participant)
    rows = laid_out(table, where)
    order = np.sort(rows.values @ where.u)
    cuts = {n: float(order[n - 1] + order[n]) / 2 for n in (20, 21)}
    requests = [label_around(where, cuts[n], reach) for n in cuts for reach in (1.0, 2.0)]
    messages = [(request, participant.handle(request)) for request in requests]
    labellings = [(rows.values @ where.u > cut).astype(int) for cut in cuts.values()]
    return solve_sets([], squares_told(messages), labellings, rows)


def test_labels_only_and_sums_of_squares():
    assert labelled_only(None).single
    assert not labelled_only(ReleasePolicy(max_rounds=0)).rows


def test_all_messages_of_several_runs_together():
    """A second run with another direction cuts the groups of the first."""
    for policy in (None, RULES):
        table, _, _ = targets(300, 6, 10, 0)
        participant = participant_of(table, "a", policy)
        first, second = (ask(participant, 4, n_rounds=10, seed=seed) for seed in (0, 1))
        heard = overheard(Asked([*first.messages, *second.messages], first.where, []), table)
        told = different(sums_told([pair for pair in heard.messages if not isinstance(pair[1], Failure)]))
        solved = solve_sets(told, [], rounds(heard), heard.rows)
        assert bool(solved.rows) == (policy is None)
