r"""Soft memberships: each cluster as a Gaussian with independent features, over the observed values of a row.

.. math:: p_k(x) \propto \pi_k \prod_{m \text{ observed in } x} \mathcal{N}(x_m; c_{k,m}, v_{k,m})

A cluster that does not know a feature takes the average likelihood of those that do. Variances are shrunk towards the
feature's variance within clusters, with the weight of :data:`PRIOR` rows, so that a cluster of a few rows is not too narrow;
and :data:`RIDGE` times the typical variance of all features is added, so that a feature that hardly varies does not decide
alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from intarsia.core.blocks import by_rows
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.types import BoolArray, FloatArray, IntArray

PRIOR = 5.0
RIDGE = 0.3
SMALLEST = 1e-6  # of the overall variance: the width of a feature that is constant inside a cluster
FARTHEST = 1e12  # widths, beyond which all clusters are equally far


class Mixture(NamedTuple):
    """Every cluster as a Gaussian. ``overall`` and ``width`` are each feature's mean and spread over all clusters; means and
    variances are in units of them. ``seen`` marks known entries, and ``squares`` are the variances without the ridge.
    """

    means: FloatArray
    variances: FloatArray
    squares: FloatArray
    seen: BoolArray
    weights: FloatArray
    overall: FloatArray
    width: FloatArray

    def on(self, features: IntArray) -> Mixture:
        """Return the clusters over a selection of features."""
        return Mixture(
            self.means[:, features],
            self.variances[:, features],
            self.squares[:, features],
            self.seen[:, features],
            self.weights,
            self.overall[features],
            self.width[features],
        )


def likeliest(mixture: Mixture, rows: FloatArray, observed: BoolArray, varies: BoolArray) -> IntArray:
    """Return the most likely cluster of each row; −1 if no cluster knows any of its values.

    Only features that vary are used; a row without any of them belongs to the largest cluster that knows any of its values.
    """
    logs = np.empty((len(rows), len(mixture.means)))
    for some in by_rows(*rows.shape):
        knows = observed[some].astype(np.float64) @ mixture.seen.T.astype(np.float64) > 0
        logs[some] = np.where(knows, _log_memberships(mixture, rows[some], observed[some] & varies), -np.inf)
    return np.where(np.isfinite(logs).any(axis=1), logs.argmax(axis=1), -1)


def pooled_squares(
    parts: MaskedCentroids, squares: FloatArray, groups: IntArray, centres: MaskedCentroids
) -> FloatArray:
    """Return sums of squares around ``centres``, from sums of squares of parts around their own means."""
    membership = (groups[None, :] == np.arange(len(centres))[:, None]).astype(np.float64)
    offset = np.where(parts.seen, parts.values - centres.values[groups], 0.0)
    return np.asarray(membership @ (np.where(parts.seen, squares, 0.0) + parts.counts * np.square(offset)))


class Spread(NamedTuple):
    """What a mixture needs beside centroids and sizes, without the number of values behind each entry.

    ``overall`` and ``width`` are each feature's mean and spread over all clusters, ``squares`` the variance of each cluster
    in units of ``width``, and ``typical`` the mean variance of all features within clusters.
    """

    squares: FloatArray
    overall: FloatArray
    width: FloatArray
    typical: float


def spread_of(centroids: MaskedCentroids, variances: FloatArray, cells: FloatArray, n_joined: int = 0) -> Spread:
    """Return the spread of clusters from centroids, variances, and the numbers of values behind them.

    The last ``n_joined`` features have no part in the typical variance, so that they do not widen the others.
    """
    overall = merge(centroids, np.zeros(len(centroids), dtype=np.intp), 1).values[0]
    offset = np.where(centroids.seen, centroids.values - overall, 0.0)
    total = np.maximum(cells.sum(axis=0), 1.0)
    within = (cells * np.where(cells > 0, variances, 0.0)).sum(axis=0) / total
    apart = (centroids.counts * np.square(offset)).sum(axis=0) / np.maximum(centroids.counts.sum(axis=0), 1.0)
    width = np.sqrt(within + apart)
    unit = np.where(width > 0, width, 1.0)
    inside = np.maximum(within / np.square(unit), SMALLEST)
    own = np.where(cells > 0, variances, 0.0) / np.square(unit)
    drawn = np.maximum((cells * own + PRIOR * inside) / (cells + PRIOR), SMALLEST)
    known = (cells.sum(axis=0) > 0) & (np.arange(cells.shape[1]) < cells.shape[1] - n_joined)
    typical = float(within[known].mean()) if known.any() else 0.0
    return Spread(np.where(centroids.seen, drawn, 1.0), overall, width, typical)


def mixture_from(centroids: MaskedCentroids, spread: Spread, sizes: FloatArray, ridge: float = RIDGE) -> Mixture:
    """Return the mixture from centroids, of which only the values and which are known count, their spread, and sizes."""
    squares, overall, width, typical = spread
    offset = np.where(centroids.seen, centroids.values - overall, 0.0)
    unit = np.where(width > 0, width, 1.0)
    shares = np.maximum(np.asarray(sizes, dtype=np.float64), 1e-12)
    with np.errstate(over="ignore"):  # a feature in tiny units beside one in huge units is ignored
        more = np.minimum(ridge * typical / np.square(unit), FARTHEST)
    wider = squares + np.where(centroids.seen, more, 0.0)
    return Mixture(offset / unit, wider, squares, centroids.seen, shares / shares.sum(), overall, width)


def log_memberships(mixture: Mixture, rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Return log p_k for every row and cluster: the shares if a row has no value. Features without width are ignored."""
    result = np.empty((len(rows), len(mixture.means)))
    for some in by_rows(*rows.shape):
        result[some] = _log_memberships(mixture, rows[some], observed[some])
    return result


