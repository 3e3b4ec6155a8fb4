r"""Rescaled distances between points that see different features (eq:d, eq:d_max).

.. math:: d_{ij}^S(x, x') = \phi(Mx, Mx') \,/\, \phi(M \max S, M \min S), \quad M = \Omega_i \wedge \Omega_j

A feature that is constant over S adds nothing to either side. Where no shared feature varies, or none is shared, the
pair is *incomparable*: its distance is NaN, and the caller decides how to ignore it.

φ is Euclidean by default. ``"manhattan"`` and ``"cosine"`` are built in, and any callable ``phi(u, v) -> float`` of two
1-d arrays (the shared, varying features of both points) is accepted. Only distances go through φ: a group's centre is the
mean (the minimiser of squared *Euclidean* distances) whatever φ is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from intarsia.core.blocks import by_rows, cleared
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError

Metric = str | Callable[[FloatArray, FloatArray], float]
METRICS = ("euclidean", "manhattan", "cosine")

LARGEST = 1e100  # values beyond it, or widths below its inverse, cannot be squared and summed safely
_COSINE_NOISE = 1e-12  # rounding errors of the distance between parallel vectors, by which nothing may be divided
ROUNDING = 1e-13  # relative difference of sums of the same numbers in another order
_FARTHEST = 1e300
_BLOCK = 1 << 17  # numbers in one temporary array: 1 MiB, which stays in the cache of a processor


class Extent(NamedTuple):
    """Entry-wise minimum and maximum over a set of points S (eq:d_max); NaN for a feature that no point in S has."""

    low: FloatArray
    high: FloatArray

    @property
    def width(self) -> FloatArray:
        """The difference of maximum and minimum of each feature; 0 if it is constant or unseen."""
        width = self.high - self.low
        return np.where(np.isnan(width), 0.0, width)

    @property
    def varies(self) -> BoolArray:
        """Which features vary by more than rounding."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.asarray(self.high - self.low > np.maximum(ROUNDING * size, 1 / LARGEST))  # False for NaN


def extent_of(values: FloatArray, seen: BoolArray) -> Extent:
    """Return the entry-wise minimum and maximum of the seen entries.

    >>> extent_of(np.array([[1.0, 5.0], [3.0, 7.0]]), np.array([[True, False], [True, False]])).width
    array([2., 0.])
    """
    low, high = np.full(values.shape[1], np.inf), np.full(values.shape[1], -np.inf)
    for some in by_rows(*values.shape):
        piece, there = values[some], seen[some]
        complete = there.all()
        low = np.minimum(low, (piece if complete else np.where(there, piece, np.inf)).min(axis=0))
        high = np.maximum(high, (piece if complete else np.where(there, piece, -np.inf)).max(axis=0))
    nobody = ~np.isfinite(low)
    return Extent(np.where(nobody, np.nan, low), np.where(nobody, np.nan, high))


def check_metric(metric: Metric) -> Metric:
    """Return the metric if it is known; raise an error otherwise."""
    if callable(metric) or (isinstance(metric, str) and metric in METRICS):
        return metric
    raise SettingError(f"metric must be one of {METRICS} or a callable phi(u, v) -> float. Got {metric!r} instead.")


def phi_of_pairs(x: FloatArray, y: FloatArray, shared: BoolArray, metric: Metric) -> FloatArray:
    """Return φ(Mx, My) for arrays that broadcast against each other along all but the last axis, M given by ``shared``."""
    if metric == "euclidean":
        return np.asarray(np.sqrt(np.square(np.where(shared, x - y, 0.0)).sum(axis=-1)))
    if metric == "manhattan":
        return np.asarray(np.abs(np.where(shared, x - y, 0.0)).sum(axis=-1))
    if metric == "cosine":
        u, v = np.where(shared, x, 0.0), np.where(shared, y, 0.0)
        norms = np.sqrt(np.square(u).sum(axis=-1)) * np.sqrt(np.square(v).sum(axis=-1))
        cosine = np.divide((u * v).sum(axis=-1), norms, out=np.ones_like(norms), where=norms > 0)
        distance = 1.0 - np.clip(cosine, -1.0, 1.0)
        return np.where(distance < _COSINE_NOISE, 0.0, distance)
    return _phi_by_callable(x, y, shared, metric)


