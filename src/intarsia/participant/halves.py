"""Local clusters in two halves each: finer summaries, from which the coordinator finds better centroids to start from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.kmeans import Fit, fit_of
from intarsia.core.rows import Nearest, Rows, relabelled, sizes_of
from intarsia.core.types import BoolArray, IntArray
from intarsia.participant.clusterers import BuiltInKMeans
from intarsia.participant.samples import Sample

_FEWEST = 5  # rows of a half, also where no release policy requires any
_N_INIT = 3


class Halved(NamedTuple):
    """Halves of local clusters as clusters, and the local cluster that each is a half (or the whole) of."""

    fit: Fit
    half_of: IntArray


def in_halves(rows: Rows, sample: Sample, drawn: IntArray, fit: Fit, fewest: int, rng: np.random.Generator) -> Halved:
    """Split every local cluster in two by k-means, unless a half would have fewer than twice ``fewest`` rows.

    ``sample`` are rows in memory and ``drawn`` their positions; all rows of a cluster follow the nearer of its halves.
    """
    n_clusters, fewest = len(fit.sizes), max(2 * fewest, _FEWEST)
    if not n_clusters:  # every row is noise
        return Halved(fit, np.arange(0))
    sampled = np.asarray(fit.labels[drawn], dtype=np.intp)
    halves, clusterer = sampled.copy(), BuiltInKMeans()
    for k in np.flatnonzero(fit.sizes >= 2 * fewest):
        members = np.flatnonzero(sampled == k)
        if len(members) >= 2:
            part = sample._replace(cells=sample.values_of(members), observed=sample.observed[members], units=None)
            halves[members[clusterer.cluster(part, 2, rng, _N_INIT) == 1]] = n_clusters + k
    found = centroids_of_rows(sample.values, sample.observed, halves, 2 * n_clusters)
    centres = MaskedCentroids.of(np.where(found.seen, found.values, rows.mean), np.ones_like(found.values))
    labels = _nearer_halves(rows, fit.labels, centres, np.bincount(halves[halves >= 0], minlength=2 * n_clusters) > 0)
    sizes = sizes_of(labels, 2 * n_clusters).reshape(2, n_clusters)
    whole = (sizes < fewest).any(axis=0)
    place = np.append(np.arange(n_clusters), np.where(whole, 0, n_clusters) + np.arange(n_clusters))
    used = np.unique(place)
    labels = relabelled(labels, np.searchsorted(used, place))
    return Halved(fit_of(rows, labels, len(used)), used % n_clusters)


def _nearer_halves(rows: Rows, labels: IntArray, centres: MaskedCentroids, split: BoolArray) -> IntArray:
    """Return for every row the nearer half of its cluster: that of its number, or that of n_clusters above."""
    n_clusters, result = len(centres) // 2, np.array(labels, dtype=np.intp)
    near = Nearest(rows, centres, rows.extent)
    for piece in rows.pieces(len(centres)):
        own = np.asarray(labels[piece.at], dtype=np.intp)
        at, first = np.arange(len(own)), np.maximum(own, 0)
        distances = near.distances(piece)
        second = split[n_clusters + first] & (distances[at, n_clusters + first] < distances[at, first])
        result[piece.at] = np.where((own >= 0) & second, n_clusters + own, own)
    return result


def wholes(released: IntArray, half_of: IntArray, sizes: IntArray) -> IntArray:
    """Return the local cluster of each released half, numbered without a break.

    ``released[h]`` is what became of half h, −1 if it is suppressed. Where halves were joined, the largest decides.

    >>> wholes(np.array([0, 1, 1, -1]), np.array([4, 2, 7, 7]), np.array([9, 9, 3, 1]))
    array([1, 0])
    """
    result = np.zeros(int(released.max(initial=-1)) + 1, dtype=np.intp)
    for half in np.argsort(sizes, kind="stable"):
        if released[half] >= 0:
            result[released[half]] = half_of[half]
    return np.unique(result, return_inverse=True)[1].reshape(-1)
