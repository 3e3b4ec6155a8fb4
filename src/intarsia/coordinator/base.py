"""An algorithm is a state and two pure functions: ``start`` and ``advance``. Whoever drives it does the sending."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components

from intarsia.coordinator.gather import check_statistics, checked, replies_of
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.densities.base import Density
from intarsia.core.distances import Extent, Metric
from intarsia.core.features import (
    FeatureSpace,
    clashes,
    components,
    indicators,
    is_complete,
    joint_levels,
    near_misses,
)
from intarsia.core.grouping.local_centroids import SHARING_METRICS, LocalCentroids
from intarsia.core.grouping.n_clusters import Summaries
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import CommonUnits, choose_units, pool
from intarsia.exceptions import (
    DisjointFeaturesError,
    DuplicateColumnError,
    InputError,
    MixedKindsError,
    NonNumericError,
    ProtocolError,
    about,
    quote,
)
from intarsia.protocol import (
    MOST_JOINT_LEVELS,
    Columns,
    Description,
    Labelled,
    LocalSummary,
    Moments,
    Reply,
    Request,
)
from intarsia.protocol.densities import unpacked
from intarsia.results.outcome import Coverage, GlobalModel, LocalCluster, Outcome, RoundInfo

EXPONENT, SOFTENING = 2.0, 0.01  # of the force between local clusters
DEVIATIONS = 2.0  # how many standard deviations count as reached when there are no points to look at
STRONGEST = 1e100  # without softening the force between equal points is infinite; sums must not be
MAX_LOCAL_CLUSTERS = 20  # how far a participant looks when nobody knows K


@dataclass(frozen=True)
class Step:
    """Where a run stands: what to ask next, or the result. ``optional`` questions may stay without any answer."""

    state: Any = None
    requests: Mapping[str, Request] = field(default_factory=dict)
    result: Outcome | None = None
    last: RoundInfo | None = None  # the round before, for whoever watches
    optional: bool = False


class Algorithm(Protocol):
    """Decides what to ask and what the answers mean."""

    def start(self, participants: Sequence[str]) -> Step:
        """The first questions."""

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step:
        """The next questions, or the result. Whoever was asked and is not in ``replies`` stayed away this time."""


@dataclass(frozen=True)
class Study:
    """Who takes part and what they see, in a canonical order: participants and features sorted by name.

    ``features`` are what rows are laid out by: columns of numbers, and for each column of categories an indicator of every
    level that anybody has. ``levels`` are those levels, by participant and column.
    """

    participants: tuple[str, ...]
    space: FeatureSpace
    features: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, Mapping[str, tuple[str, ...]]]
    units: CommonUnits

    @cached_property
    def masks(self) -> BoolArray:
        """One row per participant: the diagonal of its Ω."""
        return np.array([self.space.mask(self.features[name]) for name in self.participants], dtype=np.bool_)

    @cached_property
    def complete(self) -> bool:
        """Whether every two participants share a feature."""
        return is_complete(self.masks)

    @property
    def shift(self) -> FloatArray:
        """What common units subtract."""
        return self.units.shift

    @property
    def scale(self) -> FloatArray:
        """What common units divide by."""
        return self.units.scale

    @cached_property
    def all_levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return joint_levels(self.levels.values())

    def of(self, names: Collection[str]) -> Study:
        """The same units for some of the participants; features that only the others have are gone."""
        if set(names) == set(self.participants):
            return self
        participants = tuple(name for name in self.participants if name in names)
        there = {feature for name in participants for feature in self.features[name]}
        space = FeatureSpace(tuple(feature for feature in self.space.names if feature in there))
        index = self.space.index(space.names)
        return Study(
            participants,
            space,
            {name: self.features[name] for name in participants},
            {name: self.levels[name] for name in participants},
            CommonUnits(self.shift[index], self.scale[index], self.units.way),
        )

    def joined(self, name: str, has: Has) -> Study:
        """One more participant, who comes when groups are found already. Features that nobody else has come last.

        Raises
        ------
        InputError
            It shares no feature with the others, or means something else by a column.
        """
        levels = joint_levels([{c: own for c, own in self.all_levels.items() if c in has.levels}, has.levels])
        inside = set(indicators(self.all_levels))
        numbers = tuple(feature for feature in self.space.names if feature not in inside)
        _check_kinds({"the others": Has(numbers, self.all_levels, None), name: Has(has.numbers, levels, None)})
        if has.moments is not None:
            check_statistics({name: has.moments}, self.units.way)
        features = tuple(sorted((*has.numbers, *indicators(levels))))
        if not set(features) & set(self.space.names):
            raise DisjointFeaturesError(
                f"participant {name!r} shares no feature with the others. Hint: rename columns that mean the same."
            )
        space = FeatureSpace((*self.space.names, *(f for f in features if f not in self.space)))
        parts = [] if has.moments is None else [(space.index(has.numbers), has.moments)]
        way = None if has.moments is None else self.units.way
        own = choose_units(pool(parts, len(space)), way, space.mask(indicators(self.all_levels | levels)))
        known = len(self.space)
        shift, scale = np.append(self.shift, own.shift[known:]), np.append(self.scale, own.scale[known:])
        return Study(
            (*self.participants, name),
            space,
            {**self.features, name: features},
            {**self.levels, name: levels},
            CommonUnits(shift, scale, self.units.way),
        )

    def index(self, participant: str) -> IntArray:
        """Where the participant's features stand in the union."""
        return self.space.index(self.features[participant])

    def columns_for(self, participant: str) -> Columns | None:
        """How the participant is to lay out its rows; None where they are as they are."""
        if not self.all_levels and (self.scale == 1.0).all() and (self.shift == 0.0).all():
            return None
        index = self.index(participant)
        return Columns(shift=self.shift[index], scale=self.scale[index], levels=dict(self.levels[participant]))


