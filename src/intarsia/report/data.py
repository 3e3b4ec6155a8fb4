"""The content of a report as plain typed facts, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from intarsia.results.choices import ConsideredNumber
from intarsia.results.outcome import Exchange, RoundInfo, Sent, Suppressed, called
from intarsia.results.profiles import Separation
from intarsia.results.repeat import Repeat
from intarsia.results.stability import Stability

Matrix = tuple[tuple[float | None, ...], ...]


class State(StrEnum):
    """Whether a condition holds."""

    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One condition for a result that can be trusted: its state, what was seen, and what to do if it does not hold."""

    about: str
    state: State
    seen: str
    advice: str = ""


@dataclass(frozen=True)
class Participant:
    """One participant. ``filled`` is the share of values that are not missing in its columns.

    ``weight`` is its share of the weighted rows behind the centroids.
    """

    name: str
    rows: int
    labelled: int
    columns: int
    local_clusters: int
    filled: float
    seconds: float
    bytes_in: int
    bytes_out: int
    weight: float | None = None


@dataclass(frozen=True)
class Column:
    """One column: its levels; by participant, the share of values that are not missing, None if the column is absent."""

    name: str
    levels: tuple[str, ...]
    filled: tuple[float | None, ...]

    @property
    def owners(self) -> int:
        """The number of participants that have the column."""
        return sum(share is not None for share in self.filled)


@dataclass(frozen=True)
class Shared:
    """The number of columns that two participants share; they are given by position."""

    left: int
    right: int
    columns: int


@dataclass(frozen=True)
class Cluster:
    """One global cluster: its rows, in all and by participant, and the features that separate it best from the others.

    ``weights`` are the shares of the participants in the weighted rows behind its centroid.
    ``name`` is what a user called it.
    """

    number: int
    rows: int
    share: float
    rows_of: tuple[int, ...]
    separating: tuple[Separation, ...]
    weights: tuple[float | None, ...] = ()
    name: str | None = None

    @property
    def called(self) -> str:
        """What a text calls the cluster."""
        return called(self.number, self.name)


@dataclass(frozen=True)
class Profiles:
    """Clusters × features, those that separate clusters most first. None: not measured, or too few values to be shown.

    ``standardised`` is the difference of the mean from the overall mean in standard deviations of all rows, which are
    ``overall`` in original units. ``errors`` are the standard deviations that the noise of a private study gives the means,
    in original units; empty in other studies.
    """

    features: tuple[str, ...]
    overall: tuple[float, ...]
    means: Matrix
    standardised: Matrix
    deviations: Matrix
    cells: tuple[tuple[int, ...], ...]
    participants: tuple[tuple[int, ...], ...]
    errors: Matrix = ()


@dataclass(frozen=True)
class MapPoint:
    """A local cluster: the global one it joined, how clearly, and its place on the map."""

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
    """The merge tree of local clusters, and how K was chosen from it.

    ``linkage`` is scipy's, None if the tree does not end in one group, and ``height`` says what its heights are.
    ``earlier``: the leaves are from before K was chosen. ``is_result``: the clusters are this cut of the tree.
    """

    leaves: tuple[str, ...]
    earlier: bool
    linkage: tuple[tuple[float, ...], ...] | None
    silhouettes: Mapping[int, float]
    choices: tuple[ConsideredNumber, ...]
    found: int | None
    chosen: int
    height: str
    is_result: bool


@dataclass(frozen=True)
class Release:
    """One field of one type of message, over all participants: its meaning, and how much was sent."""

    message: str
    field: str
    meaning: str
    participants: int
    times: int
    omitted: int
    entries: int
    n_bytes: int
    fewest_rows: int | None
    fewest_at: str | None


@dataclass(frozen=True)
class Spending:
    """What one participant spent in one exchange of a private study; ``epsilon`` is that of this exchange alone."""

    participant: str
    exchange: str
    epsilon: float
    rho: float


@dataclass(frozen=True)
class Privacy:
    """The differential privacy of a study: what was agreed, the most that a participant spent, and what that means."""

    epsilon: float
    delta: float
    rows_per_person: int
    most: float
    meaning: str
    spent: tuple[Spending, ...]


REPORT_FORMAT = 1  # raised when a field is removed or gets another meaning


@dataclass(frozen=True)
class ReportData:
    """The content of a report, without rows or labels."""

    title: str
    headline: tuple[str, str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    participants: tuple[Participant, ...]
    columns: tuple[Column, ...]
    shared: tuple[Shared, ...]
    bridges: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    profiles: Profiles
    local_clusters: tuple[MapPoint, ...]
    map_keeps: float
    confidence: float | None
    stability: Stability | None
    tree: Tree | None
    rounds: tuple[RoundInfo, ...]
    exchanges: tuple[Exchange, ...]
    releases: tuple[Release, ...]
    sent: tuple[Sent, ...]
    suppressed: tuple[Suppressed, ...]
    method: str
    settings: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]
    started: str
    seconds: float
    units: str | None
    methods: str
    references: tuple[str, ...]
    privacy: Privacy | None = None
    repeat: Repeat | None = None
    format: int = REPORT_FORMAT  # ``intarsia schema report`` has the fields
    secure: bool = False  # sums were told under masks, so that they are known as totals only

    def to_json(self) -> str:
        """Return the content as one JSON document; NaN is null."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()
