r"""How surely clusters come back when rows are resampled and moved a little (Jaccard similarity after Hennig, 2007).

For each resample, half the rows of every participant are drawn, each is moved by a part of the deviation that another row
has from the mean of its cluster, and the rows are clustered anew. For each cluster, the highest Jaccard similarity with a
new cluster is kept:

.. math:: J_k = \operatorname{mean}_b \max_l \frac{|C_k \cap D_l^b|}{|C_k \cup D_l^b|}

Parts of one cloud come back to a degree, too: always at the same quantiles if the cloud is long. So the same is done with
rows of one Gaussian that has the covariance of all rows, which gives :math:`J_0`, and a cluster's stability is

.. math:: S_k = \frac{J_k - J_0}{1 - J_0},

1 for a cluster that always comes back, 0 for one that comes back no better than parts of one cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from intarsia.core.randomness import draw_seed, stream
from intarsia.core.types import BoolArray, FloatArray, IntArray

N_RESAMPLES = 10
SHARE = 0.5  # of the rows that a resample draws
NOISE = 0.3  # of a deviation by which a row is moved
DISSOLVED = 0.5  # a cluster with a lower Jaccard similarity did not come back (Hennig)
_MANY_FEATURES, _MOST_ROWS = 500, 1000  # of more features, the covariance is that of so many rows
_CLOSE_TO_1 = 0.02  # 1 − J₀ is taken to be at least this


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one participant in common units: values, which are observed, their features, and the labels.

    ``features`` are positions among the features of all participants. A negative label belongs to no cluster.
    """

    values: FloatArray
    observed: BoolArray
    features: IntArray
    labels: IntArray

    def of_rows(self, rows: IntArray) -> Part:
        """Return a selection of the rows."""
        return replace(self, values=self.values[rows], observed=self.observed[rows], labels=self.labels[rows])


Recluster = Callable[[Sequence[Part], int], Sequence[IntArray]]
"""Returns the labels of a new clustering of all parts with a seed."""


class Figures(NamedTuple):
    """By cluster: S, J and the share of resamples in which it dissolved (NaN: it has no rows); and J₀."""

    scores: FloatArray
    jaccard: FloatArray
    dissolved: FloatArray
    reference: float


class Task(NamedTuple):
    """One resample of the rows, or (``is_reference``) one of a single Gaussian."""

    number: int
    is_reference: bool


