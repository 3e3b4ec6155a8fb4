"""A participant whose table is larger than memory: it answers the same, by going through its rows pass after pass.

Held in memory are a sample of the rows and a label for each row, in a type of two bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from intarsia.core.alignment import local_start, match
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, merge
from intarsia.core.densities.base import Clustered, Density, family_of, fit_densities
from intarsia.core.distances import Extent, Metric
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.mixture import Mixture, likeliest
from intarsia.core.randomness import stream
from intarsia.core.rows import (
    Found,
    Labeller,
    Nearest,
    Piece,
    Tally,
    in_turn,
    lloyd_in_passes,
    renamed,
    small_type,
    squares_in_a_pass,
)
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import choose_units, in_units, own_units
from intarsia.exceptions import LocalAlgorithmError, MissingCellsError, ProtocolError
from intarsia.participant.base import Responder, as_moments, units_of
from intarsia.participant.clusterers import LocalAlgorithm, Rows
from intarsia.participant.summary import categories_of, closeness_of
from intarsia.privacy.gate import Crossing, Gate
from intarsia.privacy.pipeline import Cells
from intarsia.protocol import (
    Assign,
    Columns,
    Describe,
    Description,
    Label,
    Labelled,
    LocalSummary,
    Moments,
    Refine,
    Refined,
    Refinement,
    Reply,
    Summarize,
    encode,
)
from intarsia.protocol.centres import most_centres
from intarsia.protocol.densities import packed
from intarsia.protocol.refine import MOST_ITERATIONS
from intarsia.tables import StreamedTable, TablePieces

_TOLERANCE = 1e-4  # of the mean variance: how far centres may move in the last pass, as scikit-learn has it
_AT_A_TIME = 1 << 16  # rows that are compared with centres at the same time, at most


class _LocalClusters(NamedTuple):
    """Local clusters of all rows, in the units that they were found in."""

    labels: IntArray
    centres: MaskedCentroids
    sizes: IntArray
    clarity: float | None


class StreamedParticipant(Responder):
    """Whoever holds rows on disk. Its own algorithm is k-means: the best of several starts on the sample, then exact
    iterations over all rows, until no centre moves by more than scikit-learn's k-means would let it.
    """

    def __init__(
        self,
        table: StreamedTable,
        local: Any = None,
        metric: Metric = "euclidean",
        missing: str = "observed",
        gate: Gate | None = None,
    ) -> None:
        if local is not None:
            raise LocalAlgorithmError(
                f"{type(local).__name__} needs all rows of {table.owner!r} in memory, and they are read piece by piece. "
                "Hint: local=None for this participant, or read its table as a whole."
            )
        if missing in {"impute", "drop"}:
            raise MissingCellsError(
                f"missing={missing!r} is for a local algorithm of one's own, and the rows of {table.owner!r} are read piece "
                "by piece. Hint: missing='observed', or read its table as a whole."
            )
        super().__init__(table.owner, LocalAlgorithm(None, missing), metric, gate)
        self._table = self._gate.prepare_stream(table)
        self._found: dict[bytes, _LocalClusters] = {}

    @property
    def _levels(self) -> dict[str, tuple[str, ...]]:
        return self._table.levels

    @property
    def _most_centres(self) -> int:
        return most_centres(min(len(self._table), _AT_A_TIME))

    def _in_given_order(self, labels: IntArray | None) -> IntArray | None:
        return None if labels is None else labels.astype(np.int32)

    @singledispatchmethod
    def _answer(self, request: Any) -> Reply:
        raise ProtocolError(f"a {type(request).__name__} is not a request")

    @_answer.register
    def _(self, request: Describe) -> Reply:
        table = self._table
        moments = None
        if request.scale is not None:
            pieces = table.pieces()
            said, numbers = pieces.statistics(request.scale), FeatureSpace(pieces.names).index(table.names)
            own = as_moments(said)
            moments = msgspec.structs.replace(
                own, **{name: _at(getattr(own, name), numbers) for name in Moments.__struct_fields__}
            )
        return Description(features=table.names, levels=table.levels, n_rows=len(table), moments=moments)

    @_answer.register
    def _(self, request: Summarize) -> Reply:
        pieces, moments = self._pieces(request.columns), None
        inside, units = pieces, None if request.columns is None else self._units(request.columns, len(pieces.names))
        if request.columns is None:
            # one round: cluster in units of one's own, and let the coordinator find common ones
            kinds = FeatureSpace(pieces.names).mask(indicators(self._table.levels))
            own = own_units(kinds)
            if request.scale is not None:
                said = pieces.statistics(request.scale)
                moments, own = as_moments(said), choose_units(said, request.scale, kinds)
            units = units_of(own.shift, own.scale)
            inside = self._table.pieces(units=units)
        asked = encode(msgspec.structs.replace(request, density=None, bounding_boxes=False, n_proxies=0))
        if asked not in self._found:
            self._found = {asked: self._clusters(inside, units, request)}
        found = self._found[asked]
        new = self._gate.settle_sizes(found.centres, found.sizes, inside.extent)
        n_clusters = int(new.max()) + 1
        labels = renamed(found.labels, new)
        centres = merge(found.centres, new, n_clusters)
        self._local_labels = labels
        self._nearest_local = self._with_nearest(inside, labels, centres)
        if request.columns is None and units is not None:  # what is told is in the table's own units
            centres = MaskedCentroids.of(centres.values * units.scale + units.shift, centres.counts)
        sizes = np.bincount(new[new >= 0], weights=found.sizes[new >= 0], minlength=n_clusters).astype(np.intp)
        told = self._gate.hide(centres, self._cells.filled)
        categories = categories_of(pieces.names, self._table.levels)
        clusters = Clustered(pieces, labels, sizes, centres, told, pieces.names, categories)
        return self._summary(pieces, clusters, request, found.clarity, moments)

    def _clusters(self, pieces: TablePieces, units: Any, request: Summarize) -> _LocalClusters:
        """k-means on the sample, then on all rows from where that ended."""
        sample = pieces.sample()
        rows = Rows(sample.values, sample.observed, sample.filled, self._groups(sample.names), units)
        chosen = self._cluster(rows, request)
        n = int(chosen.labels.max()) + 1
        of_sample = centroids_of_rows(rows.values, rows.observed, chosen.labels, n)
        whole = np.where(of_sample.seen, of_sample.values, pieces.mean)  # every centre starts out whole
        pieces.n_centres = n
        variances = pieces.raw.m2 / np.maximum(pieces.raw.count, 1.0)
        mean = float(np.mean(variances if units is None else variances / np.square(units.scale)))
        start = MaskedCentroids.of(whole, np.ones_like(whole))
        fit = lloyd_in_passes(pieces, start, tol=_TOLERANCE * mean)
        if (fit.sizes > 0).all():
            return _LocalClusters(fit.labels, fit.centres, fit.sizes, chosen.clarity)
        new = np.full(n, -1, dtype=np.intp)  # fewer different rows than clusters
        new[fit.sizes > 0] = renumber(np.flatnonzero(fit.sizes > 0))
        kept = fit.sizes > 0
        return _LocalClusters(renamed(fit.labels, new), fit.centres.take(kept), fit.sizes[kept], chosen.clarity)

    def _with_nearest(self, pieces: TablePieces, labels: IntArray, centres: MaskedCentroids) -> IntArray:
        """The same, with rows whose cluster is kept back in the nearest that is not."""
        if (labels >= 0).all():
            return labels
        result, near = labels.copy(), Nearest(pieces, centres, pieces.extent)
        for piece in pieces:
            mine = result[piece.at]
            mine[mine < 0] = near.labels(piece)[mine < 0]
        return result

    def _summary(
        self,
        pieces: TablePieces,
        clusters: Clustered,
        request: Summarize,
        clarity: float | None,
        moments: Moments | None,
    ) -> LocalSummary:
        densities = closeness = low = high = None
        if request.density is not None:
            fitted = self._densities(clusters, self._gate.density(request.density), request.columns)
            densities = tuple(packed(density, family_of(request.density)) for density in fitted)
            if request.n_proxies > 0:
                closeness = self._closeness(pieces, clusters, fitted, request)
        if request.bounding_boxes:
            low, high = _boxes(clusters)
        told = clusters.released
        return LocalSummary(
            features=pieces.names,
            n_rows=pieces.n_rows,
            filled=self._cells.filled,
            levels=dict(self._table.levels),
            values=told.values,
            counts=told.counts,
            sizes=clusters.sizes,
            clarity=clarity,
            densities=densities,
            fidelity=closeness,
            low=low,
            high=high,
            moments=moments,
        )

    def _densities(self, clusters: Clustered, density: str, columns: Columns | None) -> list[Density]:
        if family_of(density).exact_cells:
            units = None if columns is None else self._units(columns, len(clusters.names))
            levels = None if columns is None else columns.levels
            clusters = replace(clusters, rows=self._table.pieces(levels, units, centred=False))
        return fit_densities(clusters, density)

    def _closeness(
        self, pieces: TablePieces, clusters: Clustered, fitted: list[Density], request: Summarize
    ) -> FloatArray:
        """How close proxies are to the rows of the sample."""
        sample, rng = pieces.sample(), stream(request.seed, self.name, "fidelity")
        labels = clusters.labels[self._table.drawn]
        rows = sample.values
        if request.columns is not None and (units := self._units(request.columns, len(pieces.names))) is not None:
            rows = in_units(rows, *units)
        found = []
        for k, density in enumerate(fitted):
            mine, seen = labels == k, clusters.released.seen[k]
            inside, there = rows[mine][:, seen], sample.observed[mine][:, seen]
            found.append(closeness_of(inside, there, density, rng, request.n_proxies, self._gate))
        return np.array(found, dtype=np.float64).reshape(-1, 4)

    @_answer.register
    def _(self, request: Refine) -> Reply:
        self._check_sets(request)
        pieces = self._pieces(request.columns)
        sets = [self._centres(sent, len(pieces.names), self._most_centres) for sent in request.rivals]
        near = [Nearest(pieces, centres, extent, self._metric) for centres, extent in sets]
        pieces.n_centres = max(len(centres) for centres, _ in sets)
        tallies = [Tally(len(centres), pieces.offset) for centres, _ in sets]
        fits = [_Fit(len(centres)) for centres, _ in sets]
        for piece in pieces:
            for look, tally, fit in zip(near, tallies, fits, strict=True):
                found = look.of(piece)
                tally.add(piece, found.labels)
                fit.add(found)
        parts, behind = [], []
        for (centres, extent), tally, fit in zip(sets, tallies, fits, strict=True):
            part, labels = self._refined_of(pieces, centres, extent, tally, request)
            misfit = self._misfit(pieces, centres, extent, fit)
            parts.append(msgspec.structs.replace(part, misfit=misfit))
            behind.append(labels)
        crossed = _crossings(pieces, behind, [len(part.sizes) for part in parts])
        return Refinement(refined=self._gate.apart(parts, crossed, self._cells))

    def _refined_of(
        self, pieces: TablePieces, centres: MaskedCentroids, extent: Extent, tally: Tally, request: Refine
    ) -> tuple[Refined, IntArray]:
        """What there is to say of a set of centroids, and which of them each row stands behind, −1 for none."""
        values, counts = np.zeros(centres.values.shape), np.zeros(centres.values.shape)
        sizes = np.zeros(len(centres), dtype=np.intp)
        fitting = np.flatnonzero(tally.sizes >= request.min_points)
        if not len(fitting):
            nobody: IntArray = np.full(pieces.n_rows, -1, dtype=small_type(1))
            return Refined(values=values, counts=counts, sizes=sizes, misfit=0.0), nobody
        start = local_start(centres, tally.centroids(), pieces.mean[None])[fitting]
        whole = MaskedCentroids.of(start, np.ones_like(start))
        fit = lloyd_in_passes(pieces, whole, min(request.max_iter, MOST_ITERATIONS))
        index = match(fit.centres, centres, extent, self._metric)
        known, mine = index >= 0, index[index >= 0]
        values[known], counts[known], sizes[known] = fit.centres.values[mine], fit.centres.counts[mine], fit.sizes[mine]
        place = np.full(len(fit.sizes), -1, dtype=np.intp)
        place[mine] = np.flatnonzero(known)
        return Refined(values=values, counts=counts, sizes=sizes, misfit=0.0), renamed(fit.labels, place)

    def _misfit(self, pieces: TablePieces, centres: MaskedCentroids, extent: Extent, fit: _Fit) -> float:
        """The sum over rows, with those of centres that too few rows are nearest to at other centres."""
        kept = np.arange(len(centres))
        while True:
            few = (fit.sizes > 0) & (fit.sizes < self._gate.fewest)
            if not few.any() or len(kept) == 1:
                return fit.total
            kept = kept[~few] if not few[fit.sizes > 0].all() else kept[[int(fit.sizes.argmax())]]
            near, fit = Nearest(pieces, centres.take(kept), extent, self._metric), _Fit(len(kept))
            for piece in pieces:
                fit.add(near.of(piece))

    @_answer.register
    def _(self, request: Label) -> Reply:
        pieces = self._pieces(request.columns)
        centres, extent = self._centres(request.centres, len(pieces.names), self._most_centres)
        label: Labeller = Nearest(pieces, centres, extent, self._metric).labels
        if request.gaussians is not None:
            label = _ByLikelihood(pieces, self._mixture(request.gaussians, centres), extent)
        pieces.n_centres = len(centres)
        marked = squares_in_a_pass(pieces, centres, label)
        self._labels = marked.labels
        return Labelled(sizes=marked.sizes, counts=marked.counts, squares=marked.squares)

    @_answer.register
    def _(self, request: Assign) -> Reply:
        groups, local = request.groups, self._nearest_local
        if local is None:
            raise self._no_clusters()
        self._check_groups(request, self._most_centres)
        self._labels = labels = renamed(local, groups)
        sizes = np.zeros(request.n_groups, dtype=np.intp)
        for some in in_turn(len(labels)):
            sizes += np.bincount(labels[some][labels[some] >= 0], minlength=request.n_groups)
        return Labelled(sizes=sizes)

    def _pieces(self, columns: Columns | None) -> TablePieces:
        """The rows as numbers, in the columns and units that everybody uses, if such are known."""
        if columns is not None:
            self._check_levels(columns.levels)
        pieces = self._table.pieces(None if columns is None else columns.levels)
        self._cells = Cells(pieces.n_rows, pieces.raw.count.astype(np.intp))
        if columns is None:
            return pieces
        return self._table.pieces(columns.levels, self._units(columns, len(pieces.names)))


class _Fit:
    """How many rows are nearest to each centre, of those that can be compared at all, and how far they all are."""

    def __init__(self, n_centres: int) -> None:
        self.sizes, self.total = np.zeros(n_centres, dtype=np.intp), 0.0

    def add(self, found: Found) -> None:
        counted = found.labels[found.comparable & (found.labels >= 0)]
        self.sizes += np.bincount(counted, minlength=len(self.sizes))
        self.total += float(found.misfit.sum())


class _ByLikelihood:
    """The likeliest of some Gaussians."""

    def __init__(self, pieces: TablePieces, mixture: Mixture, extent: Extent) -> None:
        self._offset, self._mixture, self._varies = pieces.offset, mixture, extent.varies

    def __call__(self, piece: Piece) -> IntArray:
        return likeliest(self._mixture, piece.cells.T + self._offset, piece.observed, self._varies)


def _at(values: Any, index: IntArray) -> Any:
    return None if values is None else values[..., index]


def _boxes(clusters: Clustered) -> tuple[FloatArray, FloatArray]:
    """The smallest and largest cell of every cluster and feature, 0 where it sees none."""
    low, high = (np.full(clusters.released.values.shape, side) for side in (np.inf, -np.inf))
    offset = clusters.rows.offset
    for k, cells, there in clusters.parts():
        for side, better, none in ((low, np.minimum, np.inf), (high, np.maximum, -np.inf)):
            filled = cells if there is None else np.where(there > 0, cells, none)
            side[k] = better(side[k], better.reduce(filled, axis=1))
    seen = clusters.released.seen
    return np.where(seen, low + offset, 0.0), np.where(seen, high + offset, 0.0)


def _crossings(pieces: TablePieces, labels: list[IntArray], sizes: list[int]) -> Callable[[int, int], Crossing]:
    """How any two of several labellings cross; for cells, a pass where there are gaps."""

    def crossing(n: int, old: int) -> Crossing:
        mine, theirs, n_old = labels[n], labels[old], sizes[old]
        found: Counter[int] = Counter()
        for some in in_turn(pieces.n_rows):
            keys, times = np.unique(_pair_keys(mine[some], theirs[some], n_old), return_counts=True)
            found.update(dict(zip(keys.tolist(), times.tolist(), strict=True)))
        del found[-1]
        pairs = np.array(sorted(found), dtype=np.intp)
        shared = np.array([found[key] for key in pairs.tolist()], dtype=np.intp)
        if pieces.complete:
            counted = [_counted(mine, sizes[n]), _counted(theirs, n_old), shared]
            cells = [np.repeat(rows[:, None].astype(np.float64), len(pieces.names), axis=1) for rows in counted]
        else:
            tallies = [Tally(size, pieces.offset) for size in (sizes[n], n_old, len(pairs))]
            pieces.n_centres = max(len(tally.sizes) for tally in tallies)
            for piece in pieces:
                key = _pair_keys(mine[piece.at], theirs[piece.at], n_old)
                at = np.where(key >= 0, np.searchsorted(pairs, key), -1)
                for tally, each in zip(tallies, (mine[piece.at], theirs[piece.at], at), strict=True):
                    tally.add(piece, each)
            counted, cells = [tally.sizes for tally in tallies], [tally.counts for tally in tallies]
        at = np.column_stack([pairs // n_old, pairs % n_old])
        return Crossing(counted[0], cells[0], counted[1], cells[1], at, shared, cells[2])

    return crossing


def _pair_keys(mine: IntArray, theirs: IntArray, n_old: int) -> IntArray:
    """A number for every pair of clusters, −1 where one of the two is none."""
    keys = mine.astype(np.intp) * n_old + theirs
    return np.where((mine >= 0) & (theirs >= 0), keys, -1)


def _counted(labels: IntArray, n: int) -> IntArray:
    found = np.zeros(n, dtype=np.intp)
    for some in in_turn(len(labels)):
        found += np.bincount(labels[some][labels[some] >= 0], minlength=n)
    return found
