"""Rows of numbers that are read in pieces, as often as needed, and the sums that are computed from them.

:class:`Rows` is the interface: a table in memory (:class:`ArrayRows`) and a table on disk implement it, so that every
algorithm exists once. :class:`Nearest` finds the nearest centre of each row, :class:`Tally` adds up sizes, counts and sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from intarsia.core.blocks import PIECE_VALUES, by_rows, cleared
from intarsia.core.centroids import MaskedCentroids, first_cells, membership
from intarsia.core.distances import (
    Extent,
    Metric,
    choose_centre,
    distances_to_centres,
    extent_of,
    misfit_of_rows,
    nearest,
    reach_of_rows,
)
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import in_units

_LABELS_AT_A_TIME = 1 << 18
_NEAR = 8.0  # widths of a column: values no farther from 0 lose at most one digit when their squares are expanded
_ARRAYS = 4  # of the size of a piece, that one pass has in the cache of a processor


class Piece(NamedTuple):
    """Some rows of a table: an array of features × rows, less the table's ``offset``; 0 where a value is missing.

    ``at`` is their position in the table; ``mask`` is 1 where a value is observed and 0 where not, None if all are.
    A piece is valid until the next one is read, and must not be changed.
    """

    at: slice
    cells: FloatArray
    mask: FloatArray | None

    @property
    def observed(self) -> BoolArray:
        """Rows × features: which values are observed."""
        if self.mask is None:
            return np.ones(self.cells.shape[::-1], dtype=np.bool_)
        return np.asarray(self.mask.T > 0)


class Rows(Protocol):
    """A table of numbers that can be read again and again in pieces.

    ``offset`` is close to the values of each feature, and is subtracted so that sums lose no digits; ``extent`` and ``mean``
    are those of the observed values; ``complete`` says whether no value is missing.
    """

    @property
    def n_rows(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> FloatArray: ...  # noqa: D102
    @property
    def extent(self) -> Extent: ...  # noqa: D102
    @property
    def mean(self) -> FloatArray: ...  # noqa: D102
    @property
    def complete(self) -> bool: ...  # noqa: D102
    def pieces(self, n_centres: int = 1) -> Iterator[Piece]:
        """Read all rows once; pieces have fewer rows if each row is compared with many centres."""

    def __iter__(self) -> Iterator[Piece]: ...


class ArrayRows:
    """Rows in memory: an array of rows × features, and which of its values are observed.

    ``units`` are a shift and a scale; rows are converted when they are first read. With ``centred=False`` the offset is 0.
    """

    def __init__(
        self,
        values: FloatArray,
        observed: BoolArray,
        *,
        units: tuple[FloatArray, FloatArray] | None = None,
        centred: bool = True,
        piece_values: int = PIECE_VALUES,
    ) -> None:
        self.n_rows = len(values)
        self._given, self._units, self._observed = values, units, observed
        self._centred, self._piece_values = centred, piece_values
        self._only_piece: Piece | None = None

    @cached_property
    def _values(self) -> FloatArray:
        return self._given if self._units is None else in_units(self._given, *self._units)

    @cached_property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return bool(self._observed.all())

    @cached_property
    def extent(self) -> Extent:
        """The smallest and largest value of each feature."""
        return extent_of(self._values, self._observed)

    @cached_property
    def offset(self) -> FloatArray:
        """An observed value of each feature if features are far from 0 compared with their width; otherwise 0.

        The mean of a constant feature is then its value to the last digit.
        """
        if not self._centred:
            return np.zeros(self._values.shape[1])
        first, varies = first_cells(self._values, self._observed), self.extent.varies
        far = bool((np.abs(first) > _NEAR * self.extent.width)[varies].any())
        return np.asarray(first if far else np.where(varies, 0.0, first))

    @cached_property
    def mean(self) -> FloatArray:
        """The mean of each feature; 0 of a feature without observed values."""
        return np.asarray(means(self, np.zeros(self.n_rows, dtype=np.intp), 1).centroids().values[0])

    def pieces(self, n_centres: int = 1) -> Iterator[Piece]:
        """Read all rows once."""
        if self._only_piece is not None:
            yield self._only_piece
            return
        n_rows, n_features = self._values.shape
        places = by_rows(n_rows, max(_ARRAYS * n_features, n_centres), self._piece_values)
        for at in places:
            piece = self._piece(at)
            if len(places) == 1:
                self._only_piece = piece
            yield piece

    def __iter__(self) -> Iterator[Piece]:
        return self.pieces()

    def _piece(self, at: slice) -> Piece:
        values, observed = self._values[at], self._observed[at]
        shifted = bool(self.offset.any())
        if self.complete or observed.all():
            return Piece(at, (values - self.offset if shifted else values).T, None)
        cells = cleared(values - self.offset if shifted else values.copy(), observed)
        return Piece(at, cells.T, observed.astype(np.float64).T)


class Found(NamedTuple):
    """The nearest centre of each row, −1 if no centre knows any of its values; its part of the misfit (see
    :func:`~intarsia.core.distances.misfit_of_rows`); and whether any value that varies can be compared.
    """

    labels: IntArray
    misfit: FloatArray
    comparable: BoolArray


class Nearest:
    r"""The nearest of several centres, for the rows of a piece, by rescaled distance (eq:d).

    Where all centres know the same features, the rescaling is the same for all centres, and so is the square of the row:

    .. math:: \arg\min_k \sum_m o_m (x_m - c_{km})^2 = \arg\max_k \; x \cdot c_k - \tfrac12 \, o \cdot c_k^2

    with o the mask of the row: one matrix product, or two with missing values. The first of equally near centres is taken.
    """

    def __init__(self, rows: Rows, centres: MaskedCentroids, extent: Extent, metric: Metric = "euclidean") -> None:
        self._centres, self._extent, self._metric, self._offset = centres, extent, metric, rows.offset
        self._varies = extent.varies
        known = centres.seen & self._varies
        self._alike = metric == "euclidean" and len(centres) > 0 and bool((known == known[0]).all())
        self.is_convex = self._alike and rows.complete  # whether the mean of rows with one label has this label, too
        self._complete = self._alike and bool(known[0][self._varies].all())
        self._towards = np.ascontiguousarray(np.where(known, centres.values - rows.offset, 0.0).T)
        self._halves = np.square(self._towards) / 2
        self._known = centres.seen.any(axis=0)
        self._numbers = np.arange(float(len(centres)))

    def members(self, piece: Piece) -> FloatArray:
        """Centres × rows: 1 for the nearest centre of a row; the first centre if it can be compared with none."""
        if self._alike:
            return self._best(piece)[0]
        return membership(np.maximum(nearest(self.distances(piece)), 0), len(self._centres))

    def numbers(self, members: FloatArray) -> IntArray:
        """Return the labels that a membership matrix stands for."""
        return np.asarray((self._numbers @ members).astype(np.intp))

    def labels(self, piece: Piece) -> IntArray:
        """The nearest centre of each row; −1 if no centre knows any of its values."""
        if not self._alike:
            return choose_centre(self.distances(piece), piece.observed, self._centres.seen)
        return self._labels(piece, self._best(piece)[0])

    def of(self, piece: Piece) -> Found:
        """The nearest centre of each row, and its distance."""
        if not self._complete:
            distances, observed = self.distances(piece), piece.observed
            closest = np.where(np.isnan(distances), np.inf, distances).min(axis=1, initial=np.inf)
            misfit = misfit_of_rows(closest, observed, self._extent, self._metric)
            return Found(choose_centre(distances, observed, self._centres.seen), misfit, nearest(distances) >= 0)
        members, score = self._best(piece)
        cells = piece.cells if self._varies.all() else piece.cells[self._varies]
        comparable = np.ones(len(score), dtype=np.bool_)
        if piece.mask is not None or not self._varies.any():
            comparable = np.asarray(piece.observed.T[self._varies].any(axis=0))
        misfit = np.maximum(np.einsum("ij,ij->j", cells, cells) - 2.0 * score, 0.0)
        return Found(self._labels(piece, members), misfit, comparable)

    def closest(self, piece: Piece) -> tuple[IntArray, FloatArray]:
        """The nearest centre of each row, and its rescaled distance: NaN where none can be compared."""
        if not self._complete:
            distances = self.distances(piece)
            labels = nearest(distances)
            return labels, np.where(labels >= 0, distances[np.arange(len(labels)), labels], np.nan)
        found = self.of(piece)
        reach = reach_of_rows(piece.observed, self._extent, self._metric)
        with np.errstate(over="ignore"):  # huge rows and tiny extents
            far = np.divide(np.sqrt(found.misfit), reach, out=np.full(len(reach), np.nan), where=found.comparable)
        return np.where(found.comparable, found.labels, -1), far

    def share_of_reach(self, piece: Piece, labels: IntArray, squares: FloatArray) -> FloatArray:
        """Squares (rows × features) added up over the features of each row and its centre, relative to squared widths."""
        shared = piece.observed & (self._centres.seen & self._varies)[labels]
        reach = np.where(shared, np.square(self._extent.width), 0.0).sum(axis=1)
        total = np.where(shared, squares, 0.0).sum(axis=1)
        with np.errstate(over="ignore"):  # tiny extents
            return np.asarray(np.divide(total, reach, out=np.zeros(len(reach)), where=reach > 0))

    def distances(self, piece: Piece) -> FloatArray:
        """Rescaled distances, rows × centres."""
        rows, offset, centres, extent = piece.cells.T, self._offset, self._centres, self._extent
        if self._metric in {"euclidean", "manhattan"}:  # independent of the origin
            varies = self._varies  # depends on the origin
            moved = Extent(*(np.where(varies, side - offset, 0.0) for side in extent))
            values = np.where(centres.seen, centres.values - offset, 0.0)
            return distances_to_centres(rows, piece.observed, values, centres.seen, moved, self._metric)
        whole = np.where(piece.observed, rows + offset, 0.0)
        return distances_to_centres(whole, piece.observed, centres.values, centres.seen, extent, self._metric)

    def _best(self, piece: Piece) -> tuple[FloatArray, FloatArray]:
        """The membership matrix, and the score of each row with its nearest centre."""
        score = (piece.cells.T @ self._towards).T
        halves = self._halves.sum(axis=0)[:, None] if piece.mask is None else (piece.mask.T @ self._halves).T
        score = np.subtract(score, halves, order="C")
        highest = score.max(axis=0)
        best = score == highest  # faster than to look for the position of the largest
        ties = np.count_nonzero(best) > len(highest)
        members = membership(score.argmax(axis=0), len(score)) if ties else best.astype(np.float64)
        return members, highest

    def _labels(self, piece: Piece, members: FloatArray) -> IntArray:
        labels = self.numbers(members)
        if piece.mask is not None or not self._known.all():
            labels[~piece.observed[:, self._known].any(axis=1)] = -1
        return labels


class Tally:
    """Rows, observed values and sums of each cluster, added up piece by piece."""

    def __init__(self, n_clusters: int, offset: FloatArray) -> None:
        self.sizes = np.zeros(n_clusters, dtype=np.intp)
        self.counts = np.zeros((n_clusters, len(offset)))
        self._sums = np.zeros((n_clusters, len(offset)))
        self._offset = offset

    def add(self, piece: Piece, members: FloatArray) -> None:
        """Add the rows of a piece; ``members`` is 1 where a row is in a cluster, clusters × rows."""
        n_rows = members.sum(axis=1)
        self._sums += members @ piece.cells.T
        self.counts += n_rows[:, None] if piece.mask is None else members @ piece.mask.T
        self.sizes += n_rows.astype(np.intp)

    def add_labels(self, piece: Piece, labels: IntArray) -> None:
        """Add the rows of a piece by their labels; negative labels belong to no cluster."""
        self.add(piece, membership(labels, len(self.sizes)))

    def move(self, cells: FloatArray, mask: FloatArray | None, old: int, new: int) -> None:
        """Move one row from a cluster to another."""
        for k, sign in ((old, -1), (new, 1)):
            self.sizes[k] += sign
            self._sums[k] += sign * cells
            self.counts[k] += sign if mask is None else sign * mask

    def centroids(self) -> MaskedCentroids:
        """The mean of each cluster."""
        return MaskedCentroids.of(self._offset + self._sums / np.maximum(self.counts, 1.0), self.counts)


def means(rows: Rows, labels: IntArray, n_clusters: int) -> Tally:
    """Read all rows once and add up each cluster; negative labels belong to none."""
    tally = Tally(n_clusters, rows.offset)
    for piece in rows.pieces(n_clusters):
        tally.add_labels(piece, labels[piece.at])
    return tally


class Labeller(Protocol):
    """A function that labels the rows of a piece."""

    def __call__(self, piece: Piece, /) -> IntArray:
        """Return one label per row, −1 for none."""


def labels_of(rows: Rows, label: Labeller, n_clusters: int) -> IntArray:
    """Read all rows once and label them."""
    labels = np.full(rows.n_rows, -1, dtype=small_type(n_clusters))
    for piece in rows.pieces(n_clusters):
        labels[piece.at] = label(piece)
    return labels


class Squares(NamedTuple):
    """Labels of all rows, the size of each cluster, and by cluster and feature the number of observed values and the sum of
    their squared distances from the centre.
    """

    labels: IntArray
    sizes: IntArray
    counts: FloatArray
    squares: FloatArray


def squares_around(rows: Rows, centres: MaskedCentroids, label: Labeller) -> Squares:
    """Read all rows once: label them, and add up the squares of their values around the centres."""
    n_clusters = len(centres)
    labels = np.full(rows.n_rows, -1, dtype=small_type(n_clusters))
    sizes, counts, squares = np.zeros(n_clusters), np.zeros(centres.values.shape), np.zeros(centres.values.shape)
    shifted = np.where(centres.seen, centres.values - rows.offset, 0.0)
    for piece in rows.pieces(n_clusters):
        labels[piece.at] = own = label(piece)
        members = membership(own, n_clusters)
        n_rows = members.sum(axis=1)
        sizes += n_rows
        residuals = shifted.take(own, axis=0, mode="clip")  # rows of no cluster are in no sum
        np.subtract(piece.cells.T, residuals, out=residuals)
        if piece.mask is None:
            counts += n_rows[:, None]
        else:
            residuals *= piece.mask.T
            counts += members @ piece.mask.T
        squares += members @ np.square(residuals, out=residuals)
    seen = centres.seen
    return Squares(labels, sizes.astype(np.intp), np.where(seen, counts, 0.0), np.where(seen, squares, 0.0))


def small_type(n_clusters: int) -> np.dtype[Any]:
    """Return the smallest type that holds labels of this many clusters, and −2."""
    return np.dtype(np.int16 if n_clusters < np.iinfo(np.int16).max else np.int32)


def relabelled(labels: IntArray, new: IntArray) -> IntArray:
    """Return ``new[labels]`` in a small type; negative labels stay as they are."""
    kind = small_type(int(new.max(initial=0)) + 1)
    result, table = np.empty(len(labels), dtype=kind), np.append(new, -1).astype(kind)
    for at in _in_turn(len(labels)):
        result[at] = np.where(labels[at] < 0, labels[at], table[np.maximum(labels[at], -1)])
    return result


def sizes_of(labels: IntArray, n_clusters: int) -> IntArray:
    """Return the number of rows of each cluster; negative labels belong to none."""
    sizes = np.zeros(n_clusters, dtype=np.intp)
    for at in _in_turn(len(labels)):
        sizes += np.bincount(labels[at][labels[at] >= 0], minlength=n_clusters)
    return sizes


def _in_turn(n: int) -> Iterator[slice]:
    return (slice(start, min(start + _LABELS_AT_A_TIME, n)) for start in range(0, n, _LABELS_AT_A_TIME))
