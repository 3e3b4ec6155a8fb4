"""A map of points that are known by their distances only: classical scaling, and with landmarks for many points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import shortest_path

from intarsia.core.blocks import by_rows
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, FloatArray


class Layout(NamedTuple):
    """Points in the plane, and the share of the squared distances that the plane shows."""

    points: FloatArray
    kept: float


def flat_layout(distances: FloatArray) -> Layout:
    """Classical scaling: the two directions along which points with these distances differ most.

    The distance of a pair that cannot be compared (NaN) is the shortest path over others; without a path it is larger than
    any other distance.

    >>> flat_layout(np.array([[0.0, 3.0], [3.0, 0.0]])).points.round(1).tolist()
    [[1.5, 0.0], [-1.5, 0.0]]
    """
    square = np.square(_completed(distances) if np.isnan(distances).any() else distances)
    values, vectors, kept = _scaled(square)
    points = np.zeros((len(square), 2))
    points[:, : len(values)] = vectors * np.sqrt(values)
    return Layout(_turned(points), kept)


def rough_layout(values: FloatArray, seen: BoolArray, extent: Extent, n_landmarks: int) -> Layout:
    """:func:`flat_layout` of some *landmarks*; the other points are placed by their distances to these.

    This is de Silva and Tenenbaum's scaling by landmarks (2004). It needs neither the distances of all pairs nor
    eigenvectors of that size. The distance to a landmark that cannot be compared is the shortest path over one other.
    """
    marks = np.unique(np.linspace(0, len(values) - 1, n_landmarks).astype(np.intp))
    between = _completed(quick_distances(values[marks], seen[marks], extent))
    square = np.square(between)
    scale, vectors, kept = _scaled(square)
    back = np.divide(vectors, np.sqrt(scale), out=np.zeros(vectors.shape), where=scale > 0)
    points = np.zeros((len(values), 2))
    for part in by_rows(len(values), len(marks) ** 2):
        away = quick_distances(values[part], seen[part], extent, (values[marks], seen[marks]))
        unknown = np.flatnonzero(np.isnan(away).any(axis=1))
        if len(unknown):
            known = np.where(np.isnan(away[unknown]), np.inf, away[unknown])
            ways = (known[:, :, None] + between[None, :, :]).min(axis=1)
            ways[np.isinf(ways)] = 1.5 * between.max()
            away[unknown] = np.where(np.isnan(away[unknown]), ways, away[unknown])
        points[part, : len(scale)] = -0.5 * (np.square(away) - square.mean(axis=0)) @ back
    return Layout(_turned(points), kept)


def _scaled(square: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """The two largest eigenvalues of centred squared distances, their vectors, and their share of the trace."""
    n = len(square)
    centred = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    top = min(2, n)
    values, vectors = eigh((centred + centred.T) / 2, subset_by_index=[n - top, n - 1])
    values = np.maximum(values[::-1], 0.0)
    total = float(np.trace(centred))
    return values, vectors[:, ::-1], min(float(values.sum()) / total, 1.0) if total > 0 else 1.0


def _turned(points: FloatArray) -> FloatArray:
    """Choose among mirror images: the outermost point is on the right, or at the top."""
    for axis in range(2):
        outermost = points[np.abs(points[:, axis]).argmax(), axis]
        points[:, axis] *= -1.0 if outermost < 0 else 1.0
    return points + 0.0


def _completed(distances: FloatArray) -> FloatArray:
    unknown = np.isnan(distances)
    # a distance of zero is no edge in a sparse graph: the smallest number stands for it
    edges = np.where(unknown, 0.0, np.maximum(distances, np.finfo(np.float64).tiny))
    np.fill_diagonal(edges, 0.0)
    ways = np.where(unknown, shortest_path(edges, directed=False), distances)
    np.fill_diagonal(ways, 0.0)
    reached = np.isfinite(ways)
    return np.where(reached, ways, 1.5 * ways[reached].max(initial=0.0))


def quick_distances(
    values: FloatArray, seen: BoolArray, extent: Extent, others: tuple[FloatArray, BoolArray] | None = None
) -> FloatArray:
    """Rescaled Euclidean distances (eq:d) by products of matrices: fast, with rounding errors that a map does not show."""
    x, there = _offsets(values, seen, extent)
    y, known = (x, there) if others is None else _offsets(*others, extent)
    apart = np.maximum(np.square(x) @ known.T + there @ np.square(y).T - 2.0 * x @ y.T, 0.0)
    reach = (there * np.square(extent.width)) @ known.T
    result = np.sqrt(np.divide(apart, reach, out=np.full(apart.shape, np.nan), where=reach > 0))
    if others is None:
        np.fill_diagonal(result, 0.0)
    return np.asarray(result)


def _offsets(values: FloatArray, seen: BoolArray, extent: Extent) -> tuple[FloatArray, FloatArray]:
    there = seen & extent.varies
    return np.where(there, values - np.nan_to_num(extent.low, nan=0.0), 0.0), there.astype(np.float64)
