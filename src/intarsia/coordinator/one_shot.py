"""Algorithm 2: one-shot distributed agglomerative clustering with masked data.

    summarize (local clusters with a density each) → forces → group → assign

One exchange gathers everything; the second only tells participants which group each of their clusters joined. Whoever comes
only then labels its rows by the nearest centroid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from intarsia.coordinator.base import (
    DEVIATIONS,
    EXPONENT,
    MAX_LOCAL_CLUSTERS,
    SOFTENING,
    STRONGEST,
    Gathered,
    Has,
    Roll,
    Step,
    Study,
    check_comparable,
    gather,
    global_model,
    local_clusters,
    make_study,
    starts_stream,
    summaries_of,
    unpacked_densities,
)
from intarsia.coordinator.gather import check_senders, checked, replies_of, sizes_of
from intarsia.core.centroids import MaskedCentroids, merge
from intarsia.core.densities.base import Density, family_of
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import extent_of_densities
from intarsia.core.densities.sampled_force import sample_inside, sampled_forces
from intarsia.core.distances import Extent, Metric, extent_of
from intarsia.core.features import indicators
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.grouping.aggregations import AGGREGATIONS
from intarsia.core.grouping.local_centroids import by_size
from intarsia.core.grouping.local_forces import LocalForces
from intarsia.core.grouping.margins import margins
from intarsia.core.grouping.n_clusters import Choice, choose_n_clusters
from intarsia.core.grouping.objective import ForceObjective
from intarsia.core.grouping.options import SearchOptions
from intarsia.core.mixture import pooled_squares
from intarsia.core.randomness import stream
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DisjointFeaturesError, TooFewClustersError
from intarsia.protocol import (
    Assign,
    Centres,
    Describe,
    Label,
    Labelled,
    LocalSummary,
    Moments,
    Reply,
    Request,
    Summarize,
)
from intarsia.results.outcome import Aggregation, Coverage, Outcome

FORCES = ("auto", "exact", "sampled")


class Attraction(NamedTuple):
    """Forces between all local clusters, and what they were rescaled by."""

    forces: FloatArray
    extent: Extent


class Grouping(NamedTuple):
    """The groups of all local clusters, the paper's tree, and how K was chosen where it was."""

    groups: IntArray
    aggregation: Aggregation
    tree: MergeTree
    choice: Choice | None


@dataclass(frozen=True)
class AskedSummaries:
    """Everybody was asked for local clusters."""

    participants: tuple[str, ...]


@dataclass(frozen=True)
class AskedLabels:
    """Everybody was told the groups of their clusters; whoever had not come was asked what it has."""

    study: Study
    outcome: Outcome
    roll: Roll


@dataclass(frozen=True)
class AskedLate:
    """Whoever came after the groups were found was asked to label its rows."""

    study: Study
    outcome: Outcome
    roll: Roll


State = AskedSummaries | AskedLabels | AskedLate


