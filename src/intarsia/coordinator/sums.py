"""Algorithm 1 on totals: what the coordinator asks and does where it learns sums over all participants only.

Units, rounds, sizes and squares are totals (:class:`Asked`). Local clusters are compared, not added up, so that summaries
are asked for in the clear, as without secure sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import msgspec
import numpy as np

from intarsia.coordinator.contract import Step
from intarsia.coordinator.federated import AskedRefinement, FederatedAlgorithm, agreed
from intarsia.coordinator.finishing import AskedLabels, outcome_of, with_tails
from intarsia.coordinator.gather import check_senders
from intarsia.coordinator.members import Members
from intarsia.coordinator.roll import Roll
from intarsia.coordinator.rounds import Run, after_round, best_of, kind_of_next
from intarsia.core.alignment import movement
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.features import indicators
from intarsia.core.fixed_point import GRAIN
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import choose_units, pool
from intarsia.exceptions import ProtocolError
from intarsia.protocol import Describe, Reply, Request
from intarsia.protocol.secure import LABELS, ROUND, UNITS, Layout, Merged
from intarsia.protocol.totals import total_labels, total_moments, total_rounds
from intarsia.results.outcome import Outcome, RoundInfo
from intarsia.results.secure import SecureTotals

_AT_REST = 16 * GRAIN


@dataclass(frozen=True)
class Asked:
    """A sum over all participants: the state after which it is asked, what its numbers stand for, and the questions.

    ``features`` are those of each participant, in the order of the numbers in its question.
    """

    state: Any
    layout: Layout
    questions: Mapping[str, Request]
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merged: Mapping[str, tuple[Merged, ...]] = field(default_factory=dict)
    came_from: tuple[int, ...] = ()
    step_size: float = 1.0
    last: RoundInfo | None = None


@dataclass(frozen=True)
class AskedDescriptions:
    """All participants were asked for their columns, and for moments of columns that only they have."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AskedUnits:
    """The moments of all columns with several holders were asked for, as totals."""

    roll: Roll


@dataclass(frozen=True)
class AskedRound:
    """A round was asked for; ``came_from`` says which sets of the last round its sets continue."""

    run: Run
    came_from: tuple[int, ...]


