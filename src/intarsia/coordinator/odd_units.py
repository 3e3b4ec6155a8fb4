"""Columns that a participant seems to have in other units, from the moments or, without them, the local clusters of all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intarsia.coordinator.columns import TableColumns
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.members import Members
from intarsia.core.features import indicators
from intarsia.core.odd_columns import OddColumn, odd_columns
from intarsia.core.types import FloatArray

WITHIN = 4.0  # sum of squares of all rows, in multiples of that between local clusters


def odd_units(members: Members, columns: Mapping[str, TableColumns], clusters: LocalClusters) -> tuple[OddColumn, ...]:
    """Return the columns of numbers that seem to be in other units at a participant, the clearest first."""
    are_numbers = ~members.space.mask(indicators(members.all_levels))
    count, mean, m2 = (np.zeros((len(members.participants), len(members.space))) for _ in range(3))
    for i, name in enumerate(members.participants):
        table = columns.get(name)
        if table is not None and table.moments is not None:
            index = members.space.index(table.numbers)
            count[i, index], mean[i, index], m2[i, index] = table.moments.count, table.moments.mean, table.moments.m2
        else:
            count[i], mean[i], m2[i] = _between(members, clusters, i)
    names = [name for name, is_number in zip(members.space.names, are_numbers, strict=True) if is_number]
    parts = (part[:, are_numbers] for part in (count, mean, m2))
    return tuple(odd_columns(members.participants, names, *parts))


def _between(members: Members, clusters: LocalClusters, i: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return count, mean and an estimated sum of squares of each feature from the local clusters of a participant."""
    part = clusters.centroids.take(clusters.owner == i).wider(len(members.space))
    values = np.where(part.seen, part.values * members.units.scale + members.units.shift, 0.0)
    count = part.counts.sum(axis=0)
    mean = (part.counts * values).sum(axis=0) / np.maximum(count, 1.0)
    return count, mean, WITHIN * (part.counts * np.square(values - mean)).sum(axis=0)
