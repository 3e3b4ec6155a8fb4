"""The previous model over the features of the participants that take part now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from intarsia.coordinator.members import Members
from intarsia.coordinator.previous import PreviousModel
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.continuity import spread_of
from intarsia.core.distances import Extent
from intarsia.core.features import indicator
from intarsia.core.types import BoolArray, FloatArray
from intarsia.results.outcome import GlobalModel


@dataclass(frozen=True, eq=False)
class Before:
    """The previous model over the present features, of which it had those in ``known``."""

    members: Members
    plain: PreviousModel
    centroids: MaskedCentroids
    extent: Extent
    variances: FloatArray
    cells: FloatArray
    known: BoolArray

    @classmethod
    def of(cls, plain: PreviousModel, members: Members) -> Before:
        """Return a model over the features of the members; a level that is new has no rows in any cluster."""
        k, d = len(plain.values), len(members.space)
        here, there = plain.places(members.space)
        low, high = np.zeros(d), np.zeros(d)
        low[here], high[here] = np.array(plain.low)[there], np.array(plain.high)[there]
        parts = [np.zeros((k, d)) for _ in range(4)]
        for part, table in zip(parts, (plain.values, plain.counts, plain.variances, plain.cells), strict=True):
            part[:, here] = np.array(table).reshape(k, len(plain.features))[:, there]
        values, counts, variances, cells = parts
        for column, levels in members.all_levels.items():
            if column not in plain.levels:
                continue
            first = members.space.index([indicator(column, plain.levels[column][0])])
            new = members.space.index([indicator(column, name) for name in levels if name not in plain.levels[column]])
            counts[:, new], cells[:, new] = counts[:, first], cells[:, first]
        known = np.zeros(d, dtype=np.bool_)
        known[here] = True
        return cls(members, plain, MaskedCentroids.of(values, counts), Extent(low, high), variances, cells, known)

    @cached_property
    def spread(self) -> FloatArray:
        """The variance of each feature within each cluster, never far below that within all."""
        return spread_of(self.centroids, self.variances, self.cells)

    @property
    def live(self) -> BoolArray:
        """Which clusters are not gone."""
        return np.asarray(self.centroids.seen.any(axis=1))

    @property
    def model(self) -> GlobalModel:
        """The model, as far as present features show it."""
        members, plain = self.members, self.plain
        shift, scale, units = members.units
        weights = None if plain.weights is None else np.array(plain.weights)
        return GlobalModel(
            members.space, self.centroids, self.extent, shift, scale, plain.metric, self.variances, self.cells,
            members.all_levels, units, weights,
        )  # fmt: skip

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The columns and levels that the previous model does not have."""
        return tuple(np.array(self.members.space.names, dtype=object)[~self.known])

    @property
    def gone_columns(self) -> tuple[str, ...]:
        """The columns of the previous model that nobody has any more."""
        return tuple(name for name in self.plain.features if name not in self.members.space)
