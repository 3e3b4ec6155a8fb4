"""What every participant does the same way: keep to its rules, check what it was sent, say no more than it should."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent, Metric
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.mixture import FARTHEST, SMALLEST, Mixture
from intarsia.core.randomness import stream
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import Statistics
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ProtocolError, TooFewRowsError
from intarsia.participant.clusterers import Chosen, LocalAlgorithm, Rows, Units, choose_labels
from intarsia.privacy.gate import Gate
from intarsia.privacy.pipeline import Cells
from intarsia.protocol import (
    MOST_JOINT_LEVELS,
    MOST_SETS,
    Assign,
    Centres,
    Columns,
    Failure,
    Gaussians,
    Moments,
    Refine,
    Reply,
    Request,
    Summarize,
)

_MOST_TRIED = 50  # numbers of clusters that a participant tries when nobody knows K


class Responder(ABC):
    """Whoever holds private rows. ``handle`` is the only way to ask it anything; rows and labels never leave by it."""

    def __init__(self, name: str, local: LocalAlgorithm, metric: Metric, gate: Gate | None) -> None:
        self.name = name
        self.last_error: Exception | None = None
        self._gate = Gate() if gate is None else gate
        self._local = replace(local, discreet=self._gate.is_discreet)
        self._metric = metric
        self._cells = Cells(0, np.zeros(0, dtype=np.intp))  # as laid out for the last request
        self._labels: IntArray | None = None
        self._local_labels: IntArray | None = None
        self._nearest_local: IntArray | None = None

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the table. For its owner; no message carries it."""
        return self._in_given_order(self._labels)

    @property
    def local_labels(self) -> IntArray | None:
        """The local cluster of each row, in the order of the table."""
        return self._in_given_order(None if self._local_labels is None else np.maximum(self._local_labels, -1))

    def handle(self, request: Request) -> Reply:
        """Answer a request, or say why not: in names and counts only, whatever went wrong."""
        self.last_error = None
        try:
            self._gate.admit(request)
            return self._gate.release(request, self._answer(request), self._cells)
        except IntarsiaError as error:
            self.last_error = error
            failure = Failure(error=type(error).__name__, message=_about(self.name, error))
        except Exception as error:  # noqa: BLE001  (the text of a foreign exception may hold data, so it stays here)
            self.last_error = error
            kind, what = type(error).__name__, type(request).__name__
            message = f"participant {self.name!r} failed with a {kind} while answering {what}"
            failure = Failure(error=LocalAlgorithmError.__name__, message=message)
        return self._gate.pipeline.record(request, failure)

    @abstractmethod
    def _answer(self, request: Any) -> Reply:
        """The answer to a request that may be answered; what may leave of it is decided elsewhere."""

    @abstractmethod
    def _in_given_order(self, labels: IntArray | None) -> IntArray | None:
        """Labels in the order of the owner's table."""

    @property
    @abstractmethod
    def _levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""

    def _check_sets(self, request: Refine) -> None:
        if not 1 <= len(request.rivals) <= MOST_SETS:
            raise ProtocolError(
                f"participant {self.name!r} was sent {len(request.rivals)} sets of centroids, not 1 to {MOST_SETS}"
            )

    def _check_groups(self, request: Assign, most: int) -> None:
        groups, found = request.groups, self._local_labels
        if found is None or groups.shape != (int(found.max(initial=-1)) + 1,):
            raise self._no_clusters()
        inside = groups.dtype.kind == "i" and bool(((groups >= 0) & (groups < request.n_groups)).all())
        if not inside or request.n_groups > most:
            raise ProtocolError(f"participant {self.name!r} was told groups that do not exist")

    def _no_clusters(self) -> ProtocolError:
        return ProtocolError(f"participant {self.name!r} was told the groups of clusters that it does not have")

    def _units(self, columns: Columns, d: int) -> Units | None:
        shape = (d,)  # anything else could be broadcast against single rows
        if columns.shift.shape != shape or columns.scale.shape != shape or not _is_moderate(columns.shift):
            raise ProtocolError(f"participant {self.name!r} was sent units that do not fit its {d} features")
        if not ((columns.scale >= 1 / LARGEST) & (columns.scale <= LARGEST)).all():
            raise ProtocolError(f"participant {self.name!r} was sent a scale that is not a positive number")
        return units_of(columns.shift, columns.scale)

    def _check_levels(self, levels: Mapping[str, Sequence[str]]) -> None:
        own = self._levels
        fits = set(levels) == set(own) and all(set(mine) <= set(levels[name]) for name, mine in own.items())
        if not fits or any(len(set(sent)) < len(sent) for sent in levels.values()):
            raise ProtocolError(f"participant {self.name!r} was sent levels that do not fit its columns of categories")
        if any(len(sent) > MOST_JOINT_LEVELS for sent in levels.values()):
            raise ProtocolError(f"participant {self.name!r} was sent more levels than it could lay out")

    def _centres(self, centres: Centres, d: int, most: int) -> tuple[MaskedCentroids, Extent]:
        n = len(centres.values) if centres.values.ndim == 2 else 0
        fits = centres.values.shape == centres.known.shape == (n, d) and centres.low.shape == centres.high.shape == (d,)
        if not fits or n < 1:
            raise ProtocolError(f"participant {self.name!r} was sent centroids that do not fit its {d} features")
        if n > most:
            raise ProtocolError(f"participant {self.name!r} was sent {n} centroids, more than it takes")
        known = centres.known.astype(np.bool_)
        seen = known.any(axis=0)
        if not all(_is_moderate(part) for part in (centres.values[known], centres.low[seen], centres.high[seen])):
            raise ProtocolError(f"participant {self.name!r} was sent centroids that are not finite")
        if not (centres.low[seen] <= centres.high[seen]).all():
            raise ProtocolError(f"participant {self.name!r} was sent an extent that is none")
        return MaskedCentroids.of(centres.values, known.astype(np.float64)), Extent(centres.low, centres.high)

    def _mixture(self, sent: Gaussians, centres: MaskedCentroids) -> Mixture:
        k, d = centres.values.shape
        flat, each = (sent.overall, sent.width), (sent.means, sent.variances, sent.seen)
        fits = all(part.shape == (d,) for part in flat) and all(part.shape == (k, d) for part in each)
        if not fits or sent.weights.shape != (k,):
            raise ProtocolError(f"participant {self.name!r} was sent Gaussians that do not fit its {d} features")
        sane = all(_is_moderate(part) for part in (*flat, sent.means, sent.variances, sent.weights))
        wide = sane and bool(((sent.width == 0) | (sent.width >= 1 / LARGEST)).all())
        near = wide and bool((np.abs(sent.means) <= FARTHEST).all() and (sent.variances >= SMALLEST).all())
        if not near or not (sent.weights > 0).all():
            raise ProtocolError(f"participant {self.name!r} was sent Gaussians that are none")
        seen = sent.seen.astype(np.bool_)
        return Mixture(sent.means, sent.variances, sent.variances, seen, sent.weights, sent.overall, sent.width)

    def _groups(self, names: Sequence[str]) -> tuple[IntArray, ...]:
        """The columns of each category."""
        position = FeatureSpace(tuple(names))
        return tuple(
            position.index([name for name in indicators({column: levels}) if name in position])
            for column, levels in self._levels.items()
        )

    def _cluster(self, rows: Rows, request: Summarize) -> Chosen:
        rng = stream(request.seed, self.name, "summarize")
        if self._local.estimator is not None:
            return Chosen(self._local.cluster(rows, 0, rng), None)
        if request.n_local_clusters is None:
            most = (
                request.max_local_clusters
                if request.n_clusters is not None
                else min(request.max_local_clusters, _MOST_TRIED)
            )
            return choose_labels(self._local, rows, request.n_clusters, most, rng)
        if request.n_local_clusters > len(self._local.used(rows)):
            raise TooFewRowsError(
                f"participant {self.name!r} was asked for {request.n_local_clusters} clusters of "
                + ("fewer rows. " if self._gate.is_discreet else f"{len(self._local.used(rows))} row(s). ")
                + "Hint: ask for fewer local clusters, or leave participants this small out."
            )
        return Chosen(self._local.cluster(rows, request.n_local_clusters, rng), None)


def units_of(shift: FloatArray, scale: FloatArray) -> Units | None:
    """None if they are those of the table."""
    return Units(shift, scale) if shift.any() or (scale != 1.0).any() else None


def _about(name: str, error: IntarsiaError) -> str:
    text = str(error)
    return text if repr(name) in text else f"participant {name!r}: {text}"


def as_moments(s: Statistics) -> Moments:
    """As a message holds them."""
    return Moments(count=s.count, mean=s.mean, m2=s.m2, low=s.low, high=s.high, quantiles=s.quantiles)


def sizes_of(labels: IntArray, n: int) -> IntArray:
    """How many rows each of n clusters has."""
    return np.bincount(labels[labels >= 0], minlength=n)


def _is_moderate(values: FloatArray) -> bool:
    """Finite, and small enough to be squared and summed."""
    return bool((np.abs(values) <= LARGEST).all())