def tasks(n_resamples: int) -> list[Task]:
    """Return what must be computed: so many resamples, and half as many references, which cost two clusterings each."""
    references = [Task(b, is_reference=True) for b in range((n_resamples + 1) // 2)]
    return [*(Task(b, is_reference=False) for b in range(n_resamples)), *references]


def similarities(parts: Sequence[Part], n_clusters: int, recluster: Recluster, seed: int, task: Task) -> FloatArray:
    """Return the Jaccard similarity of each cluster in one resample; of a reference, the mean over its rows."""
    rng = stream(seed, "stability", "reference" if task.is_reference else "resample", task.number)
    if task.is_reference:
        drawn = gaussian_like(parts, rng)
        labels = recluster(drawn, draw_seed(rng))
        parts = [replace(part, labels=own) for part, own in zip(drawn, labels, strict=True)]
    resampled = [resample(part, rng) for part in parts]
    labels = recluster(resampled, draw_seed(rng))
    before = np.concatenate([part.labels for part in resampled])
    result = jaccard(before, np.concatenate(list(labels)), n_clusters)
    if not task.is_reference:
        return result
    sizes, known = np.bincount(before[before >= 0], minlength=n_clusters), ~np.isnan(result)
    return np.array([float((result[known] * sizes[known]).sum() / max(sizes[known].sum(), 1))])


def figures(results: Iterable[FloatArray], n_resamples: int) -> Figures:
    """Return the figures from the results of all :func:`tasks`, in their order."""
    every = list(results)
    resampled, reference = np.array(every[:n_resamples]), float(np.mean(every[n_resamples:]))
    known = ~np.isnan(resampled)
    n = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    mean = np.where(known, resampled, 0.0).sum(axis=0) / n
    scores = np.clip((mean - reference) / max(1.0 - reference, _CLOSE_TO_1), 0.0, 1.0)
    return Figures(scores, mean, (known & (resampled < DISSOLVED)).sum(axis=0) / n, reference)


def stability(
    parts: Sequence[Part], n_clusters: int, recluster: Recluster, seed: int, n_resamples: int = N_RESAMPLES
) -> Figures:
    """Return how surely each cluster of the labels comes back."""
    results = (similarities(parts, n_clusters, recluster, seed, task) for task in tasks(n_resamples))
    return figures(results, n_resamples)


def resample(part: Part, rng: np.random.Generator, share: float = SHARE, noise: float = NOISE) -> Part:
    """Draw a share of the rows, and move each by a part of another row's deviation from the mean of the same cluster."""
    n = len(part.labels)
    drawn = np.sort(rng.choice(n, max(int(np.ceil(share * n)), 1), replace=False))
    donors = rng.permutation(n)
    by_label = np.argsort(part.labels[donors], kind="stable")
    donors = donors[by_label]  # of one label side by side
    first = np.searchsorted(part.labels[donors], part.labels[drawn], side="left")
    last = np.searchsorted(part.labels[donors], part.labels[drawn], side="right")
    donor = donors[rng.integers(first, last)]
    deviations = _deviations(part)
    result = part.of_rows(drawn)
    moved = result.values + np.where(result.observed & part.observed[donor], noise * deviations[donor], 0.0)
    return replace(result, values=moved)


def _deviations(part: Part) -> FloatArray:
    """Return the deviation of every value from the mean of its cluster among these rows; 0 where it is missing."""
    result = np.zeros(part.values.shape)
    for label in np.unique(part.labels):
        at = part.labels == label
        observed = part.observed[at]
        values = np.where(observed, part.values[at], 0.0)
        mean = values.sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
        result[at] = np.where(observed, values - mean, 0.0)
    return result


def gaussian_like(parts: Sequence[Part], rng: np.random.Generator) -> list[Part]:
    """Return rows of one Gaussian with the mean and the covariance of all rows; what is missing stays missing.

    A covariance is that of the rows that have both features, 0 if none has; the nearest matrix that is a covariance is used.
    """
    n_features = 1 + max(int(part.features.max(initial=0)) for part in parts)
    count, total = np.zeros(n_features), np.zeros(n_features)
    for part in parts:
        count[part.features] += part.observed.sum(axis=0)
        total[part.features] += np.where(part.observed, part.values, 0.0).sum(axis=0)
    mean = total / np.maximum(count, 1)
    root = _few_rows(parts, mean) if n_features > _MANY_FEATURES else _root(parts, mean)
    rows = (mean + rng.normal(size=(len(part.labels), root.shape[1])) @ root.T for part in parts)
    return [replace(part, values=drawn[:, part.features]) for part, drawn in zip(parts, rows, strict=True)]


def _root(parts: Sequence[Part], mean: FloatArray) -> FloatArray:
    """Return R with R Rᵀ the covariance of the features, negative eigenvalues set to 0."""
    both, products = np.zeros((len(mean), len(mean))), np.zeros((len(mean), len(mean)))
    for part in parts:
        centred = np.where(part.observed, part.values - mean[part.features], 0.0)
        seen = part.observed.astype(np.float64)
        at = np.ix_(part.features, part.features)
        both[at] += seen.T @ seen
        products[at] += centred.T @ centred
    values, vectors = np.linalg.eigh(products / np.maximum(both, 1))
    result: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return result


def _few_rows(parts: Sequence[Part], mean: FloatArray) -> FloatArray:
    """Return R with R Rᵀ about the covariance of many features: deviations of some rows, each feature in its own spread."""
    share = min(1.0, _MOST_ROWS / sum(len(part.labels) for part in parts))
    pieces = []
    for part in parts:
        some = part.of_rows(np.arange(0, len(part.labels), max(int(1 / share), 1)))
        piece = np.zeros((len(some.labels), len(mean)))
        piece[:, part.features] = np.where(some.observed, some.values - mean[part.features], 0.0)
        pieces.append(piece)
    rows = np.concatenate(pieces)
    result: FloatArray = rows.T / np.sqrt(np.maximum((rows != 0).sum(axis=0), 1))[:, None]
    return result


def jaccard(before: IntArray, after: IntArray, n_clusters: int) -> FloatArray:
    """Return the highest Jaccard similarity of each cluster with a new one; NaN for a cluster without rows.

    >>> jaccard(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), 3)
    array([0.66666667, 0.5       ,        nan])
    """
    after = np.where(after >= 0, after, after.max(initial=-1) + 1)  # rows in no new cluster are together
    common = np.zeros((n_clusters, int(after.max(initial=0)) + 1))
    at = before >= 0
    np.add.at(common, (before[at], after[at]), 1.0)
    sizes, sizes_after = common.sum(axis=1), np.bincount(after, minlength=common.shape[1])
    union = sizes[:, None] + sizes_after - common
    best = (common / np.maximum(union, 1.0)).max(axis=1)
    return np.where(sizes > 0, best, np.nan)
