"""Can these tables be clustered together? The answer from names and kinds of columns alone.

The report says who has which columns, who shares a column with whom, which columns only one participant has, without whom
the study would fall apart, which names look as if they meant the same, which columns may be in other units, and which may
have other words for the same levels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.features import FeatureSpace, components, components_without, cut_vertices, is_complete
from intarsia.core.odd_columns import OddColumn, odd_columns
from intarsia.core.odd_levels import OddLevels, odd_levels
from intarsia.core.units import Statistics, deviation_of, deviations_differ, pool
from intarsia.exceptions import quote
from intarsia.tables.frame import CATEGORIES, NUMBERS
from intarsia.tables.look_alikes import Alike, look_alikes
from intarsia.tables.open import open_table
from intarsia.tables.participants import check_left_out, for_all, is_many, keyed

_YES = "Yes"


@dataclass(frozen=True)
class Bridge:
    """A participant without which the study would fall apart, and the parts that it would fall into."""

    participant: str
    parts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Feasibility:
    """What names and kinds of columns say about clustering several tables together.

    Attributes
    ----------
    kinds : by participant, "numbers" or "categories" for every column that can be used
    rows : by participant, the number of rows, where it is known
    parts : sets of participants that are connected by shared columns, the largest first
    complete : whether every two participants share a column
    bridges : participants without which the study would fall apart
    alike : pairs of column names that may mean the same
    mixed : columns that are numbers for some participants and categories for others
    unusable : by participant, the columns that are neither, with the reason
    row_ids : by participant, the columns that look like row IDs
    odd : columns that seem to be in other units at a participant, the clearest first
    widths : columns of numbers with their standard deviations over all participants, the smallest first
    odd_levels : columns of categories of which two participants may have other words for the same levels
    """

    kinds: Mapping[str, Mapping[str, str]]
    rows: Mapping[str, int | None]
    parts: tuple[tuple[str, ...], ...]
    complete: bool
    bridges: tuple[Bridge, ...]
    alike: tuple[Alike, ...]
    mixed: tuple[str, ...]
    unusable: Mapping[str, Mapping[str, str]]
    row_ids: Mapping[str, tuple[str, ...]]
    odd: tuple[OddColumn, ...] = ()
    widths: Mapping[str, float] = field(default_factory=dict)
    odd_levels: tuple[OddLevels, ...] = ()

    @property
    def participants(self) -> tuple[str, ...]:
        """All participants, in the order given."""
        return tuple(self.kinds)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, those that most participants have first."""
        union = FeatureSpace.union(self.kinds.values()).names
        return tuple(sorted(union, key=lambda column: -len(self.owners(column))))

    def owners(self, column: str) -> tuple[str, ...]:
        """Return the participants that have a column."""
        return tuple(name for name, columns in self.kinds.items() if column in columns)

    @property
    def common(self) -> tuple[str, ...]:
        """Columns that all participants have."""
        return tuple(column for column in self.columns if len(self.owners(column)) == len(self.kinds))

    @property
    def single(self) -> dict[str, str]:
        """Columns that only one participant has, with its name."""
        owners = {column: self.owners(column) for column in self.columns}
        return {column: names[0] for column, names in owners.items() if len(names) == 1 and len(self.kinds) > 1}

    def shared(self, left: str, right: str) -> tuple[str, ...]:
        """Return the columns that two participants share."""
        return tuple(column for column in self.kinds[left] if column in self.kinds[right])

    @property
    def units(self) -> str | None:
        """The units that scale="auto" takes: "standard", or None if it leaves columns of numbers as they are."""
        are_categories = any(kind == CATEGORIES for columns in self.kinds.values() for kind in columns.values())
        return "standard" if deviations_differ(np.array(list(self.widths.values())), are_categories) else None

    @property
    def connected(self) -> bool:
        """Whether all participants are connected by shared columns, directly or through others."""
        return len(self.parts) == 1

    @property
    def possible(self) -> bool:
        """Whether the tables can be clustered together."""
        return (
            self.connected and not self.mixed and all(self.kinds.values()) and not self.lost and not self.without_rows
        )

    @property
    def without_rows(self) -> tuple[str, ...]:
        """Participants whose tables have no row."""
        return tuple(name for name in self.kinds if self.rows.get(name) == 0)

    @property
    def lost(self) -> dict[str, tuple[str, ...]]:
        """By participant, columns of numbers that cannot be read as they are: without them, measurements would be lost."""
        lost = {
            owner: tuple(name for name, reason in reasons.items() if "number" in reason)
            for owner, reasons in self.unusable.items()
        }
        return {owner: names for owner, names in lost.items() if names}

    @property
    def method(self) -> str | None:
        """The method to run: "federated", or None if the tables cannot be clustered together."""
        return "federated" if self.possible else None

    def verdict(self) -> str:
        """Return in one sentence whether a joint clustering is possible, and how."""
        sentence = self._verdict()
        if not self.unusable or not sentence.startswith(_YES):
            return sentence
        columns = sorted({name for names in self.unusable.values() for name in names})
        return f"{_YES}, without the columns that cannot be used ({quote(columns)}){sentence.removeprefix(_YES)}"

    def _verdict(self) -> str:  # noqa: PLR0911  (one sentence each)
        if self.without_rows:
            return (
                f"No: the table of {quote(self.without_rows)} has no rows. Hint: was the file written completely? Leave out "
                "participants that have no data."
            )
        if self.lost:
            columns = sorted({name for names in self.lost.values() for name in names})
            return (
                f"No, not yet: {quote(self.lost)} would lose numbers, those of {quote(columns)}. Say how they are written, "
                "or correct them, as listed above; or exclude the columns (-x)."
            )
        if empty := [name for name, columns in self.kinds.items() if not columns]:
            return f"No: no column of {quote(empty)} can be used as it is. Correct the columns; why is listed above."
        if self.mixed:
            return f"No: {quote(self.mixed)} are numbers for some and categories for others; convert them to one kind."
        if not self.connected:
            rest = [name for part in self.parts[1:] for name in part]
            hint = (
                f"; {self.alike[0].left!r} and {self.alike[0].right!r} look alike, rename one if they mean the same"
                if self.alike
                else "; leave them out, or add a participant that shares columns with both sides"
            )
            share = "shares" if len(rest) == 1 else "share"
            return f"No: {quote(rest)} {share} no column with the others, directly or through others{hint}."
        if len(self.kinds) == 1:
            return "Yes: there is one table, which is an ordinary clustering problem."
        if len(self.common) == len(self.columns):
            return "Yes: all participants have the same columns; both methods fit, and so would any federated k-means."
        if self.complete:
            return (
                f"Yes: every two participants share a column ({len(self.common)} of {len(self.columns)} are common to all); "
                "federated rounds fit best, and the one-shot method if only one round is possible."
            )
        weak = f", but it depends on {quote(b.participant for b in self.bridges)}" if self.bridges else ""
        return (
            f"Yes{weak}: some participants share no column and are compared through others. Federated rounds check this on "
            "the rows; one-shot cannot."
        )


