"""The number of local clusters, where neither the request nor the clusterer sets it: the one with the best silhouettes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
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
from intarsia.participant.clusterers import N_INIT, Clusterer
from intarsia.participant.samples import Sample, for_all_rows

SILHOUETTE_ROWS = 1000  # a silhouette costs the square of the rows; a sample of this size is close enough to choose K
FEWER_ROWS, CLEAR_ENOUGH = 400, 0.3  # a smaller sample, and the silhouette in it that makes a larger one unnecessary
LARGE = 1_000_000  # values, from which on threads help
PART_ROWS = 1 << 14  # rows that numbers of clusters are tried on, where there are more than twice as many
MOST_STEPS = 150_000_000  # clusters × values over all numbers of clusters that are tried below the expected one
CODES = 10  # a column with no more different values holds codes
REFERENCES, REFERENCE_INIT = 5, 3  # tables without structure that silhouettes are compared with, and starts for each


class Chosen(NamedTuple):
    """Labels, and the mean silhouette of the least clear cluster if it was computed."""

    labels: IntArray
    clarity: float | None


def choose_labels(
    clusterer: Clusterer, rows: Sample, expected: int | None, most: int, rng: np.random.Generator
) -> Chosen:
    """Cluster with the number of clusters, at most ``most``, that the silhouettes suggest.

    If the number of global clusters is unknown, silhouettes are compared with those of tables without structure
    (:func:`clearest_number`). If it is known (``expected``), a participant need not have rows of all global clusters, but
    too few local clusters are worse than too many: it uses ``expected`` unless one of these clusters has no structure of its
    own and fewer clusters are all clear. Rows without any structure form ``expected`` clusters if there are at least two
    rows for each, and a single cluster otherwise.
    """
    prepared, used = clusterer.missing.prepared(rows)
    most = min(most, len(used) // 2)  # a cluster has at least two rows
    with _few_threads(prepared):
        if expected is None:
            chosen = _clearest(clusterer, prepared, most, rng)
        else:
            chosen = _up_to(clusterer, prepared, expected, most, rng)
    return Chosen(for_all_rows(chosen.labels, used, rows.n_rows), chosen.clarity)


def highest_silhouette(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    """Cluster with the number, from 2 to ``most``, that has the highest mean silhouette: what the paper proposes.

    Of equal numbers the smallest is taken. There is one cluster if ``most`` is 1, or fewer than three rows. With many rows,
    silhouettes are those of a sample, and numbers that would take too many steps are not tried.
    """
    prepared, used = clusterer.missing.prepared(rows)
    with _few_threads(prepared):
        chosen = _highest(clusterer, prepared, min(most, len(used) - 1), rng)
    return Chosen(for_all_rows(chosen.labels, used, rows.n_rows), chosen.clarity)


def _highest(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    part, best = _part(rows, rng), Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    sample, n_init = _sample(part.n_rows, rng), N_INIT if part is rows else REFERENCE_INIT
    distances = _distances(part.values_of(sample), part.observed[sample])
    highest, number, steps = -1.0, 1, 0
    for k in range(2, most + 1):
        if (steps := steps + k * part.cells.size) > MOST_STEPS and k > 2:
            break
        labels = clusterer.cluster(part, k, rng, n_init)
        silhouettes = _of_rows(distances, labels[sample])
        if (mean := float(silhouettes.mean())) > highest:
            highest, number = mean, k
            best = Chosen(labels, float(_of_clusters(silhouettes, labels[sample]).min()))
    return best if part is rows or number == 1 else best._replace(labels=clusterer.cluster(rows, number, rng))


def _few_threads(rows: Sample) -> AbstractContextManager[Any]:
    """One thread for hundreds of small k-means: several would wait for each other longer than they work."""
    return _threads().limit(limits=1) if rows.cells.size < LARGE else nullcontext()


@cache
def _threads() -> Any:
    """Return the controller of threads; to create it takes as long as a small k-means."""
    return ThreadpoolController()


def _up_to(clusterer: Clusterer, rows: Sample, expected: int, most: int, rng: np.random.Generator) -> Chosen:
    """Return the expected number of clusters, or fewer if these are clearer."""
    if most < expected:
        labels = np.zeros(rows.n_rows, dtype=np.intp)
    else:
        labels = clusterer.cluster(rows, expected, rng)
        if rows.n_rows > 2 * FEWER_ROWS:  # nearly always a small sample is enough
            clarity = float(_silhouettes(rows, labels, rng, FEWER_ROWS).min())
            if clarity > CLEAR_ENOUGH:
                return Chosen(labels, clarity)
    clarity = float(_silhouettes(rows, labels, rng).min())
    if clarity > NO_STRUCTURE:
        return Chosen(labels, clarity)
    part, steps = _part(rows, rng), 0
    for k in range(min(most, expected - 1), 1, -1):
        if (steps := steps + k * part.cells.size) > MOST_STEPS:
            break
        fewer = clusterer.cluster(part, k, rng, N_INIT if part is rows else REFERENCE_INIT)
        if (clarity_of_fewer := float(_silhouettes(part, fewer, rng).min())) > CLEAR:
            return Chosen(fewer if part is rows else clusterer.cluster(rows, k, rng), clarity_of_fewer)
    return Chosen(labels, clarity if most >= expected > 1 else None)


def _part(rows: Sample, rng: np.random.Generator) -> Sample:
    """Return the rows that several numbers of clusters are tried on: all, unless that takes long."""
    if rows.n_rows <= 2 * PART_ROWS:
        return rows
    drawn = _sample(rows.n_rows, rng, PART_ROWS)
    return rows._replace(cells=rows.values_of(drawn), observed=rows.observed[drawn], units=None)


def _clearest(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    """Return the labels with the number of clusters that :func:`clearest_number` chooses, from 1 to ``most``."""
    part = _part(rows, rng)
    chosen = _clearest_of(clusterer, part, most, rng)
    if part is rows:
        return chosen
    number = int(chosen.labels.max(initial=0)) + 1
    single = np.zeros(rows.n_rows, dtype=np.intp)
    return chosen._replace(labels=single if number == 1 else clusterer.cluster(rows, number, rng))


def _clearest_of(clusterer: Clusterer, rows: Sample, most: int, rng: np.random.Generator) -> Chosen:
    """Return the labels of rows that are few enough to be clustered many times."""
    numbers = range(2, most + 1)
    single = Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    if not numbers:
        return single
    candidates = [clusterer.cluster(rows, k, rng).astype(np.int16) for k in numbers]  # all are in memory at once
    sample = _sample(rows.n_rows, rng)
    distances = _distances(rows.values_of(sample), rows.observed[sample])
    sampled = [labels[sample].astype(np.intp) for labels in candidates]
    silhouettes = [_of_rows(distances, labels) for labels in sampled]
    clarity = np.array([_of_clusters(*pair).min() for pair in zip(silhouettes, sampled, strict=True)])
    references = np.zeros((REFERENCES, len(numbers)))
    for reference, cloud in zip(references, _clouds(rows, sample, rng), strict=False):
        cloud_distances = _distances(cloud.cells, cloud.observed)
        for k, n_clusters in enumerate(numbers):
            labels = clusterer.cluster(cloud, n_clusters, rng, REFERENCE_INIT)
            reference[k] = _of_rows(cloud_distances, labels).mean()
    number = clearest_number(np.array([each.mean() for each in silhouettes]), clarity, references)
    return single if number == 1 else Chosen(candidates[number - 2].astype(np.intp), float(clarity[number - 2]))


def _clouds(rows: Sample, sample: IntArray, rng: np.random.Generator) -> Iterator[Sample]:
    """Yield tables without clusters, with the missing values of the sampled rows and as many rows, without end.

    Measurements are drawn from a single Gaussian with their covariance. Codes and categories have few values whether there
    are clusters or not: each is drawn from its column, independently of all others.
    """
    observed, mask = rows.observed, rows.observed[sample]
    blocks = [group for group in rows.groups if len(group)]
    single = np.setdiff1d(np.arange(observed.shape[1]), np.concatenate([np.zeros(0, dtype=np.intp), *blocks]))
    coded = [m for m in single if len(np.unique(rows.columns(m)[observed[:, m]])) <= CODES]
    blocks += [np.array([m]) for m in coded]
    measured = np.setdiff1d(single, coded)
    mean = _means(rows)
    if rows.complete and not blocks:
        # in the axes of the covariance, no more of them than rows: silhouettes are the same
        deviations = np.linalg.svd(rows.values_of(sample) - mean, compute_uv=False) / np.sqrt(len(sample))
        axes, mask = np.eye(len(deviations)), np.ones((len(sample), len(deviations)), dtype=np.bool_)
        measured = np.arange(len(deviations))
    else:
        shape = (rows.n_rows, len(measured))
        products = _products(shape, (np.where(observed[:, m], rows.columns(m) - mean[m], 0.0) for m in measured))
        pairs = _products(shape, (observed[:, m] for m in measured))
        variances, axes = np.linalg.eigh(products / np.maximum(pairs, 1.0))
        deviations = np.sqrt(np.maximum(variances, 0.0))
    while True:
        cloud = np.zeros(mask.shape)
        cloud[:, measured] = (rng.normal(size=(len(mask), len(measured))) * deviations) @ axes.T
        for block in blocks:
            known = np.flatnonzero(observed[:, block[0]])
            cloud[:, block] = rows.values_of(rng.choice(known, size=len(mask)))[:, block]
        yield Sample(np.where(mask, cloud, 0.0), mask, rows.filled)


def _means(rows: Sample) -> FloatArray:
    """Return the mean of the observed values of each feature."""
    sums = np.empty(rows.cells.shape[1])
    for at in by_columns(*rows.cells.shape):
        sums[at] = np.where(rows.observed[:, at], rows.columns(at), 0.0).sum(axis=0)
    return np.asarray(sums / np.maximum(rows.observed.sum(axis=0), 1))


def _products(shape: tuple[int, int], columns: Iterable[npt.NDArray[Any]]) -> FloatArray:
    """Return XᵀX of a matrix X that is given column by column."""
    matrix = np.empty(shape, order="F")
    for at, column in enumerate(columns):
        matrix[:, at] = column
    return np.asarray(matrix.T @ matrix)


def _sample(n: int, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> IntArray:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _distances(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Return all distances between rows; with missing values over the features that both have, rescaled."""
    if observed.all():
        return np.asarray(euclidean_distances(rows))
    distances = nan_euclidean_distances(np.where(observed, rows, np.nan))
    comparable = ~np.isnan(distances)
    distances = np.where(comparable, distances, distances[comparable].mean() if comparable.any() else 0.0)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def _have_silhouettes(labels: IntArray) -> bool:
    """Whether there are at least two clusters, and not all of single rows."""
    return 2 <= len(np.unique(labels)) < len(labels)


def _of_rows(distances: FloatArray, labels: IntArray) -> FloatArray:
    """Return the silhouette of each row; −1 without at least two clusters."""
    return silhouettes_of_rows(distances, labels) if _have_silhouettes(labels) else np.full(len(labels), -1.0)


def _of_clusters(silhouettes: FloatArray, labels: IntArray) -> FloatArray:
    """Return the mean silhouette of each cluster, so that a cluster of one outlier is not taken for structure."""
    return np.array([silhouettes[labels == name].mean() for name in np.unique(labels)])


def _silhouettes(rows: Sample, labels: IntArray, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> FloatArray:
    """Return the mean silhouette of each cluster; of a sample if there are many rows."""
    sample = _sample(rows.n_rows, rng, most)
    values, observed, labels = rows.values_of(sample), rows.observed[sample], labels[sample]
    if observed.all() and _have_silhouettes(labels):
        return _of_clusters(silhouettes_of_complete_rows(values, labels), labels)
    return _of_clusters(_of_rows(_distances(values, observed), labels), labels)