@dataclass(frozen=True)
class OneShotAlgorithm:
    """Algorithm 2 with its settings; see :class:`intarsia.OneShotClustering` for what they mean."""

    n_clusters: int | None = None
    aggregation: str = "search"
    n_starts: int = 30
    n_local_clusters: Mapping[str, int] | int | None = None
    scale: str | None = None
    force: str = "auto"
    exponent: float = EXPONENT
    softening: float = SOFTENING
    density: str = "gaussian"
    n_proxies: int = 100
    bounding_boxes: bool = False
    fidelity: bool = False
    allow_partial: bool = False
    metric: Metric = "euclidean"
    seed: int = 0

    def start(self, participants: Sequence[str]) -> Step:
        """Ask everybody for local clusters and their densities."""
        return Step(AskedSummaries(tuple(participants)), {name: self._summarize(name) for name in participants})

    def advance(self, state: State, replies: Mapping[str, Reply]) -> Step:
        """Group what came back, or collect how many rows went where."""
        match state:
            case AskedSummaries(participants):
                check_senders(replies, participants)
                return self._summarized(replies_of(LocalSummary, replies, participants), participants)
            case AskedLabels(study, outcome, roll):
                check_senders(replies, (*outcome.participants, *roll.silent))
                return _labelled(study, outcome, roll.heard(replies), replies)
            case AskedLate(study, outcome, roll):
                check_senders(replies, tuple(roll.described), optional=True)
                return Step(result=_with_late(study, outcome, roll, replies))

    def _summarize(self, name: str) -> Summarize:
        fixed = self.n_local_clusters
        return Summarize(
            seed=self.seed,
            n_clusters=self.n_clusters,
            n_local_clusters=fixed.get(name) if isinstance(fixed, Mapping) else fixed,
            max_local_clusters=self.n_clusters or MAX_LOCAL_CLUSTERS,
            scale=self.scale,
            density=self.density,
            bounding_boxes=self.bounding_boxes,
            n_proxies=self.n_proxies if self.fidelity else 0,
        )

    def _summarized(self, summaries: Mapping[str, LocalSummary], asked: Sequence[str]) -> Step:
        for name, summary in summaries.items():
            checked(name, summary.check_densities, self.density)
        described = {name: _columns_of(summary) for name, summary in summaries.items()}
        study = make_study(described, self.scale, allow_partial=self.allow_partial)
        gathered = _in_common_units(study, gather(study, summaries))
        self._check_enough(gathered)
        densities = unpacked_densities(study, gathered, summaries, original_units=True)
        attraction = self._attraction(study, gathered, densities, summaries)
        if not self.allow_partial:
            check_comparable(study, gathered.owner, ~np.isnan(attraction.forces))
        grouping = self._group(study, gathered, densities, attraction)
        outcome = _outcome(study, gathered, densities, attraction, grouping, self.metric)
        roll = Roll.of([name for name in asked if name not in summaries])
        requests = _assignments(outcome, gathered.owner) | dict.fromkeys(roll.silent, Describe())
        return Step(AskedLabels(study, outcome, roll), requests)

    def _check_enough(self, gathered: Gathered) -> None:
        found = len(gathered.owner)
        if self.n_clusters is not None and self.n_clusters > found:
            raise TooFewClustersError(
                f"{self.n_clusters} global clusters were asked for, but participants found only {found} local clusters "
                f"in all. Hint: ask for at most {found} clusters, or for more local ones (n_local_clusters)."
            )

    def _attraction(
        self, study: Study, gathered: Gathered, densities: Sequence[Density], summaries: Mapping[str, LocalSummary]
    ) -> Attraction:
        seen = gathered.centroids.seen
        possible = self.metric == "euclidean" and family_of(self.density).has_exact_force
        if self.force == "exact" or (self.force == "auto" and possible):
            extent = extent_of_densities(densities, seen, DEVIATIONS)
            forces = exact_forces(densities, seen, extent, self.exponent, self.softening)
            return Attraction(np.minimum(forces, STRONGEST), extent)
        proxies = self._proxies(study, gathered, densities, summaries)
        extent = _reach(proxies, seen)
        forces = sampled_forces(proxies, seen, extent, self.exponent, self.softening, self.metric)
        return Attraction(np.minimum(forces, STRONGEST), extent)

    def _proxies(
        self, study: Study, gathered: Gathered, densities: Sequence[Density], summaries: Mapping[str, LocalSummary]
    ) -> list[FloatArray]:
        """generateProxyClusters: points of every density, inside its bounding box where there is one."""
        boxes = _boxes(study, gathered, summaries)
        proxies = []
        for z, density in enumerate(densities):
            name = study.participants[gathered.owner[z]]
            first = int(np.flatnonzero(gathered.owner == gathered.owner[z])[0])
            rng = stream(self.seed, name, "proxies", z - first)
            proxies.append(sample_inside(density, rng, self.n_proxies, *boxes[z]))
        return proxies

    def _group(
        self, study: Study, gathered: Gathered, densities: Sequence[Density], attraction: Attraction
    ) -> Grouping:
        forces, owner = attraction.forces, gathered.owner
        clusters = LocalForces(forces, owner)
        tree, method = clusters.tree, self.aggregation
        if self.n_clusters is None:
            local = summaries_of(study, gathered, densities)
            separate = AGGREGATIONS[method].separates
            choice = choose_n_clusters(local, forces, attraction.extent, tree, separate=separate)
            n_groups = choice.n_clusters
        else:
            choice, n_groups = None, self.n_clusters
        if n_groups < tree.fewest_groups and not self.allow_partial:
            raise DisjointFeaturesError(
                f"{len(owner)} local clusters cannot be joined into fewer than {tree.fewest_groups} groups, because some "
                f"share only features that are hidden in one of them; {n_groups} were asked for. Hint: "
                "allow_partial=True, or fill the columns with empty cells."
            )
        n_groups = max(n_groups, tree.fewest_groups)
        if AGGREGATIONS[method].needs_connection and tree.fewest_groups > 1:
            method = "greedy"
        group = AGGREGATIONS[method].of_forces
        assert group is not None
        starts = starts_stream(self.seed, "search forces")
        found = group(clusters, n_groups, SearchOptions(study.masks, self.n_starts, starts))
        aggregation = Aggregation(method, found.loss, found.runner_up, found.confidence, found.n_different)
        return Grouping(found.groups, aggregation, tree, choice)


