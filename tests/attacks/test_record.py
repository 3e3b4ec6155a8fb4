"""The record of a table over restarts, jobs at the same time, kills, several summaries and both methods."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.privacy.record import Record
from intarsia.protocol import Failure, Summarize
from tests.attacks.asking import Asked, ask, label, laid_out, line, overheard, refine
from tests.attacks.blind import blind
from tests.attacks.listening import Spy, Told, different, listen, participant_of, sums_told
from tests.attacks.membership import targets
from tests.attacks.solving import rounds, solve, solve_recorded, solve_sets
from tests.attacks.studies import Study, gaussians, whole_numbers

RULES = ReleasePolicy()


def requests_of_asker(table, n_rounds):
    """What an asker asks an unguarded participant: cuts that isolate rows."""
    asked = ask(participant_of(table, "a", None), 4, n_rounds=n_rounds)
    return asked.where, [request for request, _ in asked.messages]


def heard_by(table, policy, answered):
    """Ask each request with ``answered``, a function that returns the participant to ask; collect what is told."""
    where, requests = requests_of_asker(table, 12)
    messages, spied = [], []
    for n, request in enumerate(requests):
        participant = answered(n)
        spy = Spy(participant)
        messages.append((request, participant.handle(request)))
        spy.end_of_message()
        spied += spy.spied
    assert not any(isinstance(reply, Failure) for _, reply in messages)
    return overheard(Asked(messages, where, spied), table)


def check_nothing_follows(heard):
    recorded = solve_recorded(heard)
    assert recorded.known == recorded.told > 0
    assert not recorded.rows
    assert not solve(heard).rows
    assert not blind(different(sums_told(heard.messages)), heard.rows).rows


def test_a_participant_that_restarts_after_every_answer(tmp_path):
    table, _, _ = targets(300, 6, 10, 0)
    unguarded = heard_by(table, None, lambda n: participant_of(table, "a", None))
    assert solve(unguarded).rows
    record = Record(tmp_path / "table.told")
    check_nothing_follows(heard_by(table, RULES, lambda n: participant_of(table, "a", RULES, record=record)))


def test_without_a_record_a_restart_forgets(tmp_path):
    """The test above would notice."""
    table, _, _ = targets(300, 6, 10, 0)
    assert solve_recorded(heard_by(table, RULES, lambda n: participant_of(table, "a", RULES))).rows


def test_two_jobs_at_the_same_time(tmp_path):
    table, _, _ = targets(300, 6, 10, 0)
    record = Record(tmp_path / "table.told")
    jobs = [participant_of(table, "a", RULES, record=record) for _ in range(2)]
    check_nothing_follows(heard_by(table, RULES, lambda n: jobs[n % 2]))


def test_another_order_of_the_rows_is_the_same_table(tmp_path):
    table, _, _ = targets(300, 6, 10, 0)
    record = Record(tmp_path / "table.told")
    order = np.random.default_rng(0).permutation(300)
    turned = {name: values[order] for name, values in table.items()}
    where, requests = requests_of_asker(table, 12)
    labellings, told = [], []
    for n, request in enumerate(requests):
        participant = participant_of(turned if n % 2 else table, "a", RULES, record=record)
        spy = Spy(participant)
        told += sums_told([(request, participant.handle(request))])
        spy.end_of_message()
        for spied in spy.spied[-1]:
            back = np.empty_like(spied.rows)
            back[order if n % 2 else np.arange(300)] = spied.rows
            labellings.append(back)
    solved = solve_sets(different(told), [], labellings, laid_out(table, where))
    assert solved.known == solved.told > 0
    assert not solved.rows


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_write_of_the_record(tmp_path, monkeypatch, when):
    """A request that was answered by no reply is asked again after the restart."""
    table, _, _ = targets(300, 6, 10, 0)
    record, write = Record(tmp_path / "table.told"), Record.write
    countdown = iter([0, 1] * 100)

    def killed(self, *given):
        if when == "after":
            write(self, *given)
        if next(countdown):
            raise Killed
        if when == "before":
            write(self, *given)

    def answered(n):
        with monkeypatch.context() as patch:
            patch.setattr(Record, "write", killed)
            try:
                participant_of(table, "a", RULES, record=record).handle(requests[n])
            except Killed:
                pass
        return participant_of(table, "a", RULES, record=record)

    _, requests = requests_of_asker(table, 12)
    check_nothing_follows(heard_by(table, RULES, answered))


def several_summaries(policy):
    """Summaries of one table with many seeds, in the same units, and the labels behind them."""
    table = gaussians("core", 300, 0).tables["p0"]
    participant = participant_of(table, "a", policy)
    where, spy = line(participant), Spy(participant)
    messages, labellings = [], []
    for seed in range(20):
        request = Summarize(seed=seed, n_clusters=3, n_local_clusters=3, max_local_clusters=3, columns=where.columns)
        messages.append((request, participant.handle(request)))
        spy.end_of_message()
        labellings += [participant.local_labels, *(one.rows for one in spy.spied[-1])]
    told = sums_told(messages)
    return solve_sets(told, [], labellings, laid_out(table, where))


def test_several_summaries_of_one_table():
    assert several_summaries(None).rows
    guarded = several_summaries(RULES)
    assert guarded.known == guarded.told
    assert not guarded.rows


def test_rounds_and_labels_and_a_mixture_together():
    for policy in (None, RULES):
        study = Study(gaussians("core", 300, 1).tables, 4, {"model": "mixture"})
        found = [solve(one).rows | solve_recorded(one).rows for one in listen(study, policy, 1).values()]
        assert any(found) == (policy is None)


@pytest.mark.parametrize("make", [whole_numbers, lambda seed: gaussians("core", 300, seed)], ids=["numbers", "core"])
def test_the_one_shot_method(make):
    """One summary in original units: its clusters, and all rows less those of the clusters."""
    study = make(0)
    for one in listen(study._replace(settings={"method": "one_shot"}), RULES).values():
        recorded = solve_recorded(one)
        assert recorded.known == recorded.told
        assert not recorded.rows


def test_labels_after_rounds_are_part_of_the_record():
    for policy in (None, RULES):
        table, _, _ = targets(60, 4, 10, 1)
        participant = participant_of(table, "a", policy)
        where = line(participant)
        rows = laid_out(table, where)
        order = np.sort(rows.values @ where.u)
        cuts = [float(order[n - 1] + order[n]) / 2 for n in (20, 21)]
        told: Told
        (told, *_), labelled = (
            sums_told([(refine(where, [[cuts[0]]], 2, 1), participant.handle(refine(where, [[cuts[0]]], 2, 1)))]),
            participant.handle(label(where, [cuts[1]], 2)),
        )
        sizes = {told.size, 60 - told.size}
        assert sizes == {20, 40}
        assert set(labelled.sizes.tolist()) == ({21, 39} if policy is None else {20, 40})


def test_rounds_are_computed_again_as_the_participant_does():
    """The attacks know the labels of an unguarded run, all of them."""
    heard = listen(gaussians("chain", 300, 0), None)
    for one in heard.values():
        solved = solve_sets(sums_told(one.messages), [], [one.local_labels, *rounds(one)], one.rows)
        assert solved.known == solved.told
