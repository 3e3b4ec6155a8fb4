"""Problems that summaries show: shared columns that do not separate, unconnected clusters."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import merge
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.core.features import is_connected
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.results.outcome import Outcome


def holders(outcome: Outcome) -> BoolArray:
    """Participants × clusters: whether a participant has rows in a cluster."""
    return np.array([np.asarray(outcome.sizes[name]) > 0 for name in outcome.participants], dtype=np.bool_)


def unconnected_clusters(outcome: Outcome) -> list[int]:
    """Clusters whose participants share no column, directly or through others in the cluster."""
    held = holders(outcome)
    return [k for k in range(held.shape[1]) if not is_connected(outcome.masks[held[:, k]])]


def unseen(outcome: Outcome) -> dict[int, tuple[str, ...]]:
    """By cluster, the features that its centroid does not know."""
    seen, names = outcome.model.centroids.seen, np.array(outcome.model.space.names)
    return {k: tuple(names[~row].tolist()) for k, row in enumerate(seen) if row.any() and not row.all()}


def nearest_other(outcome: Outcome) -> FloatArray:
    """The rescaled distance of every group's centre to the nearest other one; NaN if none can be compared."""
    local = outcome.local_centroids
    centres = merge(local, outcome.groups, len(outcome.model.centroids))
    extent = extent_of(local.values, local.seen)
    apart = rescaled_distances(centres.values, centres.seen, centres.values, centres.seen, extent, outcome.model.metric)
    np.fill_diagonal(apart, np.nan)
    nearest = np.where(np.isnan(apart), np.inf, apart).min(axis=1)
    return np.where(np.isinf(nearest), np.nan, nearest)


def total_deviations(outcome: Outcome) -> FloatArray:
    """The standard deviation of all rows, by feature, in common units: within clusters and between them."""
    centroids = outcome.model.centroids
    variances = outcome.model.variances
    weights = np.where(centroids.seen, np.maximum(centroids.counts, 1.0), 0.0)
    total = np.maximum(weights.sum(axis=0), 1.0)
    overall = (weights * centroids.values).sum(axis=0) / total
    return np.asarray(np.sqrt((weights * (np.square(centroids.values - overall) + variances)).sum(axis=0) / total))


def separation_by_shared(outcome: Outcome) -> dict[str, float]:
    """By participant, how clearly shared columns separate its local clusters.

    For every two of its local clusters in different groups: the largest difference in a shared feature, in standard
    deviations of all rows. The smallest of these is returned; a participant without such a pair is not listed.
    """
    local, groups, seen = outcome.local_centroids, outcome.groups, outcome.local_centroids.seen
    deviations = total_deviations(outcome)
    others = outcome.masks.sum(axis=0) > 1
    result: dict[str, float] = {}
    if len(outcome.participants) == 1:
        return result
    for i, members in enumerate(_by_owner(outcome)):
        shared = np.flatnonzero(others & outcome.masks[i] & (deviations > 0))
        values, observed = local.values[np.ix_(members, shared)] / deviations[shared], seen[np.ix_(members, shared)]
        worst = [
            np.where(observed[at] & observed[later], np.abs(values[at] - values[later]), 0.0)
            .max(axis=1, initial=0.0)
            .min()
            for at in range(len(members) - 1)
            if len(later := at + 1 + np.flatnonzero(groups[members[at + 1 :]] != groups[members[at]]))
        ]
        if worst:
            result[outcome.participants[i]] = float(min(worst))
    return result


def _by_owner(outcome: Outcome) -> list[IntArray]:
    """The local clusters of every participant."""
    owner = outcome.owner
    counts = np.bincount(owner, minlength=len(outcome.participants))
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
