"""A participant with its rows in memory: answers requests with summaries, keeps the labels."""

from __future__ import annotations

from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from intarsia.core.alignment import compatible, local_start, match
from intarsia.core.blocks import by_rows, cleared
from intarsia.core.centroids import centroids_of_rows, squares_of_rows
from intarsia.core.distances import (
    Metric,
    choose_centre,
    distances_to_centres,
    extent_of,
    misfit,
    nearest,
    nearest_centre,
)
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.mixture import likeliest
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import choose_units, in_units, own_units, statistics_of
from intarsia.exceptions import ProtocolError
from intarsia.participant.base import Responder, as_moments, sizes_of, units_of
from intarsia.participant.clusterers import LEFT_OUT, NOISE, Chosen, LocalAlgorithm, Rows, Units
from intarsia.participant.summary import summarize
from intarsia.privacy.gate import Crossing, Gate, crossing
from intarsia.privacy.pipeline import Cells
from intarsia.protocol import (
    Assign,
    Centres,
    Columns,
    Describe,
    Description,
    Label,
    Labelled,
    Moments,
    Refine,
    Refined,
    Refinement,
    Reply,
    Summarize,
    encode,
)
from intarsia.protocol.centres import most_centres
from intarsia.protocol.refine import MOST_ITERATIONS
from intarsia.tables.frame import Table


class Participant(Responder):
    """Whoever holds private rows in memory, and clusters them with an algorithm of its choice."""

    def __init__(
        self,
        table: Table,
        local: Any = None,
        metric: Metric = "euclidean",
        missing: str = "observed",
        gate: Gate | None = None,
    ) -> None:
        super().__init__(table.owner, LocalAlgorithm(local, missing), metric, gate)
        table = self._gate.prepare(table)
        # rows in an order of their own for our k-means, so that the order they come in cannot matter; a local algorithm that
        # was given is used as it is, on the rows as they are
        self._order = np.arange(len(table)) if local is not None else _canonical_order(table.in_numbers())
        self._table = table.of_rows(self._order)
        self._layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], Table] = {}
        self._told_local: IntArray | None = None
        self._clustered: dict[bytes, Chosen] = {}

    @property
    def _levels(self) -> dict[str, tuple[str, ...]]:
        return self._table.levels

    @property
    def _most_centres(self) -> int:
        return most_centres(len(self._table))

    def _in_given_order(self, labels: IntArray | None) -> IntArray | None:
        if labels is None:
            return None
        result = np.empty_like(labels)
        result[self._order] = labels
        return result

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
            kinds = FeatureSpace(table.names).mask(indicators(self._table.levels))
            own = own_units(kinds)
            if request.scale is not None:
                said = statistics_of(table.values, table.observed, request.scale)
                moments, own = as_moments(said), choose_units(said, request.scale, kinds)
            units = units_of(own.shift, own.scale)
        rows = Rows(table.values, table.observed, self._table.filled, self._groups(table.names), units)
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
        self._check_sets(request)
        parts, groups = zip(*(self._refined(centres, request) for centres in request.rivals), strict=True)
        observed = self._laid_out(request.columns).table.observed
        sizes = [len(part.sizes) for part in parts]

        def crossed(n: int, old: int) -> Crossing:
            return crossing(groups[n], groups[old], observed, sizes[n], sizes[old])

        return Refinement(refined=self._gate.apart(parts, crossed, self._cells))

    def _refined(self, sent: Centres, request: Refine) -> tuple[Refined, IntArray]:
        """What there is to say of a set of centroids, and which of them each row stands behind, −1 for none."""
        view = self._laid_out(request.columns)
        rows, observed = view.rows, view.table.observed
        centres, extent = self._centres(sent, len(view.table.names), self._most_centres)
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
            sizes[known] = sizes_of(labels, len(local))[mine]
            place = np.full(len(local) + 1, -1, dtype=np.intp)  # the last is that of rows in no cluster
            place[mine] = np.flatnonzero(known)
            behind = place[np.maximum(labels, -1)]
        total = misfit(distance[:, _with_enough(distance, self._gate.fewest)], observed, extent, self._metric)
        return Refined(values=values, counts=counts, sizes=sizes, misfit=total), behind

    @_answer.register
    def _(self, request: Label) -> Reply:
        view = self._laid_out(request.columns)
        rows, observed = view.rows, view.table.observed
        centres, extent = self._centres(request.centres, len(view.table.names), self._most_centres)
        if request.gaussians is None:
            own = nearest_centre(rows, observed, centres.values, centres.seen, extent, self._metric)
        else:
            own = likeliest(self._mixture(request.gaussians, centres), rows, observed, extent.varies)
        self._labels = own
        counts, squares = squares_of_rows(rows, observed, own, centres)
        return Labelled(sizes=sizes_of(own, len(centres)), counts=counts, squares=squares)

    @_answer.register
    def _(self, request: Assign) -> Reply:
        groups, local, told = request.groups, self._nearest_local, self._told_local
        if local is None or told is None:
            raise self._no_clusters()
        self._check_groups(request, self._most_centres)
        self._labels = np.where(local >= 0, groups[local], -1)
        return Labelled(sizes=sizes_of(np.where(told >= 0, groups[told], -1), request.n_groups))

    def _laid_out(self, columns: Columns | None) -> View:
        """The rows as numbers, in the columns and units that everybody uses, if such are known."""
        levels = self._table.levels if columns is None else columns.levels
        if columns is not None:
            self._check_levels(levels)
        key = tuple((name, tuple(own)) for name, own in sorted(levels.items()))
        if key not in self._layouts:
            self._layouts = {key: self._table.in_numbers(levels)}
        table = self._layouts[key]
        self._cells = Cells.of(table.observed)
        return View(table, None if columns is None else self._units(columns, len(table.names)))


class View(NamedTuple):
    """A table of numbers, and the common units; None if they are those of the table."""

    table: Table
    units: Units | None

    @property
    def rows(self) -> FloatArray:
        """All rows in common units."""
        return self.table.values if self.units is None else in_units(self.table.values, *self.units)


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


def moments_of(rows: FloatArray, observed: BoolArray, scale: str) -> Moments:
    """Count, mean and M2 of the observed cells of each feature, and what else the common units need."""
    return as_moments(statistics_of(rows, observed, scale))


def _with_enough(distance: FloatArray, fewest: int) -> IntArray:
    """The centres that enough rows are nearest to, when rows of all others go to these.

    A sum of squares that a single row has a part of its own in would tell of that row.
    """
    kept = np.arange(distance.shape[1])
    while True:
        sizes = sizes_of(nearest(distance[:, kept]), len(kept))
        few = (sizes > 0) & (sizes < fewest)
        if not few.any():
            return kept
        kept = kept[~few] if not few[sizes > 0].all() else kept[[int(sizes.argmax())]]
        if len(kept) == 1:
            return kept


def _canonical_order(table: Table) -> IntArray:
    """An order of rows that depends on what is in them alone, whatever the units: by a fixed mix of their cells."""
    weight = stream(0, "order of rows").normal(size=(2, len(table.names)))
    extent = extent_of(table.values, table.observed)
    width = np.where(extent.width > 0, extent.width, 1.0)
    mixed = np.empty(len(table))
    for some in by_rows(*table.values.shape):
        there = table.observed[some]
        cells = cleared(table.values[some] - extent.low, there)
        cells /= width
        cells *= weight[0]
        cells += weight[1] if there.all() else there * weight[1]
        mixed[some] = cells.sum(axis=1)
    return np.argsort(mixed, kind="stable")
