"""The key that a participant signs with, its fingerprint, and one number by which people compare all fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256, sha512
from typing import Any

from intarsia.exceptions import InputError, plain
from intarsia.privacy.secure.primitives import encoded, library

_DIGITS = 64  # of a fingerprint
_GROUPS, _LENGTH = 12, 5  # of a safety number: 60 digits, 199 bits
_SMALLEST_RSA = 2048  # bits


class Identity:
    """A private key, Ed25519 or RSA (PSS with SHA-256 and the longest salt), that signs in the name of a participant."""

    def __init__(self, private: Any) -> None:
        self._private = private

    @classmethod
    def create(cls) -> Identity:
        """Create an Ed25519 key."""
        return cls(library().ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> Identity:
        """Return the identity with a private key in PEM, without a password; raise an InputError if it is not one."""
        lib = library()
        try:
            private = lib.serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError, lib.UnsupportedAlgorithm):
            raise InputError("the identity is not a private key in PEM without a password.") from None
        if not isinstance(private, lib.ed25519.Ed25519PrivateKey | lib.rsa.RSAPrivateKey):
            raise InputError("the identity has an unsupported type of key. Hint: use Ed25519 or RSA.")
        if isinstance(private, lib.rsa.RSAPrivateKey) and private.key_size < _SMALLEST_RSA:
            raise InputError(f"the identity is an RSA key of {private.key_size} bits. Hint: use {_SMALLEST_RSA} bits.")
        return cls(private)

    @property
    def pem(self) -> bytes:
        """The private key in PEM (PKCS 8), which must stay with the participant."""
        form = library().serialization
        return bytes(self._private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))

    @property
    def public(self) -> bytes:
        """The public key in DER (SubjectPublicKeyInfo)."""
        form = library().serialization
        public = self._private.public_key()
        return bytes(public.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo))

    def sign(self, data: bytes) -> bytes:
        """Return a signature that :func:`verify` accepts for this data and public key."""
        if isinstance(self._private, library().ed25519.Ed25519PrivateKey):
            return bytes(self._private.sign(data))
        return bytes(self._private.sign(data, _pss(), library().hashes.SHA256()))

    def __repr__(self) -> str:
        return f"Identity({fingerprint_of(self.public)})"


def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether the owner of this public key signed the data; False if anything is malformed."""
    lib = library()
    try:
        key = lib.serialization.load_der_public_key(public)
        if isinstance(key, lib.ed25519.Ed25519PublicKey):
            key.verify(signature, data)
        elif isinstance(key, lib.rsa.RSAPublicKey) and key.key_size >= _SMALLEST_RSA:
            key.verify(signature, data, _pss(), lib.hashes.SHA256())
        else:
            return False
    except (ValueError, TypeError, lib.UnsupportedAlgorithm, lib.InvalidSignature):
        return False
    return True


def _pss() -> Any:
    lib = library()
    return lib.padding.PSS(lib.padding.MGF1(lib.hashes.SHA256()), lib.padding.PSS.MAX_LENGTH)


def fingerprint_of(public: bytes) -> str:
    """Return the SHA-256 of a public key in DER, as 64 hexadecimal digits."""
    return sha256(public).hexdigest()


def digits_of(name: str, fingerprint: str) -> str:
    """Return the 64 digits of a participant's fingerprint, whatever its case and separators; or raise an InputError."""
    digits = "".join(fingerprint.replace(":", " ").split()).lower()
    if len(digits) != _DIGITS or set(digits) - set("0123456789abcdef"):
        raise InputError(f"the fingerprint of participant {plain(name)!r} must have {_DIGITS} hexadecimal digits.")
    return digits


def safety_number(fingerprints: Mapping[str, str]) -> str:
    """Return 12 groups of 5 digits that are the same for all who have the same names and fingerprints.

    >>> safety_number({"a": "00" * 32, "b": "11" * 32})[:17]
    '09847 30865 31427'
    """
    pairs = tuple(sorted((name, digits_of(name, fingerprint)) for name, fingerprint in fingerprints.items()))
    data = sha512(encoded("intarsia safety number", pairs)).digest()
    numbers = (int.from_bytes(data[i * _LENGTH : (i + 1) * _LENGTH]) % 10**_LENGTH for i in range(_GROUPS))
    return " ".join(f"{number:0{_LENGTH}}" for number in numbers)
