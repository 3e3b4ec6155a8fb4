"""The content of run.json as a type, from which its JSON Schema is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from intarsia.results.outcome import Exchange, Sent
from intarsia.results.repeat import Repeat


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One federated round in run.json."""

    number: int
    movement: float
    kind: str


class RunFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of run.json: how a result was computed."""

    format: int
    intarsia: str
    python: str
    versions: Mapping[str, str]
    command: tuple[str, ...]
    method: str
    asked_for: Any
    settings: Mapping[str, Any]
    files: Mapping[str, str]
    n_clusters: int
    units: str | None
    sizes: Mapping[str, tuple[int, ...]]
    total_sizes: tuple[int, ...]
    aggregation: str
    confidence: float | None
    stability: Mapping[str, Any] | None
    rounds: tuple[Round, ...]
    seed: int
    exchanges: tuple[Exchange, ...]
    sent: tuple[Sent, ...]
    seconds: float
    privacy: Any = None
    joined: Mapping[str, str] | None = None
    previous: str | None = None
    repeat: Repeat | None = None