@dataclass(frozen=True)
class FederatedSums:
    """Algorithm 1 on totals.

    ``columns`` are those of each participant; ``min_holders`` of them must have a column that is summed, and ``threshold``
    are in each sum.
    """

    same_participants: ClassVar[bool] = True
    inner: FederatedAlgorithm
    columns: Mapping[str, tuple[str, ...]]
    min_holders: int
    threshold: int

    @staticmethod
    def n_sums(inner: FederatedAlgorithm) -> int:
        """Return the largest number of sums in a run: units, rounds and labels."""
        return (inner.scale is not None) + inner.max_rounds + 1

    def is_shared(self, column: str) -> bool:
        """Whether enough participants have a column for sums of it to hide their parts."""
        return sum(column in each for each in self.columns.values()) >= self.min_holders

    def start(self, names: Sequence[str]) -> Step:
        """Ask all participants for their columns."""
        home = {name: tuple(c for c in self.columns[name] if not self.is_shared(c)) for name in names}
        scale = self.inner.scale
        requests = {name: Describe(scale=scale, moments_of=None if scale is None else home[name]) for name in names}
        return Step(AskedDescriptions(tuple(names)), requests)

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step | Asked:
        """Return what follows replies that were given in the clear."""
        if not isinstance(state, AskedDescriptions):
            return self._next(self.inner.advance(state, replies))
        check_senders(replies, state.names)
        roll = Roll.of(state.names).heard(replies)._replace(silent=())
        if self.inner.scale is None:
            return self._next(self.inner.begun(self._members(roll), roll))
        described = roll.described.values()
        features = sorted({name for each in described for name in each.features if self.is_shared(name)})
        layout = Layout(what=UNITS, features=tuple(features), n_sets=1, n_clusters=1, units=np.ones(len(features)))
        return Asked(AskedUnits(roll), layout, dict.fromkeys(roll.described, Describe(scale=self.inner.scale)))

    def summed(self, state: Any, layout: Layout, total: IntArray, names: Sequence[str]) -> Step | Asked:
        """Return what follows a total over these participants."""
        if isinstance(state, AskedUnits):
            return self._next(self._agreed(state.roll, layout, total, names))
        if isinstance(state, AskedRound):
            return self._refined(state.run, layout, total, names)
        assert isinstance(state, AskedLabels)
        return Step(result=self._outcome(state.run, layout, total, names))

    def _members(self, roll: Roll) -> Members:
        """Return all who described themselves, in their own units: moments are not of all columns."""
        columns = {name: roll.columns(name)._replace(moments=None) for name in roll.described}
        return agreed(self.inner, roll, columns, None)

    def _agreed(self, roll: Roll, layout: Layout, total: IntArray, names: Sequence[str]) -> Step:
        """Choose units from the totals, and from what single holders told of columns that only they have."""
        described = {name: each for name, each in roll.described.items() if name in names}
        roll = roll._replace(described=described)
        members = self._members(roll)
        space = members.space
        parts: list[Any] = [(space.index(layout.features), total_moments(total, layout))]
        for each in described.values():
            assert each.moments is not None
            home = np.array([not self.is_shared(feature) for feature in each.features], dtype=np.bool_)
            parts.append((space.index(each.features), each.moments.only(home)))
        units = choose_units(pool(parts, len(space)), self.inner.scale, space.mask(indicators(members.all_levels)))
        without = {name: msgspec.structs.replace(each, moments=None) for name, each in described.items()}
        return self.inner.begun(members.in_units(units), roll._replace(described=without))

    def _next(self, step: Step, came_from: tuple[int, ...] = ()) -> Step | Asked:
        """Return a step as it is, or as a sum if it is a round or asks for labels; latecomers are not asked in between."""
        state = step.state
        if isinstance(state, AskedRefinement):
            run = state.run
            requests = {name: step.requests[name] for name in run.members.participants}
            layout = self._layout(ROUND, run, len(run.candidates))
            merged = {name: self._merged(run, name) for name in requests} if came_from else {}
            alpha = self.inner.step_size
            features = run.members.features
            return Asked(AskedRound(run, came_from), layout, requests, features, merged, came_from, alpha, step.last)
        if isinstance(state, AskedLabels):
            run = state.run
            requests = {
                name: msgspec.structs.replace(step.requests[name], tails=False) for name in run.members.participants
            }
            layout, features = self._layout(LABELS, run, 1), run.members.features
            return Asked(state, layout, requests, features, came_from=came_from, last=step.last)
        return replace(step, requests={n: r for n, r in step.requests.items() if not isinstance(r, Describe)})

    def _layout(self, what: str, run: Run, n_sets: int) -> Layout:
        """Return the layout of a sum over features with several holders; units are the widths of the local centroids."""
        members, extent = run.members, run.candidates[0].extent
        features = self._features(run)
        width = extent.width[members.space.index(features)]
        units = np.where(width > 0, width, 1.0)
        k = len(run.candidates[0].centres)
        return Layout(what=what, features=features, n_sets=n_sets, n_clusters=k, units=units)

    def _features(self, run: Run) -> tuple[str, ...]:
        levels = run.members.all_levels
        column_of = {name: column for column in levels for name in indicators({column: levels[column]})}
        return tuple(name for name in run.members.space.names if self.is_shared(column_of.get(name, name)))

    @staticmethod
    def _merged(run: Run, name: str) -> tuple[Merged, ...]:
        index = run.members.index(name)
        every = [candidate.merged for candidate in run.candidates]
        return tuple(
            Merged(values=each.values[:, index], counts=each.counts[:, index]) for each in every if each is not None
        )

    def _refined(self, run: Run, layout: Layout, total: IntArray, names: Sequence[str]) -> Step | Asked:
        """Move all candidates by the totals of a round."""
        settings = self.inner.settings_of(run)
        index, d = run.members.space.index(layout.features), len(run.members.space)
        totals = list(total_rounds(total, layout))
        for each in totals:
            _check_rows(run, each.sizes, each.counts)
        candidates = []
        for candidate, each in zip(run.candidates, totals, strict=True):
            values, counts = np.zeros((layout.n_clusters, d)), np.zeros((layout.n_clusters, d))
            counts[:, index] = each.counts
            values[:, index] = candidate.centres.values[:, index] + each.away / np.maximum(each.counts, 1.0)
            candidates.append(candidate.moved_to(settings, MaskedCentroids.of(values, counts), each.misfit))
        k = best_of(candidates)
        moved = _movement(run.candidates[k].centres, candidates[k].centres, candidates[k].extent, index)
        number, kind = len(run.rounds) + 1, kind_of_next(settings, run)
        info = RoundInfo(number, moved, tuple(totals[k].sizes.tolist()), totals[k].misfit, kind)
        complete = set(names) == set(run.members.participants)
        after = after_round(settings, run, tuple(candidates), info, same_participants=complete)
        is_decided = len(after.candidates) < len(candidates)
        return self._next(self.inner.next_round(after), (k,) if is_decided else tuple(range(len(candidates))))

    def _outcome(self, run: Run, layout: Layout, total: IntArray, names: Sequence[str]) -> Outcome:
        """Return the outcome: sizes of all together, and of each participant those of its first summary."""
        labelled, index = total_labels(total, layout), run.members.space.index(layout.features)
        outcome = outcome_of(run, self.inner)
        variances, cells = outcome.model.variances.copy(), outcome.model.cells.copy()
        cells[:, index] = labelled.counts
        variances[:, index] = labelled.squares / np.maximum(labelled.counts, 1.0)
        winner = run.candidates[0]
        sizes = {name: winner.said_before(run.members, name).sizes for name in run.members.participants}
        at_home = {
            name: tuple(column for column in self.columns[name] if not self.is_shared(column))
            for name in run.members.participants
        }
        totals = SecureTotals(
            n_participants=len(names),
            min_holders=self.min_holders,
            sizes=tuple(labelled.sizes.tolist()),
            at_home={name: columns for name, columns in at_home.items() if columns},
            n_sums=len(run.rounds) + 1 + (self.inner.scale is not None),
        )
        _check_rows(run, labelled.sizes, labelled.counts)
        model = replace(outcome.model, variances=variances, cells=cells)
        return with_tails(replace(outcome, model=model, sizes=sizes, secure=totals), {})


def _check_rows(run: Run, sizes: IntArray, counts: FloatArray) -> None:
    """Raise a ProtocolError if a total counts more rows, or values of a feature, than there are."""
    n_rows = sum(run.roll.n_rows[name] for name in run.members.participants)
    if sizes.sum(dtype=object) > n_rows or (counts.sum(axis=0) > n_rows).any():
        raise ProtocolError(
            "the clusters of all participants together have more rows than there are: the sums of one of them are wrong"
        )


def _movement(old: MaskedCentroids, new: MaskedCentroids, extent: Extent, index: IntArray) -> float:
    """Return the largest move of any centroid over the features that are summed: the others move at home."""

    def part(centroids: MaskedCentroids) -> MaskedCentroids:
        return MaskedCentroids(centroids.values[:, index], centroids.counts[:, index])

    low, high = (side[index] for side in extent)
    moved = movement(part(old), part(new), Extent(low, high))
    return moved if moved > _AT_REST else 0.0  # whole grains are not moved by less
