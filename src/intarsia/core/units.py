r"""Common units of all columns, from statistics that participants compute of their columns.

.. math:: \tilde x_m = (x_m - \text{shift}_m) / \text{scale}_m

``"standard"`` takes the mean and the standard deviation, pooled exactly from counts, means and sums of squares (Chan),
``"minmax"`` the smallest and largest value; ``"robust"`` the median and the interquartile range, from a mixture of
all participants' quantiles. An indicator ``column=level`` is divided by √2, so that two rows with different levels, which
differ in two indicators, are one unit apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np

from intarsia.core.blocks import by_columns
from intarsia.core.distances import LARGEST, ROUNDING
from intarsia.core.features import indicators
from intarsia.core.types import BoolArray, FloatArray, IntArray

SCALES = ("auto", None, "standard", "minmax", "robust")
QUANTILES = np.linspace(0.05, 0.95, 19)
NORMAL_QUARTILES = 1.3489795003921634  # the interquartile range of a standard normal variable
FAR_APART = 4.0  # a standard deviation this many times the typical one is taken for other units
MISMATCH = np.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Per feature: number of values, mean, sum of squared deviations; where asked for, extremes and quantiles."""

    count: FloatArray
    mean: FloatArray
    m2: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    quantiles: FloatArray | None = None


class HasStatistics(Protocol):
    """Anything with the fields of :class:`Statistics`."""

    @property
    def count(self) -> FloatArray: ...  # noqa: D102
    @property
    def mean(self) -> FloatArray: ...  # noqa: D102
    @property
    def m2(self) -> FloatArray: ...  # noqa: D102
    @property
    def low(self) -> FloatArray | None: ...  # noqa: D102
    @property
    def high(self) -> FloatArray | None: ...  # noqa: D102
    @property
    def quantiles(self) -> FloatArray | None: ...  # noqa: D102


class CommonUnits(NamedTuple):
    """(x − shift) / scale for every feature, and the way that led to it; None where everybody keeps their own.

    A feature with a weight is in smaller units, so that its differences are larger.
    """

    shift: FloatArray
    scale: FloatArray
    way: str | None

    def multiplied(self, factors: FloatArray) -> CommonUnits:
        """Return units in which the differences of each feature are so many times larger."""
        return self._replace(scale=self.scale / factors)


