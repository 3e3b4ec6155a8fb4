"""Weights in the report: in words, and the finding about whom the centroids follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from intarsia.report.data import Finding, State
from intarsia.results.influence import dominant_above, shares, shares_by_cluster
from intarsia.results.outcome import Outcome, RunRecord

_MOST_NAMED = 12  # columns or participants with a weight of their own
_WAYS = {
    "equal": "In units, groupings and centroids, all participants counted alike, whatever their numbers of rows.",
    "capped": "In units, groupings and centroids, no participant counted for more than the median one.",
}
_ABOUT = "No participant dominates the centroids"


def findings_of_influence(outcome: Outcome, run: RunRecord) -> Iterator[Finding]:
    """Yield who has the largest share of the weight behind the centroids."""
    if run.settings.get("merge") == "robust":
        yield Finding(_ABOUT, State.GOOD, "Centroids are medians over participants, in which weights are capped.")
        return
    overall, by_cluster = shares(outcome), shares_by_cluster(outcome)
    if np.isnan(overall).any():
        return
    first = int(overall.argmax())
    cluster = int(np.nan_to_num(by_cluster[first]).argmax())
    seen = (
        f"The largest share of the weight behind them is that of {outcome.participants[first]}: {overall[first]:.0%}, and "
        f"{by_cluster[first, cluster]:.0%} in {outcome.model.called(cluster)}."
    )
    if overall[first] <= dominant_above(len(outcome.participants)):
        yield Finding(_ABOUT, State.GOOD, seen)
        return
    yield Finding(
        _ABOUT,
        State.CAUTION,
        f"{seen} Where other participants differ from it, the centroids follow it.",
        "If all participants should count alike, or none more than the median one, cluster again with "
        'participant_weights="equal" or "capped", and compare.',
    )


def weighted(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about weights, if there are any."""
    if columns := _listed(settings.get("feature_weights")):
        yield f"In distances, columns were weighted: {columns}."
    ways = settings.get("participant_weights")
    if isinstance(ways, str) and ways in _WAYS:
        yield _WAYS[ways]
    elif rows := _listed(ways):
        yield f"In units, groupings and centroids, rows of participants were weighted: {rows}."


def _listed(weights: Any) -> str:
    """Return the weights that are not 1 in words."""
    if not isinstance(weights, Mapping):
        return ""
    named = [
        f"{name} {weight:g}" for name, weight in weights.items() if isinstance(weight, int | float) and weight != 1
    ]
    more = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
