"""Sums over the rows of one table, in integers, of which one row can change only so much: all that a private table tells.

Rows are in declared units: 0 is the middle of the declared bounds and ±2 the bounds. A question clips each value itself;
missing, NaN and infinite values count as missing and add 0. What a row adds depends on this row alone, to the last bit: it
is a vector of whole numbers ("grains") that are small enough for floating-point sums and matrix products to be exact in any
order. So ``sums(A and B) == sums(A) + sums(B)``, and adding or removing a row changes the sums by a vector whose Euclidean
norm is at most ``norm``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from intarsia.core.centroids import membership
from intarsia.core.rows import Rows
from intarsia.core.types import BoolArray, FloatArray, IntArray

BOUND = 2.0  # values are within ± this, in declared units
GRAINS = 1 << 14  # grains of a radius
LEVER = GRAINS // 2  # what a row adds to a count that is asked for together with sums
_TURNS = 1 << 16  # grains of the length of a direction
_ROWS = 1 << 14  # rows that are added up in floats: sums stay below 2^53, so they are exact
_ON, _OFF = 29, 41  # weights of squares and of products of two features: 41² ≤ 2 · 29²
_BELOW_1 = 1.0 - 2.0**-40  # more than what rounding can add
_SMALLEST_SCALE = 1e-6


class Question(Protocol):
    """A vector of sums over rows. ``norm`` is the largest Euclidean norm of what one row adds, in grains."""

    words: str
    size: int
    norm: float

    def sums(self, rows: Rows) -> IntArray:
        """Read all rows once and add them up."""


def widest(n_features: int) -> float:
    """Return the largest norm of a row in declared units."""
    return BOUND * float(np.sqrt(max(n_features, 1)))


def least_radius(n_features: int) -> float:
    """Return the shortest radius for which sums are exact."""
    return 2.0 * widest(n_features) / 256.0


def fitting_radius(radius: float, n_features: int) -> float:
    """Return the radius, at most twice the largest norm of a row, which no difference exceeds, and at least 1/256 of it.

    No difference is then longer than 256 radii, or 2²² grains, so its square is exact in a float.
    """
    most = 2.0 * widest(n_features)
    return float(np.clip(np.nan_to_num(radius, nan=most), least_radius(n_features), most))


class _Sums(ABC):
    words: str
    size: int
    norm: float

    def sums(self, rows: Rows) -> IntArray:
        """Read all rows once and add them up."""
        total = np.zeros(self.size, dtype=np.intp)
        for values, observed in _blocks(rows):
            total += self._add(values, observed)
        return total

    @abstractmethod
    def _add(self, values: FloatArray, observed: BoolArray) -> IntArray:
        """Return the sums of a block of features × rows."""


class NormCounts(_Sums):
    """How many rows are as far from a centre as each of 18 radii, and farther than the radius before.

    A row adds 1 to one number: the norm is 1. The largest radius is twice the largest norm of a row, which no distance
    exceeds; each is √√2 times the one before.
    """

    words = "distances of rows from the centre"
    norm = 1.0
    size = 18

    def __init__(self, centre: FloatArray) -> None:
        self._centre = _bounded(centre)
        self.radii = 2.0 * widest(len(centre)) * 2.0 ** (-np.arange(self.size)[::-1] / 4.0)

    def _add(self, values: FloatArray, observed: BoolArray) -> IntArray:
        grains = _clipped(values - self._centre[:, None], observed, self.radii[-1])
        edges = np.square(self.radii[:-1] / self.radii[-1] * GRAINS)
        return np.bincount(np.searchsorted(edges, np.square(grains).sum(axis=0)), minlength=self.size)


class Moments(_Sums):
    r"""The number of rows, the sums of their differences y from a centre, and the sums of products of these differences.

    With y clipped to ``radius`` and a lever t of half a radius appended, :math:`u = (y, t)`, a row adds the entries of
    :math:`u u^T` on the diagonal 29 times and those above it 41 times. As 41² ≤ 2 · 29², the norm is at most
    :math:`29 \lVert u u^T \rVert_F = 29 \lVert u \rVert^2 \le 29 \cdot \tfrac54 \text{GRAINS}^2`. With
    ``products_only`` there is no lever: the norm is 29 · GRAINS², and neither the number of rows nor sums are told.
    """

    words = "second moments"

    def __init__(self, centre: FloatArray, radius: float, *, products_only: bool = False) -> None:
        self._centre, self.radius = _bounded(centre), fitting_radius(radius, len(centre))
        self._levers = 0 if products_only else 1
        self._above = np.triu_indices(len(centre) + self._levers)
        self._weights = np.where(self._above[0] == self._above[1], _ON, _OFF)
        self.size, self.norm = len(self._weights), _ON * (1.0 + self._levers / 4.0) * GRAINS**2

    def _add(self, values: FloatArray, observed: BoolArray) -> IntArray:
        grains = _clipped(values - self._centre[:, None], observed, self.radius)
        long = np.vstack([grains, np.full((self._levers, grains.shape[1]), float(LEVER))])
        return _whole((long @ long.T)[self._above]) * self._weights

    def read(self, values: FloatArray) -> FloatArray:
        """Return the matrix of sums of products in declared units; with a lever its last feature is 1 in every row."""
        wide = len(self._centre) + self._levers
        matrix = np.zeros((wide, wide))
        matrix[self._above] = values / self._weights
        units = np.append(np.full(len(self._centre), self.radius), np.full(self._levers, 2.0)) / GRAINS
        return np.asarray((matrix + np.triu(matrix, 1).T) * np.outer(units, units))

    def deviation(self, in_grains: float) -> float:
        """Return the standard deviation of the noise of sums of squares in declared units, from that in grains."""
        return in_grains / _ON * (self.radius / GRAINS) ** 2


class Projection(NamedTuple):
    """Directions (features × q) in which rows are looked at: their differences from a centre, clipped to a radius."""

    centre: FloatArray
    radius: float
    directions: FloatArray

    def of(self, values: FloatArray, observed: BoolArray) -> FloatArray:
        """Return q × rows in declared units: each entry depends on its row alone, as whole numbers are multiplied."""
        radius = fitting_radius(self.radius, len(self.centre))
        grains = _clipped(values - _bounded(self.centre)[:, None], observed, radius)
        turns = np.rint(np.clip(np.nan_to_num(self.directions), -1.0, 1.0) * _TURNS)
        return np.asarray((turns.T @ grains) * (radius / GRAINS / _TURNS))


class GridCounts(_Sums):
    """The number of rows in each cell of a grid over projected rows; rows beyond its ends are in the outermost cells.

    A row adds 1 to one number: the norm is 1. ``half`` is half the width of the grid along each direction.
    """

    words = "counts on a grid"
    norm = 1.0

    def __init__(self, projection: Projection, half: FloatArray, bins: int) -> None:
        self._projection, self._half, self._bins = projection, np.maximum(half, 1e-9), bins
        self.size = bins ** len(half)

    def _add(self, values: FloatArray, observed: BoolArray) -> IntArray:
        place = (self._projection.of(values, observed) / self._half[:, None] + 1.0) * (self._bins / 2.0)
        cell = np.clip(np.floor(place), 0, self._bins - 1).astype(np.intp)
        return np.bincount(np.ravel_multi_index(tuple(cell), (self._bins,) * len(self._half)), minlength=self.size)

    def points(self) -> FloatArray:
        """Return the middle of each cell, cells × directions."""
        cells = np.stack(np.unravel_index(np.arange(self.size), (self._bins,) * len(self._half)), axis=1)
        return np.asarray(((cells + 0.5) * (2.0 / self._bins) - 1.0) * self._half)


class _GroupSums(_Sums):
    """Sums of the differences of rows from the centre of their group, clipped to a radius, and the size of each group.

    A row adds to the numbers of one group only: a vector not longer than GRAINS, and half of GRAINS to the size. So the norm
    is √1.25 · GRAINS.
    """

    norm = float(np.sqrt(1.25)) * GRAINS

    def __init__(self, centres: FloatArray, known: BoolArray, radius: float) -> None:
        self.centres, self._known = np.where(known, _bounded(centres), 0.0), known
        self.radius = fitting_radius(radius, centres.shape[1])
        self._told = np.ones(centres.shape[1], dtype=np.bool_)
        self.size = centres.shape[0] * (centres.shape[1] + 1)

    @abstractmethod
    def _labels(self, values: FloatArray, observed: BoolArray) -> IntArray:
        """Return the group of each row."""

    def _add(self, values: FloatArray, observed: BoolArray) -> IntArray:
        labels = self._labels(values, observed)
        told = observed & self._known[labels].T & self._told[:, None]
        grains = _clipped(values - self.centres[labels].T, told, self.radius)
        long = np.vstack([grains, np.full(len(labels), float(LEVER))])
        return _whole(membership(labels, len(self.centres)) @ long.T).ravel()

    def read(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the size of each group, and the sums of differences from its centre in declared units."""
        table = values.reshape(len(self.centres), -1)
        return table[:, -1] / LEVER, table[:, :-1] * (self.radius / GRAINS)

    def deviation(self, in_grains: float) -> float:
        """Return the standard deviation of the noise of sums in declared units, from that in grains."""
        return in_grains * self.radius / GRAINS