def _phi_by_callable(x: FloatArray, y: FloatArray, shared: BoolArray, metric: Metric) -> FloatArray:
    assert callable(metric)
    x, y, shared = np.broadcast_arrays(x, y, shared)
    result = np.zeros(shared.shape[:-1])
    for at in np.ndindex(*result.shape):
        if shared[at].any():
            result[at] = _call(metric, x[at][shared[at]], y[at][shared[at]])
    return result


def _call(metric: Callable[[FloatArray, FloatArray], float], u: FloatArray, v: FloatArray) -> float:
    try:
        distance = float(metric(u, v))
    except Exception as error:
        raise SettingError(f"the callable metric failed with a {type(error).__name__} on {len(u)} features.") from error
    if not 0 <= distance < np.inf:
        raise SettingError("the callable metric must return a finite number of at least 0 for any two points.")
    return distance


def rescaled_distances(
    x: FloatArray,
    seen_x: BoolArray,
    y: FloatArray,
    seen_y: BoolArray,
    extent: Extent,
    metric: Metric = "euclidean",
    block_values: int = _BLOCK,
) -> FloatArray:
    """Return all d(x, y), rows of x by rows of y, rescaled by the width of S over the features that both have (eq:d).

    Computed from differences, not from expanded squares, so that two equal points are at distance zero exactly.

    >>> S = Extent(np.zeros(3), np.array([3.0, 4.0, 9.0]))
    >>> x, y = np.array([[0.0, 0.0, 0.0]]), np.array([[3.0, 4.0, 5.0]])
    >>> rescaled_distances(x, np.array([[True, True, False]]), y, np.array([[True, True, True]]), S)
    array([[1.]])
    """
    seen_x, seen_y = seen_x & extent.varies, seen_y & extent.varies
    result = np.full((len(x), len(y)), np.nan)
    for rows, columns in _blocks(len(x), len(y), x.shape[1], block_values):
        shared = seen_x[rows, None, :] & seen_y[None, columns, :]
        distance = phi_of_pairs(x[rows, None, :], y[None, columns, :], shared, metric)
        largest = phi_of_pairs(extent.high, extent.low, shared, metric)
        np.divide(distance, largest, out=result[rows, columns], where=shared.any(axis=-1) & (largest > 0))
    return result


