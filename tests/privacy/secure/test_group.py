"""Statements count if the agreed key signed them, for this group and name, with keys that nobody else has."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import InputError, ProtocolError
from intarsia.privacy.secure.group import (
    Group,
    Signed,
    Statement,
    checked_statements,
    holders,
    holders_left,
    make_secrets,
    signed_statement,
    statement_of,
)
from intarsia.privacy.secure.identity import Identity, fingerprint_of
from intarsia.privacy.secure.primitives import encoded
from tests.privacy.secure.cases import Federation, identity
from tests.strategies import FEW

FOUR = Federation("abcd", n_sums=2)
LOW_ORDER = bytes(32), bytes([1]) + bytes(31), bytes([0xEC]) + bytes([0xFF] * 30) + bytes([0x7F])


def signed_by(who, statement):
    """Whatever somebody signs as a statement."""
    data = statement if isinstance(statement, bytes) else msgspec.msgpack.encode(statement)
    return Signed(data, who.sign(encoded("intarsia secure sum statement", data)), who.public)


def refused(name, signed, match, pins=None):
    """The error about ``name`` if the coordinator shows this as its statement."""
    with pytest.raises(ProtocolError, match=match) as caught:
        checked_statements(FOUR.group, FOUR.signed | {name: signed}, pins or FOUR.pins)
    assert caught.value.participant == name


def changed(name, **fields):
    return msgspec.structs.replace(FOUR.statements[name], **fields)


@pytest.mark.parametrize(
    ("n", "threshold"), [(3, 3), (4, 3), (5, 4), (6, 5), (7, 5), (9, 7), (10, 7), (50, 34), (200, 134)]
)
def test_the_threshold_is_more_than_two_thirds(n, threshold):
    assert Group.of("run", [str(k) for k in range(n)], 1).threshold == threshold
    assert 3 * threshold > 2 * n


def test_a_group_is_sorted_and_of_a_sensible_size():
    assert Group.of("run", "cab", 1).names == ("a", "b", "c")
    for names, n_sums, match in [
        ("ab", 1, "3 to 200 participants. Got 2"),
        ([str(k) for k in range(201)], 1, "Got 201"),
        ("aabc", 1, "unique"),
        ("abc", 0, "1 to 64. Got 0"),
        ("abc", 65, "Got 65"),
    ]:
        with pytest.raises(ProtocolError, match=match):
            Group.of("run", names, n_sums)
    with pytest.raises(ProtocolError, match="sorted"):
        Group("run", ("b", "a", "c"), 1)
    with pytest.raises(ProtocolError, match="3 to 200"):
        msgspec.msgpack.decode(msgspec.msgpack.encode({"run": "", "names": ["a"], "n_sums": 1}), type=Group)


def test_statements_of_all_are_what_they_stated():
    assert FOUR.statements == {
        name: statement_of(FOUR.group, name, ("age", "height"), FOUR.secrets[name]) for name in "abcd"
    }
    three = {name: FOUR.signed[name] for name in "abc"}
    assert checked_statements(FOUR.group, three, FOUR.pins).keys() == set("abc")


def test_an_rsa_key_of_a_certificate_can_sign():
    from intarsia.federation.certificates.keys import KeyPair

    who = Identity.from_pem(KeyPair.create().pem)
    signed = signed_statement(who, FOUR.group, "a", (), FOUR.secrets["a"])
    pins = FOUR.pins | {"a": fingerprint_of(who.public)}
    assert checked_statements(FOUR.group, FOUR.signed | {"a": signed}, pins)["a"].columns == ()


def test_secrets_survive_writing_and_are_never_shown():
    secrets = make_secrets(3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(secrets), type=type(secrets)) == secrets
    assert repr(secrets) == "Secrets(3 sums)"
    every = [secrets.box, *secrets.seeds, *secrets.selves]
    assert [len(each) for each in every] == [32] + 6 * [16]
    assert len(set(every)) == 7


# A coordinator that lies --------------------------------------------------------------------------------------------


def test_a_second_key_for_a_participant_is_refused_and_the_participant_named():
    """The coordinator's authority would sign any key; the pinned fingerprint does not follow it."""
    second = Identity.create()
    signed = signed_statement(second, FOUR.group, "b", ("age", "height"), make_secrets(2))
    refused("b", signed, "the key of participant 'b' is not the one that was agreed on")
    refused("b", msgspec.structs.replace(signed, public=identity("b").public), "invalid signature")


def test_a_participant_without_an_agreed_fingerprint_is_refused():
    refused("b", FOUR.signed["b"], "no fingerprint was agreed on for participant 'b'", {n: FOUR.pins[n] for n in "acd"})
    with pytest.raises(InputError, match="'b' must have 64"):
        checked_statements(FOUR.group, FOUR.signed, FOUR.pins | {"b": "12"})


def test_a_pin_may_be_written_in_groups():
    pin = FOUR.pins["a"].upper()
    spaced = " ".join(pin[k : k + 4] for k in range(0, 64, 4))
    assert checked_statements(FOUR.group, FOUR.signed, FOUR.pins | {"a": spaced}) == FOUR.statements


def test_statements_of_another_run_group_or_number_of_sums_are_refused():
    for other in (Federation("abcd", 2, run="earlier"), Federation("abcde", 2), Federation("abcd", 3)):
        refused(
            "c", other.signed["c"], "'c' signed its statement for another run, other participants or another number"
        )


