"""The catalogue of messages, derived from their classes: phases, tags, words, and what each field of a message contains.

:func:`register` adds an exchange; nothing else has to change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from intarsia.protocol.checks import MOST_ROWS
from intarsia.protocol.columns import COLUMNS
from intarsia.protocol.describe import DESCRIBE
from intarsia.protocol.facts import ITSELF, Fact
from intarsia.protocol.failure import Failure
from intarsia.protocol.keep_model import KEEP_MODEL
from intarsia.protocol.label import ASSIGN, LABEL
from intarsia.protocol.private import KEEP_LABELS, SKETCH, SUMS
from intarsia.protocol.refine import REFINE
from intarsia.protocol.repeat import COUNT_MOVES, LABEL_BEFORE
from intarsia.protocol.secure import KEYS, MASKED, SHARES, UNMASK
from intarsia.protocol.stability import STABILITY
from intarsia.protocol.summarize import SUMMARIZE
from intarsia.protocol.wire import Exchange, Message, Part, Reply, Request, decode, tag_of

_NUMBER = 8  # bytes
_EXCHANGES = [
    COLUMNS,
    *(DESCRIBE, SUMMARIZE, LABEL_BEFORE, REFINE, LABEL, COUNT_MOVES, ASSIGN, STABILITY, KEEP_MODEL),
    *(SKETCH, SUMS, KEEP_LABELS),
    *(KEYS, SHARES, MASKED, UNMASK),
]
SUPPRESSED = {
    "something": "what the release policy changed or suppressed is in the participant's journal only",
    "columns": "columns with too few observed values, suppressed",
    "levels": "levels that too few rows have, treated as missing values",
    "clusters": "clusters with too few rows, merged or suppressed",
    "entries": "entries of centroids with too few values, suppressed",
    "rows": "rows counted in another cluster than their own",
}
"""What a release policy may suppress, in words."""


def register(exchange: Exchange) -> None:
    """Add an exchange to those that a participant and a coordinator understand."""
    _EXCHANGES.append(exchange)
    _kinds.cache_clear()


def unregister(exchange: Exchange) -> None:
    """Remove an exchange."""
    _EXCHANGES.remove(exchange)
    _kinds.cache_clear()


def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges, in the order in which a run goes through them."""
    return tuple(_EXCHANGES)


def title_of(phase: str) -> str:
    """Return the title of a phase, or its name if no exchange belongs to it."""
    return next((exchange.title for exchange in _EXCHANGES if exchange.phase == phase), phase)


def is_round(phase: str) -> bool:
    """Whether a run repeats this phase, round by round."""
    return any(exchange.request.is_round for exchange in _EXCHANGES if exchange.phase == phase)


def phase_of(request: Request) -> str:
    """Return the name of the phase to which a request belongs: the last part of its tag."""
    return tag_of(request).rpartition(".")[2]


def requests() -> tuple[type[Request], ...]:
    """Return the classes of all requests."""
    return tuple(exchange.request for exchange in _EXCHANGES)


def replies() -> tuple[type[Reply], ...]:
    """Return the classes of all replies."""
    return (*dict.fromkeys(exchange.reply for exchange in _EXCHANGES), Failure)


def decode_request(data: bytes) -> Request:
    """Return the request that the bytes contain, or raise a ProtocolError."""
    return decode(data, requests())


def decode_reply(data: bytes) -> Reply:
    """Return the reply that the bytes contain, or raise a ProtocolError."""
    reply = decode(data, replies())
    if isinstance(reply, Failure):
        reply.check()  # nobody asked for it, so nobody else does
    return reply


def words_of(tag: str) -> str:
    """Return in words what a message with this tag asks or tells; an empty text for an unknown tag."""
    kind = _kind_of(tag)
    return "" if kind is None else (kind.__doc__ or "").partition("\n")[0]


def meaning_of(tag: str, path: str) -> str:
    """Return the meaning of a field of a message in words; an empty text for an unknown field."""
    kind = _kind_of(tag)
    fact = None if kind is None else paths_of(kind).get(path)
    return "" if fact is None else fact.meaning


def _kind_of(tag: str) -> type[Message] | None:
    return _kinds().get(tag)


@cache
def _kinds() -> dict[str, type[Message]]:
    return {tag_of(kind): kind for kind in (*replies(), *requests())}


