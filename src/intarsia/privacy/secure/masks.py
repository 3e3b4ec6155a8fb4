r"""Masks that hide a participant's values and cancel in the total, and what opens the total.

Participant i sends, modulo 2⁶⁴,

.. math:: y_i = x_i + \mathrm{PRG}(b_i) + \sum_{j \in M,\, i < j} \mathrm{PRG}(s_{ij}) - \sum_{j \in M,\, j < i}
          \mathrm{PRG}(s_{ij})

with :math:`b_i` its self seed, :math:`s_{ij}` the secret of the keys of i and j for this sum, and M the members. Masks of
pairs cancel among those who answered, the survivors. To open the total, survivors give shares of the self seeds of
survivors and of the key seeds of the other members, never both of one member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from intarsia.exceptions import ProtocolError, ReleaseError, about, plain, quote
from intarsia.privacy.secure.group import Group, Secrets, Statements, commitment, private_key, view
from intarsia.privacy.secure.primitives import SEED, Words, agreed, derived, digest, public_of, stream
from intarsia.privacy.secure.shares import Held, recovered_seed

Integers = npt.NDArray[np.int64]


class _Sum:
    """One sum of a group, and the masks of it.

    All that participants must agree on is part of the key of every mask, so that the masks of two who were told different
    things do not cancel: run, group and statements (``view``), members, index, context, and length.
    """

    def __init__(
        self, group: Group, statements: Statements, members: Collection[str], index: int, context: bytes, size: int
    ) -> None:
        self.group, self.statements, self.index, self.size = group, statements, index, size
        self._binding = digest("sum", view(group, statements), tuple(sorted(members)), index, context, size)

    def own_mask(self, name: str, seed: bytes) -> Words:
        """Return the self-mask of a participant."""
        return stream(derived(seed, "self", name, self._binding), self.size)

    def pair_mask(self, name: str, private: bytes, other: str) -> Words:
        """Return what ``name``, who has this private key, adds for ``other``, who adds the opposite."""
        first, second = sorted((name, other))
        key = derived(agreed(private, self.statements[other].keys[self.index]), "pair", first, second, self._binding)
        mask = stream(key, self.size)
        return mask if name == first else np.negative(mask)

    def is_key_seed(self, name: str, seed: bytes) -> bool:
        """Return whether this is the seed of the key that a participant stated for the sum."""
        return public_of(private_key(self.group, name, self.index, seed)) == self.statements[name].keys[self.index]

    def is_self_seed(self, name: str, seed: bytes) -> bool:
        """Return whether this is the self seed that a participant committed to for the sum."""
        return commitment(self.group, name, self.index, seed) == self.statements[name].commitments[self.index]


def masked(
    values: Integers,
    group: Group,
    name: str,
    secrets: Secrets,
    statements: Statements,
    members: Collection[str],
    index: int,
    context: bytes,
) -> Integers:
    """Return the values of a participant with its masks for the sum ``index``, modulo 2⁶⁴.

    ``members`` are those of its :class:`~intarsia.privacy.secure.shares.Held`. ``context`` is the digest of the whole
    question that the values answer: whoever was asked something else has other masks. A participant answers once for an
    index, and tells the same bytes when it is asked again: two answers would show the difference of their values.
    """
    if values.dtype != np.int64 or values.ndim != 1:
        raise TypeError(f"values must be one-dimensional int64, not {values.dtype} of {values.ndim} dimensions.")
    _check_index(group, index)
    _check_members(group, members, statements)
    if name not in members:
        raise ReleaseError(f"participant {plain(name)!r} is not a member of the sum, so it takes no part.")
    this = _Sum(group, statements, members, index, context, len(values))
    seed, own = secrets.seeds[index], secrets.selves[index]
    if not (this.is_key_seed(name, seed) and this.is_self_seed(name, own)):
        raise ReleaseError(
            f"the statement in the name of {plain(name)!r} is not the one that this participant made, so it takes no part."
        )
    private = private_key(group, name, index, seed)
    total = values.view(np.uint64) + this.own_mask(name, own)
    for other in sorted(set(members) - {name}):
        total += this.pair_mask(name, private, other)
    return total.view(np.int64)


def shares_for(
    held: Held, group: Group, name: str, members: Collection[str], index: int, survivors: Collection[str]
) -> dict[str, bytes]:
    """Return the shares that open the total of these survivors: of their self seeds, and of other members' key seeds.

    A participant answers once for an index, after it sent its masked values, and never for a second list of survivors.
    Raises a ReleaseError for a list that is not one of enough members, each named once, this participant among them.
    """
    _check_index(group, index)
    if tuple(sorted(members)) != held.members:
        raise ReleaseError("the members are not those whose shares this participant has, so it gives none.")
    if len(set(survivors)) != len(survivors):
        raise ReleaseError("a survivor is named twice, so no share is given.")
    if unknown := sorted(set(survivors) - set(members)):
        raise ReleaseError(f"{len(unknown)} survivors are not members, so no share is given: {quote(unknown)}.")
    if name not in survivors:
        raise ReleaseError(f"participant {plain(name)!r} is said to have dropped out, so it gives no share.")
    if len(survivors) < group.threshold:
        raise ReleaseError(
            f"{len(survivors)} of {len(group.names)} participants are said to be left; at least {group.threshold} must be, "
            "so no share is given."
        )
    return {each: (shares.selves if each in survivors else shares.keys)[index] for each, shares in held.shares.items()}


def unmasked(
    vectors: Mapping[str, Integers],
    shares: Mapping[str, Mapping[str, bytes]],
    group: Group,
    statements: Statements,
    members: Collection[str],
    index: int,
    context: bytes,
) -> Integers:
    """Return the sum of the survivors' values, exact modulo 2⁶⁴, from their masked vectors.

    ``vectors`` are exactly those of the survivors that were told to the helpers, ``shares`` what each helper answered:
    one share by member. A seed that is not the one in a statement raises a ProtocolError, about the helper whose share is
    wrong where enough others agree. Values must be so small that no total reaches 2⁶³; that is for the caller to see to.
    """
    _check_index(group, index)
    _check_members(group, members, statements)
    size = _checked_size(vectors, members, group)
    _check_shares(shares, vectors.keys(), members, group)
    this = _Sum(group, statements, members, index, context, size)
    total = np.zeros(size, np.uint64)
    for vector in vectors.values():
        total += vector.view(np.uint64)
    for name in sorted(members):
        survived = name in vectors
        is_right = partial(this.is_self_seed if survived else this.is_key_seed, name)
        seed = recovered_seed(group, name, {helper: given[name] for helper, given in shares.items()}, is_right)
        if survived:
            total -= this.own_mask(name, seed)
        else:
            private = private_key(group, name, index, seed)
            for survivor in vectors:
                total += this.pair_mask(name, private, survivor)  # the opposite of what the survivor added
    return total.view(np.int64)


def _check_index(group: Group, index: int) -> None:
    if not 0 <= index < group.n_sums:
        raise ProtocolError(f"there are keys for {group.n_sums} secure sums; number {index + 1} was asked for.")


def _check_members(group: Group, members: Collection[str], statements: Statements) -> None:
    if len(set(members)) != len(members) or not set(members) <= statements.keys() & set(group.names):
        raise ProtocolError("the members of a secure sum must be different participants that stated their keys.")
    if len(members) < group.threshold:
        raise ProtocolError(
            f"{len(members)} of {len(group.names)} participants are members; {group.threshold} are needed."
        )


def _checked_size(vectors: Mapping[str, Integers], members: Collection[str], group: Group) -> int:
    """Return the length of the vectors of survivors."""
    if unknown := sorted(vectors.keys() - set(members)):
        raise ProtocolError(
            f"{len(unknown)} masked vectors are by participants that are not members: {quote(unknown)}."
        )
    if len(vectors) < group.threshold:
        raise ProtocolError(
            f"{len(vectors)} of {len(group.names)} participants answered; {group.threshold} are needed."
        )
    if any(vector.dtype != np.int64 or vector.ndim != 1 for vector in vectors.values()):
        raise TypeError("masked vectors must be one-dimensional int64.")
    sizes = {len(vector) for vector in vectors.values()}
    if len(sizes) > 1:
        raise ProtocolError(f"masked vectors have {len(sizes)} different lengths.")
    return sizes.pop()


def _check_shares(
    shares: Mapping[str, Mapping[str, bytes]], survivors: Collection[str], members: Collection[str], group: Group
) -> None:
    if unknown := sorted(shares.keys() - set(survivors)):
        raise ProtocolError(f"{len(unknown)} participants gave shares but no masked vector: {quote(unknown)}.")
    if len(shares) < group.threshold:
        raise ProtocolError(
            f"{len(shares)} of {len(group.names)} participants gave shares; {group.threshold} are needed."
        )
    for helper, given in shares.items():
        if given.keys() != set(members) or any(len(share) != SEED for share in given.values()):
            raise about(
                helper,
                ProtocolError(
                    f"participant {plain(helper)!r} did not give one share for each of {len(members)} members."
                ),
            )
