"""Global clusters as a participant receives them: centroids, and Gaussians around them."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.mixture import FARTHEST, SMALLEST
from intarsia.protocol.checks import is_bounded, require
from intarsia.protocol.facts import Fact
from intarsia.protocol.wire import Array, Part

_MOST_CENTRES = 10_000
_MOST_DISTANCES = 1 << 30  # from rows to centroids, in memory at the same time


class Centres(Part, frozen=True):
    """Global centroids over the participant's features, which entries are known, and the extent that distances divide by."""

    values: Annotated[Array, Fact("the global centroids, over this participant's features")]
    known: Annotated[Array, Fact("which entries of the centroids are known")]
    low: Annotated[Array, Fact("smallest entry of all local centroids, by feature")]
    high: Annotated[Array, Fact("largest entry of all local centroids, by feature")]

    def check(self, n_features: int, most: int) -> None:
        """There must be 1 to ``most`` centroids over so many features, with finite entries inside an extent."""
        n = len(self.values) if self.values.ndim == 2 else 0
        fits = self.values.shape == self.known.shape == (n, n_features) and n > 0
        extent = self.low.shape == self.high.shape == (n_features,)
        require(fits and extent, f"centroids must have {n_features} features, as the table has")
        require(n <= most, f"there must be at most {most} centroids")
        known = self.known.astype(np.bool_)
        seen = known.any(axis=0)
        finite = all(is_bounded(part) for part in (self.values[known], self.low[seen], self.high[seen]))
        require(finite, "centroids and their extent must be finite")
        require((self.low[seen] <= self.high[seen]).all(), "the extent must not end below its start")


class Gaussians(Part, frozen=True):
    """Global clusters as Gaussians with independent features, over the participant's; see :mod:`intarsia.core.mixture`."""

    means: Annotated[Array, Fact("means of the Gaussians")]
    variances: Annotated[Array, Fact("variances of the Gaussians")]
    seen: Annotated[Array, Fact("which entries of the Gaussians are known")]
    weights: Annotated[Array, Fact("the clusters' shares of the rows")]
    overall: Annotated[Array, Fact("the mean of all rows")]
    width: Annotated[Array, Fact("the variance of all rows")]

    def check(self, n_clusters: int, n_features: int) -> None:
        """There must be a Gaussian for each cluster over so many features, with positive variances and weights."""
        single, each = (self.overall, self.width), (self.means, self.variances, self.seen)
        fits = all(part.shape == (n_features,) for part in single) and self.weights.shape == (n_clusters,)
        fits = fits and all(part.shape == (n_clusters, n_features) for part in each)
        require(fits, f"there must be {n_clusters} Gaussians over {n_features} features")
        finite = all(is_bounded(part) for part in (*single, self.means, self.variances, self.weights))
        require(finite, "Gaussians must be finite")
        require(
            ((self.width == 0) | (self.width >= 1 / LARGEST)).all(), "the variance of all rows must be 0 or positive"
        )
        near = (np.abs(self.means) <= FARTHEST).all() and (self.variances >= SMALLEST).all()
        require(near and (self.weights > 0).all(), "Gaussians must have positive variances and weights")


def most_centres(n_rows: int) -> int:
    """Return the number of centroids that can be compared with so many rows at the same time."""
    return max(1, min(_MOST_CENTRES, _MOST_DISTANCES // max(n_rows, 1)))