class Has(NamedTuple):
    """A participant's columns: those of numbers, those of categories with the levels it knows, and moments if sent."""

    numbers: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    moments: Moments | None


def make_study(described: Mapping[str, Has], scale: str | None, *, allow_partial: bool = False) -> Study:
    """Put everybody's columns together, check that they hang together, and find common units."""
    participants = tuple(sorted(described))
    _check_kinds({name: described[name] for name in participants})
    levels = joint_levels(has.levels for has in described.values())
    seen = {name: {column: levels[column] for column in described[name].levels} for name in participants}
    features = {name: tuple(sorted((*described[name].numbers, *indicators(seen[name])))) for name in participants}
    space = FeatureSpace(tuple(sorted(FeatureSpace.union(features.values()).names)))
    if not allow_partial:
        check_connected({name: (*described[name].numbers, *described[name].levels) for name in participants})
    inside = space.mask(indicators(levels))
    check_statistics({name: described[name].moments for name in participants}, scale)
    parts = [
        (space.index(described[name].numbers), moments)
        for name in participants
        if (moments := described[name].moments) is not None and scale is not None
    ]
    units = choose_units(pool(parts, len(space)), scale, inside)
    return Study(participants, space, features, seen, units)


def _check_kinds(described: Mapping[str, Has]) -> None:
    """Refuse a column that is numbers here and categories there, or called like a level of another."""
    levels = joint_levels(has.levels for has in described.values())
    of_numbers = {column: name for name, has in described.items() for column in has.numbers}
    mixed = [
        f"{column} (numbers at {of_numbers[column]}, categories elsewhere)" for column in levels if column in of_numbers
    ]
    if mixed:
        truths = all(set(levels[column]) <= {"True", "False"} for column in levels if column in of_numbers)
        how = (
            "astype(bool) where they are 0 and 1"
            if truths
            else "to_numeric, or astype('category') where they are codes"
        )
        text = (
            f"{len(mixed)} column(s) are numbers for some participants and categories for others: {quote(mixed)}. "
            f"Hint: convert them to the same kind, in pandas with {how}."
        )
        raise about(_odd_one_out(described), MixedKindsError(text))
    if clash := clashes(levels, of_numbers):
        text = f"{len(clash)} column(s) are called like a level of another column: {quote(clash)}. Hint: rename them."
        owner = next((name for name, has in described.items() if set(clash) & set(has.numbers)), next(iter(described)))
        raise about(owner, DuplicateColumnError(text))
    crowded = [f"{column} ({len(own)} levels)" for column, own in levels.items() if len(own) > MOST_JOINT_LEVELS]
    if crowded:
        text = (
            f"{len(crowded)} column(s) have more than {MOST_JOINT_LEVELS} levels in all: {quote(crowded)}. "
            "Hint: do all participants write the levels alike? Join rare ones, or drop the column."
        )
        most = max(described, key=lambda name: max(map(len, described[name].levels.values()), default=0))
        raise about(most, NonNumericError(text))


def _odd_one_out(described: Mapping[str, Has]) -> str:
    """Whoever disagrees with most of the others on what a column holds."""

    def against(name: str) -> int:
        numbers, levels = set(described[name].numbers), set(described[name].levels)
        return sum(len(numbers & set(has.levels)) + len(levels & set(has.numbers)) for has in described.values())

    return max(described, key=against)