def _columns_of(summary: LocalSummary) -> Has:
    """Columns of numbers, their moments, and columns of categories."""
    inside = set(indicators(summary.levels))
    at = [k for k, feature in enumerate(summary.features) if feature not in inside]
    moments = summary.moments
    if moments is not None:
        low, high, quantiles = (
            None if part is None else part[..., at] for part in (moments.low, moments.high, moments.quantiles)
        )
        moments = Moments(moments.count[at], moments.mean[at], moments.m2[at], low, high, quantiles)
    return Has(tuple(summary.features[k] for k in at), summary.levels, moments)


def _in_common_units(study: Study, gathered: Gathered) -> Gathered:
    # what a cluster has not seen is 0 in any units
    values = np.where(gathered.centroids.seen, (gathered.centroids.values - study.shift) / study.scale, 0.0)
    return replace(gathered, centroids=MaskedCentroids.of(values, gathered.centroids.counts))


Box = tuple[FloatArray | None, FloatArray | None]


def _boxes(study: Study, gathered: Gathered, summaries: Mapping[str, LocalSummary]) -> list[Box]:
    boxes: list[Box] = []
    seen = iter(gathered.centroids.seen)
    for name in study.participants:
        summary, index = summaries[name], study.space.index(summaries[name].features)
        for k in range(len(summary.sizes)):
            all_seen = next(seen)
            if summary.low is None or summary.high is None:
                boxes.append((None, None))
                continue
            low, high = np.zeros(len(study.space)), np.zeros(len(study.space))
            for wide, box in ((low, summary.low), (high, summary.high)):
                wide[index] = (box[k] - study.shift[index]) / study.scale[index]
            boxes.append((low[all_seen], high[all_seen]))
    return boxes


def _reach(proxies: Sequence[FloatArray], seen: BoolArray) -> Extent:
    """Entry-wise minimum and maximum over all proxies."""
    low, high = np.zeros(seen.shape), np.zeros(seen.shape)
    for z, points in enumerate(proxies):
        low[z, seen[z]], high[z, seen[z]] = points.min(axis=0), points.max(axis=0)
    return Extent(extent_of(low, seen).low, extent_of(high, seen).high)


