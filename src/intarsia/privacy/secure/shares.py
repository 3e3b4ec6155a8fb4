"""Shares of the seeds of all sums: split by Shamir's scheme, boxed for each other participant, kept until they are needed.

Any ``threshold`` participants can recover a seed together, fewer learn nothing about it. A share has no number of its
own: the position of its holder in the group, from 1, is its index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations
from math import comb

import msgspec

from intarsia.exceptions import ProtocolError, ReleaseError, about, plain, quote
from intarsia.privacy.secure.group import Group, Secrets, Statements, check_own, view
from intarsia.privacy.secure.primitives import SEED, agreed, combined_seed, derived, encoded, opened, sealed, split_seed

_MOST_TRIES = 200  # sets of helpers that are tried to find those whose shares are right


class Shares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of one participant's seeds: for each sum one of its key seed and one of its self seed."""

    keys: tuple[bytes, ...]
    selves: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Shares({len(self.keys)} sums)"


class Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant keeps when it splits its seeds: its shares of them, and a digest of the statements it saw."""

    view: bytes
    shares: Shares


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant holds after the set-up: shares of the seeds of each member, its own included."""

    shares: dict[str, Shares]

    @property
    def members(self) -> tuple[str, ...]:
        """The participants whose shares it has, sorted: those that it adds pair masks for."""
        return tuple(sorted(self.shares))


def split(group: Group, name: str, secrets: Secrets, statements: Statements) -> tuple[dict[str, bytes], Own]:
    """Return a box for each other participant that made a statement, and what this one keeps.

    The split is random, so it is made once, and both parts are kept before a box is sent. The coordinator carries the
    boxes and cannot open them.
    """
    check_own(group, name, secrets, statements)
    _check_names(group, statements)
    n = len(group.names)
    keys, selves = (
        tuple(zip(*(split_seed(seed, group.threshold, n) for seed in seeds), strict=True))
        for seeds in (secrets.seeds, secrets.selves)
    )
    parts = {to: Shares(keys[k], selves[k]) for k, to in enumerate(group.names)}
    seen = view(group, statements)
    boxes = {
        to: sealed(_box_key(name, to, name, secrets, statements), _content(parts[to]), encoded(seen, name, to))
        for to in sorted(statements.keys() - {name})
    }
    return boxes, Own(seen, parts[name])


def opened_boxes(
    group: Group, name: str, secrets: Secrets, statements: Statements, own: Own, boxes: Mapping[str, bytes]
) -> Held:
    """Return what a participant holds, from the boxes that others made for it, by sender, and from its own split.

    A box that was made by another sender, for another recipient, for other statements, or that was changed, raises a
    ProtocolError about its sender; fewer members than the threshold, itself included, raise one, too.
    """
    check_own(group, name, secrets, statements)
    seen = view(group, statements)
    if own.view != seen:
        raise ReleaseError("the statements are not those that this participant split its seeds for.")
    if unknown := sorted(boxes.keys() - (statements.keys() - {name})):
        raise ProtocolError(f"{len(unknown)} boxes are from participants without a statement: {quote(unknown)}.")
    if len(boxes) + 1 < group.threshold:
        raise ProtocolError(
            f"{len(boxes) + 1} of {len(group.names)} participants shared their seeds; {group.threshold} are needed."
        )
    shares = {name: own.shares}
    for sender in sorted(boxes):
        key = _box_key(sender, name, name, secrets, statements)
        content = opened(key, boxes[sender], encoded(seen, sender, name))
        if content is None or len(content) != 2 * SEED * group.n_sums:
            raise about(
                sender,
                ProtocolError(
                    f"the box from participant {plain(sender)!r} cannot be opened: it was changed, or made for another "
                    "participant, another run or other statements than this participant was shown."
                ),
            )
        shares[sender] = _shares(content)
    return Held(dict(sorted(shares.items())))


def recovered_seed(group: Group, owner: str, shares: Mapping[str, bytes], is_right: Callable[[bytes], bool]) -> bytes:
    """Return a seed of ``owner`` from shares by helper, or raise a ProtocolError that names whose shares are wrong.

    Two different splits of one seed agree in at most t − 2 shares. So helpers are named only if fewer than half of
    h − t + 2 are wrong, with h shares in all: then nobody is named whose share is right, unless that many others lie.
    """
    indices = {name: k for k, name in enumerate(group.names, start=1)}
    for n, chosen in enumerate(_choices(sorted(shares), group.threshold)):
        seed = combined_seed({indices[helper]: shares[helper] for helper in chosen})
        if not is_right(seed):
            continue
        if n == 0:
            return seed
        wrong = [
            helper
            for helper in sorted(shares.keys() - set(chosen))
            if combined_seed({indices[each]: shares[each] for each in (*chosen[1:], helper)}) != seed
        ]
        if 2 * len(wrong) < len(shares) - group.threshold + 2:
            raise about(
                wrong[0],
                ProtocolError(
                    f"the shares of a seed of participant {plain(owner)!r} from {quote(wrong)} are wrong; those of "
                    f"{len(shares) - len(wrong)} others agree. Hint: open the total without {quote(wrong)}."
                ),
            )
    raise about(
        owner,
        ProtocolError(
            f"{len(shares)} shares of a seed of participant {plain(owner)!r} do not give it: it split another seed, or some "
            f"of {quote(sorted(shares))} changed their shares."
        ),
    )


def _choices(helpers: list[str], threshold: int) -> Iterator[tuple[str, ...]]:
    """Sets of helpers to try: all, or where there are many, those beside each other; each helper is left out once."""
    if comb(len(helpers), threshold) <= _MOST_TRIES:
        yield from combinations(helpers, threshold)
        return
    for k in range(len(helpers)):
        yield tuple((helpers[k:] + helpers[:k])[:threshold])


def _check_names(group: Group, statements: Collection[str]) -> None:
    if set(statements) - set(group.names) or len(statements) < group.threshold:
        raise ReleaseError(
            f"{len(statements)} statements are not those of {group.threshold} or more participants of the group."
        )


def _box_key(sender: str, recipient: str, name: str, secrets: Secrets, statements: Statements) -> bytes:
    """Return the key of the box from sender to recipient, for ``name``, who is one of them."""
    other = recipient if name == sender else sender
    return derived(agreed(secrets.box, statements[other].box), "box", sender, recipient)


def _content(shares: Shares) -> bytes:
    return b"".join((*shares.keys, *shares.selves))


def _shares(content: bytes) -> Shares:
    parts = tuple(content[k : k + SEED] for k in range(0, len(content), SEED))
    return Shares(parts[: len(parts) // 2], parts[len(parts) // 2 :])
