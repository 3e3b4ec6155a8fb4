"""How many clusters a participant's rows have, where nobody knows K: silhouettes, tables without structure, stability.

All of it is computed on a sample of fixed size, by k-means along a path of 1, 2, … clusters that needs no random numbers.
The sample and the tables without structure are drawn with a fixed seed, so that the number depends on the rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.blocks import by_columns
from intarsia.core.grouping.tried_numbers import TriedNumbers, are_large, compactness_of, tried_numbers
from intarsia.core.kmeans_path import FewRows, Step, agreement, back, path
from intarsia.core.randomness import stream
from intarsia.core.types import FloatArray, IntArray
from intarsia.participant.samples import Sample
from intarsia.participant.silhouettes import distances_between, drawn, of_clusters, of_rows

FEWEST_ROWS, MOST_ROWS, MOST_VALUES = 400, 800, 1 << 14  # of the sample: more rows where there are few features
CODES = 10  # a column with no more different values holds codes
REFERENCES = 3  # tables without structure that silhouettes are compared with
HALVES = 2  # random halves of the sample that are clustered again
ENOUGH, FAR_BELOW, SHARE = (
    9,
    3,
    0.4,
)  # numbers are tried until, after so many, so many means are below this share of the best
CANDIDATES = 128  # rows of the sample that can become the next centre


class Tried(NamedTuple):
    """What the rows show with 2, 3, … clusters, silhouettes of the least clear, the rows tried on, and their clusters."""

    numbers: TriedNumbers
    least: FloatArray
    sample: IntArray
    steps: tuple[Step, ...]


def size_of_sample(n_features: int) -> int:
    """Return how many rows numbers of clusters are tried on.

    >>> size_of_sample(10), size_of_sample(40), size_of_sample(700)
    (800, 409, 400)
    """
    return max(FEWEST_ROWS, min(MOST_ROWS, MOST_VALUES // n_features))


def try_numbers(rows: Sample, most: int, fewest: int = 1) -> Tried:
    """Cluster a sample of the rows into 2 to ``most`` clusters, and compare with tables without structure and halves.

    A cluster of fewer than ``fewest`` rows is too small.
    """
    rng = stream(0, "number of clusters")
    sample = drawn(rows.n_rows, rng, size_of_sample(rows.cells.shape[1]))
    few = rows._replace(cells=rows.values_of(sample), observed=rows.observed[sample], units=None)
    of_all, distances = FewRows(few.cells, few.observed), distances_between(few.cells, few.observed)
    steps: list[Step] = []
    means: list[float] = []
    for step in path(of_all, most, _candidates(of_all)):
        if len(step.centres) > 1:
            steps.append(step)
            means.append(float(of_rows(distances, step.labels).mean()))
            if _is_over(means):
                break
    steps, most = back(of_all, steps), len(steps) + 1
    silhouettes = [of_rows(distances, step.labels) for step in steps]
    least = [of_clusters(*pair).min() for pair in zip(silhouettes, (step.labels for step in steps), strict=True)]
    references, squares = np.zeros((2, REFERENCES, len(steps)))
    for reference, within, cloud in zip(references, squares, clouds(few, rng), strict=False):
        apart = distances_between(cloud.cells, cloud.observed)
        of_cloud = _steps(FewRows(cloud.cells, cloud.observed), most)
        reference[:] = [of_rows(apart, step.labels).mean() for step in of_cloud]
        within[:] = [step.squares for step in of_cloud]
    stability = np.zeros((HALVES, len(steps)))
    for stable in stability:
        half = np.sort(rng.permutation(len(sample))[: max(most, len(sample) // 2)])
        of_half = FewRows(few.cells[half], few.observed[half])
        centres = (step.centres + (of_half.mean - of_all.mean) for step in _steps(of_half, most))
        labels = (of_all.squares_to(each).argmin(axis=1) for each in centres)
        stable[:] = [agreement(step.labels, again) for step, again in zip(steps, labels, strict=True)]
    large = np.array([are_large(np.bincount(step.labels, minlength=len(step.centres)), fewest) for step in steps])
    mean = np.array([each.mean() for each in silhouettes])
    compactness = compactness_of(
        np.array([step.squares for step in steps]), squares, float(of_all.total.sum()), len(sample)
    )
    numbers = tried_numbers(mean, np.array(least), references, stability.mean(axis=0), large, compactness)
    found = tuple(step._replace(centres=step.centres + of_all.mean) for step in steps)
    return Tried(numbers, np.array(least), sample, found)


def _candidates(rows: FewRows) -> IntArray:
    return np.unique(np.linspace(0, len(rows) - 1, CANDIDATES).astype(np.intp))


def _steps(rows: FewRows, most: int) -> list[Step]:
    """Return k-means with 2, 3, …, ``most`` clusters."""
    return list(path(rows, most, _candidates(rows)))[1:]


def _is_over(means: list[float]) -> bool:
    """Whether more clusters need not be tried: the last silhouettes are far below the highest."""
    return len(means) >= ENOUGH and max(means[-FAR_BELOW:]) < SHARE * max(means)


def clouds(rows: Sample, rng: np.random.Generator) -> Iterator[Sample]:
    """Yield tables without clusters, with the missing values of the rows and as many rows, without end.

    Measurements are drawn from a single Gaussian with their covariance. Codes and categories have few values whether there
    are clusters or not: each is drawn from its column, independently of all others.
    """
    observed = mask = rows.observed
    blocks = [group for group in rows.groups if len(group)]
    single = np.setdiff1d(np.arange(observed.shape[1]), np.concatenate([np.zeros(0, dtype=np.intp), *blocks]))
    coded = [m for m in single if len(np.unique(rows.columns(m)[observed[:, m]])) <= CODES]
    blocks += [np.array([m]) for m in coded]
    measured = np.setdiff1d(single, coded)
    mean = _means(rows)
    if rows.complete and not blocks:
        # in the axes of the covariance, no more of them than rows: silhouettes are the same
        deviations = np.linalg.svd(rows.values - mean, compute_uv=False) / np.sqrt(rows.n_rows)
        axes, mask = np.eye(len(deviations)), np.ones((rows.n_rows, len(deviations)), dtype=np.bool_)
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