def _blocks(n: int, m: int, d: int, block_values: int) -> Iterator[tuple[slice, slice]]:
    width = max(1, min(m, block_values // max(d, 1)))
    height = max(1, block_values // max(width * d, 1))
    for top in range(0, n, height):
        for left in range(0, m, width):
            yield slice(top, top + height), slice(left, left + width)


def distances_to_centres(
    rows: FloatArray, observed: BoolArray, centres: FloatArray, known: BoolArray, extent: Extent, metric: Metric
) -> FloatArray:
    """Return :func:`rescaled_distances` from many rows to a few centres, by matrix products if Euclidean.

    Expanded squares lose digits far from the origin, hence the shift to the middle of S first.
    """
    if metric != "euclidean":
        return rescaled_distances(rows, observed, centres, known, extent, metric)
    result = np.full((len(rows), len(centres)), np.nan)
    for some in by_rows(*rows.shape):
        squared, reach = masked_squares(rows[some], observed[some], centres, known & extent.varies, extent)
        with np.errstate(over="ignore"):  # huge rows and tiny extents
            np.divide(squared, reach, out=result[some], where=reach > 0)
    np.minimum(result, _FARTHEST, out=result)
    np.sqrt(result, out=result)
    return result


def distances_by_width(
    rows: FloatArray, observed: BoolArray, centres: FloatArray, known: BoolArray, extent: Extent, metric: Metric
) -> FloatArray:
    """Return :func:`distances_to_centres`, to the last digit a function of the width of S and not of where S lies.

    So a model that knows the width alone labels rows as one that knows all of S. The cosine needs S itself.
    """
    if metric == "euclidean":
        middle = _middle(centres, known)
        half = extent.width / 2  # half − (−half) is the width exactly
        varies = extent.varies
        rows, centres = cleared(rows - middle, observed), np.where(known, centres - middle, 0.0)
        extent = Extent(np.where(varies, -half, 0.0), np.where(varies, half, 0.0))
    return distances_to_centres(rows, observed, centres, known, extent, metric)


def _middle(centres: FloatArray, known: BoolArray) -> FloatArray:
    """Return the middle of the smallest and the largest known entry of each feature; 0 where none is known."""
    low, high = extent_of(centres, known)
    return np.nan_to_num((low + high) / 2, nan=0.0)


def masked_squares(
    rows: FloatArray, observed: BoolArray, centres: FloatArray, known: BoolArray, extent: Extent
) -> tuple[FloatArray, FloatArray]:
    """Return Σ (x − c)² and Σ width² over the features that the row has and the centre knows, by matrix products."""
    middle = np.nan_to_num((extent.low + extent.high) / 2, nan=0.0)
    k, complete = known.astype(np.float64), bool(observed.all())
    x = cleared(rows - middle, observed)
    c = np.where(known, centres - middle, 0.0)
    own, reach = np.square(c), k * np.square(extent.width)
    squared = x @ (-2.0 * c.T)
    if complete:  # all rows add the same
        squared += own.sum(axis=1)
        reach = np.broadcast_to(reach.sum(axis=1), squared.shape)
    else:
        o = observed.astype(np.float64)
        squared += o @ own.T
        reach = o @ reach.T
    squared += np.square(x, out=x) @ k.T
    return np.maximum(squared, 0.0, out=squared), reach


def misfit_of_rows(closest: FloatArray, observed: BoolArray, extent: Extent, metric: Metric) -> FloatArray:
    r"""Return the part of each row in the misfit, the sum that k-means on observed values minimises.

    .. math:: \sum_x \min_k \varphi(M x, M c_k)^2

    ``closest`` are rescaled distances to the nearest centre, infinite where no centre is comparable: such a row counts as
    the whole extent away. A centre that does not know some of a row's features is judged by those that it knows, rescaled.
    """
    reach = reach_of_rows(observed, extent, metric)
    return np.square(np.where(np.isfinite(closest), closest, 1.0) * reach)


def reach_of_rows(observed: BoolArray, extent: Extent, metric: Metric) -> FloatArray:
    """Return the largest possible distance over the varying features that each row has, φ(M max S, M min S)."""
    reach = np.empty(len(observed))
    for some in by_rows(*observed.shape):
        there = observed[some]
        kinds = there[:1] if there.all() else there  # complete rows reach equally far
        reach[some] = phi_of_pairs(extent.high, extent.low, kinds & extent.varies, metric)
    return reach


def nearest(distances: FloatArray) -> IntArray:
    """Return the index of the smallest distance in each row, the first of equals; −1 if every centre is incomparable."""
    filled = np.where(np.isnan(distances), np.inf, distances)
    chosen = filled.argmin(axis=1) if filled.shape[1] else np.zeros(len(filled), dtype=np.intp)
    possible = np.isfinite(filled).any(axis=1)
    return np.where(possible, chosen, -1)


def nearest_centre(
    rows: FloatArray, observed: BoolArray, centres: FloatArray, known: BoolArray, extent: Extent, metric: Metric
) -> IntArray:
    """Return the nearest centre of each row.

    If no varying feature can be compared, all centres are equally near and the first is taken; if no centre knows any
    feature of the row, the result is −1.
    """
    return choose_centre(distances_to_centres(rows, observed, centres, known, extent, metric), observed, known)


def choose_centre(distances: FloatArray, observed: BoolArray, known: BoolArray) -> IntArray:
    """:func:`nearest_centre` for distances that are already computed."""
    chosen = nearest(distances)
    knows_something = (observed & known.any(axis=0)).any(axis=1)
    return np.where((chosen < 0) & knows_something, 0, chosen)
