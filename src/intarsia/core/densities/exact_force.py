"""Exact forces between Gaussians with diagonal, full or low-rank covariances (see :mod:`~intarsia.core.densities.force`).

The difference z of two independent Gaussians is Gaussian, with covariance Σ = Σ₁ + Σ₂, so a force is a moment of z; see
:mod:`~intarsia.core.densities.moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.densities.force import DEFAULT_SIZES, BlockSizes, blocks, comparable_clusters
from intarsia.core.densities.gaussian import Gaussian
from intarsia.core.densities.integral import N_NODES
from intarsia.core.densities.moments import inverse_power_moment, low_rank_moment
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

_DENSE_FROM = 3  # d × d eigenvalues are cheaper than 96 times factors of d × r up to about d = 3 r


def exact_forces(
    densities: Sequence[Density],
    seen: BoolArray,
    extent: Extent,
    exponent: float,
    softening: float,
    sizes: BlockSizes = DEFAULT_SIZES,
) -> FloatArray:
    """Return the forces between all pairs of Gaussians, for the Euclidean distance; NaN where they share no feature.

    Where Σ is a diagonal plus few factors it is never written out; elsewhere its eigenvalues are computed.
    """
    gaussians = [density for density in densities if isinstance(density, Gaussian)]
    if len(gaussians) < len(densities):
        raise SettingError(
            f"exact forces exist between Gaussians only, and {len(densities) - len(gaussians)} of {len(densities)} "
            "densities are of other families. Hint: force='sampled'."
        )
    forces = np.full((len(densities), len(densities)), np.nan)
    for left, right, shared in comparable_clusters(seen, extent):
        one, other = (_Side([gaussians[k].marginal(shared[seen[k]]) for k in side.tolist()]) for side in (left, right))
        first, second = (
            np.triu_indices(len(left), 1) if left is right else np.divmod(np.arange(left.size * right.size), right.size)
        )
        law = _Law(float(np.square(extent.width[shared]).sum()), exponent, softening, sizes)
        values = _forces_of_pairs(_Pairs(one, other, first, second), law)
        forces[left[first], right[second]] = forces[right[second], left[first]] = values
    return forces


class _Law(NamedTuple):
    """The force law: squared distances are divided by ``square``, then (d² + softening²) raised to −exponent/2."""

    square: float
    exponent: float
    softening: float
    sizes: BlockSizes

    def force(self, variances: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the force for differences with these variances and squared means; both are overwritten."""
        variances /= self.square
        squares /= self.square
        return inverse_power_moment(variances, squares, self.softening, self.exponent, self.sizes)


class _Side:
    """Gaussians over the same features."""

    def __init__(self, gaussians: Sequence[Gaussian]) -> None:
        self.gaussians = gaussians
        self.means, self.variances = np.stack([g.mean for g in gaussians]), np.stack([g.variances for g in gaussians])
        self.ranks = np.array([g.rank for g in gaussians])

    def full_covariances(self, which: IntArray) -> FloatArray:
        """Return the covariances as matrices."""
        used, position = np.unique(which, return_inverse=True)
        return np.stack([self.gaussians[k].full_covariance for k in used.tolist()])[position]

    def diagonals_and_factors(self, which: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the diagonals, and the factors with columns of zeros appended to the same number."""
        used, position = np.unique(which, return_inverse=True)
        diagonals = np.stack([self.gaussians[k].covariance for k in used.tolist()])
        factors = np.zeros((*diagonals.shape, self.ranks[used].max()))
        for place, k in enumerate(used.tolist()):
            given = self.gaussians[k].factors
            if given is not None:
                factors[place, :, : given.shape[1]] = given
        return diagonals[position], factors[position]


class _Pairs(NamedTuple):
    """Pairs of Gaussians over the same features: pair k is ``first[k]`` of the left and ``second[k]`` of the right."""

    left: _Side
    right: _Side
    first: IntArray
    second: IntArray

    def differences(self) -> FloatArray:
        """Return the differences of the means."""
        return np.asarray(self.left.means[self.first] - self.right.means[self.second])


def _forces_of_pairs(pairs: _Pairs, law: _Law) -> FloatArray:
    forces, d = np.empty(len(pairs.first)), pairs.left.means.shape[1]
    rank = pairs.left.ranks[pairs.first] + pairs.right.ranks[pairs.second]
    dense = (rank > 0) & (_DENSE_FROM * rank >= d)
    per_low_rank = d * (4 * N_NODES + int(rank[~dense].max(initial=0)) ** 2)
    for forces_of, at_once, chosen in (
        (_diagonal_forces, law.sizes.cache // d, rank == 0),
        (_dense_forces, law.sizes.memory // d**2, dense),
        (_low_rank_forces, law.sizes.memory // per_low_rank, (rank > 0) & ~dense),
    ):
        for block in blocks(np.flatnonzero(chosen), at_once):
            forces[block] = forces_of(_Pairs(pairs.left, pairs.right, pairs.first[block], pairs.second[block]), law)
    return forces


def _diagonal_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    variances, squares = pairs.left.variances[pairs.first], pairs.differences()
    variances += pairs.right.variances[pairs.second]
    return law.force(variances, np.square(squares, out=squares))


def _dense_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    """Use the eigenvalues λ of Σ, and the mean difference in the basis of its eigenvectors."""
    covariances = pairs.left.full_covariances(pairs.first) + pairs.right.full_covariances(pairs.second)
    eigenvalues, basis = np.linalg.eigh(covariances)
    rotated = np.einsum("aij,ai->aj", basis, pairs.differences())
    noise = eigenvalues.shape[1] * np.finfo(np.float64).eps * np.abs(eigenvalues).max(axis=-1, keepdims=True)
    return law.force(np.where(eigenvalues > noise, eigenvalues, 0.0), np.square(rotated))


def _low_rank_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    """Use Σ = diag(δ) + F Fᵀ itself."""
    delta_left, factors_left = pairs.left.diagonals_and_factors(pairs.first)
    delta_right, factors_right = pairs.right.diagonals_and_factors(pairs.second)
    factors = np.concatenate([factors_left, factors_right], axis=2) / np.sqrt(law.square)
    means = pairs.differences() / np.sqrt(law.square)
    return low_rank_moment((delta_left + delta_right) / law.square, factors, means, law.softening, law.exponent)
