"""A density fitted to each local cluster, and points drawn from it (Algorithm 2, fitPDF).

Gaussians (this module) are for measurements, a Dirichlet (:mod:`~intarsia.core.densities.dirichlet`) for compositions, and
a discrete density (:mod:`~intarsia.core.densities.discrete`) for codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from intarsia.core.blocks import by_columns
from intarsia.core.centroids import centroids_of_rows
from intarsia.core.densities.dirichlet import Dirichlet, fit_dirichlet
from intarsia.core.densities.discrete import Block, Discrete, fit_discrete
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

DENSITIES = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal", "dirichlet", "discrete")
_PARAMETERS_PER_POINT = 0.33  # the limit that DataSHIELD sets (nfilter.glm): a model must not retell its data
_ROWS_WITHIN = 5  # a variance within all clusters counts as if so many rows of the cluster had shown it
_TRIES = 100


@dataclass(frozen=True)
class Gaussian:
    """A normal density over the features that its cluster sees; its covariance is full (2-d) or only a diagonal (1-d)."""

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
        covariance = np.zeros((width,) * self.covariance.ndim)
        covariance[at if self.covariance.ndim == 1 else np.ix_(at, at)] = self.covariance
        return Gaussian(_placed(self.mean, at, width), covariance)

    def scaled(self, shift: FloatArray, scale: FloatArray) -> Gaussian:
        """The density of (x − shift) / scale."""
        square = np.square(scale) if self.covariance.ndim == 1 else np.outer(scale, scale)
        return Gaussian((self.mean - shift) / scale, self.covariance / square)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N points from it; a singular covariance is fine."""
        if self.covariance.ndim == 1:
            return rng.normal(self.mean, np.sqrt(self.covariance), size=(n, len(self.mean)))
        return rng.multivariate_normal(self.mean, self.covariance, size=n, check_valid="ignore", method="eigh")


