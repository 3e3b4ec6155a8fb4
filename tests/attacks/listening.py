"""What a listener sees of an honest run, and the sums in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia import FederatedClustering, OneShotClustering, ReleasePolicy
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import OPEN
from intarsia.protocol import (
    Describe,
    Description,
    Failure,
    Label,
    LabelBefore,
    Labelled,
    LocalSummary,
    Refine,
    Refinement,
)
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import WireRuntime
from intarsia.tables.frame import read_table
from tests.attacks.studies import Study, Table

MANY_ROUNDS = {"max_rounds": 20, "tol": 1e-4}  # as many as a participant allows: each one tells more


class Tap(WireRuntime):
    """Keeps every request with its reply, by participant."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        super().__init__(participants)
        self.heard: dict[str, list[tuple[Any, Any]]] = {one.name: [] for one in participants}
        self.spies = {one.name: Spy(one) for one in participants}

    def exchange(self, requests: Mapping[str, Any], on_reply: Any = None) -> dict[str, Any]:
        replies = super().exchange(requests, on_reply)
        for name, reply in replies.items():
            self.heard[name].append((requests[name], reply))
            self.spies[name].end_of_message()
        return replies


class Spied(NamedTuple):
    """The labels that sums were told over: of rows, and of the values of columns with missing values, in given order."""

    rows: np.ndarray
    columns: tuple[tuple[np.ndarray, np.ndarray], ...]

    def of_column(self, j: int) -> np.ndarray:
        return next((labels for features, labels in self.columns if j in features), self.rows)


class Spy:
    """Writes down the labels that a participant's audit lets it tell sums over, message by message."""

    def __init__(self, participant: Participant) -> None:
        self.spied: list[list[Spied]] = []
        self._now: list[Spied] = []
        self._table = participant._table  # no message carries these labels, and no property shows them
        audit = participant._audit
        self._tell = audit.tell
        audit.tell = self.tell  # type: ignore[method-assign]

    def tell(self, *given: Any) -> Any:
        told, back = self._tell(*given), self._table.in_given_order
        columns = tuple((features, np.asarray(back(labels))) for features, labels in told.columns)
        self._now.append(Spied(np.asarray(back(told.rows)), columns))
        return told

    def end_of_message(self) -> None:
        self.spied.append(self._now)
        self._now = []


class Heard(NamedTuple):
    """The messages of one participant in one run, its rows in the units of the run, and the labels that it keeps."""

    messages: list[tuple[Any, Any]]
    rows: Rows
    labels: np.ndarray
    local_labels: np.ndarray
    spied: list[list[Spied]]


class Rows(NamedTuple):
    """All rows as they really are: 0 where a value is missing."""

    values: np.ndarray
    observed: np.ndarray
    names: tuple[str, ...]


class Told(NamedTuple):
    """One told sum over a set of rows: how many rows, and by feature how many values and their sum; 0 values: untold."""

    size: int
    counts: np.ndarray
    sums: np.ndarray
    source: str


def participant_of(table: Table, name: str, policy: ReleasePolicy | None, **more: Any) -> Participant:
    return Participant(read_table(table, name), pipeline=Pipeline(OPEN if policy is None else policy, **more))


def estimator_of(study: Study, seed: int) -> FederatedClustering | OneShotClustering:
    settings = dict(study.settings)
    kind = {"federated": FederatedClustering, "one_shot": OneShotClustering}[settings.pop("method", "federated")]
    rounds = MANY_ROUNDS if kind is FederatedClustering else {}
    return kind(study.n_clusters, random_state=seed, **rounds, **settings)


def listen(study: Study, policy: ReleasePolicy | None, seed: int = 0) -> dict[str, Heard]:
    """Run a study, and return what was said by and to each participant."""
    participants = [participant_of(table, name, policy) for name, table in study.tables.items()]
    tap = Tap(participants)
    drive(estimator_of(study, seed).algorithm_for(list(study.tables)), tap)
    assert not any(isinstance(reply, Failure) for pairs in tap.heard.values() for _, reply in pairs)
    return {
        one.name: Heard(
            tap.heard[one.name],
            rows_of(study.tables[one.name], tap.heard[one.name]),
            np.asarray(one.labels),
            np.asarray(one.local_labels),
            tap.spies[one.name].spied,
        )
        for one in participants
    }


