"""A flat picture of things that are known by their distances only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import shortest_path

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
    n = len(distances)
    square = np.square(_without_gaps(distances) if np.isnan(distances).any() else distances)
    centred = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    top = min(2, n)
    values, vectors = eigh((centred + centred.T) / 2, subset_by_index=[n - top, n - 1])
    values = np.maximum(values[::-1], 0.0)
    points = np.zeros((n, 2))
    points[:, :top] = vectors[:, ::-1] * np.sqrt(values)
    for axis in range(top):  # a mirror image is as good: the outermost is on the right
        outermost = points[np.abs(points[:, axis]).argmax(), axis]
        points[:, axis] *= -1.0 if outermost < 0 else 1.0
    total = float(np.trace(centred))
    return Layout(points + 0.0, min(float(values.sum()) / total, 1.0) if total > 0 else 1.0)


def _without_gaps(distances: FloatArray) -> FloatArray:
    unknown = np.isnan(distances)
    # a distance of zero is no edge in a sparse graph, so that the least there is stands for it
    edges = np.where(unknown, 0.0, np.maximum(distances, np.finfo(np.float64).tiny))
    np.fill_diagonal(edges, 0.0)
    ways = np.where(unknown, shortest_path(edges, directed=False), distances)
    np.fill_diagonal(ways, 0.0)
    reached = np.isfinite(ways)
    return np.where(reached, ways, 1.5 * ways[reached].max(initial=0.0))


def quick_distances(values: FloatArray, seen: BoolArray, extent: Extent) -> FloatArray:
    """Rescaled Euclidean distances (eq:d) by products of matrices: fast, and off by rounding, which no picture shows."""
    there = (seen & extent.varies).astype(np.float64)
    rows = np.where(there > 0, values - np.nan_to_num(extent.low, nan=0.0), 0.0)
    squares = np.square(rows) @ there.T
    apart = np.maximum(squares + squares.T - 2.0 * rows @ rows.T, 0.0)
    reach = (there * np.square(extent.width)) @ there.T
    result = np.sqrt(np.divide(apart, reach, out=np.full(apart.shape, np.nan), where=reach > 0))
    np.fill_diagonal(result, 0.0)
    return np.asarray(result)