def check_feasibility(
    tables: Any, rows: Mapping[str, int | None] | None = None, *, leave_out: Sequence[str] = ()
) -> Feasibility:
    """Return whether tables can be clustered together, and why: the report of ``intarsia check``.

    Parameters
    ----------
    tables : mapping or sequence of tables
        As for :func:`intarsia.cluster`: tables, paths, sources, mappings of columns. Instead of a table, a mapping of
        column names to kinds will do: ``"numbers"``, ``"categories"``, or the reason why a column is neither.
    rows : mapping, optional
        The number of rows by participant, for participants that are given by kinds alone.
    leave_out : sequence of str
        Columns that take no part.

    Examples
    --------
    >>> report = check_feasibility({"a": {"age": [30, 70], "chol": [180, 280]}, "b": {"age": "numbers"}})
    >>> report.connected, report.single
    (True, {'chol': 'a'})
    """
    given = keyed(tables) if is_many(tables) else {"table": tables}
    surveys: dict[Any, _Survey] = for_all(given, lambda key, table: _survey(str(key), table, leave_out))
    check_left_out(leave_out, {column for survey in surveys.values() for column in survey.all_columns})
    usable, unusable = (
        {
            str(key): {name: kind for name, kind in survey.kinds.items() if (kind in {NUMBERS, CATEGORIES}) == wanted}
            for key, survey in surveys.items()
        }
        for wanted in (True, False)
    )
    return Feasibility(
        kinds=usable,
        rows={str(key): survey.n_rows for key, survey in surveys.items()} | dict(rows or {}),
        alike=look_alikes(usable),
        mixed=_mixed(usable),
        unusable={name: columns for name, columns in unusable.items() if columns},
        row_ids={str(key): survey.row_ids for key, survey in surveys.items() if survey.row_ids},
        odd_levels=tuple(odd_levels({str(key): survey.levels for key, survey in surveys.items()})),
        **_from_moments(usable, {str(key): survey.moments for key, survey in surveys.items()}),
        **_graph(usable),
    )


