r"""Attractive force between local clusters (eq:attractive_force_two_clusters), by sampling or exactly.

.. math:: f(P_i^a, P_j^b) = \mathbb{E} \bigl[ (d_{ij}(x, x')^2 + s^2)^{-w/2} \bigr], \quad x \sim P_i^a,\ x' \sim P_j^b

s = 0 gives the paper's 1/d^w, which is infinite between equal points, and whose expectation between Gaussians is
infinite when they share no more than w features. s softens it: below a distance of s, closer is no longer stronger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from intarsia.core.densities import Density, Gaussian, LowRankGaussian
from intarsia.core.distances import Extent, Metric, phi_of_pairs
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

_NODES = 48
_COARSE = 48
_FAR = 14.0  # e^-14: so far from where it bends, the integrand is a pure power of t
_DROP = 18.0  # the integrand is followed down to e^-18 of its peak: 1.5e-8
_BLOCK = 1 << 22
_WORTH_IT = 3  # eigenvalues of d × d are cheaper than 96 times factors of d × r up to about d = 3 r


def has_exact_force(density: Density) -> bool:
    """Whether :func:`exact_forces` takes it: Gaussians of any covariance. Others are sampled."""
    return isinstance(density, Gaussian | LowRankGaussian)


def gaussian_extent(densities: Sequence[Density], seen: BoolArray, deviations: float) -> Extent:
    """What densities reach: the smallest mean − z·σ to the largest mean + z·σ of each feature.

    Samples of any size have such a reach; infinitely many points would have none.
    """
    low, high = np.full(seen.shape, np.inf), np.full(seen.shape, -np.inf)
    for k, density in enumerate(densities):
        reach = deviations * np.sqrt(density.variances)
        low[k, seen[k]], high[k, seen[k]] = density.mean - reach, density.mean + reach
    nobody = ~seen.any(axis=0)
    return Extent(np.where(nobody, np.nan, low.min(axis=0)), np.where(nobody, np.nan, high.max(axis=0)))


def exact_forces(
    densities: Sequence[Density], seen: BoolArray, extent: Extent, exponent: float, softening: float
) -> FloatArray:
    """Forces between all pairs of Gaussians, without sampling; Euclidean distance. NaN where incomparable.

    The difference z of two Gaussians is Gaussian, with covariance Σ = Σ₁ + Σ₂; see :func:`inverse_power_moment`. Where Σ
    is a diagonal plus few factors it is never written out; elsewhere its eigenvalues are taken.
    """
    gaussians = [density for density in densities if isinstance(density, Gaussian | LowRankGaussian)]
    if len(gaussians) < len(densities):
        raise SettingError(
            f"exact forces are known between Gaussians only, and {len(densities) - len(gaussians)} of {len(densities)} "
            "densities are of other kinds. Sample them."
        )
    forces = np.full((len(densities), len(densities)), np.nan)
    patterns, pattern_of = np.unique(seen, axis=0, return_inverse=True)
    pattern_of = pattern_of.reshape(-1)
    for p, q in combinations_with_replacement(range(len(patterns)), 2):
        shared = patterns[p] & patterns[q] & extent.varies
        if not shared.any():
            continue
        left, right = np.flatnonzero(pattern_of == p), np.flatnonzero(pattern_of == q)
        first, second = (
            np.triu_indices(len(left), 1) if p == q else np.divmod(np.arange(left.size * right.size), right.size)
        )
        moments = _forces_of(
            _Pairs(
                [gaussians[k].on(shared[seen[k]]) for k in left.tolist()],
                [gaussians[k].on(shared[seen[k]]) for k in right.tolist()],
                first,
                second,
            ),
            float(np.square(extent.width[shared]).sum()),
            exponent,
            softening,
        )
        forces[left[first], right[second]] = forces[right[second], left[first]] = moments
    return forces


class _Pairs(NamedTuple):
    """Pairs of Gaussians over the same features: pair k is ``left[first[k]]`` and ``right[second[k]]``."""

    left: Sequence[Gaussian | LowRankGaussian]
    right: Sequence[Gaussian | LowRankGaussian]
    first: IntArray
    second: IntArray

    def take(self, which: BoolArray | IntArray | slice) -> _Pairs:
        return _Pairs(self.left, self.right, self.first[which], self.second[which])

    def blocks(self, numbers: int) -> Iterator[_Pairs]:
        """So many pairs at once that they fit into memory with so many numbers each."""
        height = max(1, _BLOCK // max(1, numbers))
        return (self.take(slice(k, k + height)) for k in range(0, len(self.first), height))

    def means(self) -> FloatArray:
        """The differences of their means."""
        left, right = np.stack([g.mean for g in self.left]), np.stack([g.mean for g in self.right])
        return np.asarray(left[self.first] - right[self.second])


def _forces_of(pairs: _Pairs, reach: float, exponent: float, softening: float) -> FloatArray:
    """One force per pair, with squared distances divided by ``reach``."""
    forces = np.empty(len(pairs.first))
    d = len(pairs.left[0].mean)
    rank = (
        np.array([_rank(g) for g in pairs.left])[pairs.first] + np.array([_rank(g) for g in pairs.right])[pairs.second]
    )
    dense = (rank > 0) & (_WORTH_IT * rank >= d)
    for route, numbers, chosen in (
        (_diagonal_forces, d, rank == 0),
        (_dense_forces, d * d, dense),
        (_low_rank_forces, d * (4 * _NODES + int(rank[~dense].max(initial=0)) ** 2), (rank > 0) & ~dense),
    ):
        if chosen.any():
            some = pairs.take(chosen).blocks(numbers)
            forces[chosen] = np.concatenate([route(block, reach, exponent, softening) for block in some])
    return forces


def _rank(g: Gaussian | LowRankGaussian) -> int:
    """How many directions its covariance adds to a diagonal."""
    if isinstance(g, LowRankGaussian):
        return int(g.factors.shape[1])
    return 0 if g.covariance.ndim == 1 else len(g.mean)


def _diagonal_forces(pairs: _Pairs, reach: float, exponent: float, softening: float) -> FloatArray:
    left, right = np.stack([g.variances for g in pairs.left]), np.stack([g.variances for g in pairs.right])
    spread = left[pairs.first] + right[pairs.second]
    return inverse_power_moment(spread / reach, np.square(pairs.means()) / reach, softening, exponent)


def _dense_forces(pairs: _Pairs, reach: float, exponent: float, softening: float) -> FloatArray:
    """By the eigenvalues λ of Σ, and the mean difference in that basis."""
    eigenvalues, basis = np.linalg.eigh(_full(pairs.left, pairs.first) + _full(pairs.right, pairs.second))
    rotated = np.einsum("aij,ai->aj", basis, pairs.means())
    noise = eigenvalues.shape[1] * np.finfo(np.float64).eps * np.abs(eigenvalues).max(axis=-1, keepdims=True)
    return inverse_power_moment(
        np.where(eigenvalues > noise, eigenvalues, 0.0) / reach, np.square(rotated) / reach, softening, exponent
    )


def _full(densities: Sequence[Gaussian | LowRankGaussian], which: IntArray) -> FloatArray:
    used, position = np.unique(which, return_inverse=True)
    return np.stack([_covariance(densities[k]) for k in used.tolist()])[position]


def _covariance(g: Gaussian | LowRankGaussian) -> FloatArray:
    if isinstance(g, LowRankGaussian):
        return np.asarray(np.diag(g.diagonal) + g.factors @ g.factors.T)
    return np.diag(g.covariance) if g.covariance.ndim == 1 else g.covariance


def _low_rank_forces(pairs: _Pairs, reach: float, exponent: float, softening: float) -> FloatArray:
    """By Σ = diag(δ) + F Fᵀ itself."""
    (delta_left, f_left), (delta_right, f_right) = _thin(pairs.left, pairs.first), _thin(pairs.right, pairs.second)
    factors = np.concatenate([f_left, f_right], axis=2) / np.sqrt(reach)
    means = pairs.means() / np.sqrt(reach)
    return low_rank_moment((delta_left + delta_right) / reach, factors, means, softening, exponent)


def _thin(densities: Sequence[Gaussian | LowRankGaussian], which: IntArray) -> tuple[FloatArray, FloatArray]:
    """Diagonals, and factors, filled up with zeros to the same number."""
    used, position = np.unique(which, return_inverse=True)
    some = [densities[k] for k in used.tolist()]
    diagonals = np.stack([g.diagonal if isinstance(g, LowRankGaussian) else g.covariance for g in some])
    factors = np.zeros((*diagonals.shape, max(_rank(g) for g in some)))
    for k, g in enumerate(some):
        if isinstance(g, LowRankGaussian):
            factors[k, :, : g.factors.shape[1]] = g.factors
    return diagonals[position], factors[position]


def inverse_power_moment(variances: FloatArray, squares: FloatArray, softening: float, exponent: float) -> FloatArray:
    r"""E[(Q + s²)^(−w/2)] for Q = |z|², z Gaussian with these variances λ and squared means m² along its axes.

    .. math:: \frac{1}{\Gamma(w/2)} \int_0^\infty t^{w/2-1} e^{-t s^2} \prod_k (1+2t\lambda_k)^{-1/2}
              \exp \Bigl( -\frac{t m_k^2}{1+2t\lambda_k} \Bigr) dt

    With t = e^u the integrand falls off exponentially on both sides, where a trapezoid rule converges geometrically:
    48 nodes give a relative error below 1e-4, mostly 1e-6. Infinite where the paper's force is: s = 0, no more than w axes
    with a variance, and no distance along the others. One row of the input per pair.
    """
    if not len(variances):
        return np.zeros(0)
    size = max(1, _BLOCK // max(1, variances.shape[1] * _COARSE))
    parts = [
        _moment_block(variances[k : k + size], squares[k : k + size], softening, exponent)
        for k in range(0, len(variances), size)
    ]
    return np.concatenate(parts)


def _moment_block(variances: FloatArray, squares: FloatArray, softening: float, exponent: float) -> FloatArray:
    axes = variances > 0
    reach = _integration_range(
        variances.sum(axis=1) + squares.sum(axis=1),
        np.where(axes, 0.0, squares).sum(axis=1),
        axes.sum(axis=1),
        np.where(axes, variances, np.inf).min(axis=1),
        softening,
        exponent,
    )
    return _integral(lambda u: _log_integrand(u, variances, squares, softening, exponent), reach, exponent)


def low_rank_moment(
    diagonal: FloatArray, factors: FloatArray, means: FloatArray, softening: float, exponent: float
) -> FloatArray:
    r"""E[(|z|² + s²)^(−w/2)] for z ~ N(m, diag(δ) + F Fᵀ), in O(d r²) per node, without a d × d matrix; one row per pair.

    .. math:: \frac{1}{\Gamma(w/2)} \int_0^\infty t^{w/2-1} e^{-t s^2} \det(I+2t\Sigma)^{-1/2}
              \exp \bigl( -t\, m^\top (I+2t\Sigma)^{-1} m \bigr) dt

    With A = I + 2t diag(δ), the determinant is det A · det(I + 2t Fᵀ A⁻¹ F), and the quadratic form is the minimum over y of
    (m − √(2t) F y)ᵀ A⁻¹ (m − √(2t) F y) + |y|²: Woodbury's identity, written so that nothing cancels.
    """
    d = diagonal.shape[1]
    total = diagonal.sum(axis=1) + np.square(factors).sum(axis=(1, 2))
    noise = d * np.finfo(np.float64).eps * (diagonal + np.square(factors).sum(axis=2)).max(axis=1)
    diagonal = np.where(diagonal > noise[:, None], diagonal, 0.0)
    # F is turned so that its columns are orthogonal, which shows those that say nothing new
    factors = factors @ np.linalg.eigh(factors.transpose(0, 2, 1) @ factors)[1]
    factors = np.where(np.square(factors).sum(axis=1, keepdims=True) > noise[:, None, None], factors, 0.0)
    spread = _spread(diagonal, factors, means, noise)
    reach = _integration_range(total + np.square(means).sum(axis=1), *spread, softening, exponent)
    upper, lower = np.triu_indices(factors.shape[2])
    products, pulled = factors[:, :, upper] * factors[:, :, lower], factors * means[:, :, None]
    every = np.arange(factors.shape[2])
    steady = 1.0 + 4.0 * len(every) * np.finfo(np.float64).eps  # at a large t, rounding must not look singular

    def log_integrand(u: FloatArray) -> FloatArray:
        t = np.exp(u)
        grown = 1.0 + 2.0 * t[:, :, None] * diagonal[:, None, :]
        inner = np.empty((*u.shape, factors.shape[2], factors.shape[2]))
        inner[:, :, upper, lower] = inner[:, :, lower, upper] = 2.0 * t[:, :, None] * ((1.0 / grown) @ products)
        inner += np.eye(factors.shape[2])
        inner[:, :, every, every] *= steady
        root = np.sqrt(2.0 * t)[:, :, None]
        y = np.linalg.solve(inner, (root * ((1.0 / grown) @ pulled))[..., None])[..., 0]
        left = means[:, None, :] - root * (y @ factors.transpose(0, 2, 1))
        drift = t * ((np.square(left) / grown).sum(axis=-1) + np.square(y).sum(axis=-1))
        product = 0.5 * (np.log(grown).sum(axis=-1) + np.linalg.slogdet(inner)[1])
        return np.asarray(exponent / 2 * u - t * softening**2 - product - drift)

    return _integral(log_integrand, reach, exponent)


def _spread(
    diagonal: FloatArray, factors: FloatArray, means: FloatArray, noise: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Of Σ = diag(δ) + F Fᵀ: m² along axes without variance, how many have one, and a lower bound of the smallest.

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


def _integral(log_integrand: Callable[[FloatArray], FloatArray], reach: _Reach, exponent: float) -> FloatArray:
    """∫ exp(log_integrand(u)) du / Γ(w/2), one per row of its argument."""
    u = reach.first[:, None] + (reach.last - reach.first)[:, None] * np.linspace(0.0, 1.0, _COARSE)
    coarse = log_integrand(u)
    high = coarse >= coarse.max(axis=1, keepdims=True) - _DROP
    begin = np.maximum(high.argmax(axis=1) - 1, 0)
    end = np.minimum(_COARSE - high[:, ::-1].argmax(axis=1), _COARSE - 1)
    begin_u, end_u = np.take_along_axis(u, begin[:, None], 1), np.take_along_axis(u, end[:, None], 1)
    u = begin_u + (end_u - begin_u) * np.linspace(0.0, 1.0, _NODES)
    log = log_integrand(u)
    peak = log.max(axis=1, keepdims=True)
    height = np.exp(log - peak)
    weights = np.ones(_NODES)
    weights[[0, -1]] = 0.5
    step = (end_u - begin_u)[:, 0] / (_NODES - 1)
    # outside, the integrand is e^(u w/2) on the left and, where nothing but the product ends it, e^(−u (r − w)/2) on the
    # right: both tails and the first Euler-Maclaurin correction at the cuts are known
    left, right = exponent / 2, np.where(end == _COARSE - 1, reach.decay, np.inf)
    tails = height[:, 0] / left + height[:, -1] / right
    cuts = left * height[:, 0] + np.where(np.isfinite(right), right, 0.0) * height[:, -1]
    total = (height @ weights) * step + tails + cuts * np.square(step) / 12
    with np.errstate(over="ignore"):
        moment = total * np.exp(peak[:, 0] - gammaln(exponent / 2))
    return np.where(reach.finite, moment, np.inf)


class _Reach(NamedTuple):
    """Where in u = log t the integrand must be followed, how it decays beyond the end, if the integral is finite."""

    first: FloatArray
    last: FloatArray
    decay: FloatArray
    finite: BoolArray


def _integration_range(
    total: FloatArray, distance: FloatArray, axes: IntArray, smallest: FloatArray, softening: float, exponent: float
) -> _Reach:
    """From E|z|², m² along axes without variance, how many axes have one, and the smallest of these (or less)."""
    s2 = softening**2
    with np.errstate(divide="ignore"):
        first = -np.log(total + s2) - _FAR
        by_softening = np.log(3 * _DROP) - np.log(s2)
        by_distance = np.log(3 * _DROP) - np.log(distance)
        # r axes that spread leave t^(w/2 − r/2) from some t on; it ends the integral only if r > w
        by_spread = np.where(axes > exponent, _FAR - np.log(smallest), np.inf)
    last = np.minimum(np.minimum(by_softening, by_distance), by_spread)
    finite = np.isfinite(last) & np.isfinite(first)
    decay = np.where(last == by_spread, (axes - exponent) / 2, np.inf)
    first, last = np.where(finite, first, 0.0), np.where(finite, last, 1.0)
    return _Reach(first, np.maximum(last, first + 1.0), np.where(finite, decay, np.inf), finite)


def _log_integrand(
    u: FloatArray, variances: FloatArray, squares: FloatArray, softening: float, exponent: float
) -> FloatArray:
    t = np.exp(u)
    grown = 1.0 + 2.0 * t[:, :, None] * variances[:, None, :]
    product = 0.5 * np.log(grown).sum(axis=-1)
    drift = t * (squares[:, None, :] / grown).sum(axis=-1)
    return np.asarray(exponent / 2 * u - t * softening**2 - product - drift)


def sampled_forces(
    proxies: Sequence[FloatArray], seen: BoolArray, extent: Extent, exponent: float, softening: float, metric: Metric
) -> FloatArray:
    """The paper's force: the mean over all pairs of points of two proxy clusters. NaN where incomparable."""
    forces = np.full((len(proxies), len(proxies)), np.nan)
    for k, m, shared in _comparable_pairs(seen, extent):
        x, y = proxies[k][:, shared[seen[k]]], proxies[m][:, shared[seen[m]]]
        largest = float(phi_of_pairs(extent.high, extent.low, shared, metric))
        if largest > 0:
            squared = np.square(_between(x, y, metric) / largest) + softening**2
            with np.errstate(divide="ignore", over="ignore"):
                forces[k, m] = forces[m, k] = float(np.mean(squared ** (-exponent / 2)))
    return forces


def _comparable_pairs(seen: BoolArray, extent: Extent) -> Iterator[tuple[int, int, BoolArray]]:
    useful = seen & extent.varies
    for k in range(len(seen)):
        for m in range(k + 1, len(seen)):
            shared = useful[k] & useful[m]
            if shared.any():
                yield k, m, shared


def _between(x: FloatArray, y: FloatArray, metric: Metric) -> FloatArray:
    if metric == "cosine" or callable(metric):  # scipy's cosine is NaN for zero vectors
        return phi_of_pairs(x[:, None], y[None], np.ones(x.shape[1], dtype=np.bool_), metric)
    return np.asarray(cdist(x, y, "cityblock" if metric == "manhattan" else "euclidean"))
