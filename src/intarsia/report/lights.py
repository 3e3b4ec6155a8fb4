"""Traffic lights: the conditions under which a result can be trusted, what was seen of each, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from intarsia.assumptions import AssumptionReport
from intarsia.core.centroids import merge
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.core.types import FloatArray
from intarsia.exceptions import quote
from intarsia.report.data import Light, Party, Release, State
from intarsia.report.words import counted
from intarsia.results import Outcome, RunRecord

MANY_DOUBTFUL = 0.25  # of the rows
CLOSE, FAR = 0.5, 1.0  # how far local versions are off their centre, of the way to the next cluster
FEW_EMPTY, MANY_EMPTY = 0.1, 0.3  # beyond which docs/evidence.md has measured nothing
FEW_ROWS = 5  # behind a number that leaves a participant
RESTLESS = 0.01  # of the extent


def lights_of(
    outcome: Outcome,
    assumptions: AssumptionReport,
    parties: Sequence[Party],
    bridges: Sequence[str],
    releases: Sequence[Release],
    run: RunRecord | None,
) -> tuple[Light, ...]:
    """Every condition that can be looked at, in the order of the method."""
    return (
        _overlap(assumptions, bridges, len(parties)),
        *_clusters_hang_together(assumptions, len(parties)),
        _coverage(assumptions, len(outcome.model.space)),
        _agreement(outcome, assumptions),
        _clarity(outcome, assumptions, parties),
        _structure(assumptions),
        *_rest(outcome, run),
        *_cells(parties),
        *_few_rows(releases),
    )


def _overlap(assumptions: AssumptionReport, bridges: Sequence[str], n: int) -> Light:
    about = "Participants share columns"
    if n == 1:
        return Light(about, State.GOOD, "There is one participant, so that nothing has to be shared.")
    if not assumptions.connected:
        return Light(
            about,
            State.BAD,
            "Some participants share no column with the others, not even through others, and cannot be compared with them.",
            "Add a participant that has columns of both sides, or read the parts as studies of their own.",
        )
    if assumptions.complete:
        return Light(about, State.GOOD, "Every two participants share a column.")
    seen = "All are connected, some only through others"
    if bridges:
        return Light(
            about,
            State.CAUTION,
            f"{seen}, and without {quote(bridges)} the study would fall apart.",
            "More columns in common, above all between those that now meet only through others, make the result firmer.",
        )
    return Light(about, State.GOOD, f"{seen}; no single participant holds the study together.")


def _clusters_hang_together(assumptions: AssumptionReport, n: int) -> Iterator[Light]:
    if n == 1:
        return
    about = "Each cluster's participants are connected"
    apart = [cluster.cluster for cluster in assumptions.clusters if not cluster.connected]
    lone = [cluster.cluster for cluster in assumptions.clusters if len(cluster.participants) == 1]
    if apart:
        yield Light(
            about,
            State.BAD,
            f"Participants of cluster(s) {quote(apart)} share no column, not even through others of that cluster.",
            "That these are one cluster rests on other clusters alone: fewer clusters, or more shared columns.",
        )
    elif lone:
        yield Light(
            about,
            State.CAUTION,
            f"Cluster(s) {quote(lone)} consist of one participant's local clusters: nobody else confirms them.",
            "Ask whether that participant is different in kind, or whether one cluster fewer would do.",
        )
    else:
        yield Light(about, State.GOOD, "In every cluster, those who hold it are connected by shared columns.")


def _coverage(assumptions: AssumptionReport, n_features: int) -> Light:
    about = "Every cluster is seen in every feature"
    bare = [cluster for cluster in assumptions.clusters if cluster.unseen_features]
    if not bare:
        return Light(about, State.GOOD, "Somebody in every cluster measured every feature.")
    worst = max(bare, key=lambda cluster: len(cluster.unseen_features))
    unseen = len(worst.unseen_features)
    return Light(
        about,
        State.BAD if unseen > n_features / 2 else State.CAUTION,
        f"{len(bare)} of {len(assumptions.clusters)} clusters have features that none of their participants measured, at "
        f"most {unseen} of {n_features} (cluster {worst.cluster}: {quote(worst.unseen_features)}).",
        "Their profiles are empty there. Do not compare clusters by these features.",
    )


def _apart(outcome: Outcome) -> FloatArray:
    """How far every global centre is from the nearest other one, rescaled; NaN where none can be compared."""
    local = outcome.local_centroids
    centres = merge(local, outcome.groups, len(outcome.model.centroids))
    extent = extent_of(local.values, local.seen)
    apart = rescaled_distances(centres.values, centres.seen, centres.values, centres.seen, extent, outcome.model.metric)
    np.fill_diagonal(apart, np.inf)
    apart = np.where(np.isnan(apart), np.inf, apart)
    nearest = apart.min(axis=1)
    return np.where(np.isinf(nearest), np.nan, nearest)


def _agreement(outcome: Outcome, assumptions: AssumptionReport) -> Light:
    about = "Participants' versions of a cluster agree"
    if len(assumptions.clusters) == 1:
        return Light(about, State.GOOD, "There is one cluster, so that there is no other to be mistaken for.")
    spread = np.array([cluster.spread for cluster in assumptions.clusters])
    ratio = np.divide(spread, _apart(outcome), out=np.full(len(spread), np.nan), where=_apart(outcome) > 0)
    if np.isnan(ratio).all():
        return Light(about, State.CAUTION, "Clusters share no feature that varies, so that it cannot be told.")
    worst = int(np.nanargmax(ratio))
    seen = (
        f"Local versions are off their common centre by at most {ratio[worst]:.0%} of the way to the next cluster "
        f"(cluster {worst})."
    )
    if ratio[worst] < CLOSE:
        return Light(about, State.GOOD, seen)
    advice = (
        "Participants may measure differently, or hold other kinds of rows: compare units, devices, who is included."
    )
    return Light(about, State.CAUTION if ratio[worst] < FAR else State.BAD, seen, advice)


def _clarity(outcome: Outcome, assumptions: AssumptionReport, parties: Sequence[Party]) -> Light:
    about = "Local clusters clearly belong where they were put"
    if len(outcome.model.centroids) == 1:
        return Light(about, State.GOOD, "There is one cluster to belong to.")
    doubtful = set(assumptions.doubtful)
    rows = sum(c.size for c in outcome.local_clusters if (c.participant, c.index) in doubtful)
    total = max(sum(party.rows for party in parties), 1)
    decided = (
        " Groupings that summaries hardly told apart were tried on the rows, which decided."
        if outcome.aggregation.overruled
        else ""
    )
    if not doubtful:
        return Light(about, State.GOOD, f"None of {len(outcome.local_clusters)} local clusters is ambiguous.{decided}")
    share = f"{rows / total:.0%}" if rows >= total / 100 else "less than 1%"
    return Light(
        about,
        State.BAD if rows > MANY_DOUBTFUL * total else State.CAUTION,
        f"{len(doubtful)} of {len(outcome.local_clusters)} local clusters, with {share} of the rows, fit another "
        f"cluster nearly as well.{decided}",
        "They are marked below. Read their rows' labels with care; other numbers of clusters may be clearer.",
    )


def _structure(assumptions: AssumptionReport) -> Light:
    about = "Participants' rows fall into clusters"
    if not assumptions.unstructured:
        return Light(about, State.GOOD, "No participant stands out by having no clusters of its own.")
    return Light(
        about,
        State.CAUTION,
        f"{quote(assumptions.unstructured)} show no clusters of their own while most others do.",
        "They may hold fewer clusters than they were cut into: n_local_clusters sets it for one participant.",
    )


def _rest(outcome: Outcome, run: RunRecord | None) -> Iterator[Light]:
    about = "Rounds came to rest"
    if run is not None and run.method == "one_shot":
        yield Light(
            "One round only",
            State.CAUTION,
            "Labels follow each participant's first clustering, which is never revisited with what the others know.",
            "Where more exchanges are possible, the federated method corrects local mistakes.",
        )
    elif outcome.rounds:
        last = outcome.rounds[-1].movement
        if outcome.converged:
            yield Light(
                about, State.GOOD, f"After {counted(len(outcome.rounds), 'round')} the centroids no longer moved."
            )
        else:
            yield Light(
                about,
                State.BAD if last > RESTLESS else State.CAUTION,
                f"In the last of {len(outcome.rounds)} rounds the centroids still moved by {last:.2%} of their extent.",
                "A higher max_rounds, or a local algorithm that starts from given centres without changing its mind.",
            )


def _cells(parties: Sequence[Party]) -> Iterator[Light]:
    known = [party for party in parties if party.filled is not None]
    if not known:
        return
    worst = min(known, key=lambda party: party.filled or 0.0)
    empty = 1.0 - (worst.filled or 0.0)
    about = "Few cells are empty in columns that a participant has"
    seen = f"At most {empty:.0%} are empty ({worst.name})." if empty > 0 else "No cell is empty."
    if empty <= FEW_EMPTY:
        yield Light(about, State.GOOD, seen)
        return
    advice = (
        "Rows are compared by the cells that they have. What makes a cell empty should not depend on what it would say."
    )
    yield Light(about, State.CAUTION if empty <= MANY_EMPTY else State.BAD, seen, advice)


def _few_rows(releases: Sequence[Release]) -> Iterator[Light]:
    about = "Every number that left stands for several rows"
    left = [r for r in releases if r.message.startswith("reply.") and r.times and r.fewest_rows is not None]
    if not left:
        return
    few = [r for r in left if (r.fewest_rows or 0) < FEW_ROWS]
    if not few:
        fewest = min(left, key=lambda r: r.fewest_rows or 0)
        yield Light(about, State.GOOD, f"At least {fewest.fewest_rows} rows stand behind every number.")
        return
    worst = min(few, key=lambda r: r.fewest_rows or 0)
    yield Light(
        about,
        State.CAUTION,
        f"{len(few)} field(s) of messages hold numbers that fewer than {FEW_ROWS} rows stand behind: "
        f"{quote(f'{r.message} {r.field}' for r in few)}; the fewest are {worst.fewest_rows} ({worst.fewest_at}).",
        "Ask whoever answers for the data. Fewer local clusters, or leaving out columns that are mostly empty, raise it.",
    )
