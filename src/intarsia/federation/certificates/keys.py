"""RSA keys: create, read, and compare them by their fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from intarsia.exceptions import InputError

KEY_SIZE = 2048  # bits; the engine's messages reserve space for signatures of exactly this length
_MAX_BYTES = 100_000  # of a file with a key or certificates


@dataclass(frozen=True)
class KeyPair:
    """A private key as PEM, and its public key as an object of ``cryptography``."""

    pem: bytes
    public: Any

    @classmethod
    def create(cls) -> KeyPair:
        """Create a key pair."""
        return cls._of(rsa.generate_private_key(65537, KEY_SIZE))

    @classmethod
    def read(cls, path: Path) -> KeyPair:
        """Read a private key from a PEM file."""
        try:
            return cls._of(serialization.load_pem_private_key(read_small_file(path), None))
        except (ValueError, TypeError):
            raise InputError(f"{path} is not a private key.") from None

    @classmethod
    def _of(cls, private: Any) -> KeyPair:
        written = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        return cls(written, private.public_key())

    @property
    def private(self) -> Any:
        """The private key as an object of ``cryptography``."""
        return serialization.load_pem_private_key(self.pem, None)


def fingerprint(public: Any) -> str:
    """Return the SHA-256 of a public key in groups of four digits, which two people can compare on the phone."""
    written = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    digest = sha256(written).hexdigest()
    return " ".join(digest[i : i + 4] for i in range(0, 64, 4))


def same_fingerprint(one: str, other: str) -> bool:
    """Return whether two fingerprints are equal, whatever their case and separators."""
    return _digits(one) == _digits(other)


def _digits(text: str) -> str:
    return "".join(text.replace(":", " ").split()).lower()


def read_small_file(path: Path) -> bytes:
    """Return the bytes of a file that holds a key or certificates, or raise an InputError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > _MAX_BYTES:
        raise InputError(f"{path} is larger than {_MAX_BYTES} bytes, so it is neither a key nor a certificate.")
    return content