def rows_of(table: Table, messages: Iterable[tuple[Any, Any]]) -> Rows:
    """Lay out a table as the requests of a run say: in the order of the features of the summary, in common units."""
    pairs = list(messages)
    summary = next(reply for _, reply in pairs if isinstance(reply, LocalSummary))
    columns = next((request.columns for request, _ in pairs if isinstance(request, (Refine, Label))), None)
    values = np.stack([feature(table, name) for name in summary.features], axis=1)
    observed = ~np.isnan(values)
    if columns is not None:
        values = (values - columns.shift) / columns.scale
    return Rows(np.where(observed, values, 0.0), observed, summary.features)


def feature(table: Table, name: str) -> np.ndarray:
    if name in table:
        return np.asarray(table[name], dtype=float)
    column, level = name.split("=", 1)
    return np.asarray(np.asarray(table[column]) == level, dtype=float)


def sums_told(messages: Iterable[tuple[Any, Any]]) -> list[Told]:
    """Return all different sums in the messages of one participant, in the units of the rounds."""
    told: list[Told] = []
    for n, (request, reply) in enumerate(messages):
        if isinstance(reply, LocalSummary) and request.columns is not None:
            told += _clusters(reply, f"{n} summary")
        elif isinstance(reply, Refinement):
            for k, part in enumerate(reply.refined):
                told += _clusters(part, f"{n} set {k}")
    return different([*told, *_totals(messages)])


def _totals(messages: Iterable[tuple[Any, Any]]) -> Iterable[Told]:
    """The sum over all rows, which the moments tell, in the units of the rounds."""
    pairs = list(messages)
    summaries = [(request, reply) for request, reply in pairs if isinstance(reply, LocalSummary) and request.columns]
    described = [reply for request, reply in pairs if isinstance(request, Describe) and isinstance(reply, Description)]
    if not summaries or not described or described[0].moments is None:
        return
    (request, summary), moments = summaries[0], described[0].moments
    counts, sums = np.zeros((2, len(summary.features)))
    place = [summary.features.index(name) for name in described[0].features]
    counts[place] = moments.count
    scale, shift = request.columns.scale[place], request.columns.shift[place]
    sums[place] = moments.count * (moments.mean - shift) / scale
    yield Told(described[0].n_rows, counts, sums, "moments")


def _clusters(part: Any, source: str) -> Iterable[Told]:
    for k in range(len(part.sizes)):
        if part.sizes[k] > 0:
            counts = np.asarray(part.counts[k], dtype=float)
            yield Told(int(part.sizes[k]), counts, np.where(counts > 0, part.values[k] * counts, 0.0), f"{source} {k}")


def different(told: Iterable[Told]) -> list[Told]:
    """Return each sum once, whatever tells it first."""
    kept: dict[bytes, Told] = {}
    for one in told:
        key = np.round(np.r_[one.size, one.counts, one.sums / (1.0 + np.abs(one.counts))], 9) + 0.0
        kept.setdefault(key.tobytes(), one)
    return list(kept.values())


class Squares(NamedTuple):
    """Told sums of squares around a centre, over one set of rows."""

    size: int
    counts: np.ndarray
    squares: np.ndarray
    centre: np.ndarray


def squares_told(messages: Iterable[tuple[Any, Any]]) -> list[Squares]:
    """Return the sums of squares in the replies to requests for labels."""
    return [
        Squares(int(reply.sizes[k]), reply.counts[k], reply.squares[k], request.centres.values[k])
        for request, reply in messages
        if isinstance(reply, Labelled) and reply.squares is not None and isinstance(request, Label | LabelBefore)
        for k in range(len(reply.sizes))
        if reply.sizes[k] > 0
    ]
