from __future__ import annotations

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import InputError
from intarsia.federation.certificates.keys import KeyPair, fingerprint
from intarsia.privacy.secure.identity import Identity, fingerprint_of, safety_number, verify
from tests.strategies import FEW

RSA = KeyPair.create()  # as certificates have them
IDENTITIES = {"Ed25519": Identity.create(), "RSA": Identity.from_pem(RSA.pem)}
ONE, OTHER = Identity.create(), Identity.create()


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_a_signature_is_of_one_key_and_one_text(identity):
    signature = identity.sign(b"text")
    assert verify(identity.public, signature, b"text")
    assert not verify(identity.public, signature, b"Text")
    assert not any(verify(each.public, signature, b"text") for each in (ONE, OTHER))
    for k in range(0, len(signature), 7):
        assert not verify(identity.public, signature[:k] + bytes([signature[k] ^ 1]) + signature[k + 1 :], b"text")
        assert not verify(identity.public, signature[:k], b"text")
    assert not verify(identity.public, signature + b"\0", b"text")


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_an_identity_is_the_same_after_it_was_written(identity):
    again = Identity.from_pem(identity.pem)
    assert again.public == identity.public
    assert verify(identity.public, again.sign(b"x"), b"x")


@FEW
@given(st.binary(max_size=200), st.binary(max_size=80))
def test_whatever_is_not_a_key_or_a_signature_is_no_proof(public, signature):
    assert verify(public, signature, b"text") is False
    assert verify(ONE.public, signature, b"text") is False
    assert verify(public, ONE.sign(b"text"), b"text") is False


def pem_of(private, password=None):
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


@pytest.mark.filterwarnings("ignore")  # of cryptography, about short keys
def test_unsupported_keys_are_refused():
    for pem in (b"", b"no key", pem_of(ec.generate_private_key(ec.SECP256R1()), b"secret")):
        with pytest.raises(InputError, match="not a private key in PEM without a password"):
            Identity.from_pem(pem)
    with pytest.raises(InputError, match="Ed25519 or RSA"):
        Identity.from_pem(pem_of(ec.generate_private_key(ec.SECP256R1())))
    short = rsa.generate_private_key(65537, 1024)
    with pytest.raises(InputError, match="1024 bits"):
        Identity.from_pem(pem_of(short))
    public = short.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert not verify(public, Identity(short).sign(b"x"), b"x")


def test_a_fingerprint_has_the_digits_of_certificates():
    assert fingerprint_of(IDENTITIES["RSA"].public) == fingerprint(RSA.public).replace(" ", "")


def test_an_identity_is_shown_by_its_fingerprint():
    assert repr(ONE) == f"Identity({fingerprint_of(ONE.public)})"


def test_a_safety_number_is_of_names_and_digits_whatever_their_order_and_form():
    pins = {"a": fingerprint_of(ONE.public), "b": fingerprint_of(OTHER.public)}
    number = safety_number(pins)
    assert [len(group) for group in number.split()] == [5] * 12
    assert number.replace(" ", "").isdigit()
    written = ":".join(pins["a"].upper()[k : k + 2] for k in range(0, 64, 2))
    assert safety_number({"b": pins["b"], "a": written}) == number
    others = [
        {"a": pins["b"], "b": pins["a"]},
        {"a": pins["a"]},
        {"a": pins["a"], "c": pins["b"]},
        {**pins, "c": fingerprint_of(b"")},
    ]
    assert len({number, *map(safety_number, others)}) == 5


def test_a_fingerprint_that_is_not_one_is_refused_by_name():
    for wrong in ("", "12", "g" * 64, "0" * 63, "0" * 65):
        with pytest.raises(InputError, match="of participant 'clinic' must have 64"):
            safety_number({"clinic": wrong})


@pytest.mark.parametrize("library", ["cryptography", "Crypto"])
def test_a_missing_library_is_named_with_what_to_install(library):
    code = f"""
import sys
sys.modules[{library!r}] = None
from intarsia.privacy.secure import group, identity, masks, shares
try:
    identity.Identity.create()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("SettingError secure sums need")
    assert "pip install '.[secure]'" in done.stdout
