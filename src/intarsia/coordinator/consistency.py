r"""Whether what a participant replies fits what it said of the same rows before.

Some numbers of a table do not depend on how its rows are clustered: the values of each column, their mean :math:`\mu_m`
and their sum of squares around it, :math:`Q_m`. Every reply implies them. With centroids :math:`v_k` of :math:`n_k` rows:

.. math:: \sum_k n_{km} (v_{km} - \mu_m) = 0, \qquad \sum_k n_{km} (v_{km} - \mu_m)^2 \le Q_m

and, if rows belong to the nearest of the centroids :math:`c_k` that were sent, their misfit is

.. math:: \sum_m \Big( Q_m - \sum_k n_{km} (v_{km} - \mu_m)^2 + \sum_k n_{km} (v_{km} - c_{km})^2 \Big)

A participant that changes some replies contradicts the others. One that invents rows and keeps to them does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia.coordinator.columns import TableColumns
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.core.distances import LARGEST, Extent, Metric, rescaled_distances
from intarsia.core.features import indicators
from intarsia.core.types import BoolArray, FloatArray
from intarsia.protocol import Centres, Refined

_LARGEST_STEP = 10  # that counts are taken to be rounded to
_ROUNDING = 1e-6  # of the largest value
_FARTHEST = LARGEST**2
_EXACT = 1e-3  # of a deviation
_OUTSIDE = 4.0  # times their share: the part that values in no cluster may have in a sum of squares
_NEAR = 0.05  # of the extent: centroids that are nearer to each other may change places


class Totals(NamedTuple):
    """What a participant said of its whole table, in common units, by feature; NaN where it said nothing.

    ``filled`` are the observed values, ``squares`` their sum of squares around the mean.
    """

    filled: FloatArray
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, members: Members, name: str, columns: TableColumns, clusters: LocalClusters | None) -> Totals:
        """Return the totals from moments, where they were sent; else from local clusters that include all values."""
        features, index = members.features[name], members.index(name)
        shift, scale = members.units.shift[index], members.units.scale[index]
        filled, mean, squares = (np.full(len(index), np.nan) for _ in range(3))
        i = members.participants.index(name)
        if clusters is not None and i < len(clusters.coverage.rows):
            part = clusters.centroids.take(clusters.owner == i)
            counts, values = part.counts[:, index], part.values[:, index]
            filled = clusters.coverage.filled[i, index].astype(np.float64)
            whole = (counts.sum(axis=0) == filled) & (filled > 0)
            mean = np.where(whole, (counts * values).sum(axis=0) / np.maximum(filled, 1.0), np.nan)
            share = np.clip(mean * scale + shift, 0.0, 1.0)
            is_level = members.space.mask(indicators(members.all_levels))[index]
            squares = np.where(is_level, filled * share * (1.0 - share) / np.square(scale), np.nan)
        if columns.moments is not None:
            position = {feature: k for k, feature in enumerate(features)}
            at = np.array([position[column] for column in columns.numbers], dtype=np.intp)
            filled[at] = columns.moments.count
            mean[at] = (columns.moments.mean - shift[at]) / scale[at]
            squares[at] = columns.moments.m2 / np.square(scale[at])
        return cls(filled, mean, squares)


def typical_deviations(members: Members, totals: Mapping[str, Totals]) -> FloatArray:
    """Return the median over participants of the deviation of each feature; 0 if nobody sent it."""
    deviations = np.full((len(totals), len(members.space)), np.nan)
    for row, (name, each) in zip(deviations, totals.items(), strict=True):
        row[members.index(name)] = np.sqrt(each.squares / np.maximum(each.filled, 1.0))
    known = ~np.isnan(deviations).all(axis=0)
    result = np.zeros(len(members.space))
    result[known] = np.nanmedian(deviations[:, known], axis=0)
    return result


def doubts_about_summaries(
    members: Members, columns: Mapping[str, TableColumns], clusters: LocalClusters
) -> dict[str, Mapping[str, float]]:
    """Return by participant how much its local clusters contradict the moments of its columns."""
    doubts: dict[str, Mapping[str, float]] = {}
    for name in columns:
        part, index = clusters.centroids.take(clusters.owner == members.participants.index(name)), members.index(name)
        totals = Totals.of(members, name, columns[name], None)
        doubts[name] = amounts_of_sums(totals, part.values[:, index], part.counts[:, index])
    return doubts


def amounts_of_sums(totals: Totals, values: FloatArray, counts: FloatArray) -> dict[str, float]:
    """Return by how much centroids and counts contradict the totals of the same rows.

    "values": the share of values that a column has in excess; "means": the difference of its mean, in deviations;
    "spread": the part of its sum of squares between centroids, which is at most 1.
    """
    known = ~np.isnan(totals.filled) & (totals.filled > 0) & (counts > 0).any(axis=0)
    excess = (counts.sum(axis=0) / np.where(known, totals.filled, 1.0) - 1.0)[known]
    known &= ~np.isnan(totals.mean)
    n, mean, values, counts = totals.filled[known], totals.mean[known], values[:, known], counts[:, known]
    away = np.where(counts > 0, values - mean, 0.0)
    squares = totals.squares[known]
    between = (counts * np.square(away)).sum(axis=0)
    size = np.maximum(np.abs(values).max(axis=0, initial=0.0), np.abs(mean))
    deviation = np.sqrt(np.where(np.isnan(squares), between, squares) / n) + _ROUNDING * size
    # values in no cluster have any mean that their part in the sum of squares allows; rounded counts weigh differently
    missing = np.maximum(n - counts.sum(axis=0), 0.0)
    slack = np.sqrt(missing * n) * deviation + (_step(counts, n) - 1.0) * np.abs(away).sum(axis=0)
    off = np.maximum(np.abs((counts * away).sum(axis=0)) - slack, 0.0)
    shifted = np.divide(off, n * deviation, out=np.zeros_like(off), where=deviation > 0)
    limited = squares > n * np.square(_ROUNDING * size)
    shares = between[limited] / squares[limited]
    return {
        "values": float(excess.max(initial=0.0)),
        "means": float(shifted.max(initial=0.0)),
        "spread": float(shares.max(initial=0.0)),
    }


def _step(counts: FloatArray, filled: FloatArray) -> float:
    """Return the number that all counts are multiples of, as if they were rounded to it."""
    whole = np.concatenate([counts.ravel(), filled]).astype(np.int64)
    return float(min(int(np.gcd.reduce(whole, initial=0)), _LARGEST_STEP))


def amounts_of_round(
    totals: Totals, sent: Sequence[Centres], refined: Sequence[Refined], metric: Metric
) -> dict[str, float]:
    """Return by how much the reply to a round contradicts the totals, and itself.

    "order": how many times farther the centroids are from those that were sent in their places than in the best order; see
    :func:`_amounts_of_misfits` for the others.
    """
    amounts: list[Mapping[str, float]] = []
    for centres, part in zip(sent, refined, strict=True):
        amounts += [amounts_of_sums(totals, part.values, part.counts), {"order": _disorder(centres, part, metric)}]
    if metric == "euclidean":
        amounts.append(_amounts_of_misfits(totals, sent, refined))
    return largest(amounts)


def largest(amounts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the largest amount of each kind.

    >>> largest([{"means": 0.1}, {"means": 0.3, "order": 1.0}])
    {'means': 0.3, 'order': 1.0}
    """
    result: dict[str, float] = {}
    for each in amounts:
        result |= {kind: max(result.get(kind, 0.0), amount) for kind, amount in each.items()}
    return result


