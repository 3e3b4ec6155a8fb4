"""Replies are collected and checked here before the coordinator computes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import numpy as np

from intarsia.core.types import IntArray
from intarsia.exceptions import ProtocolError, TooFewClustersError, about, quote
from intarsia.protocol import Labelled, Moments, Reply

R = TypeVar("R", bound=Reply)
P = ParamSpec("P")
T = TypeVar("T")


def replies_of(kind: type[R], replies: Mapping[str, Reply], expected: Sequence[str]) -> dict[str, R]:
    """Return the valid replies of one kind by participant, in the order of ``expected``; who did not reply is missing."""
    valid: dict[str, R] = {}
    for name in expected:
        reply = replies.get(name)
        if reply is None:
            continue
        if not isinstance(reply, kind):
            wrong = f"participant {name!r} sent a {type(reply).__name__} where a {kind.__name__} was asked for"
            raise about(name, ProtocolError(wrong))
        checked(name, reply.check)
        valid[name] = reply
    return valid


def checked(name: str, rule: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Apply a check to the reply of a participant, and return its result; an error names the participant."""
    try:
        return rule(*args, **kwargs)
    except TooFewClustersError as error:
        raise about(name, TooFewClustersError(f"participant {name!r}: {error}")) from None
    except ProtocolError as error:
        raise about(name, ProtocolError(f"the reply of participant {name!r} is invalid: {error}")) from None


def check_senders(replies: Mapping[str, Reply], expected: Sequence[str], *, optional: bool = False) -> None:
    """Only participants that were asked may reply, and at least one must unless replies are optional."""
    if not set(replies) <= set(expected) or not (replies or optional):
        raise ProtocolError(
            f"replies came from {quote(sorted(replies))}, but were expected from {quote(sorted(expected))}"
        )


def check_statistics(moments: Mapping[str, Moments | None], scale: str | None) -> None:
    """All participants must have sent the moments that the units need."""
    for name, sent in moments.items():
        if sent is not None:
            checked(name, sent.check_units, scale)
        elif scale is not None:
            raise about(name, ProtocolError(f"the reply of participant {name!r} is invalid: moments are missing"))


def sizes_of(
    labelled: Mapping[str, Labelled], participants: Sequence[str], n_clusters: int, n_rows: Mapping[str, int]
) -> dict[str, IntArray]:
    """Return the number of rows of each participant in each cluster; zeros for a participant that did not reply."""
    for name, reply in labelled.items():
        checked(name, reply.check_sizes, n_clusters, n_rows[name])
    none = np.zeros(n_clusters, dtype=np.intp)
    return {name: labelled[name].sizes if name in labelled else none for name in participants}
