"""Gaussian densities: with independent features, with a full covariance, or with a covariance of low rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian density; its covariance is full (2-d) or diagonal (1-d)."""

    mean: FloatArray
    covariance: FloatArray

    n_outcomes = None

    @property
    def variances(self) -> FloatArray:
        """The diagonal of the covariance."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    @property
    def n_parameters(self) -> int:
        """The number of parameters: d + d for a diagonal covariance, d + d(d+1)/2 for a full one."""
        d = len(self.mean)
        return 2 * d if self.covariance.ndim == 1 else d + d * (d + 1) // 2

    @property
    def rank(self) -> int:
        """The number of directions that the covariance adds to a diagonal matrix: 0 or d."""
        return 0 if self.covariance.ndim == 1 else len(self.mean)

    @property
    def full_covariance(self) -> FloatArray:
        """The covariance as a matrix."""
        return np.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance

    def marginal(self, features: BoolArray) -> Gaussian:
        """Return the density of the features selected by a mask."""
        diagonal = self.covariance.ndim == 1
        return Gaussian(self.mean[features], self.covariance[features if diagonal else np.ix_(features, features)])

    def placed(self, at: IntArray, width: int) -> Gaussian:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        covariance = np.zeros((width,) * self.covariance.ndim)
        covariance[at if self.covariance.ndim == 1 else np.ix_(at, at)] = self.covariance
        return Gaussian(_placed(self.mean, at, width), covariance)

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Gaussian:
        """Return the density of (x − shift) / scale."""
        square = np.square(scale) if self.covariance.ndim == 1 else np.outer(scale, scale)
        return Gaussian((self.mean - shift) / scale, self.covariance / square)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points; the covariance may be singular."""
        if self.covariance.ndim == 1:
            return rng.normal(self.mean, np.sqrt(self.covariance), size=(n, len(self.mean)))
        return rng.multivariate_normal(self.mean, self.covariance, size=n, check_valid="ignore", method="eigh")


@dataclass(frozen=True)
class LowRankGaussian:
    """A Gaussian density with covariance diag(diagonal) + F Fᵀ, for a few directions F (d × r) that features share."""

    mean: FloatArray
    diagonal: FloatArray
    factors: FloatArray

    n_outcomes = None

    @property
    def variances(self) -> FloatArray:
        """The diagonal of the covariance."""
        return np.asarray(self.diagonal + np.square(self.factors).sum(axis=1))

    @property
    def n_parameters(self) -> int:
        """The number of parameters; see :func:`low_rank_parameters`."""
        return low_rank_parameters(*self.factors.shape)

    @property
    def rank(self) -> int:
        """The number of directions that the covariance adds to a diagonal matrix."""
        return int(self.factors.shape[1])

    @property
    def full_covariance(self) -> FloatArray:
        """The covariance as a matrix."""
        return np.asarray(np.diag(self.diagonal) + self.factors @ self.factors.T)

    def marginal(self, features: BoolArray) -> LowRankGaussian:
        """Return the density of the features selected by a mask."""
        return LowRankGaussian(self.mean[features], self.diagonal[features], self.factors[features])

    def placed(self, at: IntArray, width: int) -> LowRankGaussian:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        factors = np.zeros((width, self.factors.shape[1]))
        factors[at] = self.factors
        return LowRankGaussian(_placed(self.mean, at, width), _placed(self.diagonal, at, width), factors)

    def in_units(self, shift: FloatArray, scale: FloatArray) -> LowRankGaussian:
        """Return the density of (x − shift) / scale."""
        return LowRankGaussian(
            (self.mean - shift) / scale, self.diagonal / np.square(scale), self.factors / scale[:, None]
        )

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""
        d, r = self.factors.shape
        return np.asarray(
            self.mean + rng.normal(size=(n, d)) * np.sqrt(self.diagonal) + rng.normal(size=(n, r)) @ self.factors.T
        )


def low_rank_parameters(d: int, r: int) -> int:
    """Return the number of parameters of a low-rank Gaussian: d + d + d·r − r(r−1)/2, as a rotation of F changes nothing."""
    return d + d + d * r - r * (r - 1) // 2


def _placed(values: FloatArray, at: IntArray, width: int) -> FloatArray:
    result = np.zeros(width)
    result[at] = values
    return result
