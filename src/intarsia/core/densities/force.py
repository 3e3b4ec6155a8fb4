r"""Attractive force between local clusters (eq:attractive_force_two_clusters), from points that are drawn from densities.

.. math:: f(P_i^a, P_j^b) = \mathbb{E} \bigl[ (d_{ij}(x, x')^2 + s^2)^{-w/2} \bigr], \quad x \sim P_i^a,\ x' \sim P_j^b

s = 0 gives the paper's 1/d^w, which is infinite between equal points, and whose expectation between Gaussians is
infinite when they share no more than w features. The softening s bounds it: below a distance of s, the force hardly grows.
For Gaussians, :mod:`~intarsia.core.densities.exact_force` computes the expectation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent, Metric, phi_of_pairs
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

_TRIES = 100
_LOST = 1e-9  # squared rescaled distances from a matrix product are off by far less


class BlockSizes(NamedTuple):
    """How many numbers are processed at once: in memory (32 MiB), and in each of a few arrays in the cache (512 KiB)."""

    memory: int = 1 << 22
    cache: int = 1 << 16


DEFAULT_SIZES = BlockSizes()
Box = tuple[FloatArray | None, FloatArray | None]
"""The smallest and the largest values of a cluster; (None, None) without a bounding box."""


def blocks(index: IntArray, size: int) -> list[IntArray]:
    """Split an index into blocks of at most this size (at least 1)."""
    size = max(1, size)
    return [index[k : k + size] for k in range(0, len(index), size)]


def extent_of_densities(densities: Sequence[Density], seen: BoolArray, deviations: float) -> Extent:
    """Return the extent of densities: for each feature, the smallest mean − z·σ and the largest mean + z·σ.

    ``seen`` (densities × features) says which features each density has, ``deviations`` is z. NaN where no density has the
    feature.
    """
    low, high = np.full(seen.shape, np.inf), np.full(seen.shape, -np.inf)
    for k, density in enumerate(densities):
        reach = deviations * np.sqrt(density.variances)
        low[k, seen[k]], high[k, seen[k]] = density.mean - reach, density.mean + reach
    nobody = ~seen.any(axis=0)
    return Extent(np.where(nobody, np.nan, low.min(axis=0)), np.where(nobody, np.nan, high.max(axis=0)))


def comparable_clusters(seen: BoolArray, extent: Extent) -> Iterator[tuple[IntArray, IntArray, BoolArray]]:
    """Yield clusters with the same features, others (or the same) with the same features, and the shared ones that vary."""
    patterns, pattern_of = np.unique(seen, axis=0, return_inverse=True)
    order = np.argsort(pattern_of.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(pattern_of.reshape(-1)))[:-1])
    for p, q in combinations_with_replacement(range(len(patterns)), 2):
        shared = patterns[p] & patterns[q] & extent.varies
        if shared.any():
            yield members[p], members[q], shared


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


def largest_exponent(n_points: int, ratio: float) -> float:
    r"""Return the exponent w up to which so many points are stronger than one outlier that is ``ratio`` times nearer.

    .. math:: N \alpha^w < \beta^w \iff w > \log_{\beta / \alpha} N

    for N points whose inverse distance is α and a single one whose inverse distance is β > α (the paper's remark on w).
    The proxies of a local cluster are an example of N points.

    >>> round(largest_exponent(100, 10.0), 3), round(largest_exponent(30, 2.0), 1)
    (2.0, 4.9)
    """
    if n_points < 1 or not ratio > 1:
        raise SettingError(
            f"n_points must be at least 1, and ratio above 1: the outlier is nearer. Got {n_points} and {ratio:g} instead."
        )
    return math.log(n_points) / math.log(ratio)


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
    return compare_points(proxies, seen, extent, softening, metric, partial(_means_of_powers, exponent), sizes)


Measure = Callable[[FloatArray, IntArray, IntArray], FloatArray]
"""From squared distances, of points × blocks of columns, and the starts and lengths of the blocks: a number for each."""


def compare_points(
    proxies: Sequence[FloatArray],
    seen: BoolArray,
    extent: Extent,
    softening: float,
    metric: Metric,
    measure: Measure,
    sizes: BlockSizes = DEFAULT_SIZES,
) -> FloatArray:
    """Return a measure of the rescaled distances between points, for every two proxy clusters; NaN if incomparable.

    ``measure`` gets squared distances plus the square of ``softening``, which it may overwrite.
    """
    result = np.full((len(proxies), len(proxies)), np.nan)
    for left, right, shared in comparable_clusters(seen, extent):
        largest = float(phi_of_pairs(extent.high, extent.low, shared, metric))
        if largest <= 0:
            continue
        points = {k: proxies[k][:, shared[seen[k]]] for k in {*left.tolist(), *right.tolist()}}
        for position, k in enumerate(left.tolist()):
            others = right[position + 1 :] if left is right else right
            most = max((len(points[m]) for m in others.tolist()), default=1) * max(1, len(points[k]))
            for block in blocks(others, sizes.cache // max(1, most)):
                to = [points[m] for m in block.tolist()]
                squared = _squared_distances(points[k], np.concatenate(to), metric, largest, softening)
                lengths = np.array([len(x) for x in to])
                starts = np.cumsum(lengths) - lengths
                result[k, block] = result[block, k] = measure(squared, starts, lengths)
    return result


def _squared_distances(x: FloatArray, y: FloatArray, metric: Metric, largest: float, softening: float) -> FloatArray:
    """Return squared rescaled distances plus s²; from a matrix product where s² is larger than its rounding errors."""
    if metric == "euclidean" and softening**2 > _LOST:
        middle = x.mean(axis=0)
        x, y = (x - middle) / largest, (y - middle) / largest
        squared = x @ (-2.0 * y.T)
        squared += np.square(x).sum(axis=1)[:, None]
        squared += np.square(y).sum(axis=1) + softening**2
        return np.maximum(squared, softening**2, out=squared)
    if metric == "cosine" or callable(metric):  # scipy's cosine is NaN for zero vectors
        distances = phi_of_pairs(x[:, None], y[None], np.ones(x.shape[1], dtype=np.bool_), metric)
    else:
        distances = np.asarray(cdist(x, y, "cityblock" if metric == "manhattan" else "euclidean"))
    return np.square(distances / largest) + softening**2


def _means_of_powers(exponent: float, squared: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """Return the mean of (d² + s²)^(−w/2) over the columns of each proxy cluster."""
    with np.errstate(divide="ignore", over="ignore"):
        powers = np.divide(1.0, squared, out=squared) if exponent == 2.0 else squared ** (-exponent / 2)
    return np.asarray(np.add.reduceat(powers.sum(axis=0) / len(squared), starts) / lengths)
