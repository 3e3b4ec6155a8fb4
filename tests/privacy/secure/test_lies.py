"""A coordinator that tells participants different things gets a refusal, or masks that do not cancel."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.privacy.secure.group import (
    checked_statements,
    holders_left,
    make_secrets,
    most_missing,
    signed_statement,
)
from intarsia.privacy.secure.masks import shares_for, unmasked
from tests.privacy.secure.cases import CONTEXT, Federation, identity, names_of, random_values
from tests.privacy.secure.naive import Opened, visible

FIVE = Federation("abcde", n_sums=2)
VALUES = random_values("abcde", np.random.default_rng(0))


# Lists of survivors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("survivors", "match"),
    [
        (("a", "b", "c", "c", "d"), "named twice"),
        (("a", "a", "b", "c"), "named twice"),
        (("a", "b", "c"), "3 of 5 participants are said to be left; at least 4 must be"),
        ((), "'a' is said to have dropped out"),
        (("b", "c", "d", "e"), "'a' is said to have dropped out"),
        (("a", "b", "c", "x"), "1 survivors are not members, so no share is given: 'x'"),
        (("a", "b", "c", "d", "e", "f"), "not members"),
    ],
)
def test_lists_of_survivors_that_overlap_are_short_or_unknown_are_refused(survivors, match):
    with pytest.raises(ReleaseError, match=match):
        FIVE.shares("a", survivors)


def test_shares_are_for_the_members_whose_boxes_were_opened_only():
    for members in ("abcd", "abcdf", "abcdee"):
        with pytest.raises(ReleaseError, match="not those whose shares this participant has"):
            shares_for(FIVE.held["a"], FIVE.group, "a", members, 0, "abcd")
    with pytest.raises(ProtocolError, match="number 3 was asked for"):
        shares_for(FIVE.held["a"], FIVE.group, "a", "abcde", 2, "abcd")


def test_an_answer_has_one_share_of_each_member_and_never_both():
    for survivors in ("abcde", "abcd", "acde"):
        given = FIVE.shares("a", survivors)
        for name, share in given.items():
            held = FIVE.held["a"].shares[name]
            assert share == (held.selves if name in survivors else held.keys)[0]
        assert given.keys() == set("abcde")


def lists_of(federation, helper):
    """All lists of survivors that a helper accepts."""
    others = [name for name in federation.names if name != helper]
    most = len(federation.names) - federation.group.threshold
    return [
        tuple(name for name in federation.names if name not in dropped)
        for k in range(most + 1)
        for dropped in combinations(others, k)
    ]


def seeds_from(federation, lists):
    """The self seeds and key seeds that a coordinator recovers if each helper is told its own list of survivors.

    It counts the shares of each kind that it was given; t of a kind give the seed.
    """
    kinds = Counter()
    for helper, survivors in lists.items():
        for name, share in federation.shares(helper, survivors).items():
            held = federation.held[helper].shares[name]
            assert held.selves[0] != held.keys[0]
            kinds[name, "self" if share == held.selves[0] else "key"] += 1
    enough = {which for which, count in kinds.items() if count >= federation.group.threshold}
    selves = {name: federation.secrets[name].selves[0] for name, kind in enough if kind == "self"}
    seeds = {name: federation.secrets[name].seeds[0] for name, kind in enough if kind == "key"}
    return selves, seeds


def check_seeds(federation, selves, seeds):
    """Never both seeds of one, and if all are recovered, the total is over as many as the page on theory says."""
    n, t = len(federation.names), federation.group.threshold
    assert not selves.keys() & seeds.keys()
    if len(selves) + len(seeds) == n:
        assert len(seeds) <= (n - t) * n // t


@pytest.mark.parametrize("n", [4, 5])
def test_no_choice_of_lists_gives_both_seeds_of_a_participant(n):
    federation = Federation(names_of(n))
    for chosen in product(*(lists_of(federation, helper) for helper in federation.names)):
        check_seeds(federation, *seeds_from(federation, dict(zip(federation.names, chosen, strict=True))))


def test_half_are_told_that_a_participant_survived_and_half_that_it_dropped():
    federation = Federation(names_of(10))
    target, others = federation.names[9], federation.names[:9]
    for told in range(10):
        lists = {helper: others if k < told else federation.names for k, helper in enumerate(others)}
        lists[target] = federation.names
        selves, seeds = seeds_from(federation, lists)
        assert not (target in selves and target in seeds)
        assert (target in seeds) == (told >= 7)
        assert (target in selves) == (told <= 3)


@pytest.mark.parametrize("n", [3, 6, 7, 9, 12])
def test_random_lists_never_give_both_seeds_of_a_participant(n):
    rng = np.random.default_rng(n)
    federation = Federation(names_of(n))
    most = n - federation.group.threshold
    for _ in range(1500):
        targets = rng.permutation(federation.names)[: most + 2].tolist()  # that the coordinator wants to be rid of
        lists = {}
        for helper in federation.names:
            dropped = [name for name in rng.permutation(targets) if name != helper][: rng.integers(0, most + 1)]
            lists[helper] = tuple(name for name in federation.names if name not in dropped)
        check_seeds(federation, *seeds_from(federation, lists))


@pytest.mark.parametrize("n", [4, 5, 6, 7, 10, 12, 20])
def test_a_third_of_the_participants_must_help_the_coordinator_to_get_both_seeds(n):
    """Those that help give both shares; the others are told what they accept, half of them one thing, half another."""
    federation = Federation(names_of(n))
    t, target, others = federation.group.threshold, federation.names[-1], federation.names[:-1]
    for n_helping in range(1, n - 1):
        honest = others[n_helping:]
        best = 0
        for told in range(len(honest) + 1):
            kinds = Counter()
            for k, helper in enumerate(honest):
                share = federation.shares(helper, others if k < told else federation.names)[target]
                kinds["self" if share == federation.held[helper].shares[target].selves[0] else "key"] += 1
            kinds["self"] += 1  # the target's own share of its self seed: it is told that it survived
            best = max(best, min(kinds["self"], kinds["key"]) + n_helping)
        assert (best >= t) == (n_helping >= 2 * t - n)


def test_different_lists_open_nothing_or_the_sum_of_those_that_enough_helpers_named():
    """Of all choices for four participants: what the coordinator sees is one sum of at least three, or nothing."""
    federation, values = Federation("abcd"), random_values("abcd", np.random.default_rng(2))
    vectors = {name: federation.masked(name, values[name]) for name in "abcd"}
    view = Opened(federation.group, federation.statements, federation.members, CONTEXT, 6)
    seen = Counter()
    for chosen in product(*(lists_of(federation, helper) for helper in "abcd")):
        selves, seeds = seeds_from(federation, dict(zip("abcd", chosen, strict=True)))
        seen[tuple(sorted(selves)), tuple(sorted(seeds))] += 1
    assert len(seen) > 10
    for selves, seeds in seen:
        known = ({name: federation.secrets[name].selves[0] for name in selves},
                 {name: federation.secrets[name].seeds[0] for name in seeds})  # fmt: skip
        found = visible([view], vectors, values, *known)
        assert found == ({selves} if len(selves) + len(seeds) == 4 else set())
        assert all(len(each) >= 3 for each in found)


def test_different_lists_can_drop_more_holders_than_any_list_and_that_is_counted():
    """Twelve participants, five with a column: every list keeps two of them, but together they keep one."""
    names = names_of(12)
    columns = {name: ("rare",) if k < 5 else () for k, name in enumerate(names)}
    federation = Federation(names, columns=columns)
    targets = names[1:5]
    dropped = {name: [each for each in targets if each != name] for name in targets}
    for k, helper in enumerate([names[0], *names[5:]]):
        dropped[helper] = [each for each in targets if each != targets[k % 4]]
    lists = {helper: tuple(name for name in names if name not in dropped[helper]) for helper in names}
    selves, seeds = seeds_from(federation, lists)
    assert set(seeds) == set(targets)  # all four, though no list drops more than three
    assert set(selves) == set(names) - set(targets)
    for survivors in lists.values():
        assert sum(bool(columns[name]) for name in survivors) == 2
        assert holders_left(federation.group, federation.statements, names, survivors) == {"rare": 1}


@pytest.mark.parametrize("n", [4, 7, 10, 13, 20])
def test_no_lists_and_questions_leave_fewer_holders_than_are_counted(n):
    """Some are asked another question and drop whom they are told; the lists are made to drop as many holders as possible.

    A total can be opened if all members are in A or B, and all of A were asked the same (claims 4 and 5).
    """
    rng, t, opened = np.random.default_rng(n), 2 * n // 3 + 1, 0
    for _ in range(2000):
        m, q = int(rng.integers(t, n + 1)), int(rng.integers(0, n // 3 + 2))
        members, others = rng.permutation(n)[:m], set(rng.permutation(n)[:q].tolist())
        wanted = {*others & set(members.tolist()), *members[: rng.integers(0, n - t + 3)].tolist()}  # in B
        holders, d = set(members[: rng.integers(1, m + 1)].tolist()), int(rng.integers(0, m - t + 1))
        needed = Counter(dict.fromkeys(wanted, t))
        for helper in rng.permutation(n).tolist():
            room, of_holders = (n - t, n) if helper in others else (m - t, d)
            if helper not in others and helper not in members:
                continue
            for name in sorted(wanted - {helper}, key=lambda name: -needed[name]):
                if room and needed[name] > 0 and (name not in holders or of_holders):
                    needed[name] -= 1
                    room, of_holders = room - 1, of_holders - (name in holders)
        if all(count <= 0 for count in needed.values()):
            opened += len(wanted) > 0
            assert len(wanted & holders) <= most_missing(n, t, m, d)
            assert m - len(wanted) >= min(k - most_missing(n, t, k, k - t) for k in range(t, n + 1))
    assert opened > 20


@pytest.mark.parametrize(("n", "fewest"), [(3, 3), (4, 3), (5, 4), (7, 5), (10, 6), (20, 11), (50, 19)])
def test_the_fewest_in_a_total_are_those_of_the_page_on_theory(n, fewest):
    t = 2 * n // 3 + 1
    assert min(m - most_missing(n, t, m, m - t) for m in range(t, n + 1)) == fewest


def test_two_classes_that_were_told_different_things_are_never_both_opened():
    """The count of claim 5 has no solution: a and b members of two classes in A, and some members in B."""
    for n in range(3, 41):
        t = 2 * n // 3 + 1
        for a, b in combinations_with_replacement(range(1, n), 2):
            for missing in range(max(t - a, 0), n - a - b + 1):
                given = a * (a + missing - t) + b * (b + missing - t) + (n - a - b) * (n - t)
                assert t * missing > given


def test_if_nobody_dropped_nobody_is_missing():
    assert not any(most_missing(n, 2 * n // 3 + 1, m, 0) for n in range(3, 60) for m in range(2 * n // 3 + 1, n + 1))


# Members, questions and statements ----------------------------------------------------------------------------------


def opened_total(vectors, shares, members=FIVE.members, context=CONTEXT, statements=FIVE.statements):
    return unmasked(vectors, shares, FIVE.group, statements, members, 0, context)


def all_seeds(names=FIVE.names):
    selves = {name: FIVE.secrets[name].selves[0] for name in names}
    return selves, {name: FIVE.secrets[name].seeds[0] for name in FIVE.names if name not in names}


def test_different_members_for_different_participants_give_no_sum_of_anybody():
    vectors = {name: FIVE.masked(name, VALUES[name], members="abcde" if name in "ab" else "abcd") for name in "abcd"}
    views = [Opened(FIVE.group, FIVE.statements, members, CONTEXT, 6) for members in ("abcde", "abcd")]
    assert visible(views, vectors, VALUES, *all_seeds("abcd")) == set()
    assert visible(views, vectors, VALUES, *all_seeds("abcde")) == set()


def test_a_participant_that_was_sent_fewer_boxes_gives_no_shares_for_more_members():
    held = FIVE.opened("a", "abcd")
    with pytest.raises(ReleaseError, match="not those whose shares"):
        shares_for(held, FIVE.group, "a", "abcde", 0, "abcde")


@pytest.mark.parametrize("alone", ["a", "c", "e"])
def test_another_question_for_one_participant_gives_no_sum_with_or_of_it(alone):
    """Others are asked something to which they have nothing to add; the total would be the values of one."""
    zeros = np.zeros(6, np.int64)
    values = {name: VALUES[name] if name == alone else zeros for name in "abcde"}
    contexts = {name: b"one" if name == alone else b"other" for name in "abcde"}
    vectors = {name: FIVE.masked(name, values[name], context=contexts[name]) for name in "abcde"}
    views = [Opened(FIVE.group, FIVE.statements, FIVE.members, context, 6) for context in (b"one", b"other")]
    assert visible(views, vectors, {alone: VALUES[alone]}, *all_seeds()) == set()
    others = tuple(name for name in "abcde" if name != alone)
    assert visible(views, vectors, {alone: VALUES[alone]}, *all_seeds(others)) == set()
    shares = {name: FIVE.shares(name, FIVE.names) for name in FIVE.names}
    for context in (b"one", b"other"):
        total = opened_total(vectors, shares, context=context)
        assert not (total == VALUES[alone]).any()


def test_other_questions_for_two_groups_open_the_sum_of_at_most_one_that_is_large_enough():
    vectors = {name: FIVE.masked(name, VALUES[name], context=b"x" if name in "abcd" else b"y") for name in "abcde"}
    views = [Opened(FIVE.group, FIVE.statements, FIVE.members, context, 6) for context in (b"x", b"y")]
    assert visible(views, vectors, VALUES, *all_seeds("abcd")) == {tuple("abcd")}
    assert visible(views, vectors, VALUES, *all_seeds("abcde")) == set()


def test_other_lengths_are_other_questions():
    vectors = {name: FIVE.masked(name, VALUES[name]) for name in "abcd"}
    vectors["e"] = FIVE.masked("e", np.append(VALUES["e"], 0))[:6]
    total = opened_total(vectors, {name: FIVE.shares(name, FIVE.names) for name in FIVE.names})
    assert not np.array_equal(total, sum(VALUES.values()))
    views = [Opened(FIVE.group, FIVE.statements, FIVE.members, CONTEXT, 6)]
    assert visible(views, vectors, VALUES, *all_seeds()) == set()


def test_other_statements_for_some_give_no_sum_of_anybody():
    """Participant e signs two statements; boxes would be refused, and masks do not cancel either."""
    signed = signed_statement(identity("e"), FIVE.group, "e", (), make_secrets(2))
    second = checked_statements(FIVE.group, FIVE.signed | {"e": signed}, FIVE.pins)
    shown = {name: second if name in "cd" else FIVE.statements for name in "abcd"}
    vectors = {name: FIVE.masked(name, VALUES[name], statements=shown[name]) for name in "abcd"}
    views = [Opened(FIVE.group, each, FIVE.members, CONTEXT, 6) for each in (FIVE.statements, second)]
    assert visible(views, vectors, VALUES, *all_seeds("abcd")) == set()


def test_vectors_of_another_sum_or_run_do_not_fit():
    shares = {name: FIVE.shares(name, FIVE.names) for name in FIVE.names}
    right = {name: FIVE.masked(name, VALUES[name]) for name in FIVE.names}
    later = FIVE.masked("a", VALUES["a"], index=1)
    run = Federation("abcde", n_sums=2, run="earlier").masked("a", VALUES["a"])
    swapped = right | {"a": right["b"], "b": right["a"]}
    np.testing.assert_array_equal(opened_total(swapped, shares), opened_total(right, shares))  # only the sum counts
    for wrong in (right | {"a": later}, right | {"a": run}, right | {"a": right["b"]}):
        total = opened_total(wrong, shares)
        for names in (FIVE.names, FIVE.names[1:], *FIVE.names):
            assert not (total == sum(VALUES[name] for name in names)).any()


def test_shares_of_another_sum_are_refused():
    vectors = {name: FIVE.masked(name, VALUES[name]) for name in FIVE.names}
    with pytest.raises(ProtocolError, match="shares of a seed of participant 'a' do not give it"):
        opened_total(vectors, {name: FIVE.shares(name, FIVE.names, index=1) for name in FIVE.names})


def test_survivors_whose_vector_is_not_added_are_refused():
    """Helpers were told that all survived; the coordinator leaves e out and would need its key seed."""
    vectors = {name: FIVE.masked(name, VALUES[name]) for name in "abcd"}
    shares = {name: FIVE.shares(name, FIVE.names) for name in "abcd"}
    with pytest.raises(ProtocolError, match="shares of a seed of participant 'e' do not give it"):
        opened_total(vectors, shares)


def test_a_helper_that_changes_a_share_is_named_where_another_can_be_asked():
    vectors = {name: FIVE.masked(name, VALUES[name]) for name in FIVE.names}
    shares = {name: FIVE.shares(name, FIVE.names) for name in FIVE.names}
    shares["b"] = shares["b"] | {"d": bytes(16)}
    with pytest.raises(ProtocolError, match="participant 'd' from 'b' are wrong; those of 4 others agree") as caught:
        opened_total(vectors, shares)
    assert caught.value.participant == "b"
    del shares["b"]
    np.testing.assert_array_equal(opened_total(vectors, shares), sum(VALUES.values()))
    shares["c"] = shares["c"] | {"d": bytes(16)}
    with pytest.raises(ProtocolError, match="some of 'a', 'c', 'd', 'e' changed their shares"):
        opened_total(vectors, shares)
