r"""Attractive force between local clusters (eq:attractive_force_two_clusters), by sampling or exactly.

.. math:: f(P_i^a, P_j^b) = \mathbb{E} \bigl[ (d_{ij}(x, x')^2 + s^2)^{-w/2} \bigr], \quad x \sim P_i^a,\ x' \sim P_j^b

s = 0 gives the paper's 1/d^w, which is infinite between equal points, and whose expectation between Gaussians is
infinite when they share no more than w features. s softens it: below a distance of s, closer is no longer stronger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from intarsia.core.densities.gaussian import Density, Gaussian, LowRankGaussian
from intarsia.core.densities.trapezoid import SOFT_ENOUGH, Axes, inverse_power
from intarsia.core.distances import Extent, Metric, phi_of_pairs
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

_NODES = 48
_COARSE = 48
_FAR = 14.0  # e^-14: so far from where it bends, the integrand is a pure power of t
_DROP = 18.0  # the integrand is followed down to e^-18 of its peak: 1.5e-8
_BLOCK = 1 << 22
_LOST = 1e-9  # squared rescaled distances by matrix products are off by far less
_CACHED = 1 << 16  # numbers in each of a few arrays that a processor keeps at hand: 512 KiB
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
    for left, right, shared in _alike(seen, extent):
        first, second = (
            np.triu_indices(len(left), 1) if left is right else np.divmod(np.arange(left.size * right.size), right.size)
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


def _alike(seen: BoolArray, extent: Extent) -> Iterator[tuple[IntArray, IntArray, BoolArray]]:
    """Clusters that see the same, with others (or the same) that see the same, and what both see that varies."""
    patterns, pattern_of = np.unique(seen, axis=0, return_inverse=True)
    order = np.argsort(pattern_of.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(pattern_of.reshape(-1)))[:-1])
    for p, q in combinations_with_replacement(range(len(patterns)), 2):
        shared = patterns[p] & patterns[q] & extent.varies
        if shared.any():
            yield members[p], members[q], shared


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
        (_diagonal_forces, 1, rank == 0),
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
    means_left, means_right = np.stack([g.mean for g in pairs.left]), np.stack([g.mean for g in pairs.right])
    forces = np.empty(len(pairs.first))
    for some in _pieces(np.arange(len(forces)), _CACHED // max(1, left.shape[1])):
        first, second = pairs.first[some], pairs.second[some]
        spread, squares = left[first], means_left[first]
        spread += right[second]
        squares -= means_right[second]
        np.square(squares, out=squares)
        spread /= reach
        squares /= reach
        forces[some] = inverse_power_moment(spread, squares, softening, exponent)
    return forces


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
    with s > 0 a dozen nodes give a relative error below 1e-6 (:mod:`intarsia.core.densities.trapezoid`),
    without it 48 give one below 1e-4.
    Infinite where the paper's force is: s = 0, no more than w axes with a variance, and no distance along the others.
    One row of the input per pair.
    """
    moments = np.empty(len(variances))
    scale = variances.sum(axis=1) + squares.sum(axis=1) + softening**2
    soft = softening**2 > SOFT_ENOUGH * scale
    for some in _pieces(np.flatnonzero(soft), _CACHED // max(1, variances.shape[1])):
        moments[some] = _moments_of_axes(variances[some].T, squares[some].T, scale[some], softening, exponent)
    for some in _pieces(np.flatnonzero(~soft), _BLOCK // max(1, variances.shape[1] * _COARSE)):
        moments[some] = _moment_block(variances[some], squares[some], softening, exponent)
    return moments


def _pieces(which: IntArray, size: int) -> list[IntArray]:
    return [which[k : k + max(1, size)] for k in range(0, len(which), max(1, size))]


def _moments_of_axes(
    variances: FloatArray, squares: FloatArray, scale: FloatArray, softening: float, exponent: float
) -> FloatArray:
    """:func:`inverse_power_moment` of softened squares; one column per pair, ``scale`` is E|z|² + s²."""
    axes = Axes(np.divide(variances, scale, order="C"), np.divide(squares, scale, order="C"))
    moments = inverse_power(axes, softening**2 / scale, axes.kappa(), exponent)
    return np.asarray(moments * scale ** (-exponent / 2))


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
    # F is turned so that its columns are orthogonal, which shows those that say nothing new
    factors = factors @ np.linalg.eigh(factors.transpose(0, 2, 1) @ factors)[1]
    factors = np.where(np.square(factors).sum(axis=1, keepdims=True) > noise[:, None, None], factors, 0.0)
    spread = _spread(diagonal, factors, means, noise)
    reach = _integration_range(total + np.square(means).sum(axis=1), *spread, softening, exponent)
    low_rank = _LowRank(diagonal, factors, means)

    def log_integrand(u: FloatArray) -> FloatArray:
        t = np.exp(u)
        return np.asarray(exponent / 2 * u - t * softening**2 + low_rank.log_at(t))

    return _integral(log_integrand, reach, exponent)


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
        """One per pair."""
        return self.log_at(np.full((len(self._means), 1), t))[:, 0]

    def log_at(self, t: FloatArray) -> FloatArray:
        """At some t of each pair's own."""
        means, factors = self._means, self._factors
        every = np.arange(factors.shape[2])
        steady = 1.0 + 4.0 * len(every) * np.finfo(np.float64).eps  # at a large t, rounding must not look singular
        grown = 1.0 + 2.0 * t[:, :, None] * self._diagonal[:, None, :]
        inner = np.empty((*t.shape, factors.shape[2], factors.shape[2]))
        inner[:, :, self._upper, self._lower] = 2.0 * t[:, :, None] * ((1.0 / grown) @ self._products)
        inner[:, :, self._lower, self._upper] = inner[:, :, self._upper, self._lower]
        inner += np.eye(factors.shape[2])
        inner[:, :, every, every] *= steady
        root = np.sqrt(2.0 * t)[:, :, None]
        y = np.linalg.solve(inner, (root * ((1.0 / grown) @ self._pulled))[..., None])[..., 0]
        left = means[:, None, :] - root * (y @ factors.transpose(0, 2, 1))
        drift = t * ((np.square(left) / grown).sum(axis=-1) + np.square(y).sum(axis=-1))
        return np.asarray(-0.5 * (np.log(grown).sum(axis=-1) + np.linalg.slogdet(inner)[1]) - drift)

    def keep(self, which: BoolArray) -> None:
        """Go on with some of them."""
        self._diagonal, self._factors, self._means = self._diagonal[which], self._factors[which], self._means[which]
        self._products, self._pulled = self._products[which], self._pulled[which]


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
    for left, right, shared in _alike(seen, extent):
        largest = float(phi_of_pairs(extent.high, extent.low, shared, metric))
        if largest > 0:
            own = {k: proxies[k][:, shared[seen[k]]] for k in {*left.tolist(), *right.tolist()}}
            for k, others in _one_and_others(left, right, own):
                apart = _squares_between(own[k], np.concatenate([own[m] for m in others]), metric, largest, softening)
                mean = _means_of_powers(apart, [len(own[m]) for m in others], exponent)
                forces[k, others] = forces[others, k] = mean
    return forces


def _one_and_others(
    left: IntArray, right: IntArray, points: Mapping[int, FloatArray]
) -> Iterator[tuple[int, list[int]]]:
    """Every cluster of the left with those of the right, as many at once as a processor keeps at hand."""
    for place, k in enumerate(left.tolist()):
        others = (right[place + 1 :] if left is right else right).tolist()
        at_once = max(1, _CACHED // max(1, len(points[k]) * max((len(points[m]) for m in others), default=1)))
        for top in range(0, len(others), at_once):
            yield k, others[top : top + at_once]


def _squares_between(x: FloatArray, y: FloatArray, metric: Metric, largest: float, softening: float) -> FloatArray:
    """Squared rescaled distances plus s², from points to points; by a matrix product where s² hides what that loses."""
    if metric == "euclidean" and softening**2 > _LOST:
        middle = x.mean(axis=0)
        x, y = (x - middle) / largest, (y - middle) / largest
        squared = x @ (-2.0 * y.T)
        squared += np.square(x).sum(axis=1)[:, None]
        squared += np.square(y).sum(axis=1) + softening**2
        return np.maximum(squared, softening**2, out=squared)
    return np.square(_between(x, y, metric) / largest) + softening**2


def _means_of_powers(squared: FloatArray, sizes: Sequence[int], exponent: float) -> FloatArray:
    """The mean of (d² + s²)^(−w/2) over so many columns after so many."""
    with np.errstate(divide="ignore", over="ignore"):
        powers = np.divide(1.0, squared, out=squared) if exponent == 2.0 else squared ** (-exponent / 2)
    columns = powers.sum(axis=0) / len(squared)
    return np.asarray(np.add.reduceat(columns, np.cumsum([0, *sizes[:-1]])) / np.asarray(sizes))


def _between(x: FloatArray, y: FloatArray, metric: Metric) -> FloatArray:
    if metric == "cosine" or callable(metric):  # scipy's cosine is NaN for zero vectors
        return phi_of_pairs(x[:, None], y[None], np.ones(x.shape[1], dtype=np.bool_), metric)
    return np.asarray(cdist(x, y, "cityblock" if metric == "manhattan" else "euclidean"))
