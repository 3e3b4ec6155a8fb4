"""Exact forces between Gaussians with diagonal, full or low-rank covariances (see :mod:`~intarsia.core.densities.force`).

The difference z of two independent Gaussians is Gaussian, with covariance Σ = Σ₁ + Σ₂, so a force is a moment of z; see
:mod:`~intarsia.core.densities.moments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        first, second = (
            np.triu_indices(len(left), 1) if left is right else np.divmod(np.arange(left.size * right.size), right.size)
        )
        pairs = _Pairs(
            [gaussians[k].marginal(shared[seen[k]]) for k in left.tolist()],
            [gaussians[k].marginal(shared[seen[k]]) for k in right.tolist()],
            first,
            second,
        )
        law = _Law(float(np.square(extent.width[shared]).sum()), exponent, softening, sizes)
        values = _forces_of_pairs(pairs, law)
        forces[left[first], right[second]] = forces[right[second], left[first]] = values
    return forces


class _Law(NamedTuple):
    """The force law: squared distances are divided by ``square``, then (d² + softening²) raised to −exponent/2."""

    square: float
    exponent: float
    softening: float
    sizes: BlockSizes


class _Pairs(NamedTuple):
    """Pairs of Gaussians over the same features: pair k is ``left[first[k]]`` and ``right[second[k]]``."""

    left: Sequence[Gaussian]
    right: Sequence[Gaussian]
    first: IntArray
    second: IntArray

    def take(self, which: BoolArray | IntArray | slice) -> _Pairs:
        return _Pairs(self.left, self.right, self.first[which], self.second[which])

    def in_blocks(self, numbers_per_pair: int, most: int) -> Iterator[_Pairs]:
        """Yield as many pairs at once as fit into memory."""
        height = max(1, most // max(1, numbers_per_pair))
        return (self.take(slice(k, k + height)) for k in range(0, len(self.first), height))

    @property
    def ranks(self) -> IntArray:
        """The rank that each pair's covariance adds to a diagonal matrix."""
        left, right = (np.array([g.rank for g in side]) for side in (self.left, self.right))
        return np.asarray(left[self.first] + right[self.second])

    def differences(self) -> FloatArray:
        """Return the differences of the means."""
        left, right = np.stack([g.mean for g in self.left]), np.stack([g.mean for g in self.right])
        return np.asarray(left[self.first] - right[self.second])


def _forces_of_pairs(pairs: _Pairs, law: _Law) -> FloatArray:
    forces = np.empty(len(pairs.first))
    d, rank = len(pairs.left[0].mean), pairs.ranks
    dense = (rank > 0) & (_DENSE_FROM * rank >= d)
    for forces_of, numbers, chosen in (
        (_diagonal_forces, 1, rank == 0),
        (_dense_forces, d * d, dense),
        (_low_rank_forces, d * (4 * N_NODES + int(rank[~dense].max(initial=0)) ** 2), (rank > 0) & ~dense),
    ):
        if chosen.any():
            in_blocks = pairs.take(chosen).in_blocks(numbers, law.sizes.memory)
            forces[chosen] = np.concatenate([forces_of(block, law) for block in in_blocks])
    return forces


def _diagonal_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    left, right = np.stack([g.variances for g in pairs.left]), np.stack([g.variances for g in pairs.right])
    means_left, means_right = np.stack([g.mean for g in pairs.left]), np.stack([g.mean for g in pairs.right])
    forces = np.empty(len(pairs.first))
    for block in blocks(np.arange(len(forces)), law.sizes.cache // max(1, left.shape[1])):
        first, second = pairs.first[block], pairs.second[block]
        variances, squares = left[first], means_left[first]
        variances += right[second]
        squares -= means_right[second]
        np.square(squares, out=squares)
        variances /= law.square
        squares /= law.square
        forces[block] = inverse_power_moment(variances, squares, law.softening, law.exponent, law.sizes)
    return forces


def _dense_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    """Use the eigenvalues λ of Σ, and the mean difference in the basis of its eigenvectors."""
    eigenvalues, basis = np.linalg.eigh(_full(pairs.left, pairs.first) + _full(pairs.right, pairs.second))
    rotated = np.einsum("aij,ai->aj", basis, pairs.differences())
    noise = eigenvalues.shape[1] * np.finfo(np.float64).eps * np.abs(eigenvalues).max(axis=-1, keepdims=True)
    variances = np.where(eigenvalues > noise, eigenvalues, 0.0) / law.square
    return inverse_power_moment(variances, np.square(rotated) / law.square, law.softening, law.exponent, law.sizes)


def _full(gaussians: Sequence[Gaussian], which: IntArray) -> FloatArray:
    used, position = np.unique(which, return_inverse=True)
    return np.stack([gaussians[k].full_covariance for k in used.tolist()])[position]


def _low_rank_forces(pairs: _Pairs, law: _Law) -> FloatArray:
    """Use Σ = diag(δ) + F Fᵀ itself."""
    delta_left, factors_left = _diagonals_and_factors(pairs.left, pairs.first)
    delta_right, factors_right = _diagonals_and_factors(pairs.right, pairs.second)
    factors = np.concatenate([factors_left, factors_right], axis=2) / np.sqrt(law.square)
    means = pairs.differences() / np.sqrt(law.square)
    return low_rank_moment((delta_left + delta_right) / law.square, factors, means, law.softening, law.exponent)


def _diagonals_and_factors(gaussians: Sequence[Gaussian], which: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the diagonals, and the factors with columns of zeros appended to the same number."""
    used, position = np.unique(which, return_inverse=True)
    chosen = [gaussians[k] for k in used.tolist()]
    diagonals = np.stack([g.covariance for g in chosen])
    factors = np.zeros((*diagonals.shape, max(g.rank for g in chosen)))
    for k, g in enumerate(chosen):
        if g.factors is not None:
            factors[k, :, : g.rank] = g.factors
    return diagonals[position], factors[position]
