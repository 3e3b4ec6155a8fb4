"""What a message holds, field by field: how many entries, how many bytes, and how few rows stand behind an entry.

This is what somebody who answers for the data wants to know of every message, so it is taken from the message itself, not
from what its author meant to send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from intarsia.exceptions import ProtocolError
from intarsia.protocol.densities import DiscreteDensity
from intarsia.protocol.describe import DESCRIBE, Description
from intarsia.protocol.failure import MOST_TEXT, Failure
from intarsia.protocol.label import ASSIGN, LABEL, Labelled
from intarsia.protocol.layout import Moments
from intarsia.protocol.refine import REFINE, Refinement
from intarsia.protocol.summarize import SUMMARIZE, LocalSummary
from intarsia.protocol.wire import Array, Exchange, Message, Reply, Request, decode

_NUMBER = 8  # bytes
_MOST_ROWS = 2**53  # counts are exact up to here
_CELLS = 1  # a smallest or largest cell, or a quantile, is some row's


_EXCHANGES = [DESCRIBE, SUMMARIZE, REFINE, LABEL, ASSIGN]


def register(exchange: Exchange) -> None:
    """Add an exchange to those that both sides understand."""
    _EXCHANGES.append(exchange)


def exchanges() -> tuple[Exchange, ...]:
    """All exchanges, in the order in which a run goes through them."""
    return tuple(_EXCHANGES)


def title_of(phase: str) -> str:
    """Return the title of the exchange of this phase, or the phase itself if there is no such exchange."""
    return next((exchange.title for exchange in _EXCHANGES if exchange.phase == phase), phase)


def requests() -> tuple[type[Request], ...]:
    """The classes of all requests."""
    return tuple(exchange.request for exchange in _EXCHANGES)


def replies() -> tuple[type[Reply], ...]:
    """The classes of all replies."""
    return (*dict.fromkeys(exchange.reply for exchange in _EXCHANGES), Failure)


def decode_request(data: bytes) -> Request:
    """Return the request that the bytes contain, or raise a ProtocolError."""
    return decode(data, requests())


def decode_reply(data: bytes) -> Reply:
    """Return the reply that the bytes contain, or raise a ProtocolError."""
    reply = decode(data, replies())
    if isinstance(reply, Failure) and max(len(reply.error), len(reply.message)) > MOST_TEXT:
        raise ProtocolError(f"the text of a failure is longer than {MOST_TEXT} letters")
    return reply


@dataclass(frozen=True)
class Held:
    """One field of a message; ``entries`` is None where the message could have held it and does not."""

    path: str
    entries: int | None
    n_bytes: int


def fields_of(message: Request | Reply) -> Iterator[Held]:
    """Every field that the message holds or could hold, without the version of the list of messages."""
    for name in type(message).__struct_fields__:
        if name not in Message.__struct_fields__:
            yield from _walk(name, getattr(message, name))


def _walk(path: str, thing: Any) -> Iterator[Held]:
    if thing is None:
        yield Held(path, None, 0)
    elif isinstance(thing, msgspec.Struct):
        for name in thing.__struct_fields__:
            yield from _walk(f"{path}.{name}", getattr(thing, name))
    elif isinstance(thing, tuple) and any(isinstance(part, msgspec.Struct) for part in thing):
        for part in thing:
            yield from _walk(path, part)
    else:
        yield Held(path, *_size(thing))


def _size(thing: Any) -> tuple[int, int]:
    if isinstance(thing, np.ndarray):
        return thing.size, thing.nbytes
    if isinstance(thing, str):
        return 1, len(thing.encode())
    if isinstance(thing, Mapping):
        parts = [_size(part) for pair in thing.items() for part in pair]
    elif isinstance(thing, tuple):
        parts = [_size(part) for part in thing]
    else:
        return 1, _NUMBER
    return sum(n for n, _ in parts), sum(size for _, size in parts)


def rows_behind(reply: Reply) -> dict[str, int]:
    """By field of a reply, the fewest rows that stand behind any of its entries, where the reply itself tells."""
    return {path: rows for path, rows in _rows_behind(reply).items() if rows > 0}


def _rows_behind(reply: Reply) -> dict[str, int]:
    match reply:
        case Description():
            return {**dict.fromkeys(("features", "n_rows"), reply.n_rows), **_behind_moments(reply.moments)}
        case LocalSummary():
            cells, rows = _fewest(reply.counts), _fewest(reply.sizes)
            about_all = dict.fromkeys(("features", "n_rows", "filled"), reply.n_rows)
            about_clusters = dict.fromkeys(("sizes", "clarity", "fidelity"), rows) | _behind_densities(reply, cells)
            about_cells = dict.fromkeys(("values", "counts"), cells)
            return (
                about_all
                | about_clusters
                | about_cells
                | _behind_moments(reply.moments)
                | {"low": _CELLS, "high": _CELLS}
            )
        case Refinement():
            cells = min((n for part in reply.refined if (n := _fewest(part.counts))), default=0)
            rows = min((n for part in reply.refined if (n := _fewest(part.sizes))), default=0)
            return {"refined.values": cells, "refined.counts": cells, "refined.sizes": rows}
        case Labelled():
            behind = {"sizes": _fewest(reply.sizes)}
            if reply.counts is not None:
                behind |= dict.fromkeys(("counts", "squares"), _fewest(reply.counts))
            return behind
        case _:
            return {}


def differences(reply: Reply, before: Refinement | None) -> int | None:
    """The fewest rows by which sums in this reply differ from others that the participant sent; None if there are none.

    Means and counts of two rounds are two sums, and their difference is a sum over the rows that changed sides; so it is
    with all rows and those that are in clusters.
    """
    apart: list[int] = []
    if isinstance(reply, LocalSummary) and _are_counts(reply.sizes):
        apart.append(reply.n_rows - int(reply.sizes.sum(dtype=object)))
    if isinstance(reply, Refinement) and before is not None:
        for new, old in zip(reply.refined, before.refined, strict=False):
            if new.counts.shape == old.counts.shape and _are_counts(new.counts) and _are_counts(old.counts):
                moved = np.abs(new.counts - old.counts)
                apart += np.unique(moved[moved > 0]).astype(int).tolist()
    return min((n for n in apart if n > 0), default=None)


def _behind_moments(moments: Moments | None) -> dict[str, int]:
    if moments is None:
        return {}
    pooled = dict.fromkeys(("moments.count", "moments.mean", "moments.m2"), _fewest(moments.count))
    return pooled | dict.fromkeys(("moments.low", "moments.high", "moments.quantiles"), _CELLS)


def _behind_densities(reply: LocalSummary, cells: int) -> dict[str, int]:
    """Of a table of probabilities, the rows that have its rarest outcome; of anything else, the cells behind an entry."""
    behind = dict.fromkeys({held.path for held in _walk("densities", reply.densities or ())}, cells)
    rarest = [
        round(float(block.probabilities[block.probabilities > 0].min(initial=1.0)) * int(size))
        for density, size in zip(reply.densities or (), _counts_in(reply.sizes), strict=False)
        if isinstance(density, DiscreteDensity)
        for block in density.blocks
    ]
    if rarest:
        behind |= dict.fromkeys((path for path in behind if ".blocks" in path), max(min(rarest), 1))
    return behind


def _fewest(counts: Array) -> int:
    """The smallest count that is one: entries without any row are hidden."""
    there = _counts_in(counts)
    return int(there.min()) if there.size else 0


def _counts_in(numbers: Array) -> Array:
    """Those that are counts, in one row: a reply is looked at before anybody has checked it."""
    flat = numbers.ravel()
    return flat[(flat > 0) & (flat < _MOST_ROWS)] if flat.dtype.kind in "fi" else flat[:0]


def _are_counts(numbers: Array) -> bool:
    return numbers.dtype.kind in "fi" and bool(((numbers >= 0) & (numbers < _MOST_ROWS)).all())
