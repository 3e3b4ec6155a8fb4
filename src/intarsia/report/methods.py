"""The findings about the method that grouped local clusters: its assumptions, and what it joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from intarsia.exceptions import quote
from intarsia.report.data import Finding, State
from intarsia.results.advice import unmet_in_words
from intarsia.results.outcome import Outcome


def findings_of_method(outcome: Outcome) -> Iterator[Finding]:
    """Yield what the coordinator can see of a grouping that its method does not support."""
    yield from _assumptions(outcome)
    yield from _joined(outcome)


def _assumptions(outcome: Outcome) -> Iterator[Finding]:
    """Whether the paper's assumptions hold for Method A or Method B, where one of them grouped."""
    if outcome.aggregation.grouped_by not in {"method_a", "method_b"}:
        return
    about = "The paper's assumptions hold for its method"
    if outcome.aggregation.is_supported:
        yield Finding(about, State.GOOD, "What summaries can tell of them holds.")
        return
    unmet = unmet_in_words(outcome)
    yield Finding(
        about,
        State.CAUTION,
        f"{unmet[:1].upper()}{unmet[1:]}.",
        "Compare the result with that of aggregation='search'.",
    )


def _joined(outcome: Outcome) -> Iterator[Finding]:
    """Participants with local clusters in one cluster although they have no more than K: greedy methods may join them."""
    k = len(outcome.model.centroids)
    n_local = Counter(local.participant for local in outcome.local_clusters)
    pairs = Counter((local.participant, local.group) for local in outcome.local_clusters)
    joined = sorted({name for (name, _), n in pairs.items() if n > 1 and n_local[name] <= k})
    if k > 1 and joined:
        # the search keeps them apart, but rows may prefer another grouping
        other = "n_rivals=0" if outcome.aggregation.overruled else "aggregation='search'"
        yield Finding(
            "Local clusters of a participant stay apart",
            State.CAUTION,
            f"Some local clusters of {quote(joined)} are in the same cluster, although each has no more than {k} of them.",
            f"The participant may have split a cluster, or the grouping joined two: compare with the setting "
            f"{other}, which keeps them apart.",
        )
