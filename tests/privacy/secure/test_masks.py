"""Masks hide every single vector, cancel in the total to the bit, and cancel only if all were told the same."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.privacy.secure import masks, shares
from intarsia.privacy.secure.group import Group, checked_statements, make_secrets, signed_statement
from intarsia.privacy.secure.identity import fingerprint_of
from intarsia.privacy.secure.masks import masked, unmasked
from intarsia.privacy.secure.shares import opened_boxes, split
from tests.privacy.secure.cases import CONTEXT, Federation, identity, names_of, random_values
from tests.privacy.secure.naive import Opened, visible
from tests.strategies import FEW

ALARM = 5e-7  # probability that a test of randomness fails although all is random


# The total ----------------------------------------------------------------------------------------------------------


def test_three_participants_by_hand():
    """Each vector is x plus its self-mask, plus a mask for each later name, minus one for each earlier; 5 + 7 − 2 = 10."""
    federation = Federation("abc")
    view = Opened(federation.group, federation.statements, federation.members, CONTEXT, 2)
    values = {name: np.array([x, 10 * x]) for name, x in zip("abc", (5, 7, -2), strict=True)}
    secrets = federation.secrets
    own = {name: view.own_mask(name, secrets[name].selves[0]) for name in "abc"}
    ab, ac = (view.pair_mask("a", secrets["a"].seeds[0], other) for other in "bc")
    bc = view.pair_mask("b", secrets["b"].seeds[0], "c")
    expected = {"a": own["a"] + ab + ac, "b": own["b"] - ab + bc, "c": own["c"] - ac - bc}
    vectors = {name: federation.masked(name, values[name]) for name in "abc"}
    for name in "abc":
        np.testing.assert_array_equal(vectors[name].view(np.uint64), values[name].view(np.uint64) + expected[name])
    assert federation.total(vectors).tolist() == [10, 100]


def random_sum(rng, n):
    """A sum with random dropouts at each of four steps, at most n − t in all: the total, and the plain one."""
    names = names_of(n)
    n_dropouts = rng.integers(0, n - 2 * n // 3)
    steps = rng.integers(0, 4, n_dropouts)
    dropouts = dict(zip(rng.permutation(names)[:n_dropouts].tolist(), steps.tolist(), strict=True))
    silent, closed, unmasking, mute = ([name for name in dropouts if dropouts[name] == k] for k in range(4))
    federation = Federation(names, silent=silent, closed=closed)
    size = int(rng.integers(0, 40))
    values = random_values(federation.members, rng, size)
    for vector in values.values():
        vector[rng.random(size) < 0.3] = 0  # columns that it does not have
    survivors = [name for name in federation.members if name not in unmasking]
    vectors = {name: federation.masked(name, values[name]) for name in survivors}
    total = federation.total(vectors, [name for name in survivors if name not in mute])
    return total, sum((values[name] for name in survivors), np.zeros(size, np.int64))


def check_random_sums(seed, sizes):
    rng = np.random.default_rng(seed)
    for n in sizes:
        total, plain = random_sum(rng, n)
        assert total.dtype == np.int64
        np.testing.assert_array_equal(total, plain)


def test_the_total_is_the_plain_sum_to_the_bit():
    check_random_sums(0, [*range(3, 10)] * 20 + [12, 15, 18, 20])


@pytest.mark.attack
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_totals_are_plain_sums_to_the_bit(part):
    check_random_sums([1, part], np.random.default_rng(part).integers(3, 21, 100))


FOUR = Federation("abcd", n_sums=3)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@FEW
@given(st.lists(st.lists(INTEGERS, min_size=4, max_size=4), min_size=1, max_size=5), st.integers(0, 2))
def test_totals_are_exact_modulo_two_to_the_64(rows, index):
    values = {name: np.array([row[k] for row in rows], np.int64) for k, name in enumerate("abcd")}
    vectors = {name: FOUR.masked(name, values[name], index) for name in "abcd"}
    expected = [(sum(row) + 2**63) % 2**64 - 2**63 for row in rows]
    assert FOUR.total(vectors, index=index).tolist() == expected


@FEW
@given(st.permutations("abcd"), st.sampled_from(["abcd", "abc", "bcd"]))
def test_the_order_of_answers_does_not_matter(order, survivors):
    values = random_values("abcd", np.random.default_rng(0))
    vectors = {name: FOUR.masked(name, values[name], members=tuple(order)) for name in order if name in survivors}
    np.testing.assert_array_equal(FOUR.total(vectors), sum(values[name] for name in survivors))


def test_any_helpers_that_are_enough_give_the_same_total():
    federation = Federation(names_of(7))
    values = random_values(federation.names, np.random.default_rng(1))
    survivors = federation.names[:6]
    vectors = {name: federation.masked(name, values[name]) for name in survivors}
    totals = {federation.total(vectors, helpers).tobytes() for helpers in (survivors, survivors[1:], survivors[:5])}
    assert totals == {sum(values[name] for name in survivors).tobytes()}


# A single vector ----------------------------------------------------------------------------------------------------


def p_value(vectors):
    """The probability that random bytes are as uneven as those of these vectors."""
    counts = np.bincount(np.concatenate(vectors).view(np.uint8), minlength=256)
    return stats.chisquare(counts).pvalue


def runs_of_one(n_runs, without=None):
    """Masked zeros of participant b in many runs, without the masks that a coordinator knows.

    ``without`` is "selves": all self seeds are known, or "pairs": all key seeds but its own are known.
    """
    federation, vectors = Federation("abcd"), []
    zeros = np.zeros(64, np.int64)
    for k in range(n_runs):
        how = federation.group, federation.statements, federation.members, f"question {k}".encode(), 64
        vector = federation.masked("b", zeros, context=how[3])
        selves = {name: federation.secrets[name].selves[0] for name in "abcd"} if without == "selves" else {}
        seeds = {name: federation.secrets[name].seeds[0] for name in "acd"} if without == "pairs" else {}
        vectors.append(Opened(*how).residue({"b": vector}, selves, seeds) if without else vector)
    return vectors


@pytest.mark.parametrize("without", [None, "selves", "pairs"])
def test_a_masked_vector_alone_looks_like_random_bytes(without):
    vectors = runs_of_one(400, without)
    assert p_value(vectors) > ALARM
    assert p_value([one ^ other for one, other in zip(vectors[1:], vectors[:-1], strict=True)]) > ALARM


def test_a_masked_vector_of_new_keys_looks_like_random_bytes():
    zeros = np.zeros(64, np.int64)
    federations = [Federation("abc", run=str(k)) for k in range(60)]
    assert p_value([federation.masked("b", zeros) for federation in federations]) > ALARM


def test_the_test_of_randomness_sees_values_that_are_not_masked():
    rng = np.random.default_rng(2)
    assert p_value([rng.integers(-(2**40), 2**40, 64) for _ in range(400)]) < ALARM


def check_wholly_different(one, other):
    assert not (one == other).any()  # by chance: 2⁻⁶⁴ for each word
    bits = int(np.bitwise_count(one ^ other).sum()) if hasattr(np, "bitwise_count") else 32 * len(one)
    assert abs(bits - 32 * len(one)) < 6 * np.sqrt(64 * len(one)) / 2


def test_a_masked_vector_changes_wholly_with_any_key_and_anything_that_was_agreed():
    federation, values = Federation("abcd", n_sums=2), np.arange(500)
    first = federation.masked("b", values)
    np.testing.assert_array_equal(first, federation.masked("b", values))
    others = [
        federation.masked("b", values, context=b"another question"),
        federation.masked("b", values, index=1),
        federation.masked("b", values, members="abd"),
        federation.masked("b", np.arange(501))[:500],  # its length is a part of the layout
    ]
    for name in "ad":  # another participant's statement, with one new key
        secrets = federation.secrets[name]
        changed = make_secrets(2)
        changed = type(secrets)(secrets.box, (changed.seeds[0], secrets.seeds[1]), secrets.selves)
        signed = signed_statement(identity(name), federation.group, name, ["age", "height"], changed)
        statements = checked_statements(federation.group, federation.signed | {name: signed}, federation.pins)
        others.append(federation.masked("b", values, statements=statements))
    for other in others:
        check_wholly_different(first, other)


# What a coordinator has after a sum ---------------------------------------------------------------------------------


def after_a_sum(late, n=5):
    """The sets whose plain sums a coordinator can compute after a sum without ``late``, whose vectors came too late."""
    federation = Federation(names_of(n))
    values = random_values(federation.names, np.random.default_rng(3))
    vectors = {name: federation.masked(name, values[name]) for name in federation.names}
    late = federation.names[n - late :]
    selves = {name: federation.secrets[name].selves[0] for name in federation.names if name not in late}
    seeds = {name: federation.secrets[name].seeds[0] for name in late}
    view = Opened(federation.group, federation.statements, federation.members, CONTEXT, 6)
    return visible([view], vectors, values, selves, seeds), tuple(selves)


@pytest.mark.parametrize("late", [0, 1])
def test_a_coordinator_sees_the_total_and_no_other_sum(late):
    found, survivors = after_a_sum(late)
    assert found == {survivors}


def nothing(self, *_):
    return np.zeros(self.size, np.uint64)


def test_without_self_masks_a_vector_that_comes_late_would_be_seen(monkeypatch):
    monkeypatch.setattr(masks._Sum, "own_mask", nothing)
    monkeypatch.setattr(Opened, "own_mask", nothing)
    check_random_sums(4, [3, 4, 5])  # totals are right all the same
    found, survivors = after_a_sum(1)
    assert ("site 04",) in found


def test_without_pair_masks_every_vector_would_be_seen(monkeypatch):
    monkeypatch.setattr(masks._Sum, "pair_mask", nothing)
    monkeypatch.setattr(Opened, "pair_mask", nothing)
    check_random_sums(4, [3, 4, 5])
    found, survivors = after_a_sum(0)
    assert {(name,) for name in survivors} <= found
    assert p_value(runs_of_one(50, "selves")) < ALARM


# What is refused ----------------------------------------------------------------------------------------------------


def test_values_must_be_whole_numbers_of_64_bits():
    for values in (np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(3, np.int32), np.zeros(3, ">i8")):
        with pytest.raises(TypeError, match="int64"):
            FOUR.masked("a", values)


def test_a_participant_masks_for_enough_members_and_its_own_keys_only():
    zeros = np.zeros(3, np.int64)
    with pytest.raises(ProtocolError, match="number 4 was asked for"):
        FOUR.masked("a", zeros, index=3)
    with pytest.raises(ProtocolError, match="number 0 was asked for"):
        FOUR.masked("a", zeros, index=-1)
    with pytest.raises(ProtocolError, match="2 of 4 participants are members; 3 are needed"):
        FOUR.masked("a", zeros, members="ab")
    with pytest.raises(ProtocolError, match="different participants"):
        FOUR.masked("a", zeros, members="aabc")
    with pytest.raises(ProtocolError, match="different participants"):
        FOUR.masked("a", zeros, members="abx")
    with pytest.raises(ReleaseError, match="'a' is not a member"):
        FOUR.masked("a", zeros, members="bcd")
    other = Federation("abcd", n_sums=3)
    with pytest.raises(ReleaseError, match="not the one that this participant made"):
        FOUR.masked("a", zeros, statements=other.statements)


def test_a_total_needs_enough_vectors_and_shares_of_the_right_members():
    values = random_values("abcd", np.random.default_rng(5))
    vectors = {name: FOUR.masked(name, values[name]) for name in "abcd"}
    given = {name: FOUR.shares(name, "abcd") for name in "abcd"}

    def total(vectors=vectors, given=given):
        return unmasked(vectors, given, FOUR.group, FOUR.statements, FOUR.members, 0, CONTEXT)

    assert total().tolist() == sum(values.values()).tolist()
    with pytest.raises(ProtocolError, match="2 of 4 participants answered"):
        total({name: vectors[name] for name in "ab"})
    with pytest.raises(ProtocolError, match="2 of 4 participants gave shares"):
        total(given={name: given[name] for name in "ab"})
    with pytest.raises(ProtocolError, match="not members: 'x'"):
        total(vectors | {"x": vectors["a"]})
    with pytest.raises(ProtocolError, match="but no masked vector: 'd'"):
        total({name: vectors[name] for name in "abc"})
    with pytest.raises(ProtocolError, match="2 different lengths"):
        total(vectors | {"b": vectors["b"][:-1]})
    with pytest.raises(ProtocolError, match="one share for each of 4 members") as caught:
        total(given=given | {"b": {"a": given["b"]["a"]}})
    assert caught.value.participant == "b"
    with pytest.raises(ProtocolError, match="one share for each of 4 members"):
        total(given=given | {"b": given["b"] | {"a": b"short"}})


# Cost ---------------------------------------------------------------------------------------------------------------


def test_the_set_up_of_fifty_participants_takes_seconds(monkeypatch, capsys):
    """For one of them: keys for 8 sums, statements of all, its split, the boxes of all; at most 5 seconds."""
    names, first = names_of(50), "site 00"
    group = Group.of("run", names, n_sums=8)
    secrets = {name: make_secrets(8) for name in names}
    pins = {name: fingerprint_of(identity(name).public) for name in names}
    signed = {name: signed_statement(identity(name), group, name, names, secrets[name]) for name in names}
    with Stopwatch() as set_up:
        signed_statement(identity(first), group, first, names, secrets[first])
        statements = checked_statements(group, signed, pins)
        _, own = split(group, first, secrets[first], statements)
    with monkeypatch.context() as quick:  # what the others do is not measured
        quick.setattr(shares, "split_seed", lambda seed, t, n: (seed,) * n)
        boxes = {name: split(group, name, secrets[name], statements)[0][first] for name in names[1:]}
    with Stopwatch() as opening:
        held = opened_boxes(group, first, secrets[first], statements, own, boxes)
    with Stopwatch() as masking:
        masked(np.zeros(7850, np.int64), group, first, secrets[first], statements, held.members, 0, CONTEXT)
    with capsys.disabled():
        sys.stdout.write(
            f"\n50 participants, 8 sums: {set_up.seconds:.2f} s for keys, statements and split, {opening.seconds:.3f} s for "
            f"boxes, {masking.seconds:.3f} s to mask 7,850 values; {sum(map(len, boxes.values()))} bytes of boxes\n"
        )
    assert set_up.seconds + opening.seconds < 5


class Stopwatch:
    def __enter__(self):
        self.seconds = -time.process_time()
        return self

    def __exit__(self, *_):
        self.seconds += time.process_time()


@pytest.mark.attack
def test_a_coordinator_opens_a_total_of_fifty_participants_in_seconds(capsys):
    federation = Federation(names_of(50))
    values = random_values(federation.names, np.random.default_rng(6), 7850)
    vectors = {name: federation.masked(name, values[name]) for name in federation.names[:40]}
    given = {name: federation.shares(name, vectors) for name in vectors}
    with Stopwatch() as opening:
        total = unmasked(vectors, given, federation.group, federation.statements, federation.members, 0, CONTEXT)
    with capsys.disabled():
        sys.stdout.write(
            f"\n50 participants, 10 dropped out: {opening.seconds:.2f} s to open a total of 7,850 values\n"
        )
    np.testing.assert_array_equal(total, sum(values[name] for name in vectors))
    assert opening.seconds < 15
