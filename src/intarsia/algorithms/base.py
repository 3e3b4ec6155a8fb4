"""An algorithm is a state and two pure functions: ``start`` and ``advance``. Whoever drives it does the sending."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.densities import Density
from intarsia.core.distances import LARGEST, Extent, Metric
from intarsia.core.features import (
    FeatureSpace,
    clashes,
    components,
    indicators,
    joint_levels,
    near_misses,
    overlap_graph,
)
from intarsia.core.n_clusters import Summaries
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import QUANTILES, CommonUnits, choose_units, pool
from intarsia.density_messages import problem_of, unpacked
from intarsia.exceptions import (
    DisjointFeaturesError,
    DuplicateColumnError,
    MixedKindsError,
    NonNumericError,
    ProtocolError,
    TooFewClustersError,
    quote,
)
from intarsia.messages import (
    MOST_JOINT_LEVELS,
    Columns,
    Description,
    DirichletDensity,
    DiscreteDensity,
    GaussianDensity,
    Labelled,
    LocalSummary,
    LowRankDensity,
    Message,
    Moments,
    Refined,
    Reply,
    Request,
)
from intarsia.results import Coverage, GlobalModel, LocalCluster, Outcome, RoundInfo

M = TypeVar("M", bound=Message)
EXPONENT, SOFTENING = 2.0, 0.01  # of the force between local clusters
DEVIATIONS = 2.0  # how many standard deviations count as reached when there are no points to look at
STRONGEST = 1e100  # without softening the force between equal points is infinite; sums must not be
MAX_LOCAL_CLUSTERS = 20  # how far a participant looks when nobody knows K
_MOST_ROWS = 2**53  # counts are exact up to here


@dataclass(frozen=True)
class Step:
    """Where a run stands: what to ask next, or the result."""

    state: Any = None
    requests: Mapping[str, Request] = field(default_factory=dict)
    result: Outcome | None = None
    last: RoundInfo | None = None  # the round before, for whoever watches


class Algorithm(Protocol):
    """Decides what to ask and what the answers mean."""

    def start(self, participants: Sequence[str]) -> Step:
        """The first questions."""

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step:
        """The next questions, or the result."""


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

    @property
    def masks(self) -> BoolArray:
        """One row per participant: the diagonal of its Ω."""
        return np.array([self.space.mask(self.features[name]) for name in self.participants], dtype=np.bool_)

    @property
    def overlap(self) -> BoolArray:
        """Who shares a feature with whom."""
        return overlap_graph(self.masks)

    @property
    def shift(self) -> FloatArray:
        """What common units subtract."""
        return self.units.shift

    @property
    def scale(self) -> FloatArray:
        """What common units divide by."""
        return self.units.scale

    @property
    def all_levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of every column of categories."""
        return joint_levels(self.levels.values())

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
    silent = [name for name in participants if scale is not None and described[name].moments is None]
    if silent:
        raise ProtocolError(f"the moments of {quote(silent)} are missing, which were asked for")
    for name in participants:
        _check_statistics(name, described[name].moments, scale)
    parts = [
        (space.index(described[name].numbers), moments)
        for name in participants
        if (moments := described[name].moments) is not None and scale is not None
    ]
    units = choose_units(pool(parts, len(space)), scale, inside)
    return Study(participants, space, features, seen, units)


def _check_statistics(name: str, moments: Moments | None, scale: str | None) -> None:
    if moments is not None:
        _require(
            scale != "minmax" or moments.low is not None, name, "no smallest and largest cells, which were asked for"
        )
        _require(scale != "robust" or moments.quantiles is not None, name, "no quantiles, which were asked for")


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
        raise MixedKindsError(
            f"{len(mixed)} column(s) are numbers for some participants and categories for others: {quote(mixed)}. "
            f"Hint: convert them to the same kind, in pandas with {how}."
        )
    if clash := clashes(levels, of_numbers):
        raise DuplicateColumnError(
            f"{len(clash)} column(s) are called like a level of another column: {quote(clash)}. Hint: rename them."
        )
    crowded = [f"{column} ({len(own)} levels)" for column, own in levels.items() if len(own) > MOST_JOINT_LEVELS]
    if crowded:
        raise NonNumericError(
            f"{len(crowded)} column(s) have more than {MOST_JOINT_LEVELS} levels in all: {quote(crowded)}. "
            "Hint: do all participants write the levels alike? Join rare ones, or drop the column."
        )


