"""What a participant of secure sums must not forget during a run: whom it trusts, its secrets, and what it answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from intarsia.privacy.secure.group import Group, Secrets, Signed
from intarsia.privacy.secure.identity import Identity, fingerprint_of
from intarsia.privacy.secure.shares import Own
from intarsia.protocol.wire import Array, expect_array, pack_array, unpack_array


class Credentials(NamedTuple):
    """How a participant proves who it is, and whom it trusts.

    ``identity`` is its private key as PEM; ``pins`` are the fingerprints of all participants' public keys, its own included;
    ``run`` is the name of the run that it takes part in.
    """

    identity: bytes
    pins: Mapping[str, str]
    run: str


def new_credentials(names: Sequence[str], run: str = "run") -> dict[str, Credentials]:
    """Return new keys for participants that are all in reach, as in one process."""
    identities = {name: Identity.create() for name in names}
    pins = {name: fingerprint_of(identity.public) for name, identity in identities.items()}
    return {name: Credentials(identity.pem, pins, run) for name, identity in identities.items()}


class Vault(Protocol):
    """Keeps what a participant must not forget during a run, also over restarts."""

    def load(self) -> bytes | None:
        """Return what was stored last; None if nothing was."""

    def store(self, data: bytes) -> None:
        """Keep these bytes instead of the last ones; they are safe when this returns."""


class MemoryVault:
    """A vault that ends with the process."""

    def __init__(self) -> None:
        self._data: bytes | None = None

    def load(self) -> bytes | None:
        """Return what was stored last."""
        return self._data

    def store(self, data: bytes) -> None:
        """Keep these bytes."""
        self._data = data


class Part(msgspec.Struct, frozen=True, eq=False):
    """What a participant refined of one set of centroids, and the centroids of columns that stay at home after that."""

    values: Array
    counts: Array
    home: Array
    known: Array


class AskedSum(msgspec.Struct, frozen=True):
    """The digest of a request for a masked sum, and the place of its question in the run."""

    digest: bytes
    place: str


class State(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The contents of a vault."""

    group: Group
    secrets: Secrets
    signed: Signed
    keys: dict[str, Signed] = {}
    boxes: dict[str, bytes] = {}
    own: Own | None = None
    received: dict[str, bytes] = {}
    asked: dict[int, AskedSum] = {}
    answers: dict[int, bytes] = {}
    unmasked: dict[int, tuple[str, ...]] = {}
    round: int = 0
    parts: tuple[Part, ...] = ()


_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_DECODER = msgspec.msgpack.Decoder(State, dec_hook=expect_array, ext_hook=unpack_array)


def encoded_state(state: State) -> bytes:
    """Return the contents of a vault as bytes."""
    return _ENCODER.encode(state)


def decoded_state(data: bytes) -> State:
    """Return the contents of a vault."""
    return _DECODER.decode(data)
