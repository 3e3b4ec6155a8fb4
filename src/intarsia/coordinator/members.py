"""The participants of a run: their features in one canonical order, the levels they agreed on, and common units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from intarsia.coordinator.columns import TableColumns, check_connected, check_kinds
from intarsia.coordinator.gather import check_statistics
from intarsia.coordinator.previous import PreviousModel
from intarsia.core.features import FeatureSpace, indicators, is_complete, joint_levels
from intarsia.core.types import BoolArray, IntArray
from intarsia.core.units import CommonUnits, choose_units, factors_of_features, pool
from intarsia.exceptions import DisjointFeaturesError, quote
from intarsia.protocol import Columns


@dataclass(frozen=True)
class Members:
    """The participants of a run and their features, both sorted by name; latecomers and their new features come last.

    ``features`` are numeric columns and, for each categorical column, an indicator of every level that any participant has.
    ``levels`` are those levels, by participant and column. ``units`` are the common units of all features, in which
    differences of columns with a weight are multiplied by ``factors``.
    """

    participants: tuple[str, ...]
    space: FeatureSpace
    features: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, Mapping[str, tuple[str, ...]]]
    units: CommonUnits
    factors: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def masks(self) -> BoolArray:
        """The features of each participant: the diagonals of all Ω."""
        return np.array([self.space.mask(self.features[name]) for name in self.participants], dtype=np.bool_)

    @cached_property
    def complete(self) -> bool:
        """Whether every two participants share a feature."""
        return is_complete(self.masks)

    @cached_property
    def share_most(self) -> bool:
        """Whether every two participants share a feature, and at least half of the features have several holders.

        Several: two or more, and at least half of the participants.
        """
        several = self.masks.sum(axis=0) >= max(2.0, len(self.participants) / 2)
        return self.complete and bool(several.mean() >= 0.5)

    @cached_property
    def all_levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every categorical column."""
        return joint_levels(self.levels.values())

    def index(self, participant: str) -> IntArray:
        """Return the positions of a participant's features in the union."""
        return self.space.index(self.features[participant])

    def columns_for(self, participant: str) -> Columns | None:
        """Return how a participant must turn its columns into features; None if it need not change them."""
        if not self.all_levels and (self.units.scale == 1.0).all() and (self.units.shift == 0.0).all():
            return None
        index = self.index(participant)
        return Columns(
            shift=self.units.shift[index], scale=self.units.scale[index], levels=dict(self.levels[participant])
        )

    def only(self, names: Collection[str]) -> Members:
        """Return these participants with the same units, without the features that only others have."""
        if set(names) == set(self.participants):
            return self
        participants = tuple(name for name in self.participants if name in names)
        remaining = {feature for name in participants for feature in self.features[name]}
        space = FeatureSpace(tuple(feature for feature in self.space.names if feature in remaining))
        index = self.space.index(space.names)
        return Members(
            participants,
            space,
            {name: self.features[name] for name in participants},
            {name: self.levels[name] for name in participants},
            CommonUnits(self.units.shift[index], self.units.scale[index], self.units.way),
            self.factors,
        )

    def in_units(self, units: CommonUnits) -> Members:
        """Return these participants in other common units, with their weights of columns."""
        return replace(
            self, units=units.multiplied(factors_of_features(self.space.names, self.all_levels, self.factors))
        )

    def with_latecomer(self, name: str, table: TableColumns) -> Members:
        """Return these participants and one more that comes when groups are known already.

        Raises
        ------
        InputError
            It shares no feature with the others, or a column of it is of another kind.
        """
        levels = joint_levels([{c: names for c, names in self.all_levels.items() if c in table.levels}, table.levels])
        are_indicators = set(indicators(self.all_levels))
        numbers = tuple(feature for feature in self.space.names if feature not in are_indicators)
        others = TableColumns(numbers, self.all_levels)
        check_kinds({"the others": others, name: TableColumns(table.numbers, levels)})
        if table.moments is not None:
            check_statistics({name: table.moments}, self.units.way)
        features = tuple(sorted((*table.numbers, *indicators(levels))))
        if not set(features) & set(self.space.names):
            raise DisjointFeaturesError(
                f"participant {name!r} shares no feature with the others. Hint: rename columns that mean the same."
            )
        space = FeatureSpace((*self.space.names, *(f for f in features if f not in self.space)))
        return Members(
            (*self.participants, name),
            space,
            {**self.features, name: features},
            {**self.levels, name: levels},
            self._units_with(table, space, self.all_levels | levels),
            self.factors,
        )

    def _units_with(
        self, table: TableColumns, space: FeatureSpace, levels: Mapping[str, tuple[str, ...]]
    ) -> CommonUnits:
        """Return the units of all features; those that only the latecomer has are in units of its own statistics."""
        parts = [] if table.moments is None else [(space.index(table.numbers), table.moments)]
        way = None if table.moments is None else self.units.way
        units = choose_units(pool(parts, len(space)), way, space.mask(indicators(levels)))
        units = units.multiplied(factors_of_features(space.names, levels, self.factors))
        known = len(self.space)
        shift, scale = (
            np.append(self.units.shift, units.shift[known:]),
            np.append(self.units.scale, units.scale[known:]),
        )
        return CommonUnits(shift, scale, self.units.way)


def agree(
    tables: Mapping[str, TableColumns],
    scale: str | None,
    *,
    allow_partial: bool = False,
    previous: PreviousModel | None = None,
    factors: Mapping[str, float] | None = None,
) -> Members:
    """Return the members of a run: unite the columns of all participants and choose common units.

    Levels and units of a ``previous`` model stay as they are, for all columns that are still there. ``factors`` are what
    differences of columns with a weight are multiplied by.

    Raises
    ------
    InputError
        A column is of different kinds, or, unless ``allow_partial``, shared features do not connect all participants.
    """
    participants = tuple(sorted(tables))
    kinds, known = {name: tables[name] for name in participants}, [table.levels for table in tables.values()]
    if previous is not None:
        columns = {column for table in tables.values() for column in (*table.numbers, *table.levels)}
        old = _shared_with(previous, columns)
        kinds["the previous model"] = old
        known.append({column: old.levels[column] for column in old.levels})
    check_kinds(kinds)
    levels = joint_levels(known)
    levels_of = {name: {column: levels[column] for column in tables[name].levels} for name in participants}
    features = {name: tuple(sorted((*tables[name].numbers, *indicators(levels_of[name])))) for name in participants}
    space = FeatureSpace(tuple(sorted(FeatureSpace.union(features.values()).names)))
    if not allow_partial:
        check_connected({name: (*tables[name].numbers, *tables[name].levels) for name in participants})
    check_statistics({name: tables[name].moments for name in participants}, scale)
    parts = [
        (space.index(tables[name].numbers), moments)
        for name in participants
        if (moments := tables[name].moments) is not None and scale is not None
    ]
    way = scale if previous is None else previous.units
    units = choose_units(pool(parts, len(space)), way, space.mask(indicators(levels)))
    members = Members(participants, space, features, levels_of, units, factors or {}).in_units(units)
    return members if previous is None else replace(members, units=previous.units_in(space, members.units))


def _shared_with(previous: PreviousModel, columns: Collection[str]) -> TableColumns:
    """Return the columns of the previous model that are still there, or raise an error if no column is left."""
    old = previous.only(columns)
    if not old.numbers and not old.levels:
        raise DisjointFeaturesError(
            f"no table has a column of the previous model, which has {quote(sorted(previous.table_columns.names))}. "
            "Hint: are columns named as before? Without previous, a new study begins."
        )
    return old