def check_connected(features: Mapping[str, Sequence[str]]) -> None:
    """Refuse participants that share no feature with the rest, not even through others."""
    names = list(features)
    space = FeatureSpace.union(features.values())
    label = components(overlap_graph(np.array([space.mask(features[name]) for name in names], dtype=np.bool_)))
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
    raise DisjointFeaturesError(
        f"{len(apart)} of {len(names)} participants share no feature with the other {len(names) - len(apart)}, not even "
        f"through others: {quote(apart)}. The overlap must connect everybody for clusters to be compared. {hint}"
    )


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
                density = density.scaled(study.shift[own], study.scale[own])
            # levels that the participant never had are zeros that do not vary
            at = np.searchsorted(all_seen, own)
            densities.append(density if len(at) == len(all_seen) else density.placed(at, len(all_seen)))
    return densities


def check_densities(summaries: Mapping[str, LocalSummary], kind: str) -> None:
    """Everybody sent densities, of the kind that was asked for."""
    wanted: tuple[type, ...] = {"dirichlet": (DirichletDensity,), "discrete": (DiscreteDensity,)}.get(
        kind, (GaussianDensity, LowRankDensity)
    )
    for name, summary in summaries.items():
        if summary.densities is None:
            raise ProtocolError(f"participant {name!r} sent no densities, which were asked for")
        _require(all(isinstance(d, wanted) for d in summary.densities), name, f"densities that are not {kind}")
        _require(kind != "dirichlet" or not summary.levels, name, "a composition with categories in it")


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

    It happens when all that they share is constant.
    """
    n = len(study.participants)
    member = (owner[None, :] == np.arange(n)[:, None]).astype(np.intp)
    label = components((member @ comparable.astype(np.intp) @ member.T > 0) | np.eye(n, dtype=np.bool_))
    if label.max(initial=0) == 0:
        return
    largest = np.bincount(label).argmax()
    apart = [name for name, part in zip(study.participants, label, strict=True) if part != largest]
    raise DisjointFeaturesError(
        f"{len(apart)} of {n} participants share only features that tell nothing (the same for all local clusters, or a "
        f"single one under the cosine metric): {quote(apart)}. "
        "Hint: leave them out, or add columns that vary and that others have too."
    )


def replies_of(kind: type[M], replies: Mapping[str, Reply], expected: Sequence[str]) -> dict[str, M]:
    """The replies, all of the expected kind and from the expected participants, or a ProtocolError."""
    if set(replies) != set(expected):
        raise ProtocolError(
            f"replies came from {quote(sorted(replies))}, but were expected from {quote(sorted(expected))}"
        )
    for name, reply in replies.items():
        if not isinstance(reply, kind):
            raise ProtocolError(
                f"participant {name!r} sent a {type(reply).__name__} where a {kind.__name__} was asked for"
            )
    return dict(replies)  # type: ignore[arg-type]


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


def sizes_of(labelled: Mapping[str, Labelled], participants: Sequence[str], n_clusters: int) -> dict[str, IntArray]:
    """How many rows of each participant are in each cluster."""
    for name in participants:
        sizes = labelled[name].sizes
        fits = sizes.shape == (n_clusters,) and sizes.dtype.kind == "i" and bool((sizes >= 0).all())
        _require(fits, name, "sizes that do not fit the clusters")
    return {name: labelled[name].sizes for name in participants}


def spread_of(study: Study, labelled: Mapping[str, Labelled], n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """The variance of every cluster and feature around the final centroids, pooled, and how many cells stand behind it."""
    counts, squares = np.zeros((n_clusters, len(study.space))), np.zeros((n_clusters, len(study.space)))
    for name in study.participants:
        reply, index = labelled[name], study.index(name)
        shape = (n_clusters, len(index))
        if reply.counts is None or reply.squares is None:
            raise ProtocolError(f"participant {name!r} did not say how far its rows are from the centroids")
        _require(reply.counts.shape == reply.squares.shape == shape, name, "a spread of the wrong shape")
        _check_numbers(name, np.zeros(shape), reply.counts)
        sane = (
            reply.squares.dtype.kind == "f" and _is_moderate(reply.squares, squared=True) and (reply.squares >= 0).all()
        )
        _require(bool(sane), name, "squares that are not sums of squares")
        counts[:, index] += reply.counts
        squares[:, index] += reply.squares
    return squares / np.maximum(counts, 1.0), counts


def check_description(name: str, reply: Description) -> None:
    """Names must be there, be unique and fit the moments."""
    _require(len(reply.features) + len(reply.levels) > 0, name, "no feature")
    _check_order(name, reply.features)
    _require(not set(reply.features) & set(reply.levels), name, "a column that is two kinds at once")
    _check_levels(name, reply.levels)
    _require(0 < reply.n_rows < _MOST_ROWS, name, "no rows")
    if reply.moments is not None:
        _check_moments(name, reply.moments, len(reply.features))


def check_summary(name: str, reply: LocalSummary) -> None:
    """Shapes must fit each other, counts must be counts, and what is not hidden must be a number."""
    _check_features(name, reply.features)
    _check_levels(name, reply.levels)
    _require(set(indicators(reply.levels)) <= set(reply.features), name, "levels without a feature")
    _require(0 < reply.n_rows < _MOST_ROWS, name, "no rows")
    filled = reply.filled
    whole = filled.shape == (len(reply.features),) and filled.dtype.kind == "i"
    _require(whole and bool(((filled >= 0) & (filled <= reply.n_rows)).all()), name, "counts that do not fit its rows")
    shape = (len(reply.sizes), len(reply.features)) if reply.sizes.ndim == 1 else None
    _require(
        shape is not None and reply.values.shape == shape and reply.counts.shape == shape, name, "shapes do not fit"
    )
    if len(reply.sizes) == 0:
        raise TooFewClustersError(
            f"participant {name!r} found no cluster at all (every row is noise). "
            "Hint: give it a less strict local algorithm, or leave it out."
        )
    _require(reply.clarity is None or -1 <= reply.clarity <= 1, name, "a clarity that is no silhouette")
    _require(reply.sizes.dtype.kind == "i" and bool((reply.sizes > 0).all()), name, "a cluster without rows")
    _require(int(reply.sizes.sum(dtype=object)) <= reply.n_rows, name, "more rows in clusters than in all")
    _check_numbers(name, reply.values, reply.counts)
    fewer = (reply.counts <= reply.sizes[:, None]).all() and (reply.counts.sum(axis=0) <= filled).all()
    _require(bool(fewer), name, "more filled cells than rows")
    if reply.densities is not None:
        _require(len(reply.densities) == len(reply.sizes), name, "not one density per cluster")
        for density, counts in zip(reply.densities, reply.counts, strict=True):
            problem = problem_of(density, int((counts > 0).sum()))
            _require(problem is None, name, str(problem))
    if reply.fidelity is not None:
        fits = reply.fidelity.shape == (len(reply.sizes), 4) and reply.fidelity.dtype.kind == "f"
        sane = fits and not (np.isinf(reply.fidelity[:, :3]) | (reply.fidelity[:, :3] < 0)).any()
        _require(sane, name, "a fidelity that is none")
    if reply.low is not None and reply.high is not None:
        _require(reply.low.shape == shape and reply.high.shape == shape, name, "a bounding box of the wrong shape")
        inside = _is_moderate(reply.low) and _is_moderate(reply.high) and bool((reply.low <= reply.high).all())
        _require(inside, name, "a bounding box that is none")
    if reply.moments is not None:
        _check_moments(name, reply.moments, len(reply.features))


def check_centroids(name: str, reply: Refined, shape: tuple[int, int]) -> None:
    """Refined centroids must have the shape that was asked for."""
    fits = reply.values.shape == shape and reply.counts.shape == shape and reply.sizes.shape == shape[:1]
    _require(fits, name, "centroids of the wrong shape")
    whole = reply.sizes.dtype.kind == "i" and bool(((reply.sizes >= 0) & (reply.sizes < _MOST_ROWS)).all())
    _require(whole, name, "sizes that are not sizes")
    _require(0 <= reply.misfit < np.inf, name, "a misfit that is not a sum of squares")
    _check_numbers(name, reply.values, reply.counts)


def _check_numbers(name: str, values: FloatArray, counts: FloatArray) -> None:
    whole = (
        np.isfinite(counts).all() and (counts >= 0).all() and (counts < _MOST_ROWS).all() and (counts % 1 == 0).all()
    )
    _require(bool(whole), name, "counts that are not counts")
    _require(values.dtype.kind == "f" and _is_moderate(values[counts > 0]), name, "centroids that are not finite")


def _check_features(name: str, features: tuple[str, ...]) -> None:
    _require(len(features) > 0, name, "no feature")
    _check_order(name, features)


def _check_order(name: str, features: tuple[str, ...]) -> None:
    _require(len(set(features)) == len(features), name, "a feature twice")
    _require(tuple(sorted(features)) == tuple(features), name, "features that are not in order")


def _check_levels(name: str, levels: Mapping[str, tuple[str, ...]]) -> None:
    fits = all(column.strip() and 0 < len(own) == len(set(own)) for column, own in levels.items())
    _require(fits, name, "levels that are none")
    _require(all(len(own) <= MOST_JOINT_LEVELS for own in levels.values()), name, "far too many levels")


def _check_moments(name: str, moments: Moments, d: int) -> None:
    _require((moments.low is None) == (moments.high is None), name, "half of its extremes")
    parts = [moments.count, moments.mean, moments.m2]
    sane = _is_moderate(moments.count) and _is_moderate(moments.mean) and _is_moderate(moments.m2, squared=True)
    if moments.low is not None and moments.high is not None:
        parts += [moments.low, moments.high]
        sane = sane and _is_moderate(moments.low) and _is_moderate(moments.high)
    _require(
        all(part.shape == (d,) and part.dtype.kind == "f" for part in parts) and sane, name, "moments that do not fit"
    )
    _require(bool((moments.count >= 0).all() and (moments.m2 >= 0).all()), name, "negative counts or squares")
    if moments.low is not None and moments.high is not None:
        _require(bool((moments.low <= moments.high).all()), name, "a smallest cell above the largest")
    quantiles = moments.quantiles
    if quantiles is not None:
        fits = quantiles.shape == (len(QUANTILES), d) and quantiles.dtype.kind == "f" and _is_moderate(quantiles)
        _require(fits and bool((np.diff(quantiles, axis=0) >= 0).all()), name, "quantiles that are none")


def _is_moderate(values: FloatArray, *, squared: bool = False) -> bool:
    """Finite, and small enough to be squared and summed; sums of squares may be as large as such sums get."""
    return bool((np.abs(values) <= (LARGEST**2 * _MOST_ROWS if squared else LARGEST)).all())


def _require(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise ProtocolError(f"the reply of participant {name!r} cannot be used: {problem}")


def starts_stream(seed: int, purpose: str) -> Callable[[int], np.random.Generator]:
    """Generators for the search's random starts."""
    return lambda k: stream(seed, "coordinator", purpose, k)
