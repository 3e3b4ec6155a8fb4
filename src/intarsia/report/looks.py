"""What summaries show of troubles that no assumption of the method names: other units, shared columns that tell nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.core.features import is_connected, overlap_graph
from intarsia.core.types import BoolArray, FloatArray
from intarsia.results import Outcome

FAR_OFF = 3.0  # times what local centroids reach, by which a mean must be off the others' to be odd
FAR_INSIDE = 1.5  # times what clusters vary inside
OTHER_SCALE = 20.0  # times the others' reach


@dataclass(frozen=True)
class Odd:
    """A column that looks as if a participant meant something else by it: its mean there and elsewhere.

    Where only two have the column, nobody can say which of them is odd, and ``other`` is the second.
    """

    feature: str
    participant: str
    mean: float
    elsewhere: float
    other: str = ""


def holders(outcome: Outcome) -> BoolArray:
    """Participants × clusters: who has rows in which cluster in the end."""
    return np.array([np.asarray(outcome.sizes[name]) > 0 for name in outcome.participants], dtype=np.bool_)


def apart_clusters(outcome: Outcome) -> list[int]:
    """Clusters whose holders share no column, not even through others who hold it."""
    graph, held = overlap_graph(outcome.masks), holders(outcome)
    return [k for k in range(held.shape[1]) if not is_connected(graph[np.ix_(held[:, k], held[:, k])])]


def unseen(outcome: Outcome) -> dict[int, tuple[str, ...]]:
    """By cluster, the features that its centroid does not know."""
    seen, names = outcome.model.centroids.seen, np.array(outcome.model.space.names)
    return {k: tuple(names[~row].tolist()) for k, row in enumerate(seen) if not row.all()}


def nearest_other(outcome: Outcome) -> FloatArray:
    """How far the centre of every group is from the nearest other one, rescaled; NaN where none can be compared."""
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
    variances, _ = outcome.model.spread
    weights = np.where(centroids.seen, np.maximum(centroids.counts, 1.0), 0.0)
    total = np.maximum(weights.sum(axis=0), 1.0)
    overall = (weights * centroids.values).sum(axis=0) / total
    return np.asarray(np.sqrt((weights * (np.square(centroids.values - overall) + variances)).sum(axis=0) / total))


def separation_by_shared(outcome: Outcome) -> dict[str, float]:
    """By participant, how clearly the columns that it shares tell its own local clusters apart.

    Of every two of its local clusters that went to different groups, the largest difference in a shared feature, in standard
    deviations of all rows; the least clear two count. Without such a pair a participant is not listed.
    """
    local, owner, groups = outcome.local_centroids, outcome.owner, outcome.groups
    deviations = total_deviations(outcome)
    others = outcome.masks.sum(axis=0) > 1
    found = {}
    for i, name in enumerate(outcome.participants):
        mine = np.flatnonzero(owner == i)
        shared = others & outcome.masks[i] & (deviations > 0)
        worst = [
            _largest_difference(local, int(a), int(b), shared, deviations)
            for at, a in enumerate(mine)
            for b in mine[at + 1 :]
            if groups[a] != groups[b]
        ]
        if worst and len(outcome.participants) > 1:
            found[name] = min(worst)
    return found


def _largest_difference(local: MaskedCentroids, a: int, b: int, shared: BoolArray, deviations: FloatArray) -> float:
    both = shared & local.seen[a] & local.seen[b]
    if not both.any():
        return 0.0
    return float((np.abs(local.values[a] - local.values[b])[both] / deviations[both]).max())


def odd_columns(outcome: Outcome) -> list[Odd]:
    """Columns that are somewhere else at one participant than at all others, or reach farther by an order of magnitude.

    Somewhere else: the mean is outside what all others' local centroids reach, by several times that reach and by more than
    clusters vary inside (which a participant in other units makes wide itself, so that much more cannot be asked for).
    """
    variances, cells = outcome.model.spread
    within = np.sqrt((cells * variances).sum(axis=0) / np.maximum(cells.sum(axis=0), 1.0))
    found = []
    for m, name in enumerate(outcome.model.space.names):
        places = [place for i in np.flatnonzero(outcome.masks[:, m]) if (place := _place(outcome, int(i), m))]
        odd = [k for k in range(len(places)) if len(places) > 1 and _is_odd(places, k, float(within[m]))]
        if odd:
            own = places[odd[0]]
            rest = float(np.median([place.mean for k, place in enumerate(places) if k != odd[0]]))
            scale, shift = float(outcome.model.scale[m]), float(outcome.model.shift[m])
            other = places[1 - odd[0]].participant if len(places) == 2 else ""
            found.append(Odd(name, own.participant, own.mean * scale + shift, rest * scale + shift, other))
    return found


class _Place(NamedTuple):
    """Where a feature is at one participant: its mean, and what the local centroids reach."""

    participant: str
    mean: float
    low: float
    high: float


def _place(outcome: Outcome, i: int, m: int) -> _Place | None:
    local, mine = outcome.local_centroids, (outcome.owner == i) & outcome.local_centroids.seen[:, m]
    if not mine.any():
        return None
    values = local.values[mine, m]
    mean = float(np.average(values, weights=local.counts[mine, m]))
    return _Place(outcome.participants[i], mean, float(values.min()), float(values.max()))


def _is_odd(places: Sequence[_Place], k: int, within: float) -> bool:
    own, others = places[k], [place for at, place in enumerate(places) if at != k]
    low, high = min(place.low for place in others), max(place.high for place in others)
    reach, typical = own.high - own.low, float(np.median([place.high - place.low for place in others]))
    outside = max(low - own.mean, own.mean - high)
    elsewhere = outside > FAR_OFF * max(reach, high - low) and outside > FAR_INSIDE * within
    return elsewhere or 0 < typical * OTHER_SCALE < reach