class ClusterSums(_GroupSums):
    """Sums of local clusters: a row belongs to the nearest of J points among projected rows (see :class:`_GroupSums`)."""

    words = "sums of local clusters"

    def __init__(self, projection: Projection, points: FloatArray, centres: FloatArray, radius: float) -> None:
        super().__init__(centres, np.ones(centres.shape, dtype=np.bool_), radius)
        self._projection, self._points = projection, points

    def _labels(self, values: FloatArray, observed: BoolArray) -> IntArray:
        return _nearest(self._projection.of(values, observed), None, self._points, np.ones(self._points.shape[1]))


class TotalSums(_GroupSums):
    """The number of rows and the sums of their values: one group around the middle (see :class:`_GroupSums`)."""

    words = "number of rows and sums of values"

    def __init__(self, n_features: int) -> None:
        super().__init__(np.zeros((1, n_features)), np.ones((1, n_features), dtype=np.bool_), widest(n_features))

    def _labels(self, values: FloatArray, observed: BoolArray) -> IntArray:  # noqa: ARG002
        return np.zeros(values.shape[1], dtype=np.intp)


class RoundSums(_GroupSums):
    r"""Sums of one round: a row belongs to the centre with the smallest :math:`\sum_m o_m ((x_m - c_{km}) / s_m)^2`.

    The sum is over observed features that all centres know; ``scales`` are the s. Unknown entries of a centre get 0. See
    :class:`_GroupSums` for what is added up and its norm. With ``told``, only these features are added up, and the radius is
    the given one, unless it is too short for sums to be exact.
    """

    words = "sums of clusters"

    def __init__(
        self,
        centres: FloatArray,
        known: BoolArray,
        scales: FloatArray,
        radius: float,
        told: BoolArray | None = None,
    ) -> None:
        super().__init__(centres, known & np.isfinite(centres), radius)
        if told is not None:  # sums over several tables need one radius for all, which may be wider than this table
            self._told = told
            self.radius = max(self.radius, float(radius))
        usable = np.isfinite(scales) & (scales > 0)
        self._scales = np.where(usable & self._known.all(axis=0), np.maximum(scales, _SMALLEST_SCALE), np.inf)

    def _labels(self, values: FloatArray, observed: BoolArray) -> IntArray:
        return _nearest(values, observed, self.centres, self._scales)


