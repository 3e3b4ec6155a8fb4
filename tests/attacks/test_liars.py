"""One participant of five lies: if that changes the labels of the others, it is named; honest ones never are."""

from __future__ import annotations

from functools import cache

import pytest

import intarsia
from intarsia import ReleasePolicy
from tests.attacks.liars import LAYOUTS, LIARS, changed, fitted, gaussians, lying, named

LIAR = "p1"
MANY = 0.1  # of the others' labels
POLICIES = {"open": None, "default": ReleasePolicy()}


@cache
def honest(layout, seed, policy):
    return fitted(gaussians(layout, seed), release=POLICIES[policy])


def check_named(layout, seed, kind, policy):
    before = honest(layout, seed, policy)
    with lying(LIAR, LIARS[kind]()):
        after = fitted(gaussians(layout, seed), release=POLICIES[policy])
    share = changed(before, after, LIAR)
    assert named(after) <= {LIAR}, "only the liar"
    assert share < MANY or named(after) == {LIAR}, f"{share:.0%} of the others' labels changed"
    return share


@pytest.mark.parametrize(("layout", "policy"), [("chain", "default"), ("core", "open")])
@pytest.mark.parametrize("kind", LIARS)
def test_whoever_changes_a_tenth_of_the_others_labels_is_named(kind, layout, policy):
    share = check_named(layout, 1, kind, policy)
    if kind in {"Shifts", "Inflates"}:
        assert share > MANY, "the lie works"


def test_a_liar_among_real_hospitals_is_named():
    tables = intarsia.datasets.load_heart_disease("pandas").tables
    before = fitted(tables, 2)
    assert not named(before)
    for kind in ("Shifts", "Inflates", "Swaps"):
        with lying("hungary", LIARS[kind]()):
            after = fitted(tables, 2)
        assert named(after) == {"hungary"}, kind
        assert any("'hungary' contradict" in note for note in after.run.notes), kind


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nobody_honest_is_named(layout, policy):
    assert not named(honest(layout, 1, policy))


def share_with_robust_merge(layout, seed, kind):
    tables = gaussians(layout, seed)
    before = fitted(tables, merge="robust")
    with lying(LIAR, LIARS[kind]()):
        after = fitted(tables, merge="robust")
    return changed(before, after, LIAR)


@pytest.mark.parametrize(("kind", "layout"), [*(("Shifts", layout) for layout in LAYOUTS), ("Inflates", "chain")])
def test_a_robust_merge_keeps_the_labels_of_the_others(kind, layout):
    assert share_with_robust_merge(layout, 2, kind) < 0.05


def test_a_robust_merge_keeps_the_labels_of_real_hospitals():
    tables = intarsia.datasets.load_heart_disease("pandas").tables
    before = fitted(tables, 2, merge="robust")
    assert not named(before)
    for name in tables:
        with lying(name, LIARS["Shifts"]()):
            assert changed(before, fitted(tables, 2, merge="robust"), name) < 0.05, name


@pytest.mark.attack
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_robust_merge_keeps_the_labels_on_nine_of_ten_splits(layout):
    shares = [share_with_robust_merge(layout, seed, "Shifts") for seed in range(20)]
    assert sum(share < 0.05 for share in shares) >= 18, shares


@pytest.mark.attack
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nobody_honest_is_named_on_fifty_splits(layout, policy):
    alarms = {seed: names for seed in range(50) if (names := named(honest(layout, seed, policy)))}
    assert not alarms


@pytest.mark.attack
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", LIARS)
def test_liars_are_named_on_ten_splits(kind, layout, policy):
    for seed in range(10):
        check_named(layout, seed, kind, policy)
