"""Densities on their way: from what core computes with to what a message holds, and back, with a check of what came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.densities.dirichlet import Dirichlet
from intarsia.core.densities.discrete import Block, Discrete
from intarsia.core.densities.gaussian import Gaussian, LowRankGaussian
from intarsia.core.distances import LARGEST
from intarsia.core.types import FloatArray
from intarsia.protocol.facts import ALLOW_DISCRETE, Fact
from intarsia.protocol.wire import Array, Part

_SQUARES = LARGEST**2 * 2.0**53  # sums of squares may be as large as such sums get
_MOST_OUTCOMES = 10_000


class GaussianDensity(Part, frozen=True, tag_field="kind", tag="gaussian"):
    """Around the centroid: 1-d for a diagonal covariance, 2-d for a full one."""

    covariance: Annotated[Array, Fact("variances, or covariances, of each local cluster")]


class LowRankDensity(Part, frozen=True, tag_field="kind", tag="low_rank"):
    """Around the centroid: a covariance of diag(diagonal) + factors factorsᵀ."""

    diagonal: Annotated[Array, Fact("variances of each local cluster beside its main directions")]
    factors: Annotated[Array, Fact("main directions of each local cluster")]


class DirichletDensity(Part, frozen=True, tag_field="kind", tag="dirichlet"):
    """Shares of a total."""

    alpha: Annotated[Array, Fact("parameters of a Dirichlet distribution for each local cluster")]
    total: Annotated[float, Fact("the sum of all shares")]


class DiscreteBlock(Part, frozen=True):
    """Columns that are drawn together: outcomes × columns, and their probabilities."""

    columns: Annotated[Array, Fact("columns that are drawn together", allowed_by=ALLOW_DISCRETE)]
    outcomes: Annotated[Array, Fact("values that occur, or levels", allowed_by=ALLOW_DISCRETE)]
    probabilities: Annotated[Array, Fact("how often each occurs in a local cluster", allowed_by=ALLOW_DISCRETE)]


class DiscreteDensity(Part, frozen=True, tag_field="kind", tag="discrete"):
    """Independent draws of codes and levels."""

    blocks: Annotated[tuple[DiscreteBlock, ...], Fact("tables of probabilities of each local cluster")]


AnyDensity = GaussianDensity | LowRankDensity | DirichletDensity | DiscreteDensity


def family_name(density: AnyDensity | str) -> str:
    """Return the family of a density, or of the name of one."""
    if isinstance(density, str):
        return density if density in {"dirichlet", "discrete"} else "gaussian"
    return {DirichletDensity: "dirichlet", DiscreteDensity: "discrete"}.get(type(density), "gaussian")


def fewest_rows(densities: Sequence[AnyDensity], sizes: Array, counts: Array) -> dict[str, int]:
    """Return the smallest number of rows behind each field of the densities of clusters with these sizes and counts.

    Behind a table of probabilities are the rows that have its rarest outcome.
    """
    positive = counts[counts > 0]
    values = int(positive.min(initial=1 << 53)) if positive.dtype.kind in "fi" and positive.size else 0
    rows: dict[str, int] = {}
    for density, size in zip(densities, sizes.ravel().tolist(), strict=False):
        if isinstance(density, DiscreteDensity):
            for block in density.blocks:
                share = float(block.probabilities[block.probabilities > 0].min(initial=1.0))
                rarest = max(round(share * size), 1) if 0 < size < 1 << 53 and 0 < share <= 1 else 1
                for name in block.__struct_fields__:
                    rows[f"blocks.{name}"] = min(rarest, rows.get(f"blocks.{name}", rarest))
        else:
            rows |= dict.fromkeys(density.__struct_fields__, values)
    return rows


def packed(density: Density) -> AnyDensity:
    """What travels of a density; the mean of a Gaussian is the cluster's centroid, which travels anyway."""
    match density:
        case Gaussian(_, covariance):
            return GaussianDensity(covariance=covariance)
        case LowRankGaussian(_, diagonal, factors):
            return LowRankDensity(diagonal=diagonal, factors=factors)
        case Dirichlet(alpha, total):
            return DirichletDensity(alpha=alpha, total=float(total))
        case Discrete(blocks):
            return DiscreteDensity(blocks=tuple(DiscreteBlock(b.columns, b.outcomes, b.probabilities) for b in blocks))
        case _:
            raise TypeError(type(density))


def unpacked(density: AnyDensity, mean: FloatArray) -> Density:
    """The density of a cluster with this centroid; :func:`problem_of` has nothing against it."""
    match density:
        case GaussianDensity(covariance=covariance):
            return Gaussian(mean, covariance)
        case LowRankDensity(diagonal=diagonal, factors=factors):
            return LowRankGaussian(mean, diagonal, factors)
        case DirichletDensity(alpha=alpha, total=total):
            return Dirichlet.of(alpha, total)
        case DiscreteDensity(blocks=blocks):
            return Discrete(tuple(Block(b.columns, b.outcomes, b.probabilities) for b in blocks))


def problem_of(density: AnyDensity, d: int) -> str | None:
    """What is wrong with a density over d features that came in a message; None if nothing."""
    match density:
        case GaussianDensity(covariance=covariance):
            return _problem_of_gaussian(covariance, d)
        case LowRankDensity(diagonal=diagonal, factors=factors):
            fits = diagonal.shape == (d,) and factors.ndim == 2 and len(factors) == d and factors.shape[1] <= d
            if not fits or not _is_moderate(diagonal, _SQUARES) or not _is_moderate(factors, np.sqrt(_SQUARES)):
                return "a covariance of the wrong shape, or far too large"
            return "a negative variance" if (diagonal < 0).any() else None
        case DirichletDensity(alpha=alpha, total=total):
            good = alpha.shape == (d,) and _is_moderate(alpha, 1e9) and bool((alpha >= 0).all()) and bool(alpha.any())
            return None if good and 0 < total <= LARGEST else "a Dirichlet density that is none"
        case DiscreteDensity(blocks=blocks):
            return _problem_of_discrete(blocks, d)


def _problem_of_gaussian(covariance: Array, d: int) -> str | None:
    if covariance.shape not in {(d,), (d, d)}:
        return "a covariance of the wrong shape"
    if not _is_moderate(covariance, _SQUARES):
        return "a covariance that is not finite or far too large"
    variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
    if (variances < 0).any():
        return "a negative variance"
    symmetric = covariance.ndim == 1 or np.allclose(covariance, covariance.T, rtol=1e-6)
    return None if symmetric else "a covariance that is not symmetric"


def _problem_of_discrete(blocks: tuple[DiscreteBlock, ...], d: int) -> str | None:
    for block in blocks:
        n, width = len(block.probabilities) if block.probabilities.ndim == 1 else 0, block.columns.size
        if (
            block.columns.ndim != 1
            or not 0 < n <= _MOST_OUTCOMES
            or block.outcomes.shape != (n, width)
            or block.columns.dtype.kind != "i"
        ):
            return "a discrete density of the wrong shape"
        share = block.probabilities
        if not _is_moderate(block.outcomes, LARGEST) or not _is_moderate(share, 1.0) or (share < 0).any():
            return "a discrete density that is not finite"
        if abs(float(share.sum()) - 1.0) > 1e-9:
            return "probabilities that do not add up to 1"
    columns = np.concatenate([np.zeros(0, dtype=np.intp), *(block.columns for block in blocks)])
    return None if np.array_equal(np.sort(columns), np.arange(d)) else "a discrete density of other columns"


def _is_moderate(values: Array, most: float) -> bool:
    return values.dtype.kind == "f" and bool((np.abs(values) <= most).all())
