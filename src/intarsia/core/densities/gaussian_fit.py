"""Gaussians fitted to clusters, from sums over one pass through the rows: of maximum likelihood, or shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from intarsia.core.atoms import Told, told_sums
from intarsia.core.densities.base import Clustered, Density, Family, Parts, is_bounded
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray

_PARAMETERS_PER_POINT = 0.33  # the limit of DataSHIELD (nfilter.glm): a model must not reproduce its data
_POOLED_ROWS = 5  # the weight of the variance within all clusters, in rows
_LARGEST_SQUARE = LARGEST**2 * 2.0**53  # the largest possible sum of squares


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Gaussians.

    ``"gaussian"`` is as rich as the number of rows allows: the full covariance where it has at most 0.33 parameters per row,
    else a diagonal plus as many shared directions as that limit allows, else the diagonal. The other names always select
    what they say. A cluster with missing values gets the diagonal in any case. Correlations are shrunk towards 0 (see
    :func:`correlation_shrinkage`), and variances towards those within all clusters of the participant, as if 5 rows had
    shown them. Without shrinkage both are of maximum likelihood: means over n of products of centred columns, a singular
    matrix where rows are few. A feature in other units gives the density in these units.

    ``n_products`` bounds how many products of features are held in memory; beyond it, the rows are read more often.
    """

    name: ClassVar[str] = "gaussian"
    densities: ClassVar[tuple[str, ...]] = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal")
    parts: ClassVar[dict[str, str]] = {
        "covariance": "variances, or covariances, of each local cluster",
        "factors": "main directions of each local cluster, whose variance is not in the covariance",
    }
    optional: ClassVar[frozenset[str]] = frozenset({"factors"})
    has_exact_force: ClassVar[bool] = True

    n_products: int = 1 << 24  # 128 MiB

    def fit(self, clusters: Clustered, density: str, *, shrink: bool = True) -> list[Density]:
        """Fit a Gaussian to each cluster."""
        released, sizes, counts = clusters.released, clusters.sizes, clusters.centroids.counts
        apart = clusters.in_columns  # products of features whose values have different labels are over other rows
        ranks = [
            rank_of(density, int(n), int(features.sum()), complete=bool(((count == n) & ~apart)[features].all()))
            for n, features, count in zip(sizes, released.seen, counts, strict=True)
        ]
        correlated = [k for k, rank in enumerate(ranks) if rank]
        at_once = max(1, self.n_products // (2 * max(counts.shape[1], 1) ** 2))
        squares, products = _sums(clusters, correlated[:at_once])
        for start in range(at_once, len(correlated), at_once):
            products |= _sums(clusters, correlated[start : start + at_once])[1]
        if clusters.columns:
            told = Told(clusters.labels, clusters.columns)
            squares = told_sums(clusters.rows, told, len(sizes), clusters.centroids.values).squares
        within = squares.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
        fitted: list[Density] = []
        for k, rank in enumerate(ranks):
            features = released.seen[k]
            variances = squares[k, features] / counts[k, features]
            # (n v + 5 v') / (n + 5) for the variance v of n values and the variance v' within all clusters
            pooled = (squares[k, features] + _POOLED_ROWS * within[features]) / (counts[k, features] + _POOLED_ROWS)
            gaussian = Gaussian(released.values[k, features], pooled if shrink else variances)
            if rank:
                sums = products.pop(k)
                kept = 1.0 - correlation_shrinkage(sums.second, sums.fourth, int(sizes[k])) if shrink else 1.0
                gaussian = _correlated(gaussian, variances, sums, kept, rank)
            fitted.append(gaussian)
        return fitted

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the covariance, and its factors if there are any; the mean is the centroid."""
        factors = {} if density.factors is None else {"factors": density.factors}
        return {"covariance": density.covariance, **factors}

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the Gaussian around this mean."""
        return Gaussian(mean, parts["covariance"], parts.get("factors"))

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with a covariance, or with a diagonal and factors."""
        covariance, factors, d = parts["covariance"], parts.get("factors", np.zeros((n_features, 0))), n_features
        diagonal = covariance.ndim == 1
        fits = covariance.shape == (d,) or (covariance.shape == (d, d) and "factors" not in parts)
        if not fits or factors.ndim != 2 or factors.shape[0] != d or factors.shape[1] > d:
            return "a covariance of the wrong shape"
        if not is_bounded(covariance, _LARGEST_SQUARE) or not is_bounded(factors, np.sqrt(_LARGEST_SQUARE)):
            return "a covariance that is too large"
        if ((covariance if diagonal else np.diagonal(covariance)) < 0).any():
            return "a negative variance"
        symmetric = diagonal or np.allclose(covariance, covariance.T, rtol=1e-6)
        return None if symmetric else "a covariance that is not symmetric"

    def parsimonious(self, density: str) -> str:
        """Return "gaussian" in the place of a density with any number of parameters."""
        return "gaussian" if density in {"gaussian_full", "gaussian_low_rank"} else density


def rank_of(density: str, n: int, d: int, *, complete: bool) -> int:
    """Return the number of directions that features share: d for a full covariance, 0 for a diagonal one.

    n is the number of rows, d the number of features; ``complete`` says that no value is missing.
    """
    full, most = d + d * (d + 1) // 2, _PARAMETERS_PER_POINT * n
    if density == "gaussian_diagonal" or not complete:
        return 0
    if density == "gaussian_full" or (density == "gaussian" and full <= most):
        return d
    if density == "gaussian":
        return max((r for r in range(1, d) if _low_rank_parameters(d, r) <= most), default=0)
    # never more parameters than the full covariance has; one direction is the fewest that a low rank can have
    allowed = (r for r in range(1, d) if _low_rank_parameters(d, r) <= min(most, full))
    return max(allowed, default=max(0, min(1, d - 1)))


def _low_rank_parameters(d: int, r: int) -> int:
    """Return d + d + d·r − r(r−1)/2: a rotation of the factors changes nothing."""
    return d + d + d * r - r * (r - 1) // 2


class _Products(NamedTuple):
    """Mean products of centred columns, and of their squares, with each column divided by a unit."""

    second: FloatArray
    fourth: FloatArray
    unit: FloatArray


def _sums(clusters: Clustered, correlated: Sequence[int]) -> tuple[FloatArray, dict[int, _Products]]:
    """Return the sums of squares around all centroids, and the products of all pairs of features for the given clusters."""
    centroids, released = clusters.centroids, clusters.released.seen
    shifted = np.where(centroids.seen, centroids.values - clusters.rows.offset, 0.0)
    squares = np.zeros(shifted.shape)
    unit = _units(clusters.rows.extent.width) if correlated else np.ones(shifted.shape[1])
    products = {}
    for k in correlated:
        shape = (int(released[k].sum()),) * 2
        products[k] = _Products(np.zeros(shape), np.zeros(shape), unit[released[k]])
    for part in clusters.parts():
        k, cells = part.cluster, part.cells
        cells -= shifted[k][:, None]
        if part.observed is not None:
            cells *= part.observed
        if k in products:
            cells /= unit[:, None]
            _add_products(products[k].second, cells, released[k])
        np.square(cells, out=cells)
        if k in products:
            _add_products(products[k].fourth, cells, released[k])
        squares[k] += cells.sum(axis=1) * (np.square(unit) if k in products else 1.0)
    n = clusters.sizes
    return squares, {k: _Products(second / n[k], fourth / n[k], u) for k, (second, fourth, u) in products.items()}


def _units(width: FloatArray) -> FloatArray:
    """Return a power of 2 near the width of each feature: fourth powers neither overflow nor lose a digit."""
    usable = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    return np.asarray(np.exp2(np.round(np.log2(usable))))


def _add_products(sums: FloatArray, cells: FloatArray, features: BoolArray) -> None:
    selected = cells if features.all() else cells[features]
    sums += selected @ selected.T


def _correlated(target: Gaussian, variances: FloatArray, products: _Products, kept: float, rank: int) -> Gaussian:
    """Return the Gaussian with this share of the correlations and the target's variances; the products are overwritten."""
    covariance, _, unit = products
    covariance *= kept
    growth = unit * np.sqrt(np.divide(target.variances, variances, out=np.ones(len(unit)), where=variances > 0))
    covariance *= np.outer(growth, growth)
    np.fill_diagonal(covariance, target.variances)
    if rank == len(unit):
        return Gaussian(target.mean, covariance)
    return Gaussian(target.mean, *low_rank_covariance(covariance, rank))


def correlation_shrinkage(second: FloatArray, fourth: FloatArray, n: int) -> float:
    r"""Return how far correlations r are to be moved towards 0: from 0 (not at all) to 1 (wholly).

    .. math:: \lambda = \sum_{i \ne j} \widehat{\mathrm{Var}}(r_{ij}) \Big/ \sum_{i \ne j} r_{ij}^2, \qquad
              \widehat{\mathrm{Var}}(r_{ij}) = \frac{1}{n(n-1)} \sum_k (z_{ki} z_{kj} - r_{ij})^2

    for columns z standardised with the variance over n: the optimal intensity of Schäfer and Strimmer (2005), A shrinkage
    approach to large-scale covariance matrix estimation, target D with correlations. ``second`` holds the mean products of
    centred columns (the covariance), ``fourth`` those of their squares. Constant columns are ignored.
    """
    variances = np.diagonal(second)
    varies = variances > 0
    if n < 2 or varies.sum() < 2:
        return 1.0
    both, variances = np.ix_(varies, varies), variances[varies]
    squared = np.square(second[both] / np.sqrt(variances) / np.sqrt(variances)[:, None])
    spread = (fourth[both] / variances / variances[:, None] - squared) / (n - 1)
    np.fill_diagonal(squared, 0.0)
    np.fill_diagonal(spread, 0.0)
    return float(np.clip(spread.sum() / squared.sum(), 0.0, 1.0)) if squared.any() else 1.0


def low_rank_covariance(covariance: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Return the diagonal and the factors F of a covariance of low rank: F = D^½ V (Λ − σ²)^½.

    V and Λ are the leading eigenvectors and eigenvalues of the correlations, σ² is the mean of the other eigenvalues, and D
    holds the variances: principal components with noise (Tipping and Bishop 1999), except that the diagonal gives every
    feature exactly its variance. The diagonal is never negative: V Λ Vᵀ has at most 1, the correlation, on its diagonal.
    """
    variances = np.diagonal(covariance)
    varies = variances > 0
    deviations = np.sqrt(variances[varies])
    factors = np.zeros((len(variances), min(rank, len(deviations))))
    if factors.size:
        d, r = len(deviations), factors.shape[1]
        correlations = covariance[np.ix_(varies, varies)] / np.outer(deviations, deviations)
        values, vectors = eigh(correlations, subset_by_index=[d - r, d - 1])
        rest = max((d - values.sum()) / (d - r), 0.0) if r < d else 0.0
        factors[varies] = deviations[:, None] * vectors * np.sqrt(np.maximum(values - rest, 0.0))
    return np.maximum(variances - np.square(factors).sum(axis=1), 0.0), factors
