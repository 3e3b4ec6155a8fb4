r"""How far the rows of a cluster are from its centroid, as a small sketch: counts of rows beyond a few distances.

Distances are rescaled ones (eq:d), so that rows with different columns can be compared. A participant counts its rows beyond
*marks*: where the distances of a Gaussian with the told spread pass :data:`MARKS`. Marks depend on told sums only, and stand
at fixed edges, a ninth apart, so that no mark is the distance of a row and counts of several participants add up.

Between marks, and beyond the last one that has rows, the number of rows falls exponentially,

.. math:: \log S(d) \text{ linear in the distance } d,

which has a longer tail than a Gaussian, so that ordinary rows are seldom called outliers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import ndtri

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.types import BoolArray, FloatArray, IntArray

LEVELS = np.array([0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999])
MARKS = np.array([0.5, 0.8, 0.95, 0.99, 0.9999])
EDGES = 2.0 ** (np.arange(-80, 81) / 8)
N_BINS = len(EDGES) + 1  # the last one is open
FEWEST = 5  # rows that a count stands for, whatever the release rules allow
_STEP = 3  # edges from one mark to the next where the spread says nothing: in other metrics than the Euclidean
_FARTHER = 1.2  # times as far as those of Gaussians are quantiles that no rows were counted beyond, at most
_DEPENDENT = 0.25  # squared correlation of features that is assumed where no rows were counted


def bins_of(distances: FloatArray) -> IntArray:
    """Return the bin of each distance, the number of edges below it; −1 where it is not known."""
    return np.where(np.isnan(distances), -1, np.searchsorted(EDGES, distances, side="left")).astype(np.intp)


def gaussian_marks(centroids: MaskedCentroids, variances: FloatArray, extent: Extent) -> IntArray:
    """Return, for each cluster, the edges beyond which rows are counted, from near to far."""
    far = gaussian_quantiles(centroids, variances, extent, MARKS)
    return np.minimum(np.searchsorted(EDGES, far, side="left"), len(EDGES) - 1).astype(np.intp)


def fixed_marks(n_clusters: int) -> IntArray:
    """Return marks of :func:`gaussian_marks` where the spread of values says nothing about distances."""
    return np.tile(np.arange(0, len(EDGES), _STEP), (n_clusters, 1))


def bands_of(nearest: IntArray, bins: IntArray, marks: IntArray) -> IntArray:
    """Return the number of marks below each row's distance; −1 for a row without a cluster.

    >>> bands_of(np.array([0, 0, 1, -1]), np.array([3, 9, 9, 2]), np.array([[2, 5], [8, 9]])).tolist()
    [1, 2, 1, -1]
    """
    bands = np.where((nearest < 0) | (bins < 0), -1, 0)
    for at in marks.T:
        bands += (bands >= 0) & (bins > at[nearest])
    return bands


def counts_of(cells: IntArray, marks: IntArray) -> IntArray:
    """Return clusters × bins: the rows of each band in the bin behind its mark. ``cells`` are the told sizes of bands."""
    counts = np.zeros((len(cells), N_BINS), dtype=np.intp)
    counts[:, 0] = cells[:, 0]
    for band, at in enumerate(marks.T, start=1):
        counts[np.arange(len(cells)), at + 1] += cells[:, band]
    return counts


def without_few(cells: IntArray, fewest: int) -> IntArray:
    """Return sizes of bands where each of fewer than ``fewest`` rows is added to the next nearer, or else to the next.

    >>> without_few(np.array([[2, 9, 4, 3], [1, 0, 0, 1]]), 5).tolist()
    [[0, 11, 7, 0], [0, 0, 0, 0]]
    """
    cells = cells.copy()
    n_bands = cells.shape[1]
    for band in range(n_bands - 1, 0, -1):
        few = cells[:, band] < fewest
        cells[few, band - 1] += cells[few, band]
        cells[few, band] = 0
    for band in range(n_bands - 1):
        few = cells[:, band] < fewest
        cells[few, band + 1] += cells[few, band]
        cells[few, band] = 0
    return np.where(cells < fewest, 0, cells)


def quantiles_of(counts: Iterable[IntArray], otherwise: FloatArray) -> FloatArray:
    """Return clusters × LEVELS: distances beyond which at most that share of a cluster's rows is.

    ``counts`` are those of :func:`counts_of`, one of each participant. ``otherwise`` are quantiles of Gaussians, for a
    cluster whose rows were counted beyond no mark. Quantiles beyond the last mark are at most a little farther than they.
    """
    result, n_rows, beyond = otherwise.copy(), np.zeros(len(otherwise)), np.zeros((len(otherwise), len(EDGES)))
    last = np.zeros(len(otherwise))
    for of_participant in counts:
        for k, row in enumerate(of_participant):
            if row[1:].any():
                n_rows[k] += row.sum()
                beyond[k] += _beyond(row)
                last[k] = max(last[k], EDGES[np.flatnonzero(row[1:])[-1]])
    for k in np.flatnonzero(n_rows).tolist():
        few = np.maximum(beyond[k], FEWEST)
        surely = beyond[k] * (1.0 + 1.0 / np.sqrt(few))  # one standard error more rows
        rarity = np.log(n_rows[k]) - np.log(np.maximum(surely, np.finfo(float).tiny))
        far = np.interp(-np.log1p(-LEVELS), np.maximum.accumulate(rarity), EDGES)
        far = np.minimum(far, np.maximum(_FARTHER * otherwise[k], last[k]))
        # the centroid is the mean of these rows, so that they are a little nearer to it than new rows
        result[k] = far * (1.0 + 1.0 / n_rows[k])
    return result


def _beyond(row: IntArray) -> FloatArray:
    """Return how many rows of one participant and cluster are beyond each edge."""
    at = np.flatnonzero(row[1:])
    far, left = np.append(0.0, EDGES[at]), np.append(row.sum(), row[1:][::-1].cumsum()[::-1][at])
    slope = (np.log(left[-2]) - np.log(left[-1])) / (far[-1] - far[-2])
    falls = np.interp(EDGES, far, np.log(left)) - np.maximum(EDGES - far[-1], 0.0) * slope
    return np.asarray(np.exp(falls))


def gaussian_quantiles(
    centroids: MaskedCentroids, variances: FloatArray, extent: Extent, levels: FloatArray, dependent: float = 0.0
) -> FloatArray:
    """Return clusters × levels: quantiles of the distances of Gaussians (Wilson–Hilferty).

    ``dependent`` is the squared correlation of any two features. Infinite for a cluster without known features.
    """
    known = centroids.seen & extent.varies
    reach = np.where(known, np.square(extent.width), 0.0).sum(axis=1)
    share, largest = _shares(np.where(known, variances, 0.0))
    sums = share.sum(axis=1)[:, None], np.square(share).sum(axis=1)[:, None]
    squared = _squared_quantiles(*sums, levels, dependent) * (largest / np.where(reach > 0, reach, 1.0))[:, None]
    return np.where((reach > 0)[:, None], np.maximum(np.sqrt(squared), EDGES[0]), np.inf)


def _shares(variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return variances relative to the largest of each cluster, and these: their squares may be too large or too small."""
    largest = variances.max(axis=1, initial=0.0)
    return variances / np.where(largest > 0, largest, 1.0)[:, None], largest


