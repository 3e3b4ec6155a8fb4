"""The last exchange of a study that measures stability: each participant resamples its own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from intarsia.coordinator.contract import Step
from intarsia.coordinator.gather import checked, replies_of
from intarsia.coordinator.labelling import centres_of
from intarsia.coordinator.members import Members
from intarsia.coordinator.settings import FederatedSettings, OneShotSettings
from intarsia.protocol import LocalStability, MeasureStability, Reply
from intarsia.results.outcome import Outcome
from intarsia.results.stability import pooled


@dataclass(frozen=True)
class AskedStability:
    """All participants with labelled rows were asked how surely their parts of clusters come back."""

    outcome: Outcome
    asked: tuple[str, ...]
    seed: int


def ended(settings: FederatedSettings | OneShotSettings, members: Members, outcome: Outcome) -> Step:
    """Return the result, or first ask for its stability if the study measures it; one cluster always comes back."""
    asked = tuple(name for name in outcome.participants if outcome.sizes[name].any())
    if not settings.stability or len(outcome.model.centroids) == 1 or not asked:
        return Step(result=outcome)
    requests = {
        name: MeasureStability(
            seed=settings.seed, centres=centres_of(members, outcome.model, name), columns=members.columns_for(name)
        )
        for name in asked
    }
    return Step(AskedStability(outcome, asked, settings.seed), requests)


def measured(state: AskedStability, replies: Mapping[str, Reply]) -> Step:
    """Return the result with the scores of those that answered, weighted by their rows."""
    outcome, n_clusters = state.outcome, len(state.outcome.model.centroids)
    scores = replies_of(LocalStability, replies, state.asked)
    for name, reply in scores.items():
        checked(name, reply.check_scores, n_clusters)
    figures = pooled({name: reply.scores for name, reply in scores.items()}, outcome.sizes, n_clusters, state.seed)
    return Step(result=replace(outcome, stability=figures))
