"""A density fitted to each local cluster, and points drawn from it (Algorithm 2, fitPDF).

A Gaussian is a mean and either a full covariance matrix (2-d) or its diagonal (1-d).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.centroids import centroids_of_rows
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

DENSITIES = ("gaussian", "gaussian_full", "gaussian_diagonal")
_PARAMETERS_PER_POINT = 0.33  # the limit that DataSHIELD sets (nfilter.glm): a model must not retell its data
_TRIES = 100


@dataclass(frozen=True)
class Gaussian:
    """A normal density over the features that its cluster sees."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def variances(self) -> FloatArray:
        """The diagonal of the covariance."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @property
    def n_parameters(self) -> int:
        """How many numbers describe it."""
        d = len(self.mean)
        return 2 * d if self.covariance.ndim == 1 else d + d * (d + 1) // 2

    def on(self, features: BoolArray) -> Gaussian:
        """The marginal over some of its features."""
        covariance = (
            self.covariance[features] if self.covariance.ndim == 1 else self.covariance[np.ix_(features, features)]
        )
        return Gaussian(self.mean[features], covariance)

    def placed(self, at: IntArray, width: int) -> Gaussian:
        """The density over more features, its own at these places, the others constant at 0."""
        mean = np.zeros(width)
        mean[at] = self.mean
        covariance = np.zeros((width,) * self.covariance.ndim)
        covariance[at if self.covariance.ndim == 1 else np.ix_(at, at)] = self.covariance
        return Gaussian(mean, covariance)

    def scaled(self, shift: FloatArray, scale: FloatArray) -> Gaussian:
        """The density of (x − shift) / scale."""
        square = np.square(scale) if self.covariance.ndim == 1 else np.outer(scale, scale)
        return Gaussian((self.mean - shift) / scale, self.covariance / square)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N points from it; a singular covariance is fine."""
        if self.covariance.ndim == 1:
            return rng.normal(self.mean, np.sqrt(self.covariance), size=(n, len(self.mean)))
        return rng.multivariate_normal(self.mean, self.covariance, size=n, check_valid="ignore", method="eigh")


def fit_gaussian(rows: FloatArray, observed: BoolArray, density: str = "gaussian") -> Gaussian:
    """The maximum-likelihood Gaussian of one cluster's rows.

    ``"gaussian"`` takes the full covariance where the cluster has points enough for it (parameters ≤ 0.33 × points,
    no empty cell) and its diagonal elsewhere; the other two always do what they say, but for empty cells, which leave
    only the diagonal. Every feature must be observed at least once.
    """
    if density not in DENSITIES:
        raise SettingError(f"density must be one of {DENSITIES}. Got {density!r} instead.")
    counts = np.maximum(observed.sum(axis=0), 1)
    mean = centroids_of_rows(rows, observed, np.zeros(len(rows), dtype=np.intp), 1).values[0]
    centred = np.where(observed, rows - mean, 0.0)
    n, d = rows.shape
    affordable = d + d * (d + 1) / 2 <= _PARAMETERS_PER_POINT * n
    if observed.all() and (density == "gaussian_full" or (density == "gaussian" and affordable)):
        return Gaussian(mean, centred.T @ centred / n)
    return Gaussian(mean, np.square(centred).sum(axis=0) / counts)


def sample_inside(
    density: Gaussian, rng: np.random.Generator, n: int, low: FloatArray | None = None, high: FloatArray | None = None
) -> FloatArray:
    """N points of a density, kept inside a bounding box where one is given (a proxy cluster).

    Points outside are drawn again, and after a hundred tries moved to the nearest face of the box.
    """
    points = density.sample(rng, n)
    if low is None or high is None:
        return points
    for _ in range(_TRIES):
        outside = ((points < low) | (points > high)).any(axis=1)
        if not outside.any():
            return points
        points[outside] = density.sample(rng, int(outside.sum()))
    return np.clip(points, low, high)