def _outcome(
    study: Study,
    gathered: Gathered,
    densities: Sequence[Density],
    attraction: Attraction,
    grouping: Grouping,
    metric: Metric,
) -> Outcome:
    groups = by_size(grouping.groups, gathered.sizes.astype(np.float64))
    n_groups = int(groups.max()) + 1
    clear = margins(ForceObjective(attraction.forces, gathered.owner, n_groups), groups)
    centroids = merge(gathered.centroids, groups, n_groups)
    squares = pooled_squares(gathered.centroids, _squares(gathered, densities), groups, centroids)
    variances = squares / np.maximum(centroids.counts, 1.0)
    return Outcome(
        model=global_model(study, centroids, attraction.extent, metric, variances, centroids.counts),
        participants=study.participants,
        masks=study.masks,
        local_centroids=gathered.centroids,
        local_clusters=local_clusters(study, gathered, groups, clear.tolist()),
        aggregation=grouping.aggregation,
        clarity=gathered.clarity,
        coverage=gathered.coverage,
        fidelity=gathered.fidelity,
        merge_tree=grouping.tree,
        silhouettes={} if grouping.choice is None else grouping.choice.silhouettes,
        found=None if grouping.choice is None else grouping.choice.found,
    )


def _squares(gathered: Gathered, densities: Sequence[Density]) -> FloatArray:
    """Sums of squares of every local cluster around its own mean, as its density has them."""
    variances = np.zeros(gathered.centroids.values.shape)
    for z, density in enumerate(densities):
        variances[z, gathered.centroids.seen[z]] = density.variances
    return variances * gathered.centroids.counts


def _assignments(outcome: Outcome, owner: IntArray) -> dict[str, Request]:
    n_groups = len(outcome.model.centroids)
    return {
        name: Assign(groups=outcome.groups[owner == i], n_groups=n_groups)
        for i, name in enumerate(outcome.participants)
    }


def _labelled(study: Study, outcome: Outcome, roll: Roll, replies: Mapping[str, Reply]) -> Step:
    labelled = replies_of(Labelled, replies, outcome.participants)
    assert outcome.coverage is not None
    rows = dict(zip(outcome.participants, outcome.coverage.rows.tolist(), strict=True))
    sizes = sizes_of(labelled, outcome.participants, len(outcome.model.centroids), rows)
    joined, roll = roll.joining(study)
    outcome = replace(outcome, sizes=sizes, remarks=roll.remarks)
    late = joined.participants[len(study.participants) :]
    if not late:
        return Step(result=outcome)
    d, model = len(joined.space), outcome.model
    centroids, wide = model.centroids.wider(d), (0, d - len(model.space))
    low, high = np.pad(model.extent.low, wide), np.pad(model.extent.high, wide)
    requests: dict[str, Request] = {}
    for name in late:
        index = joined.index(name)
        centres = Centres(
            values=centroids.values[:, index], known=centroids.seen[:, index], low=low[index], high=high[index]
        )
        requests[name] = Label(centres=centres, columns=joined.columns_for(name))
    return Step(AskedLate(joined, outcome, roll), requests, optional=True)


def _with_late(study: Study, outcome: Outcome, roll: Roll, replies: Mapping[str, Reply]) -> Outcome:
    """The result with those who came late: their rows are counted, the groups and centroids are those of the others."""
    late = study.participants[len(outcome.participants) :]
    rows = {name: roll.described[name].n_rows for name in late}
    sizes = sizes_of(replies_of(Labelled, replies, late), late, len(outcome.model.centroids), rows)
    model, coverage, known = outcome.model, outcome.coverage, list(range(len(outcome.model.space)))
    masks = study.masks[:, known]
    assert coverage is not None
    filled = [np.zeros(len(model.space), dtype=np.intp) for _ in late]
    for own, name in zip(filled, late, strict=True):
        reply, index = replies.get(name), study.index(name)
        if isinstance(reply, Labelled):
            counts, _ = checked(name, reply.spread, len(model.centroids), len(index))
            inside = index < len(model.space)
            own[index[inside]] = np.minimum(counts.sum(axis=0)[inside], rows[name]).astype(np.intp)
    return replace(
        outcome,
        participants=study.participants,
        masks=masks,
        sizes=dict(outcome.sizes) | sizes,
        coverage=Coverage(
            np.append(coverage.rows, np.array(list(rows.values()), dtype=np.intp)),
            np.concatenate([coverage.filled, np.array(filled)]),
        ),
    )
