"""Counts of rows by distance: exact where no rule applies, and sums over audited groups of rows where one does."""

from dataclasses import replace

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.coordinator import FederatedAlgorithm
from intarsia.core.tails import FEWEST, N_BINS
from intarsia.exceptions import ReleaseError
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Centres, Failure, Label, Labelled
from intarsia.tables.frame import read_table
from tests.attacks.listening import Spy


def participant(n_rows=300, policy=None, metric="euclidean", seed=0, d=3):
    rng = np.random.default_rng(seed)
    table = {f"x{j}": rng.normal(size=n_rows) + 10 * (np.arange(n_rows) % 2) for j in range(d)}
    pipeline = None if policy is None else Pipeline(policy)
    return Participant(read_table(table, "a"), metric=metric, pipeline=pipeline)


def label(d=3, centres=(0.0, 10.0), **more):
    values = np.repeat(np.array(centres)[:, None], d, axis=1)
    known = np.ones(values.shape, dtype=bool)
    return Label(centres=Centres(values, known, np.zeros(d), np.full(d, 10.0)), tails=True, **more)


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("policy", [None, ReleasePolicy()])
def test_counts_are_of_all_rows_by_cluster_and_no_few_rows_are_told(spread, policy):
    reply = participant(policy=policy).handle(label(spread=spread))
    assert isinstance(reply, Labelled)
    assert reply.tails.shape == (2, N_BINS)
    assert (reply.tails.sum(axis=1) == reply.sizes).all()
    assert reply.tails[reply.tails > 0].min() >= FEWEST
    assert (np.count_nonzero(reply.tails, axis=1) >= 3).all()  # marks were passed
    assert (reply.counts is not None) == spread


@pytest.mark.parametrize("policy", [None, ReleasePolicy()])
def test_counting_changes_no_other_number_of_the_reply(policy):
    reply = participant(policy=policy).handle(label())
    plain = participant(policy=policy).handle(Label(centres=label().centres))
    assert plain.tails is None
    assert (reply.sizes == plain.sizes).all()
    assert (reply.squares == plain.squares).all()


def test_a_participant_with_few_rows_tells_how_many_there_are_and_not_how_far():
    reply = participant(n_rows=12, policy=ReleasePolicy()).handle(label())
    assert reply.tails.sum() == 12
    assert (reply.tails[:, 1:].sum(axis=1) <= 6).all()
    assert reply.tails[reply.tails > 0].min() >= FEWEST


def test_fewer_rows_than_the_rules_require_are_never_told():
    reply = participant(policy=ReleasePolicy(min_cluster_size=20)).handle(label())
    assert reply.tails[reply.tails > 0].min() >= 20


def test_other_metrics_are_counted_without_audit_only():
    for metric in ("manhattan", lambda u, v: float(np.abs(u - v).max())):
        assert participant(metric=metric).handle(label()).tails.sum() > 0
        assert participant(metric=metric, policy=ReleasePolicy()).handle(label()).tails is None


def test_rows_are_told_in_whole_atoms_after_any_number_of_questions():
    rng = np.random.default_rng(1)
    one = participant(policy=ReleasePolicy())
    spy = Spy(one)
    for _ in range(6):
        assert isinstance(one.handle(label(centres=tuple(rng.normal(size=2) * 6))), Labelled | Failure)
    told = np.array([spied.rows for spied in spy._now])
    assert len(told) > 6  # one labelling for each mark, too
    _, sizes = np.unique(told, axis=1, return_counts=True)
    assert sizes.min() >= 5


def test_a_study_that_does_not_count_rows_refuses_to():
    terms = FederatedAlgorithm(n_clusters=2, scale=None).terms("a")
    assert terms.tails
    rng = np.random.default_rng(0)
    table = read_table({f"x{j}": rng.normal(size=50) for j in range(3)}, "a")
    one = Participant(table, pipeline=Pipeline(ReleasePolicy(), terms=replace(terms, tails=False)))
    failure = one.handle(label())
    assert isinstance(failure, Failure)
    assert failure.error == ReleaseError.__name__
    assert "tails is True" in failure.message
