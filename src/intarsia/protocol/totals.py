"""Replies as vectors of whole numbers that can be added up over participants, and totals back as sums.

A vector has the numbers of a :class:`~intarsia.protocol.secure.Layout`, 0 for features that the participant lacks.
``places`` are the positions of the participant's features in the layout, −1 for features that stay at home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from intarsia.core.fixed_point import N_DIGITS, digits, from_grains, grains, number_of
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import Statistics
from intarsia.protocol.checks import MOST_ROWS, are_counts, require
from intarsia.protocol.label import Labelled
from intarsia.protocol.parts import Moments
from intarsia.protocol.refine import Refined
from intarsia.protocol.secure import LABELS, NOISY, ROUND, UNITS, Layout

_INVALID = "counts and squares of all participants together must be at least 0: the sums of one of them are wrong"


class RoundTotal(NamedTuple):
    """The sum of the refined centroids of all participants for one set: differences from the centroids that were sent."""

    away: FloatArray
    counts: FloatArray
    sizes: IntArray
    misfit: float


class LabelTotal(NamedTuple):
    """Rows in each cluster, values of each cluster and feature, and their squared deviations from the centroid."""

    sizes: IntArray
    counts: FloatArray
    squares: FloatArray


def length(layout: Layout) -> int:
    """Return how many numbers a vector with this layout has."""
    f, k = len(layout.features), layout.n_clusters
    numbers = {
        UNITS: f * (1 + 3 * N_DIGITS),
        ROUND: layout.n_sets * (2 * k * f + k + 2 * N_DIGITS),
        LABELS: k + 2 * k * f,
        NOISY: k * (f + 1),
    }
    return numbers[layout.what]


def moments_vector(moments: Moments, places: IntArray, layout: Layout) -> IntArray:
    """Return the count, the sum and the sum of squares of each column; digits, because there are no common units yet."""
    table = np.zeros((len(layout.features), 1 + 3 * N_DIGITS), dtype=np.int64)
    for m, place in enumerate(places.tolist()):
        if place < 0:
            continue
        count, mean, m2 = (Fraction(float(part[m])) for part in (moments.count, moments.mean, moments.m2))
        sums, squares = digits([mean * count]), digits([m2 + mean * mean * count], squared=True)
        table[place] = np.concatenate([[int(count)], sums[0], squares[0]])
    return table.ravel()


def total_moments(total: IntArray, layout: Layout) -> Statistics:
    """Return the statistics of all participants together."""
    count, mean, m2 = (np.zeros(len(layout.features)) for _ in range(3))
    for m, row in enumerate(total.reshape(len(layout.features), -1)):
        n = int(row[0])
        sums, squares = number_of(row[1 : 1 + N_DIGITS]), number_of(row[1 + N_DIGITS :])
        require(0 <= n < MOST_ROWS and squares >= 0, _INVALID)
        if n:
            count[m], mean[m], m2[m] = n, float(sums / n), float(max(squares - sums * sums / n, Fraction(0)))
    return Statistics(count, mean, m2)


def round_vector(
    refined: Sequence[Refined], sent: Sequence[FloatArray], places: IntArray, layout: Layout, n_participants: int
) -> IntArray:
    """Return the sums of each set of refined centroids, as differences from the centroids that were ``sent`` to all."""
    parts: list[IntArray] = []
    told = places >= 0
    for part, centres in zip(refined, sent, strict=True):
        away = np.where(part.counts > 0, (part.values - centres) * part.counts, 0.0)
        table = np.zeros((2, layout.n_clusters, len(layout.features)), dtype=np.int64)
        table[0][:, places[told]] = grains(away[:, told], layout.units[places[told]], n_participants)
        table[1][:, places[told]] = part.counts[:, told].astype(np.int64)
        misfit = digits([Fraction(part.misfit)], squared=True)[0]
        parts += [table.ravel(), part.sizes.astype(np.int64), misfit]
    return np.concatenate(parts)


def total_rounds(total: IntArray, layout: Layout) -> Iterator[RoundTotal]:
    """Yield the total of each set of centroids."""
    f, k = len(layout.features), layout.n_clusters
    for part in total.reshape(layout.n_sets, -1):
        away, counts = part[: 2 * k * f].reshape(2, k, f)
        sizes, misfit = part[2 * k * f : 2 * k * f + k], number_of(part[2 * k * f + k :])
        require(are_counts(counts) and are_counts(sizes) and misfit >= 0, _INVALID)
        yield RoundTotal(from_grains(away, layout.units), counts.astype(np.float64), sizes, float(misfit))


def labels_vector(reply: Labelled, places: IntArray, layout: Layout, n_participants: int) -> IntArray:
    """Return the sizes of all clusters, and counts and squares of their values."""
    k, told = layout.n_clusters, places >= 0
    counts, squares = reply.spread(k, len(places))
    table = np.zeros((2, k, len(layout.features)), dtype=np.int64)
    table[0][:, places[told]] = counts[:, told].astype(np.int64)
    table[1][:, places[told]] = grains(squares[:, told], np.square(layout.units[places[told]]), n_participants)
    return np.concatenate([reply.sizes.astype(np.int64), table.ravel()])


def total_labels(total: IntArray, layout: Layout) -> LabelTotal:
    """Return the total sizes, counts and squares."""
    f, k = len(layout.features), layout.n_clusters
    sizes, (counts, squares) = total[:k], total[k:].reshape(2, k, f)
    require(are_counts(sizes) and are_counts(counts) and bool((squares >= 0).all()), _INVALID)
    return LabelTotal(sizes, counts.astype(np.float64), np.maximum(from_grains(squares, np.square(layout.units)), 0.0))
