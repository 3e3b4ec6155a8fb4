"""A participant: owns private rows, answers requests with summaries, keeps the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from intarsia.core.alignment import compatible, local_start, match
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, squares_of_rows
from intarsia.core.distances import (
    LARGEST,
    Extent,
    Metric,
    choose_centre,
    distances_to_centres,
    extent_of,
    misfit,
    nearest,
    nearest_centre,
)
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.mixture import FARTHEST, SMALLEST, Mixture, likeliest
from intarsia.core.pieces import by_rows
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import Statistics, choose_units, in_units, statistics_of
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ProtocolError, TooFewRowsError
from intarsia.frames import Table
from intarsia.messages import (
    MOST_JOINT_LEVELS,
    MOST_SETS,
    Assign,
    Centres,
    Columns,
    Describe,
    Description,
    Failure,
    Gaussians,
    Label,
    Labelled,
    Moments,
    Refine,
    Refined,
    Refinement,
    Reply,
    Request,
    Summarize,
    encode,
)
from intarsia.participant.asked import MOST_ITERATIONS, check_asked, most_centres
from intarsia.participant.gate import Gate
from intarsia.participant.local import LEFT_OUT, NOISE, Chosen, LocalAlgorithm, Rows, Units, choose_labels
from intarsia.participant.summary import summarize

_MOST_TRIED = 50  # numbers of clusters that a participant tries when nobody knows K


class Participant:
    """Whoever holds private rows. ``handle`` is the only way to ask it anything; rows and labels never leave by it."""

    def __init__(
        self,
        table: Table,
        local: Any = None,
        metric: Metric = "euclidean",
        missing: str = "observed",
        gate: Gate | None = None,
    ) -> None:
        self.name = table.owner
        self.last_error: Exception | None = None
        self._gate = Gate() if gate is None else gate
        table = self._gate.prepare(table)
        # rows in an order of their own for our k-means, so that the order they come in cannot matter; a local algorithm that
        # was given is used as it is, on the rows as they are
        self._order = np.arange(len(table)) if local is not None else _canonical_order(table.in_numbers())
        self._table = table.of_rows(self._order)
        self._layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], Table] = {}
        self._labels: IntArray | None = None
        self._local_labels: IntArray | None = None
        self._nearest_local: IntArray | None = None
        self._told_local: IntArray | None = None
        self._observed = np.zeros((0, 0), dtype=np.bool_)  # as laid out for the last request
        self._clustered: dict[bytes, Chosen] = {}
        self._local = LocalAlgorithm(local, missing, self._gate.is_discreet)
        self._metric = metric

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the table. For its owner; no message carries it."""
        return self._in_given_order(self._labels)

    @property
    def local_labels(self) -> IntArray | None:
        """The local cluster of each row, in the order of the table."""
        return self._in_given_order(None if self._local_labels is None else np.maximum(self._local_labels, -1))

    def _in_given_order(self, labels: IntArray | None) -> IntArray | None:
        if labels is None:
            return None
        result = np.empty_like(labels)
        result[self._order] = labels
        return result

    def handle(self, request: Request) -> Reply:
        """Answer a request, or say why not: in names and counts only, whatever went wrong."""
        self.last_error = None
        try:
            check_asked(self.name, request)
            self._gate.admit(request)
            return self._gate.release(request, self._answer(request), self._observed)
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
        table = self._table
        moments = None if request.scale is None else moments_of(table.values, table.observed, request.scale)
        return Description(features=table.names, levels=table.levels, n_rows=len(table), moments=moments)

    @_answer.register
    def _(self, request: Summarize) -> Reply:
        view = self._laid_out(request.columns)
        table, moments, units = view.table, None, view.units
        if request.columns is None:
            # one round: cluster in units of one's own, and let the coordinator find common ones
            said = statistics_of(table.values, table.observed, request.scale or "standard")
            moments = None if request.scale is None else _as_moments(said)
            own = choose_units(said, request.scale, FeatureSpace(table.names).mask(indicators(self._table.levels)))
            units = _units(own.shift, own.scale)
        rows = Rows(table.values, table.observed, self._table.filled, self._groups(table), units)
        asked = encode(msgspec.structs.replace(request, density=None, bounding_boxes=False, n_proxies=0))
        if asked not in self._clustered:  # asked again, it answers the same, and need not compute it twice
            self._clustered = {asked: self._cluster(rows, request)}
        found = self._clustered[asked]
        chosen = Chosen(self._gate.settle(found.labels, rows), found.clarity)
        noise = found.labels == NOISE  # for whoever owns it, also where others are told of it as of a cluster's rows
        self._local_labels = np.where(noise, NOISE, chosen.labels)
        near = _closest_clusters(rows, chosen.labels)
        self._nearest_local = np.where(noise, NOISE, near)
        self._told_local = self._gate.gather(near, rows)
        return summarize(table, view.rows, chosen, request, moments, self._table.levels, self._gate)

    @_answer.register
    def _(self, request: Refine) -> Reply:
        if not 1 <= len(request.rivals) <= MOST_SETS:
            raise ProtocolError(
                f"participant {self.name!r} was sent {len(request.rivals)} sets of centroids, not 1 to {MOST_SETS}"
            )
        parts, groups = zip(*(self._refined(centres, request) for centres in request.rivals), strict=True)
        return Refinement(refined=self._gate.apart(parts, groups, self._observed))

    def _refined(self, sent: Centres, request: Refine) -> tuple[Refined, IntArray]:
        """What there is to say of a set of centroids, and which of them each row stands behind, −1 for none."""
        view = self._laid_out(request.columns)
        rows, observed = view.rows, view.table.observed
        centres, extent = self._centres(sent, view.table)
        distance = distances_to_centres(rows, observed, centres.values, centres.seen, extent, self._metric)
        private = Rows(rows, observed, self._table.filled)
        used = np.zeros(len(rows), dtype=np.bool_)
        used[self._local.used(private)] = True
        chosen = np.where(used, choose_centre(distance, observed, centres.seen), -1)  # those left out choose nothing
        fitting = compatible(chosen, len(centres), request.min_points)
        values, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
        sizes = np.zeros(len(centres), dtype=np.intp)
        behind = np.full(len(rows), -1, dtype=np.intp)
        if len(fitting):
            own = centroids_of_rows(rows, observed, chosen, len(centres))
            everyone = centroids_of_rows(rows, observed, np.zeros(len(rows), dtype=np.intp), 1)
            start = local_start(centres, own, everyone.values)[fitting]
            rng = stream(request.seed, self.name, "refine", request.round)
            labels = self._local.refine(private, start, min(request.max_iter, MOST_ITERATIONS), rng)
            if self._gate.policy.small == "merge":
                labels = self._gate.gather(labels, private)
            local = centroids_of_rows(rows, observed, labels, int(labels.max(initial=-1)) + 1)
            index = match(local, centres, extent, self._metric)
            known, mine = index >= 0, index[index >= 0]
            values[known], counts[known] = local.values[mine], local.counts[mine]
            sizes[known] = _sizes(labels, len(local))[mine]
            place = np.full(len(local) + 1, -1, dtype=np.intp)  # the last is that of rows in no cluster
            place[mine] = np.flatnonzero(known)
            behind = place[np.maximum(labels, -1)]
        total = misfit(distance[:, _with_enough(distance, self._gate.fewest)], observed, extent, self._metric)
        return Refined(values=values, counts=counts, sizes=sizes, misfit=total), behind

    @_answer.register
    def _(self, request: Label) -> Reply:
        view = self._laid_out(request.columns)
        rows, observed = view.rows, view.table.observed
        centres, extent = self._centres(request.centres, view.table)
        if request.gaussians is None:
            own = nearest_centre(rows, observed, centres.values, centres.seen, extent, self._metric)
        else:
            own = likeliest(self._mixture(request.gaussians, centres), rows, observed, extent.varies)
        self._labels = own
        counts, squares = squares_of_rows(rows, observed, own, centres)
        return Labelled(sizes=_sizes(own, len(centres)), counts=counts, squares=squares)

    @_answer.register
    def _(self, request: Assign) -> Reply:
        groups, local, told = request.groups, self._nearest_local, self._told_local
        found = self._local_labels
        if local is None or told is None or found is None or groups.shape != (int(found.max(initial=-1)) + 1,):
            raise ProtocolError(f"participant {self.name!r} was told the groups of clusters that it does not have")
        inside = groups.dtype.kind == "i" and bool(((groups >= 0) & (groups < request.n_groups)).all())
        if not inside or request.n_groups > most_centres(len(self._table)):
            raise ProtocolError(f"participant {self.name!r} was told groups that do not exist")
        self._labels = np.where(local >= 0, groups[local], -1)
        return Labelled(sizes=_sizes(np.where(told >= 0, groups[told], -1), request.n_groups))

    def _laid_out(self, columns: Columns | None) -> View:
        """The rows as numbers, in the columns and units that everybody uses, if such are known."""
        levels = self._table.levels if columns is None else columns.levels
        if columns is not None:
            self._check_levels(levels)
        key = tuple((name, tuple(own)) for name, own in sorted(levels.items()))
        if key not in self._layouts:
            self._layouts = {key: self._table.in_numbers(levels)}
        table = self._layouts[key]
        self._observed = table.observed
        if columns is None:
            return View(table, None)
        shape = (len(table.names),)  # anything else could be broadcast against single rows
        if columns.shift.shape != shape or columns.scale.shape != shape or not _is_moderate(columns.shift):
            raise ProtocolError(f"participant {self.name!r} was sent units that do not fit its {shape[0]} features")
        if not ((columns.scale >= 1 / LARGEST) & (columns.scale <= LARGEST)).all():
            raise ProtocolError(f"participant {self.name!r} was sent a scale that is not a positive number")
        return View(table, _units(columns.shift, columns.scale))

    def _check_levels(self, levels: Mapping[str, Sequence[str]]) -> None:
        own = self._table.levels
        fits = set(levels) == set(own) and all(set(mine) <= set(levels[name]) for name, mine in own.items())
        if not fits or any(len(set(sent)) < len(sent) for sent in levels.values()):
            raise ProtocolError(f"participant {self.name!r} was sent levels that do not fit its columns of categories")
        if any(len(sent) > MOST_JOINT_LEVELS for sent in levels.values()):
            raise ProtocolError(f"participant {self.name!r} was sent more levels than it could lay out")

    def _centres(self, centres: Centres, table: Table) -> tuple[MaskedCentroids, Extent]:
        d = len(table.names)
        n = len(centres.values) if centres.values.ndim == 2 else 0
        fits = centres.values.shape == centres.known.shape == (n, d) and centres.low.shape == centres.high.shape == (d,)
        if not fits or n < 1:
            raise ProtocolError(f"participant {self.name!r} was sent centroids that do not fit its {d} features")
        if n > most_centres(len(table)):
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

    def _groups(self, table: Table) -> tuple[IntArray, ...]:
        """The columns of each category."""
        position = FeatureSpace(table.names)
        return tuple(
            position.index([name for name in indicators({column: levels}) if name in position])
            for column, levels in self._table.levels.items()
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


class View(NamedTuple):
    """A table of numbers, and the common units; None if they are those of the table."""

    table: Table
    units: Units | None

    @property
    def rows(self) -> FloatArray:
        """All rows in common units."""
        return self.table.values if self.units is None else in_units(self.table.values, *self.units)


def _units(shift: FloatArray, scale: FloatArray) -> Units | None:
    return Units(shift, scale) if shift.any() or (scale != 1.0).any() else None


def _closest_clusters(rows: Rows, labels: IntArray) -> IntArray:
    """The local cluster of every row; rows that were left out belong to the nearest, noise to none."""
    left_out = labels == LEFT_OUT
    if not left_out.any() or labels.max(initial=-1) < 0:
        return np.where(left_out, -1, labels)
    values, observed = rows.values, rows.observed
    centres = centroids_of_rows(values, observed, labels, int(labels.max()) + 1)
    extent = extent_of(values, observed)
    near = nearest_centre(values[left_out], observed[left_out], centres.values, centres.seen, extent, "euclidean")
    result = labels.copy()
    result[left_out] = near
    return result


def _about(name: str, error: IntarsiaError) -> str:
    text = str(error)
    return text if repr(name) in text else f"participant {name!r}: {text}"


def _as_moments(s: Statistics) -> Moments:
    return Moments(count=s.count, mean=s.mean, m2=s.m2, low=s.low, high=s.high, quantiles=s.quantiles)


def moments_of(rows: FloatArray, observed: BoolArray, scale: str) -> Moments:
    """Count, mean and M2 of the observed cells of each feature, and what else the common units need."""
    return _as_moments(statistics_of(rows, observed, scale))


def _with_enough(distance: FloatArray, fewest: int) -> IntArray:
    """The centres that enough rows are nearest to, when rows of all others go to these.

    A sum of squares that a single row has a part of its own in would tell of that row.
    """
    kept = np.arange(distance.shape[1])
    while True:
        sizes = _sizes(nearest(distance[:, kept]), len(kept))
        few = (sizes > 0) & (sizes < fewest)
        if not few.any():
            return kept
        kept = kept[~few] if not few[sizes > 0].all() else kept[[int(sizes.argmax())]]
        if len(kept) == 1:
            return kept


def _sizes(labels: IntArray, n: int) -> IntArray:
    return np.bincount(labels[labels >= 0], minlength=n)


def _is_moderate(values: FloatArray) -> bool:
    """Finite, and small enough to be squared and summed."""
    return bool((np.abs(values) <= LARGEST).all())


def _canonical_order(table: Table) -> IntArray:
    """An order of rows that depends on what is in them alone, whatever the units: by a fixed mix of their cells."""
    weight = stream(0, "order of rows").normal(size=(2, len(table.names)))
    extent = extent_of(table.values, table.observed)
    width = np.where(extent.width > 0, extent.width, 1.0)
    mixed = np.empty(len(table))
    for some in by_rows(*table.values.shape):
        there = table.observed[some]
        cells = np.where(there, table.values[some] - extent.low, 0.0) / width
        mixed[some] = (cells * weight[0] + there * weight[1]).sum(axis=1)
    return np.argsort(mixed, kind="stable")
