"""What rows show with 2, 3, … clusters: at one participant, pooled over all by their rows, and the number that follows.

Silhouettes are high for few clusters and in few dimensions, whether there is structure or not. They are therefore compared
with those of rows without structure (*references*). Sums of squares are compared in the same way (*compactness*): it grows
up to the number of compact clusters and falls from there on. A participant applies the rule to its own table, the
coordinator to the mean of all tables, weighted by rows: nobody decides alone, and many small participants see what none of
them sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray

_DEVIATIONS = 5.0  # standard deviations that a silhouette must be above its references to be more than chance
_NEARLY = 0.35  # share of the highest score: a number so close to the highest is as good
_AS_GOOD, _STABLE = 0.25, 0.6  # the same where nothing stands out, and the stability that a number needs there
_LEAST_CLEAR = 0.5  # share of the mean silhouette: a cluster less clear than this is a part of another
_HALF = 0.5  # share of the rows whose participants must find all clusters large enough
_UNCLEAR = 0.7  # factor of the score of a number for which nobody finds all clusters clear enough
_LARGE, _SHARE = 10, 0.3  # rows of a large cluster; fewer are enough if they are this share of the mean size
_FALL, _TAIL = 0.05, 3  # share by which compactness must fall from its peak to the mean of so many numbers at its end
_NO_LESS = 0.3  # share of the highest score, without what is usual, that the number at the peak needs
_ROWS_EACH = 20  # on average, that clusters need for compactness to count
_SMALLEST = 1e-6  # share of all squares: a smaller sum of squares counts as this one
MOST_COMPACT = 14.0  # above the logarithm of that
DIGITS = 3  # that leave a participant


class TriedNumbers(NamedTuple):
    """One entry for each of 2, 3, … clusters.

    ``silhouette`` is the mean over all rows, ``reference`` the same for rows without structure, and ``deviation`` its
    standard deviation. ``stability`` is the mean adjusted Rand index between clusters of all rows and of halves. ``large``
    and ``clear`` are shares of rows, 0 or 1 at one participant: of participants whose clusters are all large enough, and
    clear enough as well. ``compactness`` is the logarithm of the references' sum of squares within clusters over that of
    the rows (Tibshirani, Walther and Hastie 2001).
    """

    silhouette: FloatArray
    reference: FloatArray
    deviation: FloatArray
    stability: FloatArray
    large: FloatArray
    clear: FloatArray
    compactness: FloatArray

    @property
    def excess(self) -> FloatArray:
        """How far silhouettes are above those of rows without structure."""
        return self.silhouette - self.reference

    @property
    def noise(self) -> float:
        """The standard deviation of the references, over all numbers."""
        return float(np.sqrt(np.mean(np.square(self.deviation))))


def are_large(sizes: IntArray, fewest: int = 2) -> bool:
    """Whether clusters with these numbers of rows are all more than outliers.

    >>> are_large(np.array([40, 40, 3])), are_large(np.array([5, 4, 6])), are_large(np.array([900, 12]))
    (False, True, True)
    """
    return bool(sizes.min() >= max(fewest, min(_LARGE, _SHARE * sizes.mean())))


def compactness_of(squares: FloatArray, references: FloatArray, total: float, n_rows: int) -> FloatArray:
    """Return compactness from sums of squares within clusters: of the rows, of each reference, and around a single mean.

    It is chance where clusters have few rows: with fewer than 20 on average, compactness is that of the last number before.

    >>> compactness_of(np.array([50.0, 10.0, 9.0]), np.array([[60.0, 40.0, 20.0], [60.0, 40.0, 20.0]]), 100.0, 70).round(2)
    array([0.18, 1.39, 1.39])
    """
    smallest = _SMALLEST * total if total > 0 else 1.0
    expected, within = (np.log(np.maximum(each, smallest)) for each in (references, squares))
    compactness = np.clip(expected.mean(axis=0) - within, -MOST_COMPACT, MOST_COMPACT)
    return np.asarray(compactness[np.minimum(np.arange(len(compactness)), max(n_rows // _ROWS_EACH - 2, 0))])


def tried_numbers(
    mean: FloatArray,
    least: FloatArray,
    references: FloatArray,
    stability: FloatArray,
    large: BoolArray,
    compactness: FloatArray,
) -> TriedNumbers:
    """Return the table of one participant, from silhouettes of all rows, of the least clear cluster, and of references."""
    expected, deviation = references.mean(axis=0), references.std(axis=0, ddof=1)
    clear = large & (least >= expected) & (least >= _LEAST_CLEAR * mean)
    return TriedNumbers(
        mean, expected, deviation, stability, large.astype(np.float64), clear.astype(np.float64), compactness
    )


def pooled(tables: Sequence[TriedNumbers], rows: Sequence[float]) -> TriedNumbers:
    """Return the mean of all tables, weighted by rows; numbers that a participant did not try count for the others.

    Beyond the numbers that a participant tried, it counts with its last compactness: a mean over ever fewer participants
    would have false peaks.
    """
    longest = max(len(table.silhouette) for table in tables)
    stacked = np.full((len(tables), len(TriedNumbers._fields), longest), np.nan)
    for row, table in zip(stacked, tables, strict=True):
        row[:, : len(table.silhouette)] = table
    tried = ~np.isnan(stacked[:, 0])
    weights = np.where(tried, np.asarray(rows, dtype=np.float64)[:, None], 0.0)
    weights /= weights.sum(axis=0)
    filled = np.where(tried[:, None], stacked, 0.0)
    result = TriedNumbers(*np.einsum("pk,pfk->fk", weights, filled))
    compact = np.stack(
        [np.pad(table.compactness, (0, longest - len(table.compactness)), mode="edge") for table in tables]
    )
    return result._replace(
        deviation=np.sqrt((np.square(weights * filled[:, 2])).sum(axis=0)),
        compactness=np.average(compact, axis=0, weights=rows),
    )


def supported_numbers(numbers: TriedNumbers) -> list[int]:
    """Return the numbers of clusters that the rows support equally well, in order; [1] if they show no structure.

    There is structure where some number has an excess over the references that is more than chance. Numbers are considered
    if participants with half of the rows find all clusters large enough. Their score is the excess over what is usual (the
    lower quartile of all numbers), times stability, times the share of rows whose participants find all clusters large
    enough, times a factor from 0.7, where nobody finds all clusters clear enough, to 1, where everybody does. Numbers with
    nearly the highest score are as good. Where nothing stands out from the usual excess (rows that are no cloud, but of no
    clear clusters either), nothing is subtracted, and it is the smallest of them that is stable; 1 if none is.
    """
    excess, chance = numbers.excess, _DEVIATIONS * numbers.noise
    # references of a few rows scatter so much that not even perfect silhouettes, 1, would be far enough above them
    beyond = excess > np.minimum(chance, (1.0 - numbers.reference) / 2)
    large = numbers.large >= _HALF
    if not (beyond & large).any():
        return [1]
    usual = max(float(np.quantile(excess, 0.25)), 0.0)
    stands_out = excess[large].max() - usual > chance
    if not stands_out:
        usual, large = 0.0, large & (numbers.stability >= _STABLE)
    score = np.where(large, (excess - usual) * _factor(numbers), -1.0)
    if score.max() <= 0:
        return [1]
    nearly = [int(k) for k in 2 + np.flatnonzero(score >= (1.0 - (_NEARLY if stands_out else _AS_GOOD)) * score.max())]
    return nearly if stands_out else nearly[:1]


def _factor(numbers: TriedNumbers) -> FloatArray:
    """Return what an excess is multiplied by: stability, and the shares of rows with large, and clear, clusters."""
    return np.asarray(
        np.maximum(numbers.stability, 0.0) * numbers.large * (_UNCLEAR + (1.0 - _UNCLEAR) * numbers.clear)
    )


def peak_of_compactness(numbers: TriedNumbers) -> int | None:
    """Return the number of clusters with the highest compactness; None if compactness does not fall from there on.

    It falls where clusters are compact: more of them only cut clusters in parts, which lowers the sum of squares no more
    than in a reference. Where clusters are of other shapes, or values have long tails, it grows on and on, and says nothing.
    The number also needs large clusters, and a score not far below the highest.
    """
    compactness = numbers.compactness
    peak, end = int(compactness.argmax()), float(compactness[-_TAIL:].mean())
    if peak >= len(compactness) - _TAIL or end > (1.0 - _FALL) * compactness[peak] or compactness[peak] <= 0:
        return None
    score = np.where(numbers.large >= _HALF, numbers.excess * _factor(numbers), -1.0)
    return 2 + peak if score[peak] > 0 and score[peak] >= _NO_LESS * score.max() else None


def clearest_number(numbers: TriedNumbers) -> int:
    """Return how many clusters the rows have, 1 if silhouettes are no higher than those of a single cloud.

    It is the number at the peak of compactness, if there is one. Otherwise it is the largest supported number: finding too
    few is worse than finding too many, which the merge tree can repair.

    >>> flat, yes = np.full(3, 0.2), np.ones(3)
    >>> unclear = np.array([1.0, 1, 0])
    >>> clearest_number(TriedNumbers(np.array([0.4, 0.6, 0.5]), flat, np.full(3, 0.01), yes, yes, unclear, np.zeros(3)))
    3
    """
    supported = supported_numbers(numbers)
    return supported[-1] if supported == [1] else peak_of_compactness(numbers) or supported[-1]
