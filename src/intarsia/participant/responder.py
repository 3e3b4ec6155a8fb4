"""A participant: owns private rows, answers requests with summaries, keeps the labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod
from typing import Any

import numpy as np

from intarsia.core.alignment import compatible, local_start, match
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.densities import fit_gaussian
from intarsia.core.distances import Extent, Metric, nearest_centre
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ProtocolError, TooFewRowsError
from intarsia.frames import Table
from intarsia.messages import (
    Assign,
    Centres,
    Describe,
    Description,
    Failure,
    Label,
    Labelled,
    LocalSummary,
    Moments,
    Refine,
    Refinement,
    Reply,
    Request,
    Summarize,
    Units,
)
from intarsia.participant.local import LocalAlgorithm, choose_labels


class Participant:
    """Whoever holds private rows. ``handle`` is the only way to ask it anything; rows and labels never leave by it."""

    def __init__(self, table: Table, local: Any = None, metric: Metric = "euclidean") -> None:
        self.name = table.owner
        self.labels: IntArray | None = None
        self.local_labels: IntArray | None = None
        self.last_error: Exception | None = None
        self._table = table
        self._local = LocalAlgorithm(local)
        self._metric = metric

    def handle(self, request: Request) -> Reply:
        """Answer a request, or say why not: in names and counts only, whatever went wrong."""
        self.last_error = None
        try:
            return self._answer(request)
        except IntarsiaError as error:
            self.last_error = error
            return Failure(error=type(error).__name__, message=_about(self.name, error))
        except Exception as error:  # noqa: BLE001  (the text of a foreign exception may hold data, so it stays here)
            self.last_error = error
            kind, what = type(error).__name__, type(request).__name__
            message = f"participant {self.name!r} failed with a {kind} while answering {what}"
            return Failure(error=LocalAlgorithmError.__name__, message=message)

    @singledispatchmethod
    def _answer(self, request: Any) -> Reply:
        raise ProtocolError(f"a {type(request).__name__} is not a request")

    @_answer.register
    def _(self, request: Describe) -> Reply:
        moments = moments_of(self._table.values, self._table.observed) if request.moments else None
        return Description(features=self._table.names, n_rows=len(self._table), moments=moments)

    @_answer.register
    def _(self, request: Summarize) -> Reply:
        rows = self._rows(request.units)
        moments = moments_of(rows, self._table.observed) if request.own_units else None
        labels = self._cluster((rows - moments.mean) / _scale_of(moments) if moments else rows, request)
        self.local_labels = labels
        return _summary(self._table, rows, labels, request, moments)

    @_answer.register
    def _(self, request: Refine) -> Reply:
        rows, observed = self._rows(request.units), self._table.observed
        centres, extent = _centres(request.centres)
        chosen = self._nearest(rows, centres, extent)
        fitting = compatible(chosen, len(centres), request.min_points)
        values, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
        sizes = np.zeros(len(centres), dtype=np.intp)
        if len(fitting):
            own = centroids_of_rows(rows, observed, chosen, len(centres))
            everyone = centroids_of_rows(rows, observed, np.zeros(len(rows), dtype=np.intp), 1)
            start = local_start(centres, own, everyone.values)[fitting]
            rng = stream(request.seed, self.name, "refine", request.round)
            labels = self._local.refine(rows, observed, start, request.max_iter, rng)
            local = centroids_of_rows(rows, observed, labels, int(labels.max(initial=-1)) + 1)
            index = match(local, centres, extent, self._metric)
            known, mine = index >= 0, index[index >= 0]
            values[known], counts[known] = local.values[mine], local.counts[mine]
            sizes[known] = _sizes(labels, len(local))[mine]
        return Refinement(values=values, counts=counts, sizes=sizes)

    @_answer.register
    def _(self, request: Label) -> Reply:
        centres, extent = _centres(request.centres)
        self.labels = self._nearest(self._rows(request.units), centres, extent)
        return Labelled(sizes=_sizes(self.labels, len(centres)))

    @_answer.register
    def _(self, request: Assign) -> Reply:
        if self.local_labels is None or len(request.groups) <= self.local_labels.max(initial=-1):
            raise ProtocolError(f"participant {self.name!r} was told the groups of clusters that it does not have")
        self.labels = np.where(self.local_labels >= 0, request.groups[self.local_labels], -1)
        return Labelled(sizes=_sizes(self.labels, request.n_groups))

    def _rows(self, units: Units | None) -> FloatArray:
        return self._table.values if units is None else (self._table.values - units.shift) / units.scale

    def _nearest(self, rows: FloatArray, centres: MaskedCentroids, extent: Extent) -> IntArray:
        return nearest_centre(rows, self._table.observed, centres.values, centres.seen, extent, self._metric)

    def _cluster(self, rows: FloatArray, request: Summarize) -> IntArray:
        rng = stream(request.seed, self.name, "summarize")
        observed = self._table.observed
        if self._local.estimator is not None:
            return self._local.cluster(rows, observed, 0, rng)
        if request.n_local_clusters is None:
            return choose_labels(self._local, rows, observed, request.n_clusters, request.max_local_clusters, rng)
        if request.n_local_clusters > len(rows):
            raise TooFewRowsError(
                f"participant {self.name!r} was asked for {request.n_local_clusters} clusters of {len(rows)} row(s). "
                "Hint: ask for fewer local clusters, or leave participants this small out."
            )
        return self._local.cluster(rows, observed, request.n_local_clusters, rng)


def _about(name: str, error: IntarsiaError) -> str:
    text = str(error)
    return text if repr(name) in text else f"participant {name!r}: {text}"


def moments_of(rows: FloatArray, observed: BoolArray) -> Moments:
    """Count, mean and M2 of the observed cells of each feature."""
    everyone = centroids_of_rows(rows, observed, np.zeros(len(rows), dtype=np.intp), 1)
    deviations = np.where(observed, rows - everyone.values[0], 0.0)
    return Moments(count=everyone.counts[0], mean=everyone.values[0], m2=np.square(deviations).sum(axis=0))


def _scale_of(moments: Moments) -> FloatArray:
    deviation = np.sqrt(moments.m2 / np.maximum(moments.count, 1.0))
    return np.where(deviation > 0, deviation, 1.0)


def _summary(
    table: Table, rows: FloatArray, labels: IntArray, request: Summarize, moments: Moments | None
) -> LocalSummary:
    n_clusters = int(labels.max(initial=-1)) + 1
    centroids = centroids_of_rows(rows, table.observed, labels, n_clusters)
    of_each: Callable[[int], tuple[FloatArray, BoolArray]] = lambda k: (  # noqa: E731
        rows[labels == k][:, centroids.seen[k]],
        table.observed[labels == k][:, centroids.seen[k]],
    )
    covariances = low = high = None
    if request.density is not None:
        covariances = tuple(fit_gaussian(*of_each(k), request.density).covariance for k in range(n_clusters))
    if request.bounding_boxes:
        low, high = np.zeros(centroids.values.shape), np.zeros(centroids.values.shape)
        for k in range(n_clusters):
            inside, there = of_each(k)
            low[k, centroids.seen[k]] = np.where(there, inside, np.inf).min(axis=0)
            high[k, centroids.seen[k]] = np.where(there, inside, -np.inf).max(axis=0)
    return LocalSummary(
        features=table.names,
        values=centroids.values,
        counts=centroids.counts,
        sizes=_sizes(labels, n_clusters),
        covariances=covariances,
        low=low,
        high=high,
        moments=moments,
    )


def _sizes(labels: IntArray, n: int) -> IntArray:
    return np.bincount(labels[labels >= 0], minlength=n)


def _centres(centres: Centres) -> tuple[MaskedCentroids, Extent]:
    return MaskedCentroids.of(centres.values, centres.known.astype(np.float64)), Extent(centres.low, centres.high)
