"""Problems that summaries show: columns in other units, shared columns that do not separate, unconnected clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import merge
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.core.features import is_connected
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.results.outcome import Outcome

FAR_OFF = 3.0  # times the range of local centroids: the distance from which on a mean is odd
FAR_INSIDE = 1.5  # times the deviation within clusters
OTHER_SCALE = 20.0  # times the range at others


@dataclass(frozen=True)
class Odd:
    """A column that seems to have another meaning or unit at a participant: its mean there and elsewhere.

    If only two participants have the column, either may be odd, and ``other`` is the second.
    """

    feature: str
    participant: str
    mean: float
    elsewhere: float
    other: str = ""


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
    return {k: tuple(names[~row].tolist()) for k, row in enumerate(seen) if not row.all()}


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


def odd_columns(outcome: Outcome) -> list[Odd]:
    """Columns whose mean at one participant is far from all others, or whose range there is far larger.

    Far: outside the range of all others' local centroids by several times that range, and by more than the deviation within
    clusters (which a participant in other units makes large itself, so that the factor is small).
    """
    variances, cells = outcome.model.variances, outcome.model.cells
    within = np.sqrt((cells * variances).sum(axis=0) / np.maximum(cells.sum(axis=0), 1.0))
    places = _places(outcome)
    result = []
    for m, name in enumerate(outcome.model.space.names):
        here = np.flatnonzero(outcome.masks[:, m] & places.observed[:, m])
        means = places.mean[here, m]
        if len(here) < 2:
            continue
        odd = _odd_ones(means, places.low[here, m], places.high[here, m], float(within[m]))
        if len(odd):
            first = int(odd[0])
            rest = float(np.median(np.delete(means, first)))
            scale, shift = float(outcome.model.scale[m]), float(outcome.model.shift[m])
            other = outcome.participants[here[1 - first]] if len(here) == 2 else ""
            mean = float(means[first]) * scale + shift
            result.append(Odd(name, outcome.participants[here[first]], mean, rest * scale + shift, other))
    return result


class _Places(NamedTuple):
    """Participants × features: mean, range of the local centroids, and whether there are values."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    observed: BoolArray


def _places(outcome: Outcome) -> _Places:
    local, seen, n = outcome.local_centroids, outcome.local_centroids.seen, len(outcome.participants)
    merged = merge(local, outcome.owner, n)
    low, high = np.full(merged.values.shape, np.inf), np.full(merged.values.shape, -np.inf)
    for i, members in enumerate(_by_owner(outcome)):
        low[i] = np.where(seen[members], local.values[members], np.inf).min(axis=0, initial=np.inf)
        high[i] = np.where(seen[members], local.values[members], -np.inf).max(axis=0, initial=-np.inf)
    return _Places(merged.values, low, high, merged.seen)


def _odd_ones(mean: FloatArray, low: FloatArray, high: FloatArray, within: float) -> IntArray:
    """Positions of odd participants among at least two, each compared with all others."""
    lowest, highest = _least_of_others(low), -_least_of_others(-high)
    reach = high - low
    outside = np.maximum(lowest - mean, mean - highest)
    elsewhere = (outside > FAR_OFF * np.maximum(reach, highest - lowest)) & (outside > FAR_INSIDE * within)
    typical = _median_of_others(reach) * OTHER_SCALE
    return np.flatnonzero(elsewhere | ((typical > 0) & (typical < reach)))


def _least_of_others(values: FloatArray) -> FloatArray:
    """For each of at least two values, the smallest of the others.

    >>> _least_of_others(np.array([2.0, 1.0, 3.0]))
    array([1., 2., 1.])
    """
    first, second = np.partition(values, 1)[:2]
    return np.asarray(np.where(np.arange(len(values)) == values.argmin(), second, first))


def _median_of_others(values: FloatArray) -> FloatArray:
    """For each of at least two values, the median of the others.

    >>> _median_of_others(np.array([5.0, 1.0, 2.0, 8.0]))
    array([2., 5., 5., 2.])
    """
    n, order = len(values), np.argsort(values, kind="stable")
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    # without the value of that rank, the later ones move up
    lower, upper = (n - 2) // 2, (n - 1) // 2
    ranked = values[order]
    return np.asarray((ranked[lower + (rank <= lower)] + ranked[upper + (rank <= upper)]) / 2)
