"""Who sums with whom, what each participant states and signs about its keys and columns, and the secrets behind it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain

import msgspec

from intarsia.exceptions import IntarsiaError, ProtocolError, ReleaseError, about, plain, quote
from intarsia.privacy.secure.identity import Identity, digits_of, fingerprint_of, verify
from intarsia.privacy.secure.primitives import KEY, SEED, derived, digest, encoded, is_safe, public_of

FEWEST, MOST, MOST_SUMS = 3, 200, 64  # participants of a group, and its sums


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The participants of a run, sorted by name, and the number of sums that they make keys for."""

    run: str
    names: tuple[str, ...]
    n_sums: int

    @classmethod
    def of(cls, run: str, names: Iterable[str], n_sums: int) -> Group:
        """Return the group with these names in any order, or raise a ProtocolError if it is invalid."""
        return cls(run, tuple(sorted(names)), n_sums)

    def __post_init__(self) -> None:
        if self.names != tuple(sorted(set(self.names))):
            raise ProtocolError("the names of the participants of a secure sum must be sorted and unique.")
        if not FEWEST <= len(self.names) <= MOST:
            raise ProtocolError(
                f"a secure sum needs {FEWEST} to {MOST} participants. Got {len(self.names)} instead. With two, each could "
                "subtract its own part from the total."
            )
        if not 1 <= self.n_sums <= MOST_SUMS:
            raise ProtocolError(f"the number of secure sums must be 1 to {MOST_SUMS}. Got {self.n_sums} instead.")

    @property
    def threshold(self) -> int:
        r"""How many participants must take part in each step: :math:`t = \lfloor 2n/3 \rfloor + 1`."""
        return 2 * len(self.names) // 3 + 1


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant states to all others.

    ``columns`` are those that it has, ``box`` the public key by which others send it shares, ``keys`` a public key for
    each sum, and ``commitments`` a value for each sum by which its self seed is recognised and not found.
    """

    group: Group
    name: str
    columns: tuple[str, ...]
    box: bytes
    keys: tuple[bytes, ...]
    commitments: tuple[bytes, ...]


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement as bytes, its signature, and the public key of the one who signed it (DER)."""

    statement: bytes
    signature: bytes
    public: bytes


class Secrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant tells nobody: the private key of its box, and for each sum the seeds of its key and self-mask."""

    box: bytes
    seeds: tuple[bytes, ...]
    selves: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Secrets({len(self.seeds)} sums)"


Statements = Mapping[str, Statement]


def make_secrets(n_sums: int) -> Secrets:
    """Return new secrets from the operating system."""
    seeds, selves = (tuple(os.urandom(SEED) for _ in range(n_sums)) for _ in range(2))
    return Secrets(os.urandom(KEY), seeds, selves)


def private_key(group: Group, name: str, index: int, seed: bytes) -> bytes:
    """Return the private key of a participant for one sum, from its seed."""
    return derived(seed, "key", group.run, name, index)


def commitment(group: Group, name: str, index: int, seed: bytes) -> bytes:
    """Return what a participant states about its self seed for one sum."""
    return derived(seed, "commitment", group.run, name, index)


def statement_of(group: Group, name: str, columns: Iterable[str], secrets: Secrets) -> Statement:
    """Return what a participant with these columns and secrets states."""
    return Statement(
        group,
        name,
        tuple(sorted(columns)),
        public_of(secrets.box),
        tuple(public_of(private_key(group, name, k, seed)) for k, seed in enumerate(secrets.seeds)),
        tuple(commitment(group, name, k, seed) for k, seed in enumerate(secrets.selves)),
    )


def signed_statement(identity: Identity, group: Group, name: str, columns: Iterable[str], secrets: Secrets) -> Signed:
    """Return what a participant states, signed; raise a ProtocolError if it could not be accepted by others."""
    statement = statement_of(group, name, columns, secrets)
    _check_statement(group, name, statement)
    data = msgspec.msgpack.encode(statement)
    return Signed(data, identity.sign(_to_sign(data)), identity.public)


def checked_statements(group: Group, signed: Mapping[str, Signed], pins: Mapping[str, str]) -> dict[str, Statement]:
    """Return the statements of at least the threshold of participants, by name, or raise a ProtocolError.

    ``pins`` are the fingerprints that were agreed on outside of the run. A statement counts if the key with the pinned
    fingerprint signed it for exactly this group, under this name; a key may occur only once in all statements.
    """
    if unknown := sorted(signed.keys() - set(group.names)):
        raise ProtocolError(
            f"{len(unknown)} statements are by participants that are not in the group: {quote(unknown)}."
        )
    if len(signed) < group.threshold:
        raise ProtocolError(
            f"{len(signed)} of {len(group.names)} participants stated their keys; {group.threshold} are needed."
        )
    statements = {name: _checked(group, name, signed[name], pins) for name in sorted(signed)}
    owners: dict[bytes, str] = {}
    for name, each in statements.items():
        for key in (signed[name].public, each.box, *each.keys, *each.commitments):
            if (owner := owners.setdefault(key, name)) != name:
                raise about(name, ProtocolError(f"participants {quote([owner, name])} state the same key."))
    return statements


def _checked(group: Group, name: str, signed: Signed, pins: Mapping[str, str]) -> Statement:
    if name not in pins:
        raise about(name, ProtocolError(f"no fingerprint was agreed on for participant {plain(name)!r}."))
    if fingerprint_of(signed.public) != digits_of(name, pins[name]):
        raise about(
            name,
            ProtocolError(
                f"the key of participant {plain(name)!r} is not the one that was agreed on. Whoever has the other key "
                "could read along. Hint: compare the fingerprint with the participant, not with the coordinator."
            ),
        )
    if not verify(signed.public, signed.signature, _to_sign(signed.statement)):
        raise about(name, ProtocolError(f"the statement of participant {plain(name)!r} has an invalid signature."))
    try:
        statement = msgspec.msgpack.decode(signed.statement, type=Statement)
    except (msgspec.MsgspecError, IntarsiaError, ValueError, RecursionError):
        raise about(name, ProtocolError(f"the statement of participant {plain(name)!r} cannot be read.")) from None
    _check_statement(group, name, statement)
    return statement


def _check_statement(group: Group, name: str, statement: Statement) -> None:
    if statement.name != name or name not in group.names:
        raise about(name, ProtocolError(f"a statement in the name of {plain(name)!r} is by another participant."))
    if statement.group != group:
        raise about(
            name,
            ProtocolError(
                f"participant {plain(name)!r} signed its statement for another run, other participants or another "
                "number of sums."
            ),
        )
    keys = (statement.box, *statement.keys)
    counts = (len(statement.keys), len(statement.commitments))
    lengths = {len(key) for key in chain(keys, statement.commitments)}
    if counts != (group.n_sums, group.n_sums) or lengths != {KEY} or not all(map(is_safe, keys)):
        raise about(
            name, ProtocolError(f"participant {plain(name)!r} stated keys that are not {group.n_sums} valid ones.")
        )
    if len({*keys, *statement.commitments}) < 2 * group.n_sums + 1:
        raise about(name, ProtocolError(f"participant {plain(name)!r} stated a key twice."))
    if statement.columns != tuple(sorted(set(statement.columns))):
        raise about(name, ProtocolError(f"the columns of participant {plain(name)!r} must be sorted and unique."))


def _to_sign(data: bytes) -> bytes:
    return encoded("intarsia secure sum statement", data)


def view(group: Group, statements: Statements) -> bytes:
    """Return the digest of a group and all its statements: the same for two participants only if they saw the same."""
    return digest("view", group, tuple(statements[name] for name in sorted(statements)))


def check_own(group: Group, name: str, secrets: Secrets, statements: Statements) -> None:
    """Raise a ReleaseError unless the statement with the name of this participant is the one of its secrets."""
    own = statements.get(name)
    if own is None or own != statement_of(group, name, own.columns, secrets):
        raise ReleaseError(
            f"the statement in the name of {plain(name)!r} is not the one that this participant made, so it takes no part."
        )


def holders(statements: Statements) -> dict[str, int]:
    """Return the number of participants that state each column."""
    return dict(Counter(chain.from_iterable(each.columns for each in statements.values())))


def holders_left(
    group: Group, statements: Statements, members: Collection[str], survivors: Collection[str]
) -> dict[str, int]:
    """Return for each column at least how many of its holders are in a total that is opened with these survivors.

    It may be fewer than those among the survivors, because a coordinator can tell others other survivors. The figure is
    right if it alone lies, and all who were asked the same question accept no more dropped holders of the column.
    """
    present = holders({name: statements[name] for name in members})
    dropped = holders({name: statements[name] for name in set(members) - set(survivors)})
    shape = len(group.names), group.threshold, len(members)
    return {column: max(n - most_missing(*shape, dropped.get(column, 0)), 0) for column, n in present.items()}


@lru_cache(maxsize=4096)
def most_missing(n: int, threshold: int, n_members: int, dropped: int) -> int:
    """Return at most how many holders of a column a total can lack if no list of survivors drops more than ``dropped``.

    Claim 4 of ``docs/theory/secure-sums.md``: the largest x such that for some q and b

    - t (q − n + m + b) ≤ (n − q)(m − t) + q (n − t), with m members,
    - t x ≤ (n − q) d + q x − (x − b), with d holders dropped.

    Here q participants were asked another question, and b of the x were not.
    """
    most = 0
    for q in range(n + 1):
        budget = ((n - q) * (n_members - threshold) + q * (n - threshold)) // threshold
        spare = budget - max(q - n + n_members, 0)  # how many may be missing of those who were asked the same question
        if spare < 0:
            continue
        for x in range(n_members, most, -1):
            b = min(spare, x)
            if x - b <= q and x * (threshold - q + 1) <= (n - q) * dropped + b:
                most = x
                break
    return most
