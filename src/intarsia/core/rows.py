"""k-means and sums over tables that are read anew for every pass, a few rows at a time.

A table is a :class:`Pieces`: whoever goes through it gets :class:`Piece` after piece and must not keep any. What is found
is what :mod:`~intarsia.core.kmeans`, :mod:`~intarsia.core.centroids` and :mod:`~intarsia.core.distances` find
with all rows at hand, up to the last digits of sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent, Metric, choose_centre, distances_to_centres, misfit_of_rows, nearest
from intarsia.core.types import BoolArray, FloatArray, IntArray

_AT_A_TIME = 1 << 18  # rows
_FEW = 1000  # rows that changed their labels, of which it is known what they were
_SPARE = 8  # rows beyond those that emptied clusters need, should some not be free to go


class Piece(NamedTuple):
    """Rows ``at`` these places: features × rows, in common units less the table's ``offset``; 0 where a cell is empty.

    ``there`` is 1 where a cell is filled and 0 where not; None if all are.
    """

    at: slice
    cells: FloatArray
    there: FloatArray | None

    @property
    def observed(self) -> BoolArray:
        """Rows × features: which cells are filled."""
        if self.there is None:
            return np.ones(self.cells.shape[::-1], dtype=np.bool_)
        return np.asarray(self.there.T > 0)


class Pieces(Protocol):
    """A table in common units that can be gone through again and again."""

    @property
    def n_rows(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> FloatArray: ...  # noqa: D102
    @property
    def extent(self) -> Extent: ...  # noqa: D102
    def __iter__(self) -> Iterator[Piece]: ...


class Found(NamedTuple):
    """By row: its centre, −1 where it has nothing that any centre knows; what it adds to
    :func:`~intarsia.core.distances.misfit`; and whether anything that varies can be compared at all.
    """

    labels: IntArray
    misfit: FloatArray
    comparable: BoolArray


class Nearest:
    """The nearest of some centres for the rows of a piece, as :func:`~intarsia.core.distances.nearest_centre` has it.

    Where every centre knows all that varies, rows are compared with all centres over the same features, so that neither
    rescaling nor the squares of the rows can change the order: one matrix product, or two where there are gaps.
    """

    def __init__(self, pieces: Pieces, centres: MaskedCentroids, extent: Extent, metric: Metric = "euclidean") -> None:
        self._centres, self._extent, self._metric = centres, extent, metric
        self._offset = pieces.offset
        counts = extent.varies
        self._plain = metric == "euclidean" and bool(centres.seen[:, counts].all())
        shifted = np.where(centres.seen & counts, centres.values - pieces.offset, 0.0)
        self._twice, self._squares = -2.0 * shifted, np.square(shifted)
        self._all = None if counts.all() else counts
        self._known = centres.seen.any(axis=0)

    def of(self, piece: Piece) -> Found:
        """The nearest centre of every row, and how far it is."""
        if not self._plain:
            each = self.distances(piece)
            observed = piece.observed
            closest = np.where(np.isnan(each), np.inf, each).min(axis=1, initial=np.inf)
            own = misfit_of_rows(closest, observed, self._extent, self._metric)
            return Found(choose_centre(each, observed, self._centres.seen), own, nearest(each) >= 0)
        labels, best = self._best(piece)
        cells = piece.cells if self._all is None else piece.cells[self._all]
        varies = self._extent.varies
        comparable = np.ones(len(labels), dtype=np.bool_)
        if piece.there is not None or not varies.any():
            comparable = np.asarray(piece.observed.T[varies].any(axis=0))
        return Found(labels, np.maximum(np.einsum("ij,ij->j", cells, cells) + best, 0.0), comparable)

    def labels(self, piece: Piece) -> IntArray:
        """The nearest centre of every row alone."""
        if not self._plain:
            return choose_centre(self.distances(piece), piece.observed, self._centres.seen)
        return self._best(piece)[0]

    def distances(self, piece: Piece) -> FloatArray:
        """Rescaled distances, rows × centres."""
        rows, offset = piece.cells.T, self._offset
        centres, extent = self._centres, self._extent
        if self._metric in {"euclidean", "manhattan"}:  # which do not see where the origin is
            varies = extent.varies  # which depends on where the origin is
            moved = Extent(*(np.where(varies, side - offset, 0.0) for side in extent))
            values = np.where(centres.seen, centres.values - offset, 0.0)
            return distances_to_centres(rows, piece.observed, values, centres.seen, moved, self._metric)
        whole = np.where(piece.observed, rows + offset, 0.0)
        return distances_to_centres(whole, piece.observed, centres.values, centres.seen, extent, self._metric)

    def _best(self, piece: Piece) -> tuple[IntArray, FloatArray]:
        scores = self._twice @ piece.cells
        if piece.there is None:
            scores += self._squares.sum(axis=1)[:, None]
        else:
            scores += self._squares @ piece.there
        labels, best = np.zeros(scores.shape[1], dtype=np.intp), scores[0]
        for k in range(1, len(scores)):  # by far faster than argmin along the short axis
            closer = scores[k] < best
            labels[closer] = k
            best = np.minimum(best, scores[k])
        if piece.there is not None:
            lost = ~(piece.there[self._known] > 0).any(axis=0)
            labels[lost] = -1
        return labels, best


class Tally:
    """Rows, cells and sums of every cluster, piece by piece."""

    def __init__(self, n_clusters: int, offset: FloatArray) -> None:
        self.sizes = np.zeros(n_clusters, dtype=np.intp)
        self.sums = np.zeros((n_clusters, len(offset)))
        self._counts: FloatArray | None = None
        self._offset = offset

    def add(self, piece: Piece, labels: IntArray) -> None:
        """Label −1 belongs to no cluster."""
        k = len(self.sizes)
        member = np.equal(labels, np.arange(k)[:, None]).astype(np.float64)
        self.sums += member @ piece.cells.T
        if piece.there is not None:
            self._counts = np.zeros(self.sums.shape) if self._counts is None else self._counts
            self._counts += member @ piece.there.T
        self.sizes += member.sum(axis=1).astype(np.intp)

    def move(self, cells: FloatArray, there: FloatArray | None, old: int, new: int) -> None:
        """One row leaves a cluster (−1: none) for another."""
        for k, sign in ((old, -1), (new, 1)):
            if k >= 0:
                self.sizes[k] += sign
                self.sums[k] += sign * cells
                if self._counts is not None and there is not None:
                    self._counts[k] += sign * there

    @property
    def counts(self) -> FloatArray:
        """How many cells each cluster has of every feature."""
        if self._counts is None:
            return np.repeat(self.sizes[:, None].astype(np.float64), self.sums.shape[1], axis=1)
        return self._counts

    def centroids(self) -> MaskedCentroids:
        """Means in common units."""
        counts = self.counts
        return MaskedCentroids.of(self._offset + self.sums / np.maximum(counts, 1.0), counts)


class Passed(NamedTuple):
    """Labels of all rows in a small type, centres, sizes, and how often the table was gone through."""

    labels: IntArray
    centres: MaskedCentroids
    sizes: IntArray
    n_passes: int


def lloyd_in_passes(
    pieces: Pieces, start: MaskedCentroids, max_iter: int = 300, tol: float = 0.0, extent: Extent | None = None
) -> Passed:
    """:func:`~intarsia.core.kmeans.lloyd`, one pass per iteration.

    It ends when no label changes, after ``max_iter`` iterations, or when centres move by no more than ``tol`` (the sum of
    squares), as scikit-learn's does. An emptied cluster takes the row that fits its own centre worst, for which the table
    is gone through once more.
    """
    extent = pieces.extent if extent is None else extent
    centres, labels = start, np.full(pieces.n_rows, -1, dtype=small_type(len(start)))
    n_passes, tally = 0, Tally(len(start), pieces.offset)
    for _ in range(max_iter):
        near, tally, changed = Nearest(pieces, centres, extent), Tally(len(start), pieces.offset), _Changed()
        for piece in pieces:
            mine = np.maximum(near.labels(piece), 0)
            changed.note(piece.at.start, labels[piece.at], mine)
            labels[piece.at] = mine
            tally.add(piece, mine)
        n_passes += 1
        refilled: list[int] = []
        if (tally.sizes == 0).any():
            refilled = _refill(pieces, near, labels, tally)
            n_passes += 1
        if not changed.remains(labels, refilled):
            break
        new = tally.centroids()
        moved = float(np.square(np.where(new.seen & centres.seen, new.values - centres.values, 0.0)).sum())
        known_alike = bool((new.seen == centres.seen).all())
        centres = new
        if tol > 0 and moved <= tol and known_alike:
            break
    return Passed(labels, centres, tally.sizes, n_passes)


class _Changed:
    """Which rows changed their label in a pass, as far as they are few: what a refill gives back has not."""

    def __init__(self) -> None:
        self._number, self._before = 0, dict[int, int]()

    def note(self, start: int, old: IntArray, new: IntArray) -> None:
        at = np.flatnonzero(old != new)
        self._number += len(at)
        if self._number <= _FEW:
            self._before |= {start + int(k): int(old[k]) for k in at}

    def remains(self, labels: IntArray, refilled: list[int]) -> bool:
        if self._number > _FEW or any(row not in self._before for row in refilled):
            return True
        return any(labels[row] != old for row, old in self._before.items())


def _refill(pieces: Pieces, near: Nearest, labels: IntArray, tally: Tally) -> list[int]:
    """Rows that fit worst, one for every empty cluster; labels and sums are changed in place, and the rows are told."""
    most = int((tally.sizes == 0).sum()) + _SPARE
    worst = _Worst(most)
    for piece in pieces:
        each = near.distances(piece)
        own = each[np.arange(len(each)), np.maximum(nearest(each), 0)]
        worst.add(piece, np.where(np.isnan(own), np.inf, own))
    for k in np.flatnonzero(tally.sizes == 0):
        for row in worst.rows:
            old = int(labels[row.index])
            if not row.taken and (old < 0 or tally.sizes[old] > 1):
                row.taken = True
                tally.move(row.cells, row.there, old, int(k))
                labels[row.index] = k
                break
    return [row.index for row in worst.rows if row.taken]


class _Row:
    """A row that was kept."""

    def __init__(self, index: int, far: float, cells: FloatArray, there: FloatArray | None) -> None:
        self.index, self.far, self.cells, self.there, self.taken = index, far, cells, there, False


class _Worst:
    """The rows that are farthest away, the farthest first, of equals the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows: list[_Row] = []

    def add(self, piece: Piece, far: FloatArray) -> None:
        order = np.argsort(-far, kind="stable")[: self._most]
        if len(self.rows) == self._most:
            order = order[far[order] > self.rows[-1].far]
        for k in order:
            there = None if piece.there is None else piece.there[:, k].copy()
            self.rows.append(_Row(piece.at.start + int(k), float(far[k]), piece.cells[:, k].copy(), there))
        self.rows = sorted(self.rows, key=lambda row: (-row.far, row.index))[: self._most]


