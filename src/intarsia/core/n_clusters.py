"""Choosing K from summaries: a silhouette over local clusters instead of rows.

The mean squared distance between the points of two clusters follows from their means and variances, so a silhouette
of the proxies needs no proxies. Distances are rescaled, and incomparable pairs are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intarsia.core.densities import Density
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, FloatArray, IntArray

# Kaufman and Rousseeuw (1990): up to 0.25 a silhouette shows no substantial structure, up to 0.5 one that may be artificial
NO_STRUCTURE, CLEAR = 0.25, 0.5


def expected_distances(densities: Sequence[Density], seen: BoolArray, extent: Extent) -> FloatArray:
    """Root mean squared rescaled distance between points of two clusters, and within one; NaN where incomparable."""
    means, variances = np.zeros(seen.shape), np.zeros(seen.shape)
    for k, density in enumerate(densities):
        means[k, seen[k]], variances[k, seen[k]] = density.mean, density.variances
    useful = seen & extent.varies
    result = np.full((len(seen), len(seen)), np.nan)
    for k in range(len(seen)):
        shared = useful[k] & useful
        squared = np.square(means[k] - means) + variances[k] + variances
        reach = (shared * np.square(extent.width)).sum(axis=1)
        total = np.where(shared, squared, 0.0).sum(axis=1)
        np.sqrt(np.divide(total, reach, out=result[k], where=reach > 0), out=result[k])
    return result


def silhouette(distances: FloatArray, groups: IntArray) -> float:
    """Mean silhouette of local clusters, each standing for equally many points.

    ``distances`` has the own spread of each cluster on its diagonal.
    NaN where no cluster can be compared with a group that is not its own.
    """
    n_groups = int(groups.max()) + 1
    comparable = ~np.isnan(distances)
    membership = (groups[:, None] == np.arange(n_groups)[None, :]).astype(np.float64)
    pairs = comparable @ membership
    mean = np.divide(np.nan_to_num(distances) @ membership, pairs, out=np.full(pairs.shape, np.nan), where=pairs > 0)
    own = mean[np.arange(len(groups)), groups]
    mean[np.arange(len(groups)), groups] = np.inf
    other = np.where(np.isnan(mean), np.inf, mean).min(axis=1)
    valid = np.isfinite(other) & np.isfinite(own) & (np.maximum(own, other) > 0)
    if not valid.any():
        return float("nan")
    return float(np.mean((other[valid] - own[valid]) / np.maximum(own[valid], other[valid])))
