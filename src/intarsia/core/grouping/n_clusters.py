"""Choosing K: at a participant by silhouettes of rows, at the coordinator by silhouettes of summaries.

Silhouettes are high for few clusters and in few dimensions, whether there is structure or not. A participant therefore
compares its silhouettes with those of rows that are one Gaussian cloud of the same shape (*references*), and may find 1.

K is at least the number that participants find by themselves. From there on, the merge tree and a silhouette over local
clusters decide: the mean squared distance between the points of two clusters follows from their means and variances, so a
silhouette of the proxies needs no proxies. Distances are rescaled, and incomparable pairs are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import MergeTree, agglomerate, same_owner
from intarsia.core.grouping.silhouettes import silhouettes_of_cuts
from intarsia.core.types import BoolArray, FloatArray, IntArray

# Kaufman and Rousseeuw (1990): up to 0.25 a silhouette shows no substantial structure, up to 0.5 one that may be artificial
NO_STRUCTURE, CLEAR = 0.25, 0.5

_DEVIATIONS = 5.0  # standard deviations that a silhouette must be above its references to be more than chance
_NEARLY = 0.25  # share of the highest excess over the references: a number so close to the highest is as good
_LEAST_CLEAR = 0.5  # share of the mean silhouette: a cluster less clear than this is a part of another
_QUARTER = 0.25  # share of all rows that participants must hold for their number to count
_MANY = 4  # participants, of whom one alone may be wrong
_HARDLY = 0.01  # a silhouette over summaries that is higher by less is no reason to leave the participants' number


def clearest_number(mean: FloatArray, least: FloatArray, references: FloatArray) -> int:
    """Return how many clusters one participant has, 1 if its silhouettes are no higher than those of a single cloud.

    ``mean`` and ``least`` are the mean silhouette and that of the least clear cluster with 2, 3, … clusters;
    ``references`` has one row for each reference. Candidates are numbers with an excess over the references that is more
    than chance, which leave every cluster clearer than a cluster of the references, and at least half as clear as all are
    on average. Finding too few is worse than finding too many, which the merge tree can repair: of those with nearly the
    highest excess the largest is taken. Where no candidate stands out (rows that are no cloud, but of no clear clusters
    either), it is the one whose least clear cluster is clearest.

    >>> clearest_number(np.array([0.4, 0.6, 0.5]), np.array([0.3, 0.5, 0.1]), np.array([[0.2, 0.2, 0.2], [0.2, 0.21, 0.2]]))
    3
    """
    expected = references.mean(axis=0)
    noise = float(np.sqrt(references.var(axis=0, ddof=1).mean()))
    excess = mean - expected
    # references of a few rows scatter so much that not even perfect silhouettes, 1, would be far enough above them
    beyond = excess > np.minimum(_DEVIATIONS * noise, (1.0 - expected) / 2)
    if not beyond.any():
        return 1
    clear = beyond & (least >= expected) & (least >= _LEAST_CLEAR * mean)
    highest, usual = excess[clear].max(initial=-1.0), max(float(np.quantile(excess, 0.25)), 0.0)
    if highest - usual <= _DEVIATIONS * noise:
        return 2 + int(least.argmax())
    return 2 + int(np.flatnonzero(clear & (excess >= highest - _NEARLY * (highest - usual))).max())


def expected_distances(densities: Sequence[Density], seen: BoolArray, extent: Extent) -> FloatArray:
    """Return the root mean squared rescaled distance between points of two clusters, and within one.

    It is NaN where two clusters are incomparable.
    """
    means, variances = np.zeros(seen.shape), np.zeros(seen.shape)
    for k, density in enumerate(densities):
        means[k, seen[k]], variances[k, seen[k]] = density.mean, density.variances
    varying = seen & extent.varies
    result = np.full((len(seen), len(seen)), np.nan)
    for k in range(len(seen)):
        shared = varying[k] & varying
        squared = np.square(means[k] - means) + variances[k] + variances
        reach = (shared * np.square(extent.width)).sum(axis=1)
        total = np.where(shared, squared, 0.0).sum(axis=1)
        np.sqrt(np.divide(total, reach, out=result[k], where=reach > 0), out=result[k])
    return result


def silhouette_of_halves(n_features: float) -> float:
    """Return the silhouette over summaries of a Gaussian that was cut in two: that of a single cluster.

    Halves have their means at ±√(2/π) and a variance of 1 − 2/π along one axis, and 1 along the others.
    """
    return float(1.0 - np.sqrt((n_features - 2 / np.pi) / (n_features + 2 / np.pi)))


def found_by_participants(numbers: Sequence[int], rows: Sequence[int]) -> int:
    """Return the largest number of clusters that participants with a quarter of all rows found, or exceeded.

    Of four participants or more, one alone does not count, however many rows it has.

    >>> found_by_participants([3, 4, 9], [100, 100, 20]), found_by_participants([2, 4, 1, 1], [300, 290, 120, 200])
    (4, 2)
    """
    order = np.argsort(-np.asarray(numbers), kind="stable")
    share = np.cumsum(np.asarray(rows, dtype=np.float64)[order]) / np.sum(rows)
    enough = (share >= _QUARTER) & (np.arange(1, len(order) + 1) >= (2 if len(order) >= _MANY else 1))
    return int(np.asarray(numbers)[order][np.argmax(enough)])


class Choice(NamedTuple):
    """K, the silhouette of every cut, and the number of clusters that participants found, if any chose their own."""

    n_clusters: int
    silhouettes: dict[int, float]
    found: int | None


class Summaries(NamedTuple):
    """Local clusters as the choice of K uses them; ``chose`` marks those whose owners chose their own number."""

    densities: Sequence[Density]
    seen: BoolArray
    owner: IntArray
    sizes: IntArray
    chose: BoolArray


def choose_n_clusters(
    local: Summaries, affinity: FloatArray, extent: Extent, tree: MergeTree, *, separate: bool = True
) -> Choice:
    """Return the number of clusters that participants found, or more where such a cut has a clearly higher silhouette.

    Where they found 1, some cut must be clearer than the halves of one cluster are. ``tree`` is the merge tree of
    ``affinity``. With ``separate``, cuts are considered as well that keep clusters of one participant in different groups.
    """
    counts, rows = np.bincount(local.owner), np.bincount(local.owner, weights=local.sizes)
    chose = np.unique(local.owner[local.chose])
    found = found_by_participants(counts[chose].tolist(), rows[chose].tolist()) if len(chose) else None
    distances = expected_distances(local.densities, local.seen, extent)
    weights = local.sizes.astype(np.float64)
    curve = silhouettes_of_cuts(tree, distances, weights)
    if separate:
        bound = int(counts.max()) if found is None else found
        limited = agglomerate(affinity, same_owner(local.owner, bound))
        least = max(bound, limited.fewest_groups)
        curve |= {k: s for k, s in silhouettes_of_cuts(limited, distances, weights).items() if k >= least}
    scores = {k: s for k, s in curve.items() if k >= max(found or 2, tree.fewest_groups)}
    best = max(scores, key=lambda k: (scores[k], -k), default=max(found or 1, tree.fewest_groups))
    if found in scores and scores[found] >= scores[best] - _HARDLY:
        return Choice(found, curve, found)
    if found == 1 and tree.fewest_groups == 1 and scores:
        varying = (local.seen & extent.varies).astype(np.float64)
        shared = (varying @ varying.T)[np.triu_indices(len(varying), 1)]
        if scores[best] <= silhouette_of_halves(float(shared[shared > 0].mean())):
            return Choice(1, curve, found)
    return Choice(best, curve, found)