def in_units(cells: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
    """Return (x − shift) / scale in a new array, clipped to numbers that can be squared and summed.

    Units that a coordinator sends must not be refused because of a value: the refusal would disclose it.
    """
    result = cells - shift
    result /= scale
    return np.clip(result, -LARGEST, LARGEST, out=result)


def factors_of_features(
    features: Sequence[str], levels: Mapping[str, Sequence[str]], factors: Mapping[str, float]
) -> FloatArray:
    """Return the factor of each feature, from those of columns: all indicators of a column have its factor; 1 by default.

    >>> factors_of_features(["age", "sex=f", "sex=m"], {"sex": ("f", "m")}, {"sex": 2.0})
    array([1., 2., 2.])
    """
    column_of = {name: column for column in levels for name in indicators({column: levels[column]})}
    return np.array([factors.get(column_of.get(name, name), 1.0) for name in features], dtype=np.float64)


def statistics_of(rows: FloatArray, observed: BoolArray, way: str | None) -> Statistics:
    """Statistics of the columns of one participant; every column has a value."""
    parts = [_statistics_of(rows[:, some], observed[:, some], way) for some in by_columns(*rows.shape)]
    return Statistics(
        **{field.name: _joined([getattr(part, field.name) for part in parts]) for field in fields(Statistics)}
    )


def _joined(parts: Sequence[FloatArray | None]) -> Any:
    return None if parts[0] is None else np.concatenate([part for part in parts if part is not None], axis=-1)


def _statistics_of(rows: FloatArray, observed: BoolArray, way: str | None) -> Statistics:
    count = observed.sum(axis=0).astype(np.float64)
    mean = np.where(observed, rows, 0.0).sum(axis=0) / np.maximum(count, 1.0)
    # a second pass, because the first mean of huge numbers has a rounding error
    mean = mean + np.where(observed, rows - mean, 0.0).sum(axis=0) / np.maximum(count, 1.0)
    m2 = np.square(np.where(observed, rows - mean, 0.0)).sum(axis=0)
    if way == "minmax":
        low, high = np.where(observed, rows, np.inf).min(axis=0), np.where(observed, rows, -np.inf).max(axis=0)
        return Statistics(count, mean, m2, low, high)
    if way == "robust":
        quantiles = np.nanquantile(np.where(observed, rows, np.nan), QUANTILES, axis=0) if rows.size else np.zeros(0)
        quantiles = quantiles.reshape(len(QUANTILES), rows.shape[1])
        # between equal values rounding may step back by a last digit
        return Statistics(count, mean, m2, quantiles=np.maximum.accumulate(quantiles, axis=0))
    return Statistics(count, mean, m2)


def pool(parts: Sequence[tuple[IntArray, HasStatistics]], n_features: int) -> Statistics:
    """Return the statistics of all tables together; each part comes with the positions of its features in the union."""
    count, mean, m2 = (np.zeros(n_features) for _ in range(3))
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    for index, mine in parts:
        total = count[index] + mine.count
        gap = mine.mean - mean[index]
        share = np.divide(mine.count, total, out=np.zeros_like(total), where=total > 0)
        m2[index] += mine.m2 + np.square(gap) * count[index] * share
        mean[index] += gap * share
        count[index] = total
        if mine.low is not None and mine.high is not None:
            low[index], high[index] = np.minimum(low[index], mine.low), np.maximum(high[index], mine.high)
    if all(part.low is not None for _, part in parts):
        return Statistics(count, mean, m2, low, high)
    if all(part.quantiles is not None for _, part in parts):
        return Statistics(count, mean, m2, quantiles=_pooled_quantiles(parts, n_features))
    return Statistics(count, mean, m2)


def _pooled_quantiles(parts: Sequence[tuple[IntArray, HasStatistics]], n_features: int) -> FloatArray:
    """Return quantiles of the mixture of all distribution functions, each linear between its own quantiles."""
    result = np.zeros((len(QUANTILES), n_features))
    of_feature: Mapping[int, list[tuple[FloatArray, float]]] = {m: [] for m in range(n_features)}
    for index, part in parts:
        assert part.quantiles is not None
        for m, quantiles, count in zip(index, part.quantiles.T, part.count, strict=True):
            of_feature[int(m)].append((quantiles, float(count)))
    for m, owners in of_feature.items():
        if len(owners) == 1:
            result[:, m] = owners[0][0]
        elif owners:
            result[:, m] = _mixture_quantiles([q for q, _ in owners], np.array([n for _, n in owners]))
    return result


def _mixture_quantiles(quantiles: Sequence[FloatArray], counts: FloatArray) -> FloatArray:
    levels = np.concatenate([[0.0], QUANTILES, [1.0]])
    # beyond the outermost quantiles a distribution goes on for another step of the same width
    knots = [np.concatenate([[2 * q[0] - q[1]], q, [2 * q[-1] - q[-2]]]) for q in quantiles]
    at = np.unique(np.concatenate(knots))
    share = counts / counts.sum()
    below, above = (
        sum(w * side(own, levels, at) for w, own in zip(share, knots, strict=True)) for side in (_left, _right)
    )
    return np.asarray(np.interp(QUANTILES, np.column_stack([below, above]).ravel(), np.repeat(at, 2)))


def _right(knots: FloatArray, levels: FloatArray, at: FloatArray) -> FloatArray:
    """Return a distribution function, linear between its quantiles; it jumps where several of them are equal."""
    last = np.searchsorted(knots, at, side="right") - 1
    inside = (last >= 0) & (last < len(knots) - 1)
    k = np.clip(last, 0, len(knots) - 2)
    width = knots[k + 1] - knots[k]
    slope = np.divide(levels[k + 1] - levels[k], width, out=np.zeros(len(at)), where=width > 0)
    return np.where(inside, levels[k] + slope * (at - knots[k]), np.where(last < 0, 0.0, 1.0))


def _left(knots: FloatArray, levels: FloatArray, at: FloatArray) -> FloatArray:
    """Return the distribution function as its limit from below."""
    return 1.0 - _right(-knots[::-1], 1.0 - levels[::-1], -at)


def own_units(indicators: BoolArray) -> CommonUnits:
    """Return the units of the table: only indicators are divided."""
    return CommonUnits(np.zeros(len(indicators)), np.where(indicators, MISMATCH, 1.0), None)


def choose_units(statistics: Statistics, way: str | None, indicators: BoolArray) -> CommonUnits:
    """Return shift and scale of every feature; ``"auto"`` is ``"standard"`` if units differ, and None otherwise."""
    d = len(indicators)
    if way == "auto":
        way = "standard" if units_differ(statistics, indicators) else None
    shift, scale = np.zeros(d), np.ones(d)
    deviation = deviation_of(statistics)
    if way == "standard":
        shift, scale = statistics.mean, deviation
    elif way == "minmax" and statistics.low is not None and statistics.high is not None:
        shift, scale = statistics.low, statistics.high - statistics.low
    elif way == "robust" and statistics.quantiles is not None:
        first, middle, third = (statistics.quantiles[np.searchsorted(QUANTILES, q - 1e-9)] for q in (0.25, 0.5, 0.75))
        # if half of all values are equal, quartiles may be equal too
        shift, scale = middle, np.where(third > first, third - first, NORMAL_QUARTILES * deviation)
    else:
        assert way is None
    varies = (deviation > 0) & (scale > 1 / LARGEST)
    shift, scale = np.where(varies, shift, 0.0), np.where(varies, scale, 1.0)
    return CommonUnits(np.where(indicators, 0.0, shift), np.where(indicators, MISMATCH, scale), way)


def deviation_of(statistics: Statistics) -> FloatArray:
    """Return standard deviations; 0 where values differ by rounding errors only."""
    deviation = np.sqrt(statistics.m2 / np.maximum(statistics.count, 1.0))
    return np.where(deviation > np.maximum(1 / LARGEST, ROUNDING * np.abs(statistics.mean)), deviation, 0.0)


def units_differ(statistics: Statistics, indicators: BoolArray) -> bool:
    """Return whether the largest standard deviation is over four times the median (the lower one of an even number).

    Numbers beside categories have different units. Constant features are ignored. Small deviations are not evidence: a pixel
    at the edge of an image hardly varies, and a feature in which clusters do not differ varies less than others.
    """
    deviation = deviation_of(statistics)
    return deviations_differ(deviation[(deviation > 0) & ~indicators], bool(indicators.any()))


def deviations_differ(deviations: FloatArray, beside_categories: bool) -> bool:
    """Return whether the largest of these positive deviations is far above the median, or any are beside categories."""
    if not len(deviations):
        return False
    return beside_categories or bool(deviations.max() > FAR_APART * np.sort(deviations)[(len(deviations) - 1) // 2])
