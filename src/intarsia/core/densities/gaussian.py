"""A Gaussian density: with independent features, with a full covariance, or with a covariance of low rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian density; its covariance is diagonal (1-d) or full (2-d).

    With ``factors`` F (d × r), a few directions that features share, the covariance is diag(covariance) + F Fᵀ.
    """

    mean: FloatArray
    covariance: FloatArray
    factors: FloatArray | None = None

    n_outcomes = None

    @property
    def variances(self) -> FloatArray:
        """The diagonal of the covariance."""
        if self.factors is not None:
            return np.asarray(self.covariance + np.square(self.factors).sum(axis=1))
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @property
    def rank(self) -> int:
        """The number of directions that the covariance adds to a diagonal matrix."""
        if self.factors is not None:
            return int(self.factors.shape[1])
        return 0 if self.covariance.ndim == 1 else len(self.mean)

    @property
    def full_covariance(self) -> FloatArray:
        """The covariance as a matrix."""
        matrix = np.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance
        return matrix if self.factors is None else np.asarray(matrix + self.factors @ self.factors.T)

    def marginal(self, features: BoolArray) -> Gaussian:
        """Return the density of the features selected by a mask."""
        at = features if self.covariance.ndim == 1 else np.ix_(features, features)
        factors = None if self.factors is None else self.factors[features]
        return Gaussian(self.mean[features], self.covariance[at], factors)

    def placed(self, at: IntArray, width: int) -> Gaussian:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        mean, covariance = np.zeros(width), np.zeros((width,) * self.covariance.ndim)
        mean[at] = self.mean
        covariance[at if self.covariance.ndim == 1 else np.ix_(at, at)] = self.covariance
        if self.factors is None:
            return Gaussian(mean, covariance)
        factors = np.zeros((width, self.rank))
        factors[at] = self.factors
        return Gaussian(mean, covariance, factors)

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Gaussian:
        """Return the density of (x − shift) / scale."""
        square = np.square(scale) if self.covariance.ndim == 1 else np.outer(scale, scale)
        factors = None if self.factors is None else self.factors / scale[:, None]
        return Gaussian((self.mean - shift) / scale, self.covariance / square, factors)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points; the covariance may be singular."""
        if self.factors is not None:
            alone = rng.normal(size=(n, len(self.mean))) * np.sqrt(self.covariance)
            return np.asarray(self.mean + alone + rng.normal(size=(n, self.rank)) @ self.factors.T)
        if self.covariance.ndim == 1:
            return rng.normal(self.mean, np.sqrt(self.covariance), size=(n, len(self.mean)))
        return rng.multivariate_normal(self.mean, self.covariance, size=n, check_valid="ignore", method="eigh")