def test_a_statement_under_another_name_is_refused():
    refused("b", FOUR.signed["a"], "the key of participant 'b' is not the one")
    refused("b", signed_by(identity("b"), FOUR.statements["a"]), "is by another participant")
    with pytest.raises(ProtocolError, match="2 statements are by participants that are not in the group: 'x', 'y'"):
        checked_statements(FOUR.group, FOUR.signed | {"x": FOUR.signed["a"], "y": FOUR.signed["b"]}, FOUR.pins)


def test_too_few_statements_are_refused():
    with pytest.raises(ProtocolError, match="2 of 4 participants stated their keys; 3 are needed"):
        checked_statements(FOUR.group, {name: FOUR.signed[name] for name in "ab"}, FOUR.pins)


def test_a_signature_of_something_else_is_no_statement():
    data = FOUR.signed["a"].statement
    plain = Signed(data, identity("a").sign(data), identity("a").public)  # signed, but not as a statement
    refused("a", plain, "invalid signature")


@FEW
@given(st.data())
def test_a_statement_with_any_changed_bit_is_refused(data):
    field = data.draw(st.sampled_from(["statement", "signature", "public"]))
    content = bytearray(getattr(FOUR.signed["a"], field))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    refused("a", msgspec.structs.replace(FOUR.signed["a"], **{field: bytes(content)}), "not the one|invalid signature")


def test_truncated_statements_are_refused():
    for field in ("statement", "signature", "public"):
        for end in (0, 1, 40):
            cut = getattr(FOUR.signed["a"], field)[:end]
            refused("a", msgspec.structs.replace(FOUR.signed["a"], **{field: cut}), "not the one|invalid signature")


# A participant that lies --------------------------------------------------------------------------------------------


def test_a_signed_statement_that_cannot_be_read_is_refused():
    bad = msgspec.to_builtins(FOUR.statements["a"], builtin_types=(bytes,))
    for content in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode(bad | {"more": 1}),
        msgspec.msgpack.encode([]),
        b"\x91" * 5000,
    ):
        refused("a", signed_by(identity("a"), content), "cannot be read")
    for field, value in {"box": 1, "keys": ["a", "b"], "group": {"run": "", "names": ["a"], "n_sums": 1}}.items():
        refused("a", signed_by(identity("a"), msgspec.msgpack.encode(bad | {field: value})), "cannot be read")


@pytest.mark.parametrize("key", [*LOW_ORDER, b"", bytes(31), bytes(33)])
def test_keys_of_the_wrong_number_or_length_or_known_to_all_are_refused(key):
    who, good = identity("a"), FOUR.statements["a"].keys
    refused("a", signed_by(who, changed("a", keys=(good[0], key))), "not 2 valid ones")
    refused("a", signed_by(who, changed("a", box=key)), "not 2 valid ones")
    refused("a", signed_by(who, changed("a", keys=good[:1])), "not 2 valid ones")
    refused("a", signed_by(who, changed("a", keys=(*good, good[0]))), "not 2 valid ones")
    refused("a", signed_by(who, changed("a", commitments=())), "not 2 valid ones")
    refused("a", signed_by(who, changed("a", commitments=(bytes(31), bytes(32)))), "not 2 valid ones")


def test_a_key_that_is_used_twice_is_refused():
    who, own, other = identity("b"), FOUR.statements["b"], FOUR.statements["a"]
    refused("b", signed_by(who, changed("b", keys=(own.keys[0],) * 2)), "a key twice")
    refused("b", signed_by(who, changed("b", box=own.keys[0])), "a key twice")
    refused("b", signed_by(who, changed("b", keys=(own.keys[0], other.keys[1]))), "'a', 'b' state the same key")
    refused("b", signed_by(who, changed("b", box=other.keys[0])), "'a', 'b' state the same key")
    refused("b", signed_by(who, changed("b", commitments=other.commitments)), "'a', 'b' state the same key")


def test_one_identity_for_two_participants_is_refused():
    signed = signed_statement(identity("a"), FOUR.group, "b", (), FOUR.secrets["b"])
    refused("b", signed, "'a', 'b' state the same key", FOUR.pins | {"b": FOUR.pins["a"]})


def test_columns_are_sorted_and_unique():
    refused("a", signed_by(identity("a"), changed("a", columns=("b", "a"))), "sorted and unique")
    refused("a", signed_by(identity("a"), changed("a", columns=("a", "a"))), "sorted and unique")
    with pytest.raises(ProtocolError, match="sorted and unique"):
        signed_statement(identity("a"), FOUR.group, "a", ("x", "x"), FOUR.secrets["a"])


# Holders of columns -------------------------------------------------------------------------------------------------


def stated(group, columns):
    return {name: Statement(group, name, tuple(sorted(columns[name])), b"", (), ()) for name in columns}


def test_holders_are_counted_by_column():
    statements = stated(FOUR.group, {"a": "xy", "b": "y", "c": "", "d": "yz"})
    assert holders(statements) == {"x": 1, "y": 3, "z": 1}
    assert holders_left(FOUR.group, statements, "abcd", "abcd") == {"x": 1, "y": 3, "z": 1}
    assert holders_left(FOUR.group, statements, "abcd", "abc") == {"x": 1, "y": 2, "z": 0}
    assert holders_left(FOUR.group, statements, "abc", "abc") == {"x": 1, "y": 2}
