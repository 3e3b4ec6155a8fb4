"""Rounds are counted by calendar period, and over all periods."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.coordinator import FederatedAlgorithm
from intarsia.exceptions import ReleaseError, SettingError
from intarsia.federation.settings_file import as_table, looser, rules_from
from intarsia.privacy.admission import Admission
from intarsia.privacy.journal import Journal, digest_of
from intarsia.privacy.period import PERIODS, period_of
from intarsia.protocol import Columns
from tests.privacy.cases import refine, summarize

MARCH, APRIL = datetime(2026, 3, 31, 23, 59, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


class Clock:
    def __init__(self, time):
        self.time = time

    def __call__(self):
        return self.time


@pytest.fixture
def rounds(tmp_path, monkeypatch):
    """Asks for new rounds under a policy at a time, and counts the answers; journals have that time, too."""
    numbers = iter(range(1, 1000))

    def ask(policy, time, n):
        monkeypatch.setattr(
            "intarsia.privacy.journal.datetime", type("Fixed", (), {"now": staticmethod(lambda _: time)})
        )
        admission = Admission(policy, Journal(tmp_path / "releases.jsonl"), clock=Clock(time))
        answered = 0
        for _ in range(n):
            try:
                admission.admit(refine([0.0, 20.0], round_=next(numbers))[0])
            except ReleaseError as error:
                return answered, str(error)
            answered += 1
        return answered, ""

    return ask


def test_a_new_month_has_a_new_budget_and_the_same_month_has_not(rounds):
    policy = ReleasePolicy(max_rounds=3, max_rounds_per="month")
    assert rounds(policy, MARCH, 5)[0] == 3
    assert "this month (2026-03, UTC)" in rounds(policy, MARCH, 1)[1]
    assert rounds(policy, APRIL, 5)[0] == 3


def test_the_cap_over_all_periods_holds(rounds):
    policy = ReleasePolicy(max_rounds=3, max_rounds_per="day", max_rounds_in_all=5)
    assert [rounds(policy, APRIL + timedelta(days=day), 5)[0] for day in range(4)] == [3, 2, 0, 0]
    assert "max_rounds_in_all" in rounds(policy, APRIL + timedelta(days=9), 1)[1]


def test_a_clock_that_is_set_back_opens_no_period_twice(rounds):
    policy = ReleasePolicy(max_rounds=3, max_rounds_per="month")
    assert rounds(policy, MARCH, 2)[0] == 2
    assert rounds(policy, APRIL, 3)[0] == 3
    assert rounds(policy, MARCH, 2)[0] == 0  # the journal is in April already


def test_rounds_after_a_clock_was_set_back_count_in_the_latest_period_over_restarts(rounds):
    policy = ReleasePolicy(max_rounds=3, max_rounds_per="month")
    assert rounds(policy, APRIL, 1)[0] == 1
    assert [rounds(policy, MARCH - timedelta(days=day), 3)[0] for day in range(3)] == [2, 0, 0]
    assert rounds(policy, APRIL + timedelta(days=31), 5)[0] == 3


def test_without_a_period_rounds_count_over_all_time(rounds):
    policy = ReleasePolicy(max_rounds=3)
    assert [rounds(policy, time, 2)[0] for time in (MARCH, APRIL)] == [2, 1]


def test_a_damaged_time_in_a_journal_counts_in_this_period(tmp_path):
    path = tmp_path / "releases.jsonl"
    lines = [{"event": "asked", "request": "query.refine", "digest": str(k), "time": "?"} for k in range(3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ReleaseError, match="this month"):
        Admission(ReleasePolicy(max_rounds=3, max_rounds_per="month"), Journal(path)).admit(refine([0.0, 20.0])[0])


REPEATED = FederatedAlgorithm(2, scale="standard", max_rounds=20, repeats=True, n_local_clusters=2).terms("a")
ONCE = FederatedAlgorithm(2, scale="standard", max_rounds=20, n_local_clusters=2).terms("a")
UNITS = Columns(np.full(2, 10.0), np.full(2, 10.0))
SAME = {
    "round": msgspec.structs.replace(refine([-1.0, 1.0])[0], columns=UNITS),
    "summary": summarize(n_clusters=2, n_local_clusters=2, max_local_clusters=2, columns=UNITS),
}


@pytest.fixture
def runs(tmp_path):
    """Asks the same in one new run after the other, with a restart before each, and counts the answers."""

    def ask(request, policy, names, terms=REPEATED):
        answered = 0
        for name in names:
            try:
                Admission(policy, Journal(tmp_path / "releases.jsonl"), terms, name).admit(request)
            except ReleaseError as error:
                return answered, str(error)
            answered += 1
        return answered, ""

    return ask


def named(n):
    return [f"{run:016x}" for run in range(n)]


@pytest.mark.parametrize("what", SAME)
def test_the_same_request_counts_in_each_run_of_a_study_that_is_repeated(what, runs):
    answered, why = runs(SAME[what], ReleasePolicy(max_rounds=8), named(20))
    assert answered == 8
    assert "max_rounds" in why


@pytest.mark.parametrize("what", SAME)
def test_the_cap_over_all_periods_holds_for_the_same_request_and_for_each_kind(what, runs):
    policy = ReleasePolicy(max_rounds=9, max_rounds_per="month", max_rounds_in_all=3)
    answered, why = runs(SAME[what], policy, named(20))
    assert answered == 3
    assert "max_rounds_in_all" in why


@pytest.mark.parametrize("what", SAME)
def test_the_same_request_in_the_same_run_is_answered_again_and_counts_once(what, runs, tmp_path):
    policy = ReleasePolicy(max_rounds=7, max_rounds_per="month", max_rounds_in_all=7)
    assert runs(SAME[what], policy, named(1) * 20)[0] == 20
    assert runs(SAME[what], policy, named(9))[0] == 7
    assert runs(SAME[what], policy, named(7) * 3)[0] == 21  # killed and continued, after the limit is reached, too
    asked = [entry["run"] for entry in Journal(tmp_path / "releases.jsonl").entries("asked")]
    assert asked == named(7)


def test_a_line_about_a_reply_is_no_further_request(runs, tmp_path):
    """It names no run. Where the line about its request was lost, it counts."""
    journal, request = Journal(tmp_path / "releases.jsonl"), SAME["round"]
    left = {"event": "left", "request": "query.refine", "digest": digest_of(request), "reply": "reply.refinement"}
    with journal.locked() as locked:
        locked.append(left)
    assert runs(request, ReleasePolicy(max_rounds=3), named(1))[0] == 1
    with journal.locked() as locked:
        locked.append(left)
    assert runs(request, ReleasePolicy(max_rounds=3), named(9))[0] == 2


def test_a_study_of_one_run_counts_the_same_request_once(runs):
    assert runs(SAME["round"], ReleasePolicy(max_rounds=1), named(9), ONCE)[0] == 9


@pytest.mark.parametrize("length", PERIODS)
def test_a_period_has_one_name_and_the_next_one_another(length):
    zone = datetime(2026, 4, 1, 1, 30).astimezone().tzinfo
    assert period_of(APRIL, length) == period_of(APRIL.astimezone(zone), length)
    assert period_of(APRIL, length) != period_of(APRIL + timedelta(days=366), length)


def test_rules_name_their_period_and_older_forms_stay_as_they_are():
    assert "max_rounds_per" not in as_table(ReleasePolicy())
    assert looser(ReleasePolicy()) == []
    monthly = rules_from({"max_rounds_per": "month"}, "[release]")
    assert monthly.max_rounds_in_all == 120
    assert looser(monthly) == ["max_rounds_per"]
    for wrong in ({"max_rounds_per": "fortnight"}, {"max_rounds_per": "month", "max_rounds": "any"}):
        with pytest.raises(SettingError, match="max_rounds"):
            rules_from(wrong, "[release]")