def _log_memberships(mixture: Mixture, rows: FloatArray, observed: BoolArray) -> FloatArray:
    useful = (mixture.width > 0) & mixture.seen.any(axis=0)
    there = observed & useful
    unit = np.where(mixture.width > 0, mixture.width, 1.0)
    x = np.where(there, np.clip((np.where(there, rows, 0.0) - mixture.overall) / unit, -FARTHEST, FARTHEST), 0.0)
    live = mixture.seen.any(axis=1)  # a cluster that is gone knows no feature, and no row belongs to it
    everywhere = mixture.seen[live].all(axis=0) if live.any() else mixture.seen.all(axis=0)
    o = (there & everywhere).astype(np.float64)
    u = np.where(everywhere, x, 0.0)
    precision = np.where(everywhere, 1.0 / mixture.variances, 0.0)
    squared = (
        np.square(u) @ precision.T
        - 2.0 * u @ (precision * mixture.means).T
        + o @ (precision * np.square(mixture.means)).T
    )
    logs = np.log(mixture.weights) - 0.5 * (np.maximum(squared, 0.0) + o @ np.log(mixture.variances).T)
    for m in np.flatnonzero(useful & ~everywhere):
        logs = logs + np.where(there[:, [m]], _one_feature(mixture, x[:, m], int(m)), 0.0)
    if live.any() and not live.all():
        logs = np.where(live, logs, -np.inf)
    return np.asarray(log_softmax(logs, axis=1))


def _one_feature(mixture: Mixture, x: FloatArray, m: int) -> FloatArray:
    """Return log-likelihoods of one feature that some clusters do not know."""
    known, v = mixture.seen[:, m], mixture.variances[:, m]
    own = -0.5 * (np.square(x[:, None] - mixture.means[None, :, m]) / v + np.log(v))
    shares = np.log(mixture.weights[known] / mixture.weights[known].sum())
    average = logsumexp(own[:, known] + shares, axis=1, keepdims=True)
    return np.where(known, own, average)


def expected(mixture: Mixture, memberships: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the expected value of every row and feature and its standard deviation, given the memberships.

    A cluster that does not know a feature expects its overall mean.
    """
    mean = memberships @ mixture.means
    second = memberships @ (mixture.squares + np.square(mixture.means))
    spread = np.sqrt(np.maximum(second - np.square(mean), 0.0))
    return mixture.overall + mean * mixture.width, spread * mixture.width
