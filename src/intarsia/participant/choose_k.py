"""The number of local clusters, where neither the request nor the clusterer sets it: the one with the best silhouettes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import euclidean_distances, nan_euclidean_distances
from threadpoolctl import ThreadpoolController

from intarsia.core.blocks import by_columns
from intarsia.core.grouping.n_clusters import (
    CLEAR,
    NO_STRUCTURE,
    clearest_number,
    silhouettes_of_complete_rows,
    silhouettes_of_rows,
)
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.participant.clusterers import BuiltInKMeans, Clusterer
from intarsia.participant.samples import Sample, for_all_rows

SILHOUETTE_ROWS = 1000  # a silhouette costs the square of the rows; a sample of this size is close enough to choose K
FEWER_ROWS, CLEAR_ENOUGH = 400, 0.3  # a smaller sample, and the silhouette in it that makes a larger one unnecessary
LARGE = 1_000_000  # values, from which on threads help
CODES = 10  # a column with no more different values holds codes
REFERENCES, REFERENCE_INIT = 5, 3  # tables without structure that silhouettes are compared with, and starts for each


class Chosen(NamedTuple):
    """Labels, and the mean silhouette of the least clear cluster where it was looked at."""

    labels: IntArray
    clarity: float | None


def choose_labels(
    clusterer: Clusterer, rows: Sample, expected: int | None, most: int, rng: np.random.Generator
) -> Chosen:
    """Cluster with as many clusters as the silhouette suggests, at most ``most``.

    Where the number of global clusters is unknown, silhouettes are compared with those of rows without structure
    (:func:`clearest_number`). Where it is known (``expected``), a participant need not have rows of all of them, but
    finding too few is worse than too many: it keeps to ``expected`` unless that leaves a cluster without structure of its
    own while fewer are all clear. Rows without any structure are taken for all the clusters if there are two or more for
    each, and for a single one if not. The algorithm is tried with ``expected`` clusters first, then with fewer and fewer.
    """
    prepared, used = clusterer.missing.prepared(rows)
    most = min(most, len(used) // 2)  # clusters of single rows are no clusters
    # hundreds of small k-means: threads would wait for each other longer than they work
    with _threads().limit(limits=1) if prepared.cells.size < LARGE else nullcontext():
        chosen = _clearest(prepared, most, rng) if expected is None else _up_to(prepared, expected, most, rng)
    return Chosen(for_all_rows(chosen.labels, used, rows.n_rows), chosen.clarity)


@cache
def _threads() -> Any:
    """Whoever limits threads. To find it takes as long as a small k-means, so it is found once."""
    return ThreadpoolController()


_BUILT_IN = BuiltInKMeans()


def _up_to(rows: Sample, expected: int, most: int, rng: np.random.Generator) -> Chosen:
    """As many clusters as expected, or fewer where these are clearer."""
    whole = _BUILT_IN.cluster(rows, expected, rng) if most >= expected else np.zeros(rows.n_rows, dtype=np.intp)
    if most >= expected and rows.n_rows > 2 * FEWER_ROWS:  # nearly always a look at a few rows is enough
        clarity = float(_silhouettes(rows, whole, rng, FEWER_ROWS).min())
        if clarity > CLEAR_ENOUGH:
            return Chosen(whole, clarity)
    clarity = float(_silhouettes(rows, whole, rng).min())
    if clarity > NO_STRUCTURE:
        return Chosen(whole, clarity)
    for k in range(min(most, expected - 1), 1, -1):
        labels = _BUILT_IN.cluster(rows, k, rng)
        if (of_fewer := float(_silhouettes(rows, labels, rng).min())) > CLEAR:
            return Chosen(labels, of_fewer)
    return Chosen(whole, clarity if most >= expected > 1 else None)


def _clearest(rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    """The labels of the number that :func:`clearest_number` takes, from 1 to ``most``."""
    numbers = range(2, most + 1)
    if not numbers:
        return Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    candidates = [_BUILT_IN.cluster(rows, k, rng).astype(np.int16) for k in numbers]  # so many, held at the same time
    sample = _sample(rows.n_rows, rng)
    distances = _distances(rows.values_of(sample), rows.observed[sample])
    sampled = [labels[sample].astype(np.intp) for labels in candidates]
    each = [_of_clusters(_of_rows(distances, labels), labels) for labels in sampled]
    references = np.zeros((REFERENCES, len(numbers)))
    for reference, cloud in zip(references, _clouds(rows, sample, rng), strict=False):
        apart = _distances(cloud.cells, cloud.observed)
        for k, n_clusters in enumerate(numbers):
            labels = _BUILT_IN.cluster(cloud, n_clusters, rng, REFERENCE_INIT)
            reference[k] = _of_rows(apart, labels).mean()
    mean = np.array([_of_rows(distances, labels).mean() for labels in sampled])
    number = clearest_number(mean, np.array([clusters.min() for clusters in each]), references)
    if number == 1:
        return Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    return Chosen(candidates[number - 2].astype(np.intp), float(each[number - 2].min()))


def _clouds(rows: Sample, sample: IntArray, rng: np.random.Generator) -> Iterator[Sample]:
    """Rows without clusters, with the missing values of those given, as many as are sampled. Endless.

    Measurements are of a single Gaussian with their covariance. Codes and categories are separated whether
    there are clusters or not: they are drawn from the column, each row on its own, so that they go with nothing else.
    """
    observed = rows.observed
    there = observed[sample]
    blocks = [group for group in rows.groups if len(group)]
    grouped = np.concatenate([np.zeros(0, dtype=np.intp), *blocks])
    single = np.setdiff1d(np.arange(observed.shape[1]), grouped)
    coded = [m for m in single if len(np.unique(rows.columns(m)[observed[:, m]])) <= CODES]
    blocks += [np.array([m]) for m in coded]
    measured = np.setdiff1d(single, coded)
    mean = _means(rows)
    if observed.all() and not blocks:
        # in the axes of the covariance, of which there are no more than rows: silhouettes do not see the difference
        deviations = np.linalg.svd(rows.values_of(sample) - mean, compute_uv=False) / np.sqrt(len(sample))
        axes, there = np.eye(len(deviations)), np.ones((len(sample), len(deviations)), dtype=np.bool_)
        measured = np.arange(len(deviations))
    else:
        shape = (rows.n_rows, len(measured))
        products = _products(shape, (np.where(observed[:, m], rows.columns(m) - mean[m], 0.0) for m in measured))
        pairs = _products(shape, (observed[:, m] for m in measured))
        variances, axes = np.linalg.eigh(products / np.maximum(pairs, 1.0))
        deviations = np.sqrt(np.maximum(variances, 0.0))
    while True:
        cloud = np.zeros(there.shape)
        cloud[:, measured] = (rng.normal(size=(len(there), len(measured))) * deviations) @ axes.T
        for block in blocks:
            known = np.flatnonzero(observed[:, block[0]])
            cloud[:, block] = rows.values_of(rng.choice(known, size=len(there)))[:, block]
        yield Sample(np.where(there, cloud, 0.0), there, rows.filled)


def _means(rows: Sample) -> FloatArray:
    """The mean of every feature's cells."""
    sums = np.empty(rows.cells.shape[1])
    for some in by_columns(*rows.cells.shape):
        sums[some] = np.where(rows.observed[:, some], rows.columns(some), 0.0).sum(axis=0)
    return np.asarray(sums / np.maximum(rows.observed.sum(axis=0), 1))


