"""The columns of each participant, and whether those of all participants fit together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia.coordinator.weights import check_weighted
from intarsia.core.features import FeatureSpace, clashes, components, joint_levels, near_misses
from intarsia.core.robust import caps
from intarsia.core.types import IntArray
from intarsia.exceptions import (
    DisjointFeaturesError,
    DuplicateColumnError,
    MixedKindsError,
    NonNumericError,
    about,
    quote,
)
from intarsia.protocol import MOST_JOINT_LEVELS, Moments


class TableColumns(NamedTuple):
    """The columns of a participant's table: names of numeric ones, levels of categorical ones, and moments if sent."""

    numbers: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    moments: Moments | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.numbers, *self.levels)


def with_weighted_moments(tables: Mapping[str, TableColumns], weights: Mapping[str, float]) -> dict[str, TableColumns]:
    """Return the columns with moments in which a row of each participant counts with its weight."""
    weighted = {}
    for name, table in tables.items():
        moments, weight = table.moments, weights[name]
        if moments is not None and weight != 1.0:
            moments = msgspec.structs.replace(moments, count=moments.count * weight, m2=moments.m2 * weight)
        weighted[name] = table._replace(moments=moments)
    return weighted


def capped_weights(weights: Mapping[str, float], n_rows: Mapping[str, int]) -> dict[str, float]:
    """Return weights with which the rows of no participant count for more than those of the median one."""
    rows = np.array([n_rows[name] * weight for name, weight in weights.items()], dtype=np.float64)
    return {name: weights[name] * share for name, share in zip(weights, caps(rows).tolist(), strict=True)}


def check_weighted_columns(weights: Iterable[str], tables: Mapping[str, TableColumns]) -> None:
    """Raise a SettingError if weights are given to columns that no participant has."""
    names = (name for table in tables.values() for name in (*table.numbers, *table.levels))
    check_weighted(weights, names, joint_levels(table.levels for table in tables.values()))


def check_kinds(tables: Mapping[str, TableColumns]) -> None:
    """Raise an error if a column has different kinds, the name of another column's level, or too many levels."""
    levels = joint_levels(table.levels for table in tables.values())
    numeric_at = {column: name for name, table in tables.items() for column in table.numbers}
    if mixed := [column for column in levels if column in numeric_at]:
        raise about(_odd_one_out(tables), _mixed_kinds(mixed, numeric_at, levels))
    if clash := clashes(levels, numeric_at):
        text = f"{len(clash)} column(s) have the name of a level of another column: {quote(clash)}. Hint: rename them."
        owner = next((name for name, table in tables.items() if set(clash) & set(table.numbers)), next(iter(tables)))
        raise about(owner, DuplicateColumnError(text))
    crowded = [f"{column} ({len(names)} levels)" for column, names in levels.items() if len(names) > MOST_JOINT_LEVELS]
    if crowded:
        text = (
            f"{len(crowded)} column(s) have more than {MOST_JOINT_LEVELS} levels over all participants: {quote(crowded)}. "
            "Hint: do all participants write the levels alike? Join rare levels, or drop the column."
        )
        most = max(tables, key=lambda name: max(map(len, tables[name].levels.values()), default=0))
        raise about(most, NonNumericError(text))


def _mixed_kinds(
    columns: Sequence[str], numeric_at: Mapping[str, str], levels: Mapping[str, tuple[str, ...]]
) -> MixedKindsError:
    are_boolean = all(set(levels[column]) <= {"True", "False"} for column in columns)
    how = (
        "astype(bool) where they are 0 and 1"
        if are_boolean
        else "to_numeric, or astype('category') where they are codes"
    )
    kinds = [f"{column} (numbers at {numeric_at[column]}, categories elsewhere)" for column in columns]
    return MixedKindsError(
        f"{len(kinds)} column(s) are numbers for some participants and categories for others: {quote(kinds)}. "
        f"Hint: convert them to the same kind, in pandas with {how}."
    )


def _odd_one_out(tables: Mapping[str, TableColumns]) -> str:
    """Return the participant that disagrees with most others on the kind of a column."""

    def disagreements(name: str) -> int:
        numbers, levels = set(tables[name].numbers), set(tables[name].levels)
        return sum(len(numbers & set(table.levels)) + len(levels & set(table.numbers)) for table in tables.values())

    return max(tables, key=disagreements)


def check_connected(features: Mapping[str, Sequence[str]]) -> None:
    """Raise DisjointFeaturesError if shared features do not connect all participants, directly or through others."""
    space = FeatureSpace.union(features.values())
    component = components(np.array([space.mask(names) for names in features.values()], dtype=np.bool_))
    apart = outside_largest(list(features), component)
    if not apart:
        return
    alike = "; ".join(
        f"{a!r} ({b}) and {c!r} ({d}) look alike; rename one if they mean the same"
        for a, b, c, d in near_misses(features)[:3]
    )
    hint = alike or "leave them out, or add a participant that has columns of both sides."
    text = (
        f"{len(apart)} of {len(features)} participants share no feature with the other {len(features) - len(apart)}, not "
        f"even through others: {quote(apart)}. Shared features must connect all participants, so that clusters can be "
        f"compared. Hint: {hint}"
    )
    raise about(apart[0], DisjointFeaturesError(text))


def outside_largest(names: Sequence[str], component: IntArray) -> list[str]:
    """Return the participants that are not in the largest component.

    >>> outside_largest(["a", "b", "c"], np.array([0, 1, 0]))
    ['b']
    """
    largest = np.bincount(component, minlength=1).argmax()
    return [name for name, number in zip(names, component, strict=True) if number != largest]