def paths_of(kind: type[Part]) -> dict[str, Fact]:
    """Return the facts of all fields of a message class by their path, as ``moments.count``."""
    facts = dict(kind.facts())
    for name, parts in _parts_by_field(kind).items():
        for part in parts:
            facts |= {f"{name}.{path}": fact for path, fact in paths_of(part).items()}
    return facts


@cache
def _parts_by_field(kind: type[Part]) -> dict[str, tuple[type[Part], ...]]:
    """Return the classes of parts that each field may contain."""
    return {name: tuple(_parts_in(hint)) for name, hint in get_type_hints(kind).items()}


def _parts_in(hint: Any) -> Iterator[type[Part]]:
    if isinstance(hint, type) and issubclass(hint, Part):
        yield hint
    for inner in get_args(hint):
        yield from _parts_in(inner)


class Field(NamedTuple):
    """One field of a message: its path, entries and bytes; ``entries`` is None for an optional field without a value."""

    path: str
    entries: int | None
    n_bytes: int


def fields_of(message: Part, prefix: str = "") -> Iterator[Field]:
    """Yield every field of a message, in depth; a field of several parts once for each part."""
    for name, value in message.fields():
        path = prefix + name
        parts = _parts_of(value)
        for part in parts:
            yield from fields_of(part, f"{path}.")
        if not parts:
            yield Field(path, None, 0) if value is None else Field(path, *_size(value))


def _parts_of(value: Any) -> tuple[Part, ...]:
    if isinstance(value, Part):
        return (value,)
    return tuple(part for part in value if isinstance(part, Part)) if isinstance(value, tuple) else ()


def _size(value: Any) -> tuple[int, int]:
    if isinstance(value, np.ndarray):
        return value.size, value.nbytes
    if isinstance(value, str):
        return 1, len(value.encode())
    if isinstance(value, bytes):
        return 1, len(value)
    if isinstance(value, Mapping):
        sizes = [_size(inner) for pair in value.items() for inner in pair]
    elif isinstance(value, tuple):
        sizes = [_size(inner) for inner in value]
    else:
        return 1, _NUMBER
    return sum(n for n, _ in sizes), sum(size for _, size in sizes)


def rows_behind(message: Part, prefix: str = "") -> dict[str, int]:
    """Return the smallest number of rows behind any entry of each field, for fields that have rows behind them."""
    fewest: dict[str, int] = {}
    for name, value in message.fields():
        if value is None:
            continue
        fact = message.facts().get(name)
        rows = {} if fact is None else _rows_of(message, name, fact)
        for part in _parts_of(value):
            for path, n in rows_behind(part, f"{name}.").items():
                rows[path] = min(n, rows.get(path, n))
        for path, n in rows.items():
            if n > 0:
                fewest[prefix + path] = min(n, fewest.get(prefix + path, n))
    return fewest


def _rows_of(message: Part, name: str, fact: Fact) -> dict[str, int]:
    if fact.rows is None:
        return {}
    if isinstance(fact.rows, int):
        return {name: fact.rows}
    if isinstance(fact.rows, str):
        return {name: _fewest(getattr(message, name if fact.rows == ITSELF else fact.rows))}
    return {f"{name}.{path}": n for path, n in fact.rows(message).items()}


def _fewest(counts: Any) -> int:
    """Return the smallest positive count, or 0 if no count is positive; nobody has checked the reply yet."""
    counts = np.asarray(counts)
    if counts.dtype.kind not in "fi":
        return 0
    valid = counts[(counts > 0) & (counts < MOST_ROWS)]
    return int(valid.min()) if valid.size else 0


def differences(reply: Reply, before: Reply | None) -> int | None:
    """Return the smallest number of rows by which sums of a participant differ; None if no two sums do."""
    earlier = before if isinstance(before, type(reply)) else None
    return min((n for n in reply.differences(earlier) if n > 0), default=None)


def account_of(message: Message) -> list[dict[str, Any]]:
    """Return, for every field with a value, its path, entries, bytes and the smallest number of rows behind an entry."""
    rows = rows_behind(message)
    entries: Counter[str] = Counter()
    n_bytes: Counter[str] = Counter()
    for field in fields_of(message):
        if field.entries is not None:
            entries[field.path] += field.entries
            n_bytes[field.path] += field.n_bytes
    return [
        {"field": path, "entries": n, "bytes": n_bytes[path], "fewest_rows": rows.get(path)}
        for path, n in entries.items()
    ]
