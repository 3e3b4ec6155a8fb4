"""Moments E[(|z|² + s²)^(−w/2)] of a Gaussian z, from its variances along axes or from a covariance of low rank."""

from __future__ import annotations

import numpy as np

from intarsia.core.densities.force import DEFAULT_SIZES, BlockSizes, blocks
from intarsia.core.densities.integral import N_COARSE, SOFT_ENOUGH, integrate, integration_range, inverse_power
from intarsia.core.types import BoolArray, FloatArray, IntArray


def inverse_power_moment(
    variances: FloatArray, squares: FloatArray, softening: float, exponent: float, sizes: BlockSizes = DEFAULT_SIZES
) -> FloatArray:
    r"""Return E[(Q + s²)^(−w/2)] for Q = |z|², z Gaussian with these variances λ and squared means m² along its axes.

    .. math:: \frac{1}{\Gamma(w/2)} \int_0^\infty t^{w/2-1} e^{-t s^2} \prod_k (1+2t\lambda_k)^{-1/2}
              \exp \Bigl( -\frac{t m_k^2}{1+2t\lambda_k} \Bigr) dt

    With t = e^u the integrand falls off exponentially on both sides, where a trapezoid rule converges geometrically:
    with s > 0 a dozen nodes give a relative error below 1e-6 (:mod:`intarsia.core.densities.integral`),
    without it 48 give one below 1e-4.
    The moment is infinite where the paper's force is: s = 0, at most w axes with a variance, no distance along the others.
    The input has one row per pair.
    """
    moments = np.empty(len(variances))
    scale = variances.sum(axis=1) + squares.sum(axis=1) + softening**2
    soft = softening**2 > SOFT_ENOUGH * scale
    for block in blocks(np.flatnonzero(soft), sizes.cache // max(1, variances.shape[1])):
        unit = scale[block]
        axes = Axes(np.divide(variances[block].T, unit, order="C"), np.divide(squares[block].T, unit, order="C"))
        moments[block] = inverse_power(axes, softening**2 / unit, axes.kappa(), exponent) * unit ** (-exponent / 2)
    for block in blocks(np.flatnonzero(~soft), sizes.memory // max(1, variances.shape[1] * N_COARSE)):
        moments[block] = _integrated_moments(variances[block], squares[block], softening, exponent)
    return moments


class Axes:
    """Q = |z|² for Gaussian z with variances λ and squared means m² along its axes; one column per Q.

    log L(t) = −½ Σ log(1 + 2tλ) − Σ t m² / (1 + 2tλ). The logarithm is of the product: where that overflows, L is 0.
    """

    def __init__(self, variances: FloatArray, squares: FloatArray) -> None:
        self._twice, self._squares = variances, squares
        self._twice *= 2.0
        self._grown, self._drift = np.empty_like(variances), np.empty_like(variances)

    def kappa(self) -> FloatArray:
        """Return half the variance of Q: Σ λ² + 2 λ m²."""
        twice = self._twice
        return np.asarray(np.einsum("ij,ij->j", twice, twice) / 4 + np.einsum("ij,ij->j", twice, self._squares))

    def log(self, t: float) -> FloatArray:
        """Return log L(t) of each Q."""
        grown, drift = self._grown, self._drift
        np.multiply(self._twice, t, out=grown)
        grown += 1.0
        np.divide(self._squares, grown, out=drift)
        with np.errstate(over="ignore"):
            product = np.multiply.reduce(grown, axis=0)
        return np.asarray(-0.5 * np.log(product) - t * np.add.reduce(drift, axis=0))

    def keep(self, which: BoolArray) -> None:
        """Drop the other Q."""
        self._twice, self._squares = self._twice[:, which], self._squares[:, which]
        self._grown, self._drift = np.empty_like(self._twice), np.empty_like(self._twice)


def _integrated_moments(variances: FloatArray, squares: FloatArray, softening: float, exponent: float) -> FloatArray:
    axes = variances > 0
    over = integration_range(
        variances.sum(axis=1) + squares.sum(axis=1),
        np.where(axes, 0.0, squares).sum(axis=1),
        axes.sum(axis=1),
        np.where(axes, variances, np.inf).min(axis=1),
        softening,
        exponent,
    )

    def log_integrand(u: FloatArray) -> FloatArray:
        t = np.exp(u)
        grown = 1.0 + 2.0 * t[:, :, None] * variances[:, None, :]
        product = 0.5 * np.log(grown).sum(axis=-1)
        drift = t * (squares[:, None, :] / grown).sum(axis=-1)
        return np.asarray(exponent / 2 * u - t * softening**2 - product - drift)

    return integrate(log_integrand, over, exponent)


def low_rank_moment(
    diagonal: FloatArray, factors: FloatArray, means: FloatArray, softening: float, exponent: float
) -> FloatArray:
    r"""Return E[(|z|² + s²)^(−w/2)] for z ~ N(m, diag(δ) + F Fᵀ); one row per pair.

    It takes O(d r²) per node, without a d × d matrix:

    .. math:: \frac{1}{\Gamma(w/2)} \int_0^\infty t^{w/2-1} e^{-t s^2} \det(I+2t\Sigma)^{-1/2}
              \exp \bigl( -t\, m^\top (I+2t\Sigma)^{-1} m \bigr) dt

    With A = I + 2t diag(δ), the determinant is det A · det(I + 2t Fᵀ A⁻¹ F), and the quadratic form is the minimum over y of
    (m − √(2t) F y)ᵀ A⁻¹ (m − √(2t) F y) + |y|²: Woodbury's identity, written so that nothing cancels.
    """
    scale = diagonal.sum(axis=1) + np.square(factors).sum(axis=(1, 2)) + np.square(means).sum(axis=1) + softening**2
    if (softening**2 > SOFT_ENOUGH * scale).all():
        root = np.sqrt(scale)
        low_rank = _LowRank(diagonal / scale[:, None], factors / root[:, None, None], means / root[:, None])
        moments = inverse_power(low_rank, softening**2 / scale, low_rank.kappa(), exponent)
        return np.asarray(moments * scale ** (-exponent / 2))
    d = diagonal.shape[1]
    total = diagonal.sum(axis=1) + np.square(factors).sum(axis=(1, 2))
    noise = d * np.finfo(np.float64).eps * (diagonal + np.square(factors).sum(axis=2)).max(axis=1)
    diagonal = np.where(diagonal > noise[:, None], diagonal, 0.0)
    # a rotation makes the columns of F orthogonal, which shows those without information
    factors = factors @ np.linalg.eigh(factors.transpose(0, 2, 1) @ factors)[1]
    factors = np.where(np.square(factors).sum(axis=1, keepdims=True) > noise[:, None, None], factors, 0.0)
    spread = _spread(diagonal, factors, means, noise)
    over = integration_range(total + np.square(means).sum(axis=1), *spread, softening, exponent)
    low_rank = _LowRank(diagonal, factors, means)

    def log_integrand(u: FloatArray) -> FloatArray:
        t = np.exp(u)
        return np.asarray(exponent / 2 * u - t * softening**2 + low_rank.log_at(t))

    return integrate(log_integrand, over, exponent)


class _LowRank:
    """log E[exp(−t |z|²)] for z ~ N(m, diag(δ) + F Fᵀ); see :func:`low_rank_moment`. One row per pair."""

    def __init__(self, diagonal: FloatArray, factors: FloatArray, means: FloatArray) -> None:
        self._diagonal, self._factors, self._means = diagonal, factors, means
        self._upper, self._lower = np.triu_indices(factors.shape[2])
        self._products = factors[:, :, self._upper] * factors[:, :, self._lower]
        self._pulled = factors * means[:, :, None]

    def kappa(self) -> FloatArray:
        """Half the variance of |z|²: tr(Σ²) + 2 mᵀ Σ m."""
        inner = np.square(self._factors.transpose(0, 2, 1) @ self._factors).sum(axis=(1, 2))
        rows = np.square(self._factors).sum(axis=2)
        trace = (np.square(self._diagonal) + 2.0 * self._diagonal * rows).sum(axis=1) + inner
        along = (self._diagonal * np.square(self._means)).sum(axis=1) + np.square(self._pulled.sum(axis=1)).sum(axis=1)
        return np.asarray(trace + 2.0 * along)

    def log(self, t: float) -> FloatArray:
        """Return the logarithm at the same t for each pair."""
        return self.log_at(np.full((len(self._means), 1), t))[:, 0]

    def log_at(self, t: FloatArray) -> FloatArray:
        """Return the logarithm at several t (pairs × t)."""
        means, factors = self._means, self._factors
        diagonal = np.arange(factors.shape[2])
        steady = 1.0 + 4.0 * len(diagonal) * np.finfo(np.float64).eps  # at a large t, rounding must not look singular
        grown = 1.0 + 2.0 * t[:, :, None] * self._diagonal[:, None, :]
        inner = np.empty((*t.shape, factors.shape[2], factors.shape[2]))
        inner[:, :, self._upper, self._lower] = 2.0 * t[:, :, None] * ((1.0 / grown) @ self._products)
        inner[:, :, self._lower, self._upper] = inner[:, :, self._upper, self._lower]
        inner += np.eye(factors.shape[2])
        inner[:, :, diagonal, diagonal] *= steady
        root = np.sqrt(2.0 * t)[:, :, None]
        y = np.linalg.solve(inner, (root * ((1.0 / grown) @ self._pulled))[..., None])[..., 0]
        left = means[:, None, :] - root * (y @ factors.transpose(0, 2, 1))
        drift = t * ((np.square(left) / grown).sum(axis=-1) + np.square(y).sum(axis=-1))
        return np.asarray(-0.5 * (np.log(grown).sum(axis=-1) + np.linalg.slogdet(inner)[1]) - drift)

    def keep(self, which: BoolArray) -> None:
        """Drop the other pairs."""
        self._diagonal, self._factors, self._means = self._diagonal[which], self._factors[which], self._means[which]
        self._products, self._pulled = self._products[which], self._pulled[which]


def _spread(
    diagonal: FloatArray, factors: FloatArray, means: FloatArray, noise: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return, for Σ = diag(δ) + F Fᵀ: m² along axes without variance, the number of the others, a bound of the smallest.

    Σ v = 0 only for v among the features Z with δ = 0, and then F_Zᵀ v = 0. With the smallest singular value σ of F_Z and
    the other rows F_P of F, all other eigenvalues are at least δ σ² / (δ + |F_P|² + σ²): the determinant over the trace of
    the worst case, which has two dimensions.
    """
    hollow = diagonal == 0
    basis, values, _ = np.linalg.svd(np.where(hollow[:, :, None], factors, 0.0), full_matrices=False)
    real = np.square(values) > noise[:, None]
    beside = np.where(hollow, means, 0.0)
    along = np.where(real, np.einsum("adr,ad->ar", basis, beside), 0.0)
    off = beside - np.einsum("adr,ar->ad", basis, along)
    rounding = diagonal.shape[1] * np.finfo(np.float64).eps * np.abs(beside).max(axis=1, keepdims=True)
    square = np.square(np.where(np.abs(off) > rounding, off, 0.0)).sum(axis=1)
    delta = np.where(hollow, np.inf, diagonal).min(axis=1)
    sigma = np.where(real, np.square(values), np.inf).min(axis=1, initial=np.inf)
    others = np.where(hollow[:, :, None], 0.0, np.square(factors)).sum(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        mixed = delta * (sigma / (delta + others + sigma))
    smallest = np.where(np.isfinite(delta) & np.isfinite(sigma), mixed, np.minimum(delta, sigma))
    return square, (~hollow).sum(axis=1) + real.sum(axis=1), smallest