def check_connected(features: Mapping[str, Sequence[str]]) -> None:
    """Refuse participants that share no feature with the rest, not even through others."""
    names = list(features)
    space = FeatureSpace.union(features.values())
    label = components(np.array([space.mask(features[name]) for name in names], dtype=np.bool_))
    if label.max(initial=0) == 0:
        return
    largest = np.bincount(label).argmax()
    apart = [name for name, part in zip(names, label, strict=True) if part != largest]
    misses = near_misses(features)[:3]
    hint = (
        "Hint: "
        + "; ".join(
            f"{a!r} ({b}) and {c!r} ({d}) look alike; rename one if they mean the same" for a, b, c, d in misses
        )
        if misses
        else "Hint: leave them out, or add a participant that has columns of both sides."
    )
    text = (
        f"{len(apart)} of {len(names)} participants share no feature with the other {len(names) - len(apart)}, not even "
        f"through others: {quote(apart)}. The overlap must connect everybody for clusters to be compared. {hint}"
    )
    raise about(apart[0], DisjointFeaturesError(text))


class Roll(NamedTuple):
    """Who was asked to take part: what those said of themselves who have answered, and who has not yet.

    ``remarks`` are about those who came and could not join.
    """

    described: Mapping[str, Description]
    silent: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, participants: Sequence[str]) -> Roll:
        """Nobody has answered."""
        return cls({}, tuple(participants))

    def heard(self, replies: Mapping[str, Reply]) -> Roll:
        """With what came from those who had been silent."""
        came = replies_of(Description, replies, self.silent)
        silent = tuple(name for name in self.silent if name not in came)
        return self._replace(described={**self.described, **came}, silent=silent)

    def has(self, name: str) -> Has:
        """The columns of one who has answered."""
        said = self.described[name]
        return Has(said.features, said.levels, said.moments)

    def joining(self, study: Study) -> tuple[Study, Roll]:
        """The study with everybody who has answered since; one that does not fit is left out, and said so."""
        remarks = self.remarks
        for name in [name for name in self.described if name not in study.participants]:
            try:
                study = study.joined(name, self.has(name))
            except (InputError, ProtocolError) as error:
                remark = f"{name!r} came later and could not join: {error}"
                remarks = remarks if remark in remarks else (*remarks, remark)
        return study, self._replace(remarks=remarks)


@dataclass(frozen=True)
class Gathered:
    """Everybody's local clusters over the union of features, in common units."""

    centroids: MaskedCentroids
    owner: IntArray
    sizes: IntArray
    coverage: Coverage
    fidelity: FloatArray | None = None
    clarity: Mapping[str, float] = field(default_factory=dict)


def gather(study: Study, summaries: Mapping[str, LocalSummary]) -> Gathered:
    """Lay all local centroids out over the union of features."""
    values, counts, owner, sizes = [], [], [], []
    filled = np.zeros((len(study.participants), len(study.space)), dtype=np.intp)
    for i, name in enumerate(study.participants):
        summary, index = summaries[name], study.space.index(summaries[name].features)
        n = len(summary.sizes)
        wide_values, wide_counts = np.zeros((n, len(study.space))), np.zeros((n, len(study.space)))
        wide_values[:, index], wide_counts[:, index] = summary.values, summary.counts
        filled[i, index] = summary.filled
        for column, at in unheard_of(study, name, summary):  # observed zeros
            wide_counts[:, at] = summary.counts[:, [summary.features.index(column)]]
            filled[i, at] = summary.filled[summary.features.index(column)]
        values.append(wide_values)
        counts.append(wide_counts)
        owner.append(np.full(n, i, dtype=np.intp))
        sizes.append(summary.sizes)
    return Gathered(
        MaskedCentroids.of(np.concatenate(values), np.concatenate(counts)),
        np.concatenate(owner),
        np.concatenate(sizes),
        Coverage(np.array([summaries[name].n_rows for name in study.participants], dtype=np.intp), filled),
        _fidelity(study, summaries),
        {name: summary.clarity for name, summary in summaries.items() if summary.clarity is not None},
    )


def _fidelity(study: Study, summaries: Mapping[str, LocalSummary]) -> FloatArray | None:
    sent = [summaries[name].fidelity for name in study.participants]
    there = [part for part in sent if part is not None]
    return np.concatenate(there) if len(there) == len(sent) else None


def summaries_of(study: Study, gathered: Gathered, densities: Sequence[Density]) -> Summaries:
    """Local clusters as the choice of K sees them.

    Whoever chose its number of clusters itself says how clear they are, or that there is one.
    """
    counts = np.bincount(gathered.owner, minlength=len(study.participants))
    chose = [name in gathered.clarity or counts[i] == 1 for i, name in enumerate(study.participants)]
    mine = np.array(chose, dtype=np.bool_)[gathered.owner]
    return Summaries(densities, gathered.centroids.seen, gathered.owner, gathered.sizes, mine)


