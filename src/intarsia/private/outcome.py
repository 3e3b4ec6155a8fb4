"""From the outcome on synthetic tables to the outcome of the study: numbers of rows as they are, but for the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.types import FloatArray, IntArray
from intarsia.results.outcome import Coverage, Outcome
from intarsia.results.privacy import PrivacyAccount, Spent, known


def as_if_of_rows(outcome: Outcome, factors: Mapping[str, float]) -> Outcome:
    """Return the outcome with all numbers of rows multiplied by a factor for each participant."""
    by_place = np.array([factors[name] for name in outcome.participants])
    mean = float((by_place * outcome.coverage.rows).sum() / outcome.coverage.rows.sum())
    local, coverage, model = outcome.local_centroids, outcome.coverage, outcome.model
    counts = np.rint(local.counts * by_place[outcome.owner][:, None])
    clusters = tuple(
        replace(each, size=round(each.size * factors[each.participant])) for each in outcome.local_clusters
    )
    return replace(
        outcome,
        model=replace(
            model,
            centroids=MaskedCentroids.of(model.centroids.values, np.rint(model.centroids.counts * mean)),
            cells=np.rint(model.cells * mean),
        ),
        local_centroids=MaskedCentroids.of(local.values, np.maximum(counts, local.counts > 0)),
        local_clusters=clusters,
        coverage=Coverage(
            np.rint(coverage.rows * by_place).astype(np.intp),
            np.rint(coverage.filled * by_place[:, None]).astype(np.intp),
        ),
        sizes={name: np.rint(each * factors[name]).astype(np.intp) for name, each in outcome.sizes.items()},
    )


def with_sizes(
    outcome: Outcome,
    counts: Mapping[str, FloatArray | IntArray],
    spent: tuple[Spent, ...],
    privacy: DifferentialPrivacy,
    errors: FloatArray | None = None,
) -> Outcome:
    """Return the outcome with the noisy sizes of the last round, what was spent, and the errors of centroids."""
    sizes = {name: np.maximum(np.rint(each), 0).astype(np.intp) for name, each in counts.items()}
    in_units = [] if errors is None else (errors * outcome.model.scale).tolist()
    rows = tuple(tuple(map(known, row)) for row in in_units)
    collude = None if outcome.secure is None else outcome.secure.epsilon_if_all_collude
    account = PrivacyAccount(privacy.epsilon, privacy.delta, privacy.rows_per_person, spent, rows, collude)
    return replace(outcome, sizes=sizes, privacy=account)
