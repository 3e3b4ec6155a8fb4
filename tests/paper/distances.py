"""Rescaled distances, merged centroids, and the objective of a grouping.

A point is a vector over all d features with NaN where its participant does not have the feature, so that Ω_i is
``~isnan(x)``.
"""

from typing import NamedTuple

import numpy as np


class Centroid(NamedTuple):
    """c_i^a of participant i, with |c_i^a| per feature: 0 where Ω_i[m, m] = 0."""

    participant: int
    value: np.ndarray
    counts: np.ndarray


def reach_of(S):
    """ewmax − ewmin over S, each entry over the points that have it (eq:d_max)."""
    return np.array([np.ptp(x[~np.isnan(x)]) if (~np.isnan(x)).any() else 0.0 for x in np.asarray(S).T])


def distance(x, y, reach):
    """d_ij^S(x, x′) (eq:d) for Euclidean φ; NaN where Ω_i ∧ Ω_j = 0. ``x`` may be many points of one participant.

    Features that are constant over S add nothing (errata).
    """
    shared = ~np.isnan(np.atleast_2d(x)[0]) & ~np.isnan(y) & (reach > 0)
    if not shared.any():
        return np.full(np.shape(x)[:-1], np.nan)
    d_max = np.sqrt(np.sum(reach[shared] ** 2))
    return np.sqrt(np.sum((x[..., shared] - y[shared]) ** 2, axis=-1)) / d_max


def merge(S):
    """Return merge(S) (eq:merge_centroids_function): the mean of every feature, weighted by its counts (errata).

    The participant of the result is −1.
    """
    d = len(S[0].value)
    value, counts = np.full(d, np.nan), np.zeros(d)
    for m in range(d):
        counts[m] = sum(c.counts[m] for c in S)
        if counts[m] > 0:
            value[m] = sum(c.counts[m] * c.value[m] for c in S if c.counts[m] > 0) / counts[m]
    return Centroid(-1, value, counts)


def objective(centroids, G):
    """eq:meta_clustering: the sum of d_ii^c(c_i^a, merge(G[g]))² over all groups and their members."""
    reach = reach_of([c.value for c in centroids])
    return sum(
        distance(centroids[z].value, merge([centroids[y] for y in group]).value, reach) ** 2
        for group in G
        for z in group
    )


def silhouette(X, labels):
    """Return the mean silhouette (Rousseeuw 1987) of a participant's rows; that of a row alone is 0."""
    X = X[:, ~np.isnan(X[0])]
    scores = []
    for x, label in zip(X, labels, strict=True):
        apart = np.sqrt(np.sum((X - x) ** 2, axis=1))
        mine = labels == label
        if np.sum(mine) == 1:
            scores.append(0.0)
            continue
        a = np.sum(apart[mine]) / (np.sum(mine) - 1)
        b = min(np.mean(apart[labels == other]) for other in set(labels) - {label})
        scores.append((b - a) / max(a, b))
    return np.mean(scores)