class RowCount:
    """The number of rows. A row adds 1: the norm is 1."""

    words = "number of rows"
    size, norm = 1, 1.0

    def sums(self, rows: Rows) -> IntArray:
        """Return the number of rows."""
        return np.array([rows.n_rows], dtype=np.intp)


def nearest_centres(rows: Rows, question: RoundSums) -> IntArray:
    """Return the centre of each row, as the round would choose it."""
    labels = [question._labels(values, observed) for values, observed in _blocks(rows)]  # noqa: SLF001 (same module)
    return np.concatenate([np.zeros(0, dtype=np.intp), *labels])


def _blocks(rows: Rows) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Read all rows once, clipped, in blocks of features × rows, with 0 where a value is missing."""
    if rows.offset.any():
        msg = "Private sums need rows without an offset, which depends on data. Hint: read rows with centred=False."
        raise ValueError(msg)
    for piece in rows.pieces():
        for start in range(0, piece.cells.shape[1], _ROWS):
            cells = piece.cells[:, start : start + _ROWS]
            observed = np.isfinite(cells)
            if piece.mask is not None:
                observed &= piece.mask[:, start : start + _ROWS] > 0
            yield np.clip(np.where(observed, cells, 0.0), -BOUND, BOUND), observed


def _clipped(differences: FloatArray, observed: BoolArray, radius: float) -> FloatArray:
    """Return differences (features × rows) in grains of the radius, each row not longer than the radius.

    Truncation moves values towards 0. A row that is too long is then scaled down by a factor that is low enough for any
    rounding, and truncated once more; its square is a sum of whole numbers below 2^53, hence exact.
    """
    grains = np.trunc(np.where(observed, differences, 0.0) * (GRAINS / radius))
    squares = np.square(grains).sum(axis=0)
    if not (squares > GRAINS**2).any():
        return grains
    factor = np.where(squares > GRAINS**2, GRAINS * _BELOW_1 / np.sqrt(np.maximum(squares, 1.0)), 1.0)
    return np.asarray(np.trunc(grains * factor))


def _nearest(values: FloatArray, observed: BoolArray | None, points: FloatArray, scales: FloatArray) -> IntArray:
    """Return the nearest point of each row, feature by feature in order, so that it depends on the row alone."""
    distances = np.zeros((len(points), values.shape[1]))
    for m in np.flatnonzero(np.isfinite(scales)):
        squares = np.square((values[m] - points[:, m, None]) / scales[m])
        distances += squares if observed is None else squares * observed[m]
    return np.asarray(distances.argmin(axis=0))


def _bounded(centre: FloatArray) -> FloatArray:
    return np.asarray(np.clip(np.nan_to_num(centre, nan=0.0), -BOUND, BOUND))


def _whole(values: FloatArray) -> IntArray:
    return np.asarray(values.astype(np.intp))
