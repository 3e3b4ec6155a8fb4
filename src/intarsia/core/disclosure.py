"""Which small clusters are merged before they leave a participant."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import Extent, rescaled_distances
from intarsia.core.types import IntArray


def merged_small(centroids: MaskedCentroids, sizes: IntArray, extent: Extent, fewest: int) -> IntArray:
    """Return the cluster that each cluster joins: the smallest joins the nearest, until none is too small.

    All are −1 if all rows together are too few.
    """
    joined = np.arange(len(sizes))
    while True:
        names, index = np.unique(joined, return_inverse=True)
        now = np.bincount(index, weights=sizes).astype(np.intp)
        if now.min() >= fewest or len(names) == 1:
            return joined if now.min() >= fewest else np.full(len(sizes), -1, dtype=np.intp)
        smallest = int(now.argmin())
        means = merge(centroids, index, len(names))
        distance = rescaled_distances(
            means.values[[smallest]], means.seen[[smallest]], means.values, means.seen, extent
        )[0]
        distance[smallest] = np.inf
        nearest = int(np.where(np.isnan(distance), np.finfo(np.float64).max, distance).argmin())
        joined[joined == names[smallest]] = names[nearest]
