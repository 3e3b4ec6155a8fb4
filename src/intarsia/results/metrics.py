"""The quality of a clustering if the true classes are known: the paper's E1 to E5.

=====  ============================================================================
E1     :func:`aggregation_accuracy` of local centroids (Algorithm 1)
E2     :func:`clustering_accuracy` of rows (Algorithm 1)
E3     :func:`centroid_agreement`: cosine similarity and relative Euclidean distance
E4     :func:`aggregation_accuracy` of proxy clusters (Algorithm 2)
E5     :func:`clustering_accuracy` of rows (Algorithm 2)
=====  ============================================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import InputError


def clustering_accuracy(truth: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Share of rows in the right cluster under the best one-to-one matching of clusters to classes (E2, E5).

    A row labelled −1 counts as wrong.

    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    true, found = np.asarray(truth), np.asarray(labels)
    if true.shape != found.shape or true.ndim != 1 or not len(true):
        raise InputError(
            f"there are {true.size} true classes and {found.size} labels; both must be lists of one length > 0."
        )
    _, true_index = np.unique(true, return_inverse=True)
    names, found_index = np.unique(found, return_inverse=True)
    table = np.zeros((len(names), int(true_index.max()) + 1))
    np.add.at(table, (found_index, true_index), 1.0)
    if names.dtype.kind in "if":
        table[names == -1] = 0.0
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(true))


def aggregation_accuracy(classes: npt.ArrayLike, groups: npt.ArrayLike) -> float:
    """Share of local clusters that sit in the group of their class, under the best matching (E1, E4).

    ``classes`` is the majority class of each local cluster: :func:`majority_classes`.
    """
    return clustering_accuracy(classes, groups)


def majority_classes(truth: npt.ArrayLike, local_labels: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """The commonest true class in each local cluster 0, 1, …; noise (−1) is ignored.

    >>> majority_classes(["a", "a", "b", "b"], [0, 0, 0, 1])
    array(['a', 'b'], dtype='<U1')
    """
    true, local = np.asarray(truth), np.asarray(local_labels)
    names, index = np.unique(true, return_inverse=True)
    table = np.zeros((int(local.max(initial=-1)) + 1, len(names)))
    np.add.at(table, (local[local >= 0], index[local >= 0]), 1.0)
    return np.asarray(names[table.argmax(axis=1)])


class CentroidAgreement(NamedTuple):
    """Mean cosine similarity and mean relative Euclidean distance over matched pairs; which one matched which."""

    cosine_similarity: float
    relative_distance: float
    match: IntArray


def centroid_agreement(centroids: npt.ArrayLike, optimal: npt.ArrayLike) -> CentroidAgreement:
    """How close estimated centroids are to the true ones (E3), after matching them one to one.

    Both are K × features; NaN entries of either are left out of a pair's comparison. ``match[a]`` is the estimated
    centroid matched with true centroid a.
    """
    found, true = np.asarray(centroids, dtype=np.float64), np.asarray(optimal, dtype=np.float64)
    if found.shape != true.shape or found.ndim != 2:
        raise InputError(f"centroids are {found.shape} and {true.shape}; both must be K × features.")
    both = ~np.isnan(found)[None, :, :] & ~np.isnan(true)[:, None, :]
    f, t = np.where(both, found[None], 0.0), np.where(both, true[:, None], 0.0)
    gap, norm_f, norm_t = (np.linalg.norm(part, axis=2) for part in (f - t, f, t))
    # per shared feature, or a centroid that is mostly hidden would be close to all
    typical = gap / np.sqrt(np.maximum(both.sum(axis=2), 1))
    rows, columns = linear_sum_assignment(np.where(both.any(axis=2), typical, typical.max(initial=0.0) * 10 + 1.0))
    dots = (f * t).sum(axis=2)[rows, columns]
    norms = norm_f[rows, columns] * norm_t[rows, columns]
    cosine = np.divide(dots, norms, out=np.ones_like(dots), where=norms > 0)
    gaps, lengths = gap[rows, columns], norm_t[rows, columns]
    relative = np.divide(gaps, lengths, out=gaps.copy(), where=lengths > 0)
    return CentroidAgreement(float(cosine.mean()), float(relative.mean()), np.asarray(columns, dtype=np.intp))


def optimal_masked_centroids(
    X: npt.ArrayLike, labels: npt.ArrayLike, participants: npt.ArrayLike, masks: npt.ArrayLike
) -> FloatArray:
    """The true centroids, averaged feature by feature over those who see it (eq:optimal_masked_centroids).

    The best that can be attained: one row per class in sorted order, NaN where nobody in the class sees the feature.
    The paper divides by ``min(1, n)``; the mean it speaks of divides by n.
    """
    rows, seen = np.asarray(X, dtype=np.float64), np.asarray(masks, dtype=np.bool_)
    names, index = np.unique(np.asarray(labels), return_inverse=True)
    observed = seen[np.asarray(participants, dtype=np.intp)]
    true: MaskedCentroids = centroids_of_rows(rows, observed, np.asarray(index, dtype=np.intp), len(names))
    return true.with_nan()