def _squared_quantiles(mean: FloatArray, alone: FloatArray, levels: FloatArray | float, dependent: float) -> FloatArray:
    """Return quantiles of a sum of squares of Gaussians, from the sums of their variances and of the squares of these."""
    spread = 2.0 * ((1.0 - dependent) * alone + dependent * np.square(mean))
    relative = np.divide(spread, np.square(mean), out=np.zeros_like(mean), where=mean > 0) / 9.0
    return np.asarray(np.maximum(1.0 - relative + ndtri(levels) * np.sqrt(relative), 0.0) ** 3 * mean)


def limits_of_rows(
    observed: BoolArray, centroids: MaskedCentroids, variances: FloatArray, extent: Extent, share: float
) -> FloatArray:
    """Return rows × clusters: the distance that this share of a Gaussian's rows are within, over the values of each row.

    The mean square over m features varies by 2/m of itself, so that rows with few values are farther from their centroid,
    and so are rows with those columns whose spread is large beside the extent. 0 where nothing is known.
    """
    known, there = centroids.seen & extent.varies, observed.astype(np.float64)
    shares, largest = _shares(np.where(known, variances, 0.0))
    reach = there @ np.where(known, np.square(extent.width), 0.0).T
    squared = _squared_quantiles(there @ shares.T, there @ np.square(shares).T, share, 0.0)
    return np.asarray(np.sqrt(np.divide(squared * largest, reach, out=np.zeros_like(reach), where=reach > 0)))


def widened(limits: FloatArray, of_rows: FloatArray, of_whole_rows: FloatArray) -> FloatArray:
    """Return ``limits`` of clusters for rows that lack columns: as far as Gaussians reach, if that is farther.

    Where limits are nearer than Gaussians reach for rows with all columns (``of_whole_rows``), they are as much nearer for
    all rows. So the limits of rows with all columns stay.

    >>> widened(np.array([2.0, 2.0]), np.array([[3.0, 5.0]]), np.array([[1.0, 4.0]]))
    array([[3. , 2.5]])
    """
    nearer = np.divide(limits, of_whole_rows, out=np.ones_like(of_whole_rows), where=of_whole_rows > limits)
    return np.maximum(limits, nearer * of_rows)


def uncounted_quantiles(
    centroids: MaskedCentroids, variances: FloatArray, extent: Extent, masks: BoolArray
) -> FloatArray:
    """Return clusters × LEVELS where no rows were counted: of Gaussians whose features depend on each other somewhat.

    ``masks`` (participants × features) are the features that rows have; the farthest of all participants' is taken.
    """
    each = [
        gaussian_quantiles(
            MaskedCentroids.of(centroids.values, centroids.counts * mask), variances, extent, LEVELS, _DEPENDENT
        )
        for mask in np.unique(masks, axis=0)
    ]
    known = [np.where(np.isinf(far), 0.0, far) for far in each]
    return np.where(np.isinf(each).all(axis=0), np.inf, np.max(known, axis=0))


def thresholds(quantiles: FloatArray, share: float) -> FloatArray:
    """Return, for each cluster, the distance beyond which a row is unlike ``share`` of its rows.

    >>> thresholds(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]), 0.99)
    array([6.])
    """
    at = -np.log1p(-LEVELS)
    with np.errstate(invalid="ignore"):  # between two infinite distances
        found = np.array([np.interp(-np.log1p(-share), at, row) for row in quantiles])
    return np.where(np.isnan(found), np.inf, found)


def is_none(distances: FloatArray, limits: FloatArray) -> BoolArray:
    """Return which rows are farther from each centroid than its limit; ``distances`` are rows × clusters, NaN if unknown."""
    return np.asarray((np.isnan(distances) | (distances > limits)).all(axis=1))
