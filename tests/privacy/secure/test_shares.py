"""Shares reach the participant that they are for, unchanged, or it refuses them; enough of them give the seed."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.privacy.secure.group import Group, checked_statements, make_secrets, signed_statement
from intarsia.privacy.secure.primitives import combined_seed, split_seed
from intarsia.privacy.secure.shares import Held, Own, opened_boxes, recovered_seed, split
from tests.privacy.secure.cases import Federation, identity, names_of
from tests.strategies import FEW

FOUR = Federation("abcd", n_sums=2)
BOXES = {sender: FOUR.splits[sender][0]["a"] for sender in "bcd"}  # for participant a


def opened(boxes, statements=FOUR.statements):
    return opened_boxes(FOUR.group, "a", FOUR.secrets["a"], statements, FOUR.splits["a"][1], boxes)


def refused(sender, box, match="cannot be opened"):
    with pytest.raises(ProtocolError, match=match) as caught:
        opened(BOXES | {sender: box})
    assert caught.value.participant == sender


@FEW
@given(
    st.binary(min_size=16, max_size=16), st.integers(2, 9).flatmap(lambda n: st.tuples(st.integers(2, n), st.just(n)))
)
def test_enough_shares_give_the_seed_and_fewer_do_not(seed, numbers):
    threshold, n = numbers
    shares = dict(enumerate(split_seed(seed, threshold, n), start=1))
    for chosen in combinations(shares, threshold):
        assert combined_seed({k: shares[k] for k in chosen}) == seed
    for chosen in combinations(shares, threshold - 1):
        assert combined_seed({k: shares[k] for k in chosen}) != seed  # by chance: 2⁻¹²⁸


def test_participants_hold_shares_of_all_seeds_of_all_members():
    for owner in "abcd":
        for index in range(2):
            keys = {k: FOUR.held[name].shares[owner].keys[index] for k, name in enumerate("abc", start=1)}
            selves = {k: FOUR.held[name].shares[owner].selves[index] for k, name in enumerate("abcd", start=1) if k > 1}
            assert combined_seed(keys) == FOUR.secrets[owner].seeds[index]
            assert combined_seed(selves) == FOUR.secrets[owner].selves[index]


def test_what_is_held_survives_writing_and_is_never_shown():
    held, own = FOUR.held["a"], FOUR.splits["a"][1]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(held), type=Held) == held
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(own), type=Own) == own
    assert held.members == tuple("abcd")
    assert repr(held.shares["a"]) == "Shares(2 sums)"


def test_a_box_is_opened_by_its_recipient_only_and_differs_each_time():
    boxes, _ = FOUR.split("b")
    assert boxes.keys() == set("acd")
    assert not {*boxes.values()} & {*FOUR.splits["b"][0].values()}
    assert {len(box) for box in boxes.values()} == {12 + 2 * 2 * 16 + 16}
    assert opened(BOXES | {"b": boxes["a"]}).members == tuple(
        "abcd"
    )  # a second split of the same participant is a split


def test_members_are_the_senders_of_boxes_and_itself():
    assert opened({name: BOXES[name] for name in "bd"}).members == tuple("abd")
    with pytest.raises(ProtocolError, match="2 of 4 participants shared their seeds; 3 are needed"):
        opened({"b": BOXES["b"]})


def test_boxes_of_others_for_others_and_of_oneself_are_refused():
    refused("b", BOXES["c"])  # another sender
    refused("b", FOUR.splits["b"][0]["c"])  # another recipient
    refused("b", FOUR.splits["a"][0]["b"])  # its own, sent back: the keys of both directions differ
    with pytest.raises(ProtocolError, match="without a statement: 'a'"):
        opened(BOXES | {"a": BOXES["b"]})
    with pytest.raises(ProtocolError, match="without a statement: 'x'"):
        opened(BOXES | {"x": BOXES["b"]})


@FEW
@given(st.integers(0, len(BOXES["b"]) - 1), st.integers(0, 7))
def test_a_box_with_a_changed_bit_is_refused(place, bit):
    box = bytearray(BOXES["b"])
    box[place] ^= 1 << bit
    refused("b", bytes(box))


def test_truncated_and_longer_boxes_are_refused():
    for end in (0, 1, 11, 12, 27, 28, len(BOXES["b"]) - 1):
        refused("b", BOXES["b"][:end])
    refused("b", BOXES["b"] + b"\0")


def restated(name, group=FOUR.group, columns=("age", "height")):
    """Statements with a second one of the same participant, which it signed itself."""
    signed = signed_statement(identity(name), group, name, columns, make_secrets(2))
    return checked_statements(group, FOUR.signed | {name: signed}, FOUR.pins)


def test_boxes_of_participants_that_were_shown_other_statements_are_refused():
    """The coordinator shows b a second statement of d, or none: b's box for a cannot be opened."""
    three = {name: FOUR.statements[name] for name in "abc"}
    for statements in (restated("d"), three):
        refused("b", FOUR.split("b", statements)[0]["a"])


