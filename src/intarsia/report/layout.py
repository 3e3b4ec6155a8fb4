"""A flat picture of things that are known by their distances only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import shortest_path

from intarsia.core.blocks import by_rows
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, FloatArray


class Layout(NamedTuple):
    """A point in the plane for each thing, and the share of the squared distances that the plane shows."""

    points: FloatArray
    kept: float


def flat_layout(distances: FloatArray) -> Layout:
    """Classical scaling: the two directions along which things with these distances differ most.

    Pairs that cannot be compared (NaN) are as far apart as the shortest way over others; where there is none, they are
    farther than any that can.

    >>> flat_layout(np.array([[0.0, 3.0], [3.0, 0.0]])).points.round(1).tolist()
    [[1.5, 0.0], [-1.5, 0.0]]
    """
    square = np.square(_without_gaps(distances) if np.isnan(distances).any() else distances)
    values, vectors, kept = _scaled(square)
    points = np.zeros((len(square), 2))
    points[:, : len(values)] = vectors * np.sqrt(values)
    return Layout(_turned(points), kept)


def rough_layout(values: FloatArray, seen: BoolArray, extent: Extent, n_landmarks: int) -> Layout:
    """:func:`flat_layout` of some *landmarks*, and the rest where their distances to these put them.

    This is de Silva and Tenenbaum's scaling by landmarks (2004). It takes neither the distances of all pairs nor
    eigenvectors of as many things. Who cannot be compared with a landmark is as far from it as the shortest way over one
    other.
    """
    marks = np.unique(np.linspace(0, len(values) - 1, n_landmarks).astype(np.intp))
    between = _without_gaps(quick_distances(values[marks], seen[marks], extent))
    square = np.square(between)
    scale, vectors, kept = _scaled(square)
    back = np.divide(vectors, np.sqrt(scale), out=np.zeros(vectors.shape), where=scale > 0)
    points = np.zeros((len(values), 2))
    for some in by_rows(len(values), len(marks) ** 2):
        away = quick_distances(values[some], seen[some], extent, (values[marks], seen[marks]))
        gaps = np.flatnonzero(np.isnan(away).any(axis=1))
        if len(gaps):
            known = np.where(np.isnan(away[gaps]), np.inf, away[gaps])
            ways = (known[:, :, None] + between[None, :, :]).min(axis=1)
            ways[np.isinf(ways)] = 1.5 * between.max()
            away[gaps] = np.where(np.isnan(away[gaps]), ways, away[gaps])
        points[some, : len(scale)] = -0.5 * (np.square(away) - square.mean(axis=0)) @ back
    return Layout(_turned(points), kept)


def _scaled(square: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Of squared distances: the two largest eigenvalues, their vectors, and the share of the whole that they are."""
    n = len(square)
    centred = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    top = min(2, n)
    values, vectors = eigh((centred + centred.T) / 2, subset_by_index=[n - top, n - 1])
    values = np.maximum(values[::-1], 0.0)
    total = float(np.trace(centred))
    return values, vectors[:, ::-1], min(float(values.sum()) / total, 1.0) if total > 0 else 1.0


def _turned(points: FloatArray) -> FloatArray:
    """A mirror image is as good: the outermost is on the right."""
    for axis in range(2):
        outermost = points[np.abs(points[:, axis]).argmax(), axis]
        points[:, axis] *= -1.0 if outermost < 0 else 1.0
    return points + 0.0


def _without_gaps(distances: FloatArray) -> FloatArray:
    unknown = np.isnan(distances)
    # a distance of zero is no edge in a sparse graph, so that the least there is stands for it
    edges = np.where(unknown, 0.0, np.maximum(distances, np.finfo(np.float64).tiny))
    np.fill_diagonal(edges, 0.0)
    ways = np.where(unknown, shortest_path(edges, directed=False), distances)
    np.fill_diagonal(ways, 0.0)
    reached = np.isfinite(ways)
    return np.where(reached, ways, 1.5 * ways[reached].max(initial=0.0))


def quick_distances(
    values: FloatArray, seen: BoolArray, extent: Extent, others: tuple[FloatArray, BoolArray] | None = None
) -> FloatArray:
    """Rescaled Euclidean distances (eq:d) by products of matrices: fast, and off by rounding, which no picture shows."""
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
