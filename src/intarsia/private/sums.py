"""Private studies on secure sums: sketches as ever, and rounds whose noise all participants share.

Each participant adds a share of the noise to its masked sums, so that the total has what one round needs if at least
``threshold`` participants are honest, instead of that much from each. Sizes are totals, so that the rows behind a column are
estimated from the sketches of its holders; a wrong estimate changes how far a centroid moves, not where it rests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np

from intarsia.coordinator.contract import Step
from intarsia.coordinator.secure import register_summing
from intarsia.coordinator.sums import Asked
from intarsia.core.features import indicators
from intarsia.core.private.conversion import epsilon_of_rho
from intarsia.core.private.questions import GRAINS, LEVER, least_radius
from intarsia.core.types import FloatArray, IntArray
from intarsia.privacy.budget import ROUND_SHARE
from intarsia.private.algorithm import AskedSums, NoisyTotal, PrivateAlgorithm, Run
from intarsia.private.requests import round_request
from intarsia.protocol import Reply, Sketched
from intarsia.protocol.secure import NOISY, Layout
from intarsia.results.secure import SecureTotals


@dataclass(frozen=True)
class PrivateSums:
    """A private study on secure sums; see :class:`intarsia.coordinator.sums.FederatedSums` for the arguments."""

    same_participants: ClassVar[bool] = False  # each total has noise of its own
    algorithm: PrivateAlgorithm
    columns: Mapping[str, tuple[str, ...]]
    min_holders: int
    threshold: int

    @staticmethod
    def n_sums(algorithm: PrivateAlgorithm) -> int:
        """Return the number of sums: one for each round."""
        return max(algorithm.rounds, 1)

    def start(self, names: Sequence[str]) -> Step | Asked:
        """Ask all participants for a sketch."""
        return self.algorithm.start(names)

    def advance(self, state: Any, replies: Mapping[str, Reply]) -> Step | Asked:
        """Return what follows sketches and labels."""
        return self._next(self.algorithm.advance(state, replies))

    def summed(self, state: Any, layout: Layout, total: IntArray, names: Sequence[str]) -> Step | Asked:
        """Move the centroids by the noisy total of a round."""
        assert isinstance(state, AskedSums)
        run, privacy = state.run, self.algorithm.privacy
        model, k = run.outcome.model, layout.n_clusters
        table, radius = total.reshape(k, -1).astype(np.float64), float(layout.units[0])
        index = model.space.index(layout.features)
        units = privacy.units_of(sorted({self._column_of(name) for name in layout.features}))
        scale = dict(zip(units.features, units.scale.tolist(), strict=True))
        factor = np.array([scale[name] for name in layout.features]) / model.scale[index] * radius / GRAINS
        sizes = table[:, -1] / LEVER
        rho = {name: _rho_of_round(run.sketches[name], self.algorithm.rounds) for name in names}
        deviation = self._deviation(rho, len(names))
        sums, counts, of_sums, of_counts = (np.zeros(model.centroids.values.shape) for _ in range(4))
        sums[:, index] = table[:, :-1] * factor
        counts[:, index] = sizes[:, None] * self._shares(run, layout, names)
        of_sums[:, index] = np.square(deviation * factor)
        of_counts[:, index] = (deviation / LEVER) ** 2
        told: dict[str, FloatArray | IntArray] = {name: run.counts[name] for name in names}
        moved = self.algorithm.moved(run, NoisyTotal(sums, counts, of_sums, of_counts, sizes), told, rho)
        outcome = replace(moved.outcome, secure=self._totals(run, sizes, names))
        return self._next(self.algorithm.next_step(replace(moved, outcome=outcome)))

    def _next(self, step: Step) -> Step | Asked:
        """Return a step as it is, or as a sum if it is a round."""
        if not isinstance(step.state, AskedSums):
            return step
        run, privacy = step.state.run, self.algorithm.privacy
        model, sketches = run.outcome.model, run.sketches
        features = tuple(name for name in model.space.names if self._is_shared(self._column_of(name)))
        radius = self._radius(sketches, set(features))
        layout = Layout(
            what=NOISY,
            features=features,
            n_sets=1,
            n_clusters=len(model.centroids),
            units=np.full(len(features), radius),
        )
        questions = {
            name: msgspec.structs.replace(round_request(model, privacy, each, run.round), radius=radius)
            for name, each in sketches.items()
        }
        of_each = {name: each.features for name, each in sketches.items()}
        return Asked(step.state, layout, questions, of_each, last=step.last)

    def _column_of(self, feature: str) -> str:
        levels = self.algorithm.privacy.levels
        return next((column for column in levels if feature in indicators({column: levels[column]})), feature)

    def _is_shared(self, column: str) -> bool:
        return sum(column in each for each in self.columns.values()) >= self.min_holders

    def _radius(self, sketches: Mapping[str, Sketched], told: set[str]) -> float:
        """Return one radius for all: the largest of those that rows keep over the features that are told."""
        wanted = [
            each.radius * np.sqrt(max(len(told & set(each.features)), 1) / len(each.features))
            for each in sketches.values()
        ]
        return float(max(*wanted, *(least_radius(len(each.features)) for each in sketches.values())))

    def _shares(self, run: Run, layout: Layout, names: Sequence[str]) -> FloatArray:
        """Return, by cluster and feature, which share of the rows of all its holders have, as the sketches say."""
        sizes = np.array([np.maximum(run.counts[name], 0.0) for name in names], dtype=np.float64) + 1e-9
        has = np.array([[feature in run.sketches[name].features for feature in layout.features] for name in names])
        return np.asarray(sizes.T @ has / sizes.sum(axis=0)[:, None])

    def _deviation(self, rho: Mapping[str, float], n: int) -> float:
        """Return the standard deviation of the total noise in grains, of n shares of which ``threshold`` would do."""
        norm = np.sqrt(1.25) * GRAINS * self.algorithm.privacy.rows_per_person
        return float(norm / np.sqrt(2 * min(rho.values())) * np.sqrt(n / self.threshold))

    def _totals(self, run: Run, sizes: FloatArray, names: Sequence[str]) -> SecureTotals:
        at_home = {
            name: tuple(column for column in self.columns[name] if not self._is_shared(column)) for name in names
        }
        rounds, delta = self.algorithm.rounds, self.algorithm.privacy.delta
        worst = max(each.rho + rounds * self.threshold * _rho_of_round(each, rounds) for each in run.sketches.values())
        return SecureTotals(
            n_participants=len(names),
            min_holders=self.min_holders,
            sizes=tuple(np.maximum(np.rint(sizes), 0).astype(int).tolist()),
            at_home={name: columns for name, columns in at_home.items() if columns},
            n_sums=run.round + 1,
            epsilon_if_all_collude=epsilon_of_rho(worst, delta),
        )


def _rho_of_round(sketch: Sketched, rounds: int) -> float:
    """Return what a round costs, from what the sketch of the same study cost."""
    return sketch.rho * ROUND_SHARE / (1.0 - ROUND_SHARE * rounds)


register_summing(PrivateAlgorithm, PrivateSums.n_sums, PrivateSums)
