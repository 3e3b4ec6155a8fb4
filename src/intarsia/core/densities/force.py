r"""Attractive force between local clusters (eq:attractive_force_two_clusters): what exact and sampled forces share.

.. math:: f(P_i^a, P_j^b) = \mathbb{E} \bigl[ (d_{ij}(x, x')^2 + s^2)^{-w/2} \bigr], \quad x \sim P_i^a,\ x' \sim P_j^b

s = 0 gives the paper's 1/d^w, which is infinite between equal points, and whose expectation between Gaussians is
infinite when they share no more than w features. The softening s bounds it: below a distance of s, the force hardly grows.
:mod:`~intarsia.core.densities.exact_force` computes the expectation for Gaussians,
:mod:`~intarsia.core.densities.sampled_force` estimates it from points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, IntArray


class BlockSizes(NamedTuple):
    """How many numbers are processed at once: in memory (32 MiB), and in each of a few arrays in the cache (512 KiB)."""

    memory: int = 1 << 22
    cache: int = 1 << 16


DEFAULT_SIZES = BlockSizes()


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


class Comparable(NamedTuple):
    """Clusters ``left`` that have the same features, clusters ``right`` likewise (perhaps the same clusters), and the
    features that both have and that vary.
    """

    left: IntArray
    right: IntArray
    shared: BoolArray


def comparable_clusters(seen: BoolArray, extent: Extent) -> Iterator[Comparable]:
    """Yield all pairs of sets of clusters that share a feature that varies."""
    patterns, pattern_of = np.unique(seen, axis=0, return_inverse=True)
    order = np.argsort(pattern_of.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(pattern_of.reshape(-1)))[:-1])
    for p, q in combinations_with_replacement(range(len(patterns)), 2):
        shared = patterns[p] & patterns[q] & extent.varies
        if shared.any():
            yield Comparable(members[p], members[q], shared)
