"""What a report says, before it is drawn: plain typed facts, and JSON from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from intarsia.results.outcome import Exchange, RoundInfo, Sent, Suppressed
from intarsia.results.profiles import Separation

Matrix = tuple[tuple[float | None, ...], ...]


class State(StrEnum):
    """A traffic light."""

    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"


@dataclass(frozen=True)
class Light:
    """One condition for a result that can be trusted: whether it holds, what was seen, and what to do if it does not."""

    about: str
    state: State
    seen: str
    advice: str = ""


@dataclass(frozen=True)
class Party:
    """One participant. ``filled`` is the share of cells that are there in the columns it has."""

    name: str
    rows: int
    labelled: int
    columns: int
    local_clusters: int
    filled: float | None
    seconds: float
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Column:
    """One column: its levels if it is one of categories, and by participant the share of filled cells, None if absent."""

    name: str
    levels: tuple[str, ...]
    filled: tuple[float | None, ...]

    @property
    def owners(self) -> int:
        """How many have it."""
        return sum(share is not None for share in self.filled)


@dataclass(frozen=True)
class Shared:
    """How many columns two participants share, by their positions."""

    left: int
    right: int
    columns: int


@dataclass(frozen=True)
class Cluster:
    """One global cluster: rows in all and by participant, and the features that separate it best from the others."""

    number: int
    rows: int
    share: float
    rows_of: tuple[int, ...]
    separating: tuple[Separation, ...]


@dataclass(frozen=True)
class Profiles:
    """Clusters × features. ``standardised``: how many standard deviations of all rows the mean is off the overall mean.

    Features that separate clusters most come first. An entry that nobody saw, or that too few cells stand behind to be told,
    is None. ``overall`` is the standard deviation of all rows, by feature, in original units.
    """

    features: tuple[str, ...]
    overall: tuple[float, ...]
    means: Matrix
    standardised: Matrix
    deviations: Matrix
    cells: tuple[tuple[int, ...], ...]
    participants: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Piece:
    """A local cluster: the global one it joined, how clearly, and where it is on the map."""

    participant: int
    index: int
    rows: int
    cluster: int
    margin: float | None
    ambiguous: bool
    x: float
    y: float


@dataclass(frozen=True)
class Tree:
    """How local clusters can be merged, and how K was chosen from it where it was.

    ``earlier``: the local clusters are those from before K was known.
    ``linkage`` is scipy's (two members, height, size), None where the tree does not end in one group.
    """

    leaves: tuple[str, ...]
    earlier: bool
    linkage: tuple[tuple[float, ...], ...] | None
    silhouettes: Mapping[int, float]
    found: int | None
    chosen: int


@dataclass(frozen=True)
class Release:
    """What all participants sent, or were sent, in one field of one kind of message, and what it means."""

    message: str
    field: str
    meaning: str
    participants: int
    times: int
    withheld: int
    entries: int
    n_bytes: int
    fewest_rows: int | None
    fewest_at: str | None


@dataclass(frozen=True)
class ReportData:
    """A whole report, without any row or label of anyone. :meth:`to_json` is for machines."""

    title: str
    headline: tuple[str, str, str]
    lights: tuple[Light, ...]
    notes: tuple[str, ...]
    parties: tuple[Party, ...]
    columns: tuple[Column, ...]
    shared: tuple[Shared, ...]
    bridges: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    profiles: Profiles
    pieces: tuple[Piece, ...]
    map_keeps: float
    confidence: float | None
    tree: Tree | None
    rounds: tuple[RoundInfo, ...]
    exchanges: tuple[Exchange, ...]
    releases: tuple[Release, ...]
    sent: tuple[Sent, ...]
    suppressed: tuple[Suppressed, ...]
    method: str | None
    settings: Mapping[str, Any]
    seed: int | None
    versions: Mapping[str, str]
    started: str | None
    seconds: float | None
    units: str | None
    methods: str
    references: tuple[str, ...]

    def to_json(self) -> str:
        """One JSON document; what is not a number is null."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()