def unpacked_densities(
    study: Study, gathered: Gathered, summaries: Mapping[str, LocalSummary], *, original_units: bool
) -> list[Density]:
    """Everybody's densities, in the order of the gathered clusters, in common units; brought to them if they are not yet."""
    densities, seen = [], iter(gathered.centroids.seen)
    for name in study.participants:
        summary, index = summaries[name], study.space.index(summaries[name].features)
        for values, counts, packed in zip(summary.values, summary.counts, summary.densities or (), strict=True):
            own, all_seen = index[counts > 0], np.flatnonzero(next(seen))
            density = unpacked(packed, values[counts > 0])
            if original_units:
                density = density.in_units(study.shift[own], study.scale[own])
            # levels that the participant never had are zeros that do not vary
            at = np.searchsorted(all_seen, own)
            densities.append(density if len(at) == len(all_seen) else density.placed(at, len(all_seen)))
    return densities


def unheard_of(study: Study, name: str, summary: LocalSummary) -> Iterator[tuple[str, IntArray]]:
    """For every column of categories: one of its indicators that the summary has, and where those it lacks stand."""
    for column, levels in study.levels[name].items():
        there = [feature for feature in indicators({column: levels}) if feature in summary.features]
        lacking = [feature for feature in indicators({column: levels}) if feature not in summary.features]
        if lacking:
            yield there[0], study.space.index(lacking)


def local_clusters(
    study: Study, gathered: Gathered, groups: IntArray, margin: Sequence[float]
) -> tuple[LocalCluster, ...]:
    """Every local cluster with the group it joined, numbered within its participant."""
    seen: dict[int, int] = {}
    records = []
    for owner, size, group, how_clear in zip(gathered.owner, gathered.sizes, groups, margin, strict=True):
        index = seen[int(owner)] = seen.get(int(owner), -1) + 1
        records.append(LocalCluster(study.participants[owner], index, int(size), int(group), float(how_clear)))
    return tuple(records)


def check_comparable(study: Study, owner: IntArray, comparable: BoolArray) -> None:
    """Refuse participants whose clusters can be compared with nobody else's, although they share names.

    It happens when all that they share is constant. ``owner`` is in order.
    """
    first = np.searchsorted(owner, np.arange(len(study.participants)))
    by_owner = np.logical_or.reduceat(np.logical_or.reduceat(comparable, first, axis=0), first, axis=1)
    _check_one_piece(study, connected_components(by_owner, directed=False)[1].astype(np.intp))


def check_comparable_centroids(study: Study, local: LocalCentroids) -> None:
    """The same for centroids, without all pairs of them where sharing a feature that varies is enough."""
    if local.metric not in SHARING_METRICS:
        check_comparable(study, local.owner, local.comparable)
        return
    first = np.searchsorted(local.owner, np.arange(len(study.participants)))
    _check_one_piece(study, components(np.logical_or.reduceat(local.varying, first, axis=0)))


def _check_one_piece(study: Study, label: IntArray) -> None:
    n = len(study.participants)
    if label.max(initial=0) == 0:
        return
    largest = np.bincount(label).argmax()
    apart = [name for name, part in zip(study.participants, label, strict=True) if part != largest]
    raise DisjointFeaturesError(
        f"{len(apart)} of {n} participants share only features that tell nothing (the same for all local clusters, or a "
        f"single one under the cosine metric): {quote(apart)}. "
        "Hint: leave them out, or add columns that vary and that others have too."
    )


def global_model(
    study: Study, centroids: MaskedCentroids, extent: Extent, metric: Metric, variances: FloatArray, cells: FloatArray
) -> GlobalModel:
    """All that labelling a new row needs."""
    return GlobalModel(
        study.space,
        centroids,
        extent,
        study.shift,
        study.scale,
        metric,
        variances,
        cells,
        study.all_levels,
        study.units.way,
    )


def spread_of(study: Study, labelled: Mapping[str, Labelled], n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """The variance of every cluster and feature around the final centroids, pooled, and how many cells stand behind it."""
    counts, squares = np.zeros((n_clusters, len(study.space))), np.zeros((n_clusters, len(study.space)))
    for name in filter(labelled.__contains__, study.participants):
        index = study.index(name)
        own_counts, own_squares = checked(name, labelled[name].spread, n_clusters, len(index))
        counts[:, index] += own_counts
        squares[:, index] += own_squares
    return squares / np.maximum(counts, 1.0), counts


def starts_stream(seed: int, purpose: str) -> Callable[[int], np.random.Generator]:
    """Generators for the search's random starts."""
    return lambda k: stream(seed, "coordinator", purpose, k)