def small_type(n_clusters: int) -> np.dtype[Any]:
    """The smallest type that holds labels of so many clusters, and −2."""
    return np.dtype(np.int16 if n_clusters < np.iinfo(np.int16).max else np.int32)


class Marked(NamedTuple):
    """Labels of all rows, sizes, and by cluster and feature cells and squares around the centres."""

    labels: IntArray
    sizes: IntArray
    counts: FloatArray
    squares: FloatArray


def squares_in_a_pass(pieces: Pieces, centres: MaskedCentroids, label: Labeller) -> Marked:
    """One pass that labels rows, and sums the squares of their cells around the centres."""
    n_clusters = len(centres)
    labels = np.full(pieces.n_rows, -1, dtype=small_type(n_clusters))
    sizes, counts, squares = np.zeros(n_clusters), np.zeros(centres.values.shape), np.zeros(centres.values.shape)
    shifted, apart = np.where(centres.seen, centres.values - pieces.offset, 0.0).T.copy(), np.empty(0)
    for piece in pieces:
        mine = label(piece)
        labels[piece.at] = mine
        member = np.equal(mine, np.arange(n_clusters)[:, None]).astype(np.float64)
        sizes += member.sum(axis=1)
        if apart.shape != piece.cells.shape:
            apart = np.empty(piece.cells.shape)
        np.take(shifted, mine, axis=1, out=apart, mode="clip")  # rows of no cluster are not in any sum
        np.subtract(piece.cells, apart, out=apart)
        if piece.there is not None:
            apart *= piece.there
            counts += member @ piece.there.T
        np.square(apart, out=apart)
        squares += member @ apart.T
    if not counts.any():
        counts += sizes[:, None]
    return Marked(
        labels, sizes.astype(np.intp), np.where(centres.seen, counts, 0.0), np.where(centres.seen, squares, 0.0)
    )


class Labeller(Protocol):
    """Whatever gives the rows of a piece their labels."""

    def __call__(self, piece: Piece, /) -> IntArray:
        """One label per row, −1 for none."""


def renamed(labels: IntArray, names: IntArray) -> IntArray:
    """``names[labels]`` in a small type, where label −1 and below stay −1; without a large index on the way."""
    kind = small_type(int(names.max(initial=0)) + 1)
    result, table = np.empty(len(labels), dtype=kind), np.append(names, -1).astype(kind)
    for some in in_turn(len(labels)):
        result[some] = table[np.maximum(labels[some], -1)]
    return result


def in_turn(n: int) -> Iterator[slice]:
    """Some rows at a time, where there is little to compute for each."""
    return (slice(start, min(start + _AT_A_TIME, n)) for start in range(0, n, _AT_A_TIME))
