"""Gaussians fitted to clusters, from sums over one pass through the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.densities.base import Clustered, Density, Family, Parts, is_bounded
from intarsia.core.densities.gaussian import Gaussian, LowRankGaussian, low_rank_parameters
from intarsia.core.densities.shrinkage import correlation_shrinkage, low_rank_covariance, shrunk_variances
from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray

_PARAMETERS_PER_POINT = 0.33  # the limit of DataSHIELD (nfilter.glm): a model must not reproduce its data
_LARGEST_SQUARE = LARGEST**2 * 2.0**53  # the largest possible sum of squares


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Gaussians.

    ``"gaussian"`` is as rich as the number of rows allows: the full covariance where it has at most 0.33 parameters per row,
    else a diagonal plus as many shared directions as that limit allows, else the diagonal. The other names always select
    what they say. A cluster with missing values gets the diagonal in any case. Correlations are shrunk towards 0 (see
    :func:`~intarsia.core.densities.shrinkage.correlation_shrinkage`), and variances towards those within all clusters of
    the participant, as if 5 rows had shown them. A feature in other units gives the density in these units.

    ``n_products`` bounds how many products of features are held in memory; beyond it, the rows are read more often.
    """

    name: ClassVar[str] = "gaussian"
    densities: ClassVar[tuple[str, ...]] = ("gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal")
    parts: ClassVar[dict[str, str]] = {
        "covariance": "variances, or covariances, of each local cluster",
        "diagonal": "variances of each local cluster that features do not share",
        "factors": "main directions of each local cluster",
    }
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("covariance",), ("diagonal", "factors"))
    has_exact_force: ClassVar[bool] = True

    n_products: int = 1 << 24  # 128 MiB

    def fit(self, clusters: Clustered, density: str) -> list[Density]:
        """Fit a Gaussian to each cluster."""
        released = clusters.released.seen
        sizes, counts = clusters.sizes, clusters.centroids.counts
        ranks = [
            rank_of(density, int(n), int(own.sum()), complete=bool((counts[k, own] == n).all()))
            for k, (n, own) in enumerate(zip(sizes, released, strict=True))
        ]
        correlated = [k for k, rank in enumerate(ranks) if rank]
        at_once = max(1, self.n_products // (2 * max(released.shape[1], 1) ** 2))
        squares, products = _sums(clusters, correlated[:at_once])
        for start in range(at_once, len(correlated), at_once):
            products |= _sums(clusters, correlated[start : start + at_once])[1]
        within = squares.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
        fitted: list[Density] = []
        for k, (own, rank) in enumerate(zip(released, ranks, strict=True)):
            n_values = np.maximum(counts[k, own], 1.0)
            variances = squares[k, own] / n_values
            target = shrunk_variances(n_values, variances, within[own])
            mean = clusters.released.values[k, own]
            fitted.append(
                _correlated(mean, variances, target, products.pop(k), int(sizes[k]), rank)
                if rank
                else Gaussian(mean, target)
            )
        return fitted

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the covariance, or its diagonal and factors; the mean is the centroid."""
        if isinstance(density, LowRankGaussian):
            return {"diagonal": density.diagonal, "factors": density.factors}
        return {"covariance": density.covariance}

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the Gaussian around this mean."""
        if "covariance" in parts:
            return Gaussian(mean, parts["covariance"])
        return LowRankGaussian(mean, parts["diagonal"], parts["factors"])

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with a covariance, or with a diagonal and factors."""
        if "covariance" in parts:
            return _problem_of_covariance(parts["covariance"], n_features)
        diagonal, factors = parts["diagonal"], parts["factors"]
        if diagonal.shape != (n_features,) or factors.ndim != 2 or len(factors) != n_features:
            return "a covariance of the wrong shape"
        if factors.shape[1] > n_features:
            return "a covariance with more factors than features"
        if not is_bounded(diagonal, _LARGEST_SQUARE) or not is_bounded(factors, np.sqrt(_LARGEST_SQUARE)):
            return "a covariance that is too large"
        return "a negative variance" if (diagonal < 0).any() else None

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
        return max((r for r in range(1, d) if low_rank_parameters(d, r) <= most), default=0)
    # never more parameters than the full covariance has; one direction is the fewest that a low rank can have
    allowed = (r for r in range(1, d) if low_rank_parameters(d, r) <= min(most, full))
    return max(allowed, default=max(0, min(1, d - 1)))


class _Products(NamedTuple):
    """Mean products of centred columns, and of their squares, with each column divided by a unit."""

    second: FloatArray
    fourth: FloatArray
    unit: FloatArray


def _sums(clusters: Clustered, correlated: Sequence[int]) -> tuple[FloatArray, dict[int, _Products]]:
    """Return the sums of squares around all centroids, and the products of all pairs of features for some clusters."""
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
    own = cells if features.all() else cells[features]
    sums += own @ own.T


def _correlated(
    mean: FloatArray, variances: FloatArray, target: FloatArray, products: _Products, n: int, rank: int
) -> Gaussian | LowRankGaussian:
    """Return the Gaussian with shrunk correlations and the target variances; the products are overwritten."""
    covariance, fourth, unit = products
    covariance *= 1.0 - correlation_shrinkage(covariance, fourth, n)
    growth = unit * np.sqrt(np.divide(target, variances, out=np.ones(len(mean)), where=variances > 0))
    covariance *= np.outer(growth, growth)
    np.fill_diagonal(covariance, target)
    if rank == len(mean):
        return Gaussian(mean, covariance)
    return LowRankGaussian(mean, *low_rank_covariance(covariance, rank))


def _problem_of_covariance(covariance: npt.NDArray[Any], d: int) -> str | None:
    if covariance.shape not in {(d,), (d, d)}:
        return "a covariance of the wrong shape"
    if not is_bounded(covariance, _LARGEST_SQUARE):
        return "a covariance that is too large"
    variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
    if (variances < 0).any():
        return "a negative variance"
    symmetric = covariance.ndim == 1 or np.allclose(covariance, covariance.T, rtol=1e-6)
    return None if symmetric else "a covariance that is not symmetric"