def _products(shape: tuple[int, int], columns: Iterable[npt.NDArray[Any]]) -> FloatArray:
    """XᵀX of a matrix X that is filled column by column."""
    matrix = np.empty(shape, order="F")
    for at, column in enumerate(columns):
        matrix[:, at] = column
    return np.asarray(matrix.T @ matrix)


def _sample(n: int, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> IntArray:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _distances(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Between all rows; over the features that both have, rescaled, where values are missing."""
    if observed.all():
        return np.asarray(euclidean_distances(rows))
    distances = nan_euclidean_distances(np.where(observed, rows, np.nan))
    comparable = ~np.isnan(distances)
    distances = np.where(comparable, distances, distances[comparable].mean() if comparable.any() else 0.0)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def _of_rows(distances: FloatArray, labels: IntArray) -> FloatArray:
    """The silhouette of each row, −1 where there are not at least two clusters and not all are single rows."""
    if not 2 <= len(np.unique(labels)) < len(labels):
        return np.full(len(labels), -1.0)
    return silhouettes_of_rows(distances, labels)


def _of_clusters(each: FloatArray, labels: IntArray) -> FloatArray:
    """The mean silhouette of each cluster, so that an outlier in a cluster of its own is not taken for structure."""
    return np.array([each[labels == name].mean() for name in np.unique(labels)])


def _silhouettes(rows: Sample, labels: IntArray, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> FloatArray:
    """The mean silhouette of each cluster; on a sample of the rows if there are many."""
    sample = _sample(rows.n_rows, rng, most)
    cells, observed, labels = rows.values_of(sample), rows.observed[sample], labels[sample]
    if not 2 <= len(np.unique(labels)) < len(labels):
        each = np.full(len(labels), -1.0)
    elif observed.all():
        each = silhouettes_of_complete_rows(cells, labels)
    else:
        each = silhouettes_of_rows(_distances(cells, observed), labels)
    return _of_clusters(each, labels)