@dataclass(frozen=True)
class LowRankGaussian:
    """N(mean, diag(diagonal) + F Fᵀ): independent features plus a few directions F (d × r) that they share."""

    mean: FloatArray
    diagonal: FloatArray
    factors: FloatArray

    @property
    def variances(self) -> FloatArray:
        """The diagonal of the covariance."""
        return np.asarray(self.diagonal + np.square(self.factors).sum(axis=1))

    @property
    def n_parameters(self) -> int:
        """How many numbers describe it: d + d + d·r − r(r−1)/2, for F may be turned without changing F Fᵀ."""
        return _low_rank_parameters(*self.factors.shape)

    def on(self, features: BoolArray) -> LowRankGaussian:
        """The marginal over some of its features."""
        return LowRankGaussian(self.mean[features], self.diagonal[features], self.factors[features])

    def placed(self, at: IntArray, width: int) -> LowRankGaussian:
        """The density over more features, its own at these places, the others constant at 0."""
        factors = np.zeros((width, self.factors.shape[1]))
        factors[at] = self.factors
        return LowRankGaussian(_placed(self.mean, at, width), _placed(self.diagonal, at, width), factors)

    def scaled(self, shift: FloatArray, scale: FloatArray) -> LowRankGaussian:
        """The density of (x − shift) / scale."""
        return LowRankGaussian(
            (self.mean - shift) / scale, self.diagonal / np.square(scale), self.factors / scale[:, None]
        )

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N points from it."""
        d, r = self.factors.shape
        return np.asarray(
            self.mean + rng.normal(size=(n, d)) * np.sqrt(self.diagonal) + rng.normal(size=(n, r)) @ self.factors.T
        )


def _placed(values: FloatArray, at: IntArray, width: int) -> FloatArray:
    result = np.zeros(width)
    result[at] = values
    return result


Density = Gaussian | LowRankGaussian | Dirichlet | Discrete


def fit_density(
    rows: FloatArray,
    observed: BoolArray,
    kind: str = "gaussian",
    *,
    within: FloatArray | None = None,
    groups: Sequence[IntArray] = (),
    names: Sequence[str] | None = None,
    spoil: bool = False,
) -> Density:
    """The density of one cluster's rows. Every feature must be observed at least once.

    ``"gaussian"`` is as rich as its points allow: the full covariance where it has no more parameters than 0.33 × points,
    else a diagonal plus as many shared directions as that allows, else the diagonal. The other Gaussians always are
    what they say; but rows with empty cells leave only the diagonal of any of them. Correlations are shrunk (see
    :func:`shrinkage`), and variances drawn towards ``within``, those within all clusters of the participant, as if
    5 rows had shown them: v = (n v + 5 within) / (n + 5). A column multiplied by a number multiplies the density.

    ``"dirichlet"`` is for rows of shares, ``"discrete"`` for codes; ``groups`` are the columns (by index) of each one-hot
    coded feature. Neither uses ``within``. A :class:`~intarsia.exceptions.DensityError` says why rows are neither, by the
    ``names`` of columns or their numbers. With ``spoil`` the rows may be other numbers afterwards, which saves a copy.
    """
    if kind not in DENSITIES:
        raise SettingError(f"density must be one of {DENSITIES}. Got {kind!r} instead.")
    names = range(rows.shape[1]) if names is None else names  # type: ignore[assignment]
    assert names is not None
    if kind == "dirichlet":
        return fit_dirichlet(rows, observed, names)
    if kind == "discrete":
        return fit_discrete(rows, observed, groups, names)
    rank = rank_of(kind, *rows.shape, complete=bool(observed.all()))
    return _fit_gaussian(rows if spoil else np.array(rows, dtype=np.float64), observed, rank, within)


def rank_of(kind: str, n: int, d: int, *, complete: bool) -> int:
    """How many directions features share: d for a full covariance, 0 for none."""
    full, most = d + d * (d + 1) // 2, _PARAMETERS_PER_POINT * n
    if kind == "gaussian_diagonal" or not complete:
        return 0
    if kind == "gaussian_full" or (kind == "gaussian" and full <= most):
        return d
    few = range(1, d)
    if kind == "gaussian":
        return max((r for r in few if _low_rank_parameters(d, r) <= most), default=0)
    # more numbers than the full covariance has would be no saving; one direction is the least that can be called shared
    return max((r for r in few if _low_rank_parameters(d, r) <= min(most, full)), default=min(1, d - 1))


def _low_rank_parameters(d: int, r: int) -> int:
    return d + d + d * r - r * (r - 1) // 2


def _fit_gaussian(
    rows: FloatArray, observed: BoolArray, rank: int, within: FloatArray | None
) -> Gaussian | LowRankGaussian:
    """From rows that are spoilt on the way."""
    n, d = rows.shape
    mean = centroids_of_rows(rows, observed, np.zeros(n, dtype=np.intp), 1).values[0]
    centred = np.subtract(rows, mean, out=rows)
    centred[~observed] = 0.0
    counts = np.maximum(observed.sum(axis=0), 1)
    variances = np.concatenate([np.square(centred[:, some]).sum(axis=0) for some in by_columns(n, d)]) / counts
    drawn = variances if within is None else _drawn(counts, variances, within)
    if rank == 0:
        return Gaussian(mean, drawn)
    covariance = centred.T @ centred / n
    return _correlated(mean, covariance, variances, drawn, shrinkage(centred, spoil=True), rank)


def _correlated(
    mean: FloatArray, covariance: FloatArray, variances: FloatArray, drawn: FloatArray, shrunk: float, rank: int
) -> Gaussian | LowRankGaussian:
    """From a covariance, which is spoilt; what its variances become, and how far correlations are shrunk."""
    covariance *= 1.0 - shrunk
    growth = np.sqrt(np.divide(drawn, variances, out=np.ones(len(mean)), where=variances > 0))
    covariance *= np.outer(growth, growth)
    np.fill_diagonal(covariance, drawn)
    if rank == len(mean):
        return Gaussian(mean, covariance)
    return LowRankGaussian(mean, *_leading(covariance, rank))


def gaussian_of_moments(
    n: int,
    counts: FloatArray,
    mean: FloatArray,
    variances: FloatArray,
    moments: tuple[FloatArray, FloatArray] | None,
    rank: int,
    within: FloatArray,
) -> Gaussian | LowRankGaussian:
    """The density of :func:`fit_density` from sums over n rows: cells, means and variances of every feature, and, where
    features share directions (``rank``), the mean products of centred cells and of their squares, two by two.
    """
    drawn = _drawn(counts, variances, within)
    if rank == 0 or moments is None:
        return Gaussian(mean, drawn)
    second, fourth = moments
    varies = variances > 0
    shrunk = 1.0
    if n >= 2 and varies.sum() >= 2:
        spread = np.sqrt(variances[varies])
        some, apart = np.ix_(varies, varies), np.outer(spread, spread)
        shrunk = _intensity(np.square(second[some] / apart), fourth[some] / np.square(apart), n)
    return _correlated(mean, second.copy(), variances, drawn, shrunk, rank)


def _drawn(counts: FloatArray | IntArray, variances: FloatArray, within: FloatArray) -> FloatArray:
    return np.asarray((counts * variances + _ROWS_WITHIN * within) / (counts + _ROWS_WITHIN))


def shrinkage(centred: FloatArray, *, spoil: bool = False) -> float:
    r"""How far the correlations r of these centred rows are to be moved towards 0: wholly (1) or not at all (0).

    .. math:: \lambda = \sum_{i \ne j} \widehat{\mathrm{Var}}(r_{ij}) \Big/ \sum_{i \ne j} r_{ij}^2, \qquad
              \widehat{\mathrm{Var}}(r_{ij}) = \frac{1}{n(n-1)} \sum_k (z_{ki} z_{kj} - r_{ij})^2

    for columns z standardised with the variance over n: the optimal intensity of Schäfer and Strimmer (2005), A shrinkage
    approach to large-scale covariance matrix estimation, target D with correlations. Constant columns take no part.
    """
    n, d = centred.shape
    deviations = np.sqrt(np.concatenate([np.square(centred[:, some]).mean(axis=0) for some in by_columns(n, d)]))
    z = centred if spoil and (deviations > 0).all() else centred[:, deviations > 0]
    if n < 2 or z.shape[1] < 2:
        return 1.0
    z /= deviations[deviations > 0]
    squared = np.square(z.T @ z / n)
    np.square(z, out=z)
    fourth = np.concatenate([np.array(z[:, some]).T @ z for some in by_columns(*z.shape)])
    return _intensity(squared, fourth / n, n)


def _intensity(squared: FloatArray, fourth: FloatArray, n: int) -> float:
    """Λ from squared correlations and the mean products of squared cells; the former are spoilt."""
    spread = (fourth - squared) / (n - 1)
    np.fill_diagonal(squared, 0.0)
    np.fill_diagonal(spread, 0.0)
    return float(np.clip(spread.sum() / squared.sum(), 0.0, 1.0)) if squared.any() else 1.0


def _leading(covariance: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Diagonal and factors: F = D^½ V (Λ − σ²)^½ of the leading eigenvectors of the correlations, σ² the mean of the rest.

    Principal components with noise (Tipping and Bishop 1999), but for the diagonal, which gives every feature exactly its
    variance. It is never negative: the correlations have ones on their diagonal, of which V Λ Vᵀ takes no more than all.
    """
    variances = np.diagonal(covariance)
    some = variances > 0
    deviations = np.sqrt(variances[some])
    factors = np.zeros((len(variances), min(rank, len(deviations))))
    if factors.size:
        d, r = len(deviations), factors.shape[1]
        correlations = covariance[np.ix_(some, some)] / np.outer(deviations, deviations)
        values, vectors = eigh(correlations, subset_by_index=[d - r, d - 1])
        rest = max((d - values.sum()) / (d - r), 0.0) if r < d else 0.0
        factors[some] = deviations[:, None] * vectors * np.sqrt(np.maximum(values - rest, 0.0))
    return np.maximum(variances - np.square(factors).sum(axis=1), 0.0), factors


def sample_inside(
    density: Density, rng: np.random.Generator, n: int, low: FloatArray | None = None, high: FloatArray | None = None
) -> FloatArray:
    """N points of a density, kept inside a bounding box where one is given (a proxy cluster).

    Points outside are drawn again, and after a hundred tries moved to the nearest face of the box.
    """
    points = density.sample(rng, n)
    if low is None or high is None:
        return points
    wide = high > low  # along the other axes a box has no inside to hit
    for _ in range(_TRIES):
        outside = ((points < low) | (points > high))[:, wide].any(axis=1)
        if not outside.any():
            break
        points[outside] = density.sample(rng, int(outside.sum()))
    return np.clip(points, low, high)


__all__ = [
    "DENSITIES",
    "Block",
    "Density",
    "Dirichlet",
    "Discrete",
    "Gaussian",
    "LowRankGaussian",
    "fit_density",
    "sample_inside",
    "shrinkage",
]
