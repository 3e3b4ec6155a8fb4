"""Masks written a second time from the description of the protocol, with HMAC for HKDF; shares no code with ``src``."""

from __future__ import annotations

import hmac
from hashlib import sha256
from itertools import chain, combinations

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

PROTOCOL = "intarsia secure sum"


def packed(*parts):
    return msgspec.msgpack.encode(parts)


def hkdf(secret, *info):
    """RFC 5869 with an empty salt; 32 bytes are one block."""
    return hmac.digest(hmac.digest(bytes(32), secret, "sha256"), packed(PROTOCOL, *info) + b"\x01", "sha256")


def words(key, n):
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * n))
    return [int.from_bytes(stream[8 * k : 8 * k + 8], "little") for k in range(n)]


class Opened:
    """A coordinator's view of one sum: what it can compute from the seeds that it has."""

    def __init__(self, group, statements, members, context, size, index=0):
        self.group, self.statements, self.members, self.size, self.index = group, statements, members, size, index
        seen = sha256(packed(PROTOCOL, "view", group, tuple(statements[name] for name in sorted(statements)))).digest()
        self.binding = sha256(packed(PROTOCOL, "sum", seen, tuple(sorted(members)), index, context, size)).digest()

    def own_mask(self, name, seed):
        return np.array(words(hkdf(seed, "self", name, self.binding), self.size), np.uint64)

    def pair_mask(self, name, seed, other):
        """What ``name``, whose key seed this is, adds for ``other``."""
        private = X25519PrivateKey.from_private_bytes(hkdf(seed, "key", self.group.run, name, self.index))
        public = X25519PublicKey.from_public_bytes(self.statements[other].keys[self.index])
        first, second = sorted((name, other))
        mask = words(hkdf(private.exchange(public), "pair", first, second, self.binding), self.size)
        return np.array(mask, np.uint64) if name == first else np.negative(np.array(mask, np.uint64))

    def residue(self, vectors, selves, seeds):
        """The sum of masked vectors without all masks that follow from some self seeds and key seeds."""
        total = sum((vector.view(np.uint64) for vector in vectors.values()), np.zeros(self.size, np.uint64))
        for name in vectors:
            if name in selves:
                total -= self.own_mask(name, selves[name])
            for other in set(self.members) - {name}:
                if name in seeds:
                    total -= self.pair_mask(name, seeds[name], other)
                elif other in seeds:
                    total += self.pair_mask(other, seeds[other], name)
        return total.view(np.int64)


def subsets(names, fewest=1):
    return chain.from_iterable(combinations(sorted(names), k) for k in range(fewest, len(names) + 1))


def visible(views, vectors, values, selves, seeds):
    """The sets of participants whose plain sum a coordinator can compute from masked vectors and seeds.

    It tries all sets of vectors under each of the views, and compares with the plain sums of all sets.
    """
    plain = {sum(values[name] for name in chosen).tobytes(): chosen for chosen in subsets(values)}
    found = set()
    for view in views:
        for chosen in subsets(vectors):
            residue = view.residue({name: vectors[name] for name in chosen}, selves, seeds)
            if residue.tobytes() in plain:
                found.add(plain[residue.tobytes()])
    return found