def test_boxes_of_another_run_are_refused():
    other = Federation("abcd", 2, run="earlier")
    refused("b", other.splits["b"][0]["a"])


def test_a_participant_takes_no_part_if_its_own_statement_was_replaced():
    for statements in (restated("a"), {name: FOUR.statements[name] for name in "bcd"}):
        with pytest.raises(ReleaseError, match="'a' is not the one that this participant made"):
            FOUR.split("a", statements)
        with pytest.raises(ReleaseError, match="'a' is not the one that this participant made"):
            opened(BOXES, statements)


def test_a_participant_opens_boxes_only_for_the_statements_that_it_split_for():
    with pytest.raises(ReleaseError, match="not those that this participant split its seeds for"):
        opened(BOXES, restated("d"))


def test_seeds_are_split_for_enough_participants_of_the_group_only():
    with pytest.raises(ReleaseError, match="3 or more participants"):
        split(FOUR.group, "a", FOUR.secrets["a"], {name: FOUR.statements[name] for name in "ab"})


def test_a_box_with_too_few_shares_is_refused():
    fewer = Group.of("run", "abcd", 1)
    secrets = {name: make_secrets(1) for name in "abcd"}
    signed = {name: signed_statement(identity(name), fewer, name, (), secrets[name]) for name in "abcd"}
    statements = checked_statements(fewer, signed, FOUR.pins)
    refused("b", split(fewer, "b", secrets["b"], statements)[0]["a"])


# Wrong shares -------------------------------------------------------------------------------------------------------


def given_shares(n, helpers, liars):
    group, seed = Group.of("run", names_of(n), 1), bytes(range(16))
    shares = dict(zip(group.names, split_seed(seed, group.threshold, n), strict=True))
    changed = {name: bytes([shares[name][0] ^ k]) + shares[name][1:] for k, name in enumerate(liars, start=1)}
    return group, {name: (shares | changed)[name] for name in group.names[:helpers]}, seed


def test_helpers_with_wrong_shares_are_named_if_enough_others_agree():
    for liars in (["site 00"], ["site 06"], ["site 02", "site 05"]):
        group, shares, seed = given_shares(10, 10, liars)
        with pytest.raises(ProtocolError, match="from " + ", ".join(f"'{name}'" for name in liars)) as caught:
            recovered_seed(group, "site 09", shares, lambda each, seed=seed: each == seed)
        assert caught.value.participant == liars[0]


def test_helpers_cannot_put_the_blame_on_others_by_errors_that_cancel():
    """Errors 1 and 2 of these two cancel in some sets of helpers: there the seed is right, and the others look wrong."""
    group, shares, seed = given_shares(10, 10, ["site 02", "site 05"])
    with pytest.raises(ProtocolError) as caught:
        recovered_seed(group, "site 09", shares, lambda each: each == seed)
    assert caught.value.participant == "site 02"
    group, shares, seed = given_shares(10, 9, ["site 02", "site 05"])  # too few others to tell who is wrong
    with pytest.raises(ProtocolError, match="do not give it"):
        recovered_seed(group, "site 09", shares, lambda each: each == seed)


def test_one_of_many_helpers_with_a_wrong_share_is_found():
    group, shares, seed = given_shares(20, 20, ["site 03"])
    with pytest.raises(ProtocolError, match="from 'site 03' are wrong; those of 19 others agree"):
        recovered_seed(group, "site 19", shares, lambda each: each == seed)


def test_a_wrong_share_that_is_not_needed_changes_nothing():
    group, shares, seed = given_shares(10, 10, ["site 09"])
    assert recovered_seed(group, "site 00", shares, lambda each: each == seed) == seed


def test_without_helpers_to_spare_nobody_can_be_named_but_the_owner():
    group, shares, seed = given_shares(10, 7, ["site 00"])
    with pytest.raises(ProtocolError, match="7 shares of a seed of participant 'site 09' do not give it") as caught:
        recovered_seed(group, "site 09", shares, lambda each: each == seed)
    assert caught.value.participant == "site 09"