class _Survey(NamedTuple):
    """The kinds of a table's columns, its rows, columns that look like row IDs, all columns, moments, rows by level."""

    kinds: Mapping[str, str]
    n_rows: int | None
    row_ids: tuple[str, ...]
    all_columns: Collection[str]
    moments: Mapping[str, tuple[float, float, float]] = MappingProxyType({})
    levels: Mapping[str, Mapping[str, int]] = MappingProxyType({})


def _survey(owner: str, table: Any, leave_out: Sequence[str]) -> _Survey:
    if isinstance(table, Mapping) and all(isinstance(kind, str) for kind in table.values()):
        return _Survey({name: kind for name, kind in table.items() if name not in leave_out}, None, (), tuple(table))
    opened = open_table(table, owner, leave_out=leave_out)
    row_ids, kinds = tuple(opened.row_id_columns()), opened.kinds()
    levels = opened.level_counts([name for name, kind in kinds.items() if kind == CATEGORIES])
    return _Survey(kinds, opened.n_rows, row_ids, opened.all_columns, opened.moments(), levels)


def _from_moments(
    kinds: Mapping[str, Mapping[str, str]], moments: Mapping[str, Mapping[str, tuple[float, float, float]]]
) -> dict[str, Any]:
    """Return columns of numbers that seem to be in other units at a participant, and deviations of all."""
    columns = sorted({name for own in kinds.values() for name, kind in own.items() if kind == NUMBERS})
    parts = np.zeros((3, len(kinds), len(columns)))
    for i, (name, own) in enumerate(kinds.items()):
        for m, column in enumerate(columns):
            if own.get(column) == NUMBERS:
                parts[:, i, m] = moments[name].get(column, (0.0, 0.0, 0.0))
    everywhere = np.arange(len(columns))
    pooled = pool([(everywhere, Statistics(*parts[:, i])) for i in range(len(kinds))], len(columns))
    widths = zip(columns, deviation_of(pooled).tolist(), strict=True)
    varying = {name: width for name, width in sorted(widths, key=lambda pair: pair[1]) if width > 0}
    return {"odd": tuple(odd_columns(list(kinds), columns, *parts)), "widths": varying}


def _mixed(kinds: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    kinds_of: dict[str, set[str]] = {}
    for columns in kinds.values():
        for column, kind in columns.items():
            kinds_of.setdefault(column, set()).add(kind)
    return tuple(sorted(column for column, different in kinds_of.items() if len(different) > 1))


def _graph(kinds: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the parts, completeness and bridges of the graph in which participants share columns."""
    names, space = list(kinds), FeatureSpace.union(kinds.values())
    masks = np.array([space.mask(list(kinds[name])) for name in names], dtype=np.bool_).reshape(len(names), len(space))
    component = components(masks)
    parts = [tuple(names[k] for k in np.flatnonzero(component == c)) for c in range(component.max() + 1)]
    bridges = {
        names[vertex]: tuple(tuple(names[k] for k in part) for part in components_without(masks, vertex))
        for vertex in cut_vertices(masks)
    }
    return {
        "parts": tuple(sorted(parts, key=lambda part: -len(part))),
        "complete": is_complete(masks),
        "bridges": tuple(Bridge(name, parts) for name, parts in bridges.items()) if len(parts) == 1 else (),
    }