def _disorder(sent: Centres, part: Refined, metric: Metric) -> float:
    """Compare the order of the centroids with the best one; distances far below the extent count as equal."""
    present = np.flatnonzero((part.counts > 0).any(axis=1))
    values, seen, extent = part.values[present], part.counts[present] > 0, Extent(sent.low, sent.high)
    distance = rescaled_distances(values, seen, sent.values, sent.known.astype(np.bool_), extent, metric)
    own = distance[np.arange(len(present)), present]
    if not len(present) or np.isnan(own).any():
        return 1.0
    cost = np.where(np.isnan(distance), 1.0 + np.nansum(distance), distance) + _NEAR
    return float((own + _NEAR).sum() / cost[linear_sum_assignment(cost)].sum())


def _amounts_of_misfits(totals: Totals, sent: Sequence[Centres], refined: Sequence[Refined]) -> dict[str, float]:
    """Compare misfits with bounds that totals and centroids imply, as factors; nothing where it cannot be done.

    "high misfit": above that of all rows with one and the same centroid. "low misfit": below what is left if values in no
    cluster had several times their part in the sum of squares. "misfit": how much misfits of several sets of centroids, of
    which the one with the smallest is used, differ from those that are implied; only where every value is in one cluster.
    """
    varies = Extent(sent[0].low, sent[0].high).varies
    if not varies.any() or not all(each.known[:, varies].all() for each in sent):
        return {}
    filled, mean, squares = (part[varies] for part in totals)
    misfit = np.minimum([part.misfit for part in refined], _FARTHEST)
    mean = np.where(np.isnan(mean), sent[0].values[:, varies].mean(axis=0), mean)
    moved = np.array([_moved(each, part, mean, varies) for each, part in zip(sent, refined, strict=True)])
    total, amounts = float(squares.sum()), {}
    if np.isnan(total):  # unknown, but the same for all sets
        total = float(np.median(misfit - moved))
    else:
        outside = [float((1.0 - part.counts[:, varies].sum(axis=0) / filled).max()) for part in refined]
        at_least = total * np.maximum(1.0 - _OUTSIDE * np.maximum(outside, 0.0), 0.0) + moved
        at_most = [total + (filled * np.square(each.values[:, varies] - mean)).sum(axis=1).min() for each in sent]
        amounts["low misfit"] = float(_factors(at_least, misfit, total).max())
        amounts["high misfit"] = float(_factors(misfit, np.array(at_most), total).max())
    whole = all((part.counts.sum(axis=0) == totals.filled)[varies].all() for part in refined)
    means = max(amounts_of_sums(totals, part.values, part.counts)["means"] for part in refined)
    if len(refined) > 1 and whole and means < _EXACT:
        factors = _factors(misfit, total + moved, total)
        amounts["misfit"] = float(factors.max() / factors.min())
    return amounts


def _factors(numerator: FloatArray, denominator: FloatArray, total: float) -> FloatArray:
    """Return quotients of sums of squares; sums far below the ``total`` count as equal."""
    tiny = max(_ROUNDING * total, 1 / LARGEST)
    return np.clip(np.maximum(numerator, tiny) / np.maximum(denominator, tiny), _ROUNDING, 1 / _ROUNDING)


def _moved(sent: Centres, part: Refined, mean: FloatArray, varies: BoolArray) -> float:
    """Return how much larger the sum of squares around the sent centroids is than around the mean of all rows."""
    counts, values = part.counts[:, varies], part.values[:, varies]
    return float((counts * (np.square(values - sent.values[:, varies]) - np.square(values - mean))).sum())
