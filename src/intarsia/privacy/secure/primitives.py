"""Key agreement, key derivation, cipher and secret sharing, as other libraries have them; nothing is invented here.

X25519, HKDF-SHA256, ChaCha20 and ChaCha20-Poly1305 come from pyca/cryptography, Shamir's scheme over GF(2¹²⁸) from
pycryptodome. Both are imported at first use, because only secure sums need them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from intarsia.exceptions import SettingError, install

Words = npt.NDArray[np.uint64]
KEY, SEED = 32, 16  # bytes of a key and of a seed; a seed is what Shamir's scheme can share
_NONCE = 12  # bytes
_PROTOCOL = "intarsia secure sum"
_ANY_PRIVATE = bytes([1] * KEY)


def encoded(*parts: object) -> bytes:
    """Return parts (texts, bytes, integers, tuples of them, structs) as bytes; different parts give different bytes."""
    return msgspec.msgpack.encode(parts)


def digest(*parts: object) -> bytes:
    """Return the SHA-256 of parts, which tells apart whatever :func:`encoded` tells apart."""
    return sha256(encoded(_PROTOCOL, *parts)).digest()


def derived(secret: bytes, purpose: str, *parts: object) -> bytes:
    """Return a key of 32 bytes: HKDF-SHA256 of a secret for one purpose, bound to ``parts``."""
    lib = library()
    info = encoded(_PROTOCOL, purpose, *parts)
    return bytes(lib.HKDF(algorithm=lib.hashes.SHA256(), length=KEY, salt=None, info=info).derive(secret))


def public_of(private: bytes) -> bytes:
    """Return the public X25519 key of a private one, both as 32 bytes."""
    return bytes(library().X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def agreed(private: bytes, public: bytes) -> bytes:
    """Return the X25519 secret of a pair of keys; raise a ValueError for a public key that makes it known to all."""
    lib = library()
    return bytes(
        lib.X25519PrivateKey.from_private_bytes(private).exchange(lib.X25519PublicKey.from_public_bytes(public))
    )


def is_safe(public: bytes) -> bool:
    """Return whether 32 bytes are a public key whose secrets depend on the private keys (a point of large order)."""
    try:
        agreed(_ANY_PRIVATE, public)
    except ValueError:
        return False
    return True


def stream(key: bytes, n: int) -> Words:
    """Return n words of 64 bits of the ChaCha20 key stream with nonce 0; a key is for one stream."""
    lib = library()
    cipher = lib.Cipher(lib.algorithms.ChaCha20(key, bytes(16)), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(8 * n)), dtype="<u8").astype(np.uint64)


def sealed(key: bytes, content: bytes, about: bytes) -> bytes:
    """Return content encrypted and authenticated together with ``about``; the nonce is random and comes first."""
    nonce = os.urandom(_NONCE)
    return nonce + bytes(library().ChaCha20Poly1305(key).encrypt(nonce, content, about))


def opened(key: bytes, box: bytes, about: bytes) -> bytes | None:
    """Return the content of what was sealed with this key and ``about``, or None if it was not."""
    lib = library()
    try:
        return bytes(lib.ChaCha20Poly1305(key).decrypt(box[:_NONCE], box[_NONCE:], about))
    except (lib.InvalidTag, ValueError):
        return None


def split_seed(seed: bytes, threshold: int, n: int) -> tuple[bytes, ...]:
    """Return n random shares of a seed, for the indices 1 to n; fewer than ``threshold`` of them say nothing about it."""
    return tuple(bytes(share) for _, share in library().Shamir.split(threshold, n, seed))


def combined_seed(shares: Mapping[int, bytes]) -> bytes:
    """Return the seed of exactly as many shares, by index from 1, as are needed."""
    return bytes(library().Shamir.combine(sorted(shares.items())))


@lru_cache(maxsize=1)
def library() -> Any:
    """Import cryptography and pycryptodome, or raise a SettingError that says how to install them."""
    try:
        from Crypto.Protocol.SecretSharing import Shamir
        from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise SettingError(
            f"secure sums need cryptography and pycryptodome; {error.name} is not installed. {install('secure')}"
        ) from None
    return SimpleNamespace(
        Shamir=Shamir,
        InvalidSignature=InvalidSignature,
        InvalidTag=InvalidTag,
        UnsupportedAlgorithm=UnsupportedAlgorithm,
        hashes=hashes,
        serialization=serialization,
        ed25519=ed25519,
        padding=padding,
        rsa=rsa,
        X25519PrivateKey=X25519PrivateKey,
        X25519PublicKey=X25519PublicKey,
        Cipher=Cipher,
        algorithms=algorithms,
        ChaCha20Poly1305=ChaCha20Poly1305,
        HKDF=HKDF,
    )
