"""Estimates of variances and correlations from few rows: towards pooled variances, towards 0, towards low rank."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from intarsia.core.types import FloatArray

_POOLED_ROWS = 5  # the weight of the pooled variance, in rows


def shrunk_variances(counts: FloatArray, variances: FloatArray, within: FloatArray) -> FloatArray:
    """Return (n v + 5 v') / (n + 5) for variances v of n values and variances v' within all clusters."""
    return np.asarray((counts * variances + _POOLED_ROWS * within) / (counts + _POOLED_ROWS))


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
