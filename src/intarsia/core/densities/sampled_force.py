"""Proxy clusters, and the forces between them: means over all pairs of points (generateProxyClusters, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.spatial.distance import cdist

from intarsia.core.densities.base import Density
from intarsia.core.densities.force import DEFAULT_SIZES, BlockSizes, comparable_clusters
from intarsia.core.distances import Extent, Metric, phi_of_pairs
from intarsia.core.types import BoolArray, FloatArray, IntArray

_TRIES = 100
_LOST = 1e-9  # squared rescaled distances from a matrix product are off by far less


def sample_inside(
    density: Density, rng: np.random.Generator, n: int, low: FloatArray | None = None, high: FloatArray | None = None
) -> FloatArray:
    """Draw n points from a density, inside a bounding box if one is given (a proxy cluster).

    Points outside are drawn again, and after a hundred tries moved to the nearest face of the box.
    """
    points = density.sample(rng, n)
    if low is None or high is None:
        return points
    wide = high > low  # along the other axes no point can be inside
    for _ in range(_TRIES):
        outside = ((points < low) | (points > high))[:, wide].any(axis=1)
        if not outside.any():
            break
        points[outside] = density.sample(rng, int(outside.sum()))
    return np.clip(points, low, high)


def sampled_forces(
    proxies: Sequence[FloatArray],
    seen: BoolArray,
    extent: Extent,
    exponent: float,
    softening: float,
    metric: Metric,
    sizes: BlockSizes = DEFAULT_SIZES,
) -> FloatArray:
    """Return the paper's force: the mean over all pairs of points of two proxy clusters; NaN where they share no feature."""
    forces = np.full((len(proxies), len(proxies)), np.nan)
    for left, right, shared in comparable_clusters(seen, extent):
        largest = float(phi_of_pairs(extent.high, extent.low, shared, metric))
        if largest > 0:
            points = {k: proxies[k][:, shared[seen[k]]] for k in {*left.tolist(), *right.tolist()}}
            for k, others in _one_and_others(left, right, points, sizes.cache):
                to = np.concatenate([points[m] for m in others])
                squared = _squared_distances(points[k], to, metric, largest, softening)
                means = _means_of_powers(squared, [len(points[m]) for m in others], exponent)
                forces[k, others] = forces[others, k] = means
    return forces


def _one_and_others(
    left: IntArray, right: IntArray, points: Mapping[int, FloatArray], most: int
) -> Iterator[tuple[int, list[int]]]:
    """Yield every cluster of the left with clusters of the right, as many at once as fit into the cache."""
    for position, k in enumerate(left.tolist()):
        others = (right[position + 1 :] if left is right else right).tolist()
        at_once = max(1, most // max(1, len(points[k]) * max((len(points[m]) for m in others), default=1)))
        for start in range(0, len(others), at_once):
            yield k, others[start : start + at_once]


def _squared_distances(x: FloatArray, y: FloatArray, metric: Metric, largest: float, softening: float) -> FloatArray:
    """Return squared rescaled distances plus s²; from a matrix product where s² is larger than its rounding errors."""
    if metric == "euclidean" and softening**2 > _LOST:
        middle = x.mean(axis=0)
        x, y = (x - middle) / largest, (y - middle) / largest
        squared = x @ (-2.0 * y.T)
        squared += np.square(x).sum(axis=1)[:, None]
        squared += np.square(y).sum(axis=1) + softening**2
        return np.maximum(squared, softening**2, out=squared)
    return np.square(_distances(x, y, metric) / largest) + softening**2


def _means_of_powers(squared: FloatArray, sizes: Sequence[int], exponent: float) -> FloatArray:
    """Return the mean of (d² + s²)^(−w/2) over the columns of each proxy cluster; ``sizes`` are their numbers of points."""
    with np.errstate(divide="ignore", over="ignore"):
        powers = np.divide(1.0, squared, out=squared) if exponent == 2.0 else squared ** (-exponent / 2)
    columns = powers.sum(axis=0) / len(squared)
    return np.asarray(np.add.reduceat(columns, np.cumsum([0, *sizes[:-1]])) / np.asarray(sizes))


def _distances(x: FloatArray, y: FloatArray, metric: Metric) -> FloatArray:
    if metric == "cosine" or callable(metric):  # scipy's cosine is NaN for zero vectors
        return phi_of_pairs(x[:, None], y[None], np.ones(x.shape[1], dtype=np.bool_), metric)
    return np.asarray(cdist(x, y, "cityblock" if metric == "manhattan" else "euclidean"))
