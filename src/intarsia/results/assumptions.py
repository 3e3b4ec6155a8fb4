"""The conditions under which the paper expects the right answer, checked as far as summaries allow.

Assumption 1 (Method A): the participants of every cluster are connected by shared features, together they see every
feature, and their rows of that cluster follow one distribution. Assumption 2 (Method B): every two participants of a
cluster share a feature, and together they see every feature. Assumption 3: no local cluster mixes global ones. Of
these, connection and coverage can be checked on the grouping; equal distributions and purity cannot be checked without
rows, so that indications of them are reported as numbers. :mod:`~intarsia.results.rates` measures what needs rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.centroids import merge
from intarsia.core.features import is_complete, is_connected
from intarsia.core.grouping.certainty import DOUBTFUL
from intarsia.core.grouping.local_centroids import LocalCentroids, distances_to_group
from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.exceptions import quote
from intarsia.results.outcome import Outcome


@dataclass(frozen=True)
class ClusterAssumptions:
    """One global cluster: its participants, whether they are connected, and the features that none of them has.

    ``spread`` is the mean rescaled distance of its local centroids from their centre: near 0 where local versions of
    the cluster agree (Assumption 1.3), larger where they are biased.
    """

    cluster: int
    participants: tuple[str, ...]
    connected: bool
    complete: bool
    unseen_features: tuple[str, ...]
    spread: float


@dataclass(frozen=True)
class AssumptionReport:
    """What could be checked of Assumptions 1 to 3.

    ``doubtful`` are local clusters (participant, number) whose group is hardly better than the next; ``unstructured`` are
    participants that were split into clusters although, unlike most, they show no clusters.
    """

    connected: bool
    complete: bool
    clusters: tuple[ClusterAssumptions, ...]
    doubtful: tuple[tuple[str, int], ...]
    unstructured: tuple[str, ...] = ()

    @property
    def covered(self) -> bool:
        """Whether every feature is seen in every cluster (items 1.2 and 2.2)."""
        return not any(cluster.unseen_features for cluster in self.clusters)

    @property
    def case(self) -> str | None:
        """``"2"`` when Assumption 2 holds, ``"1"`` when items 1 and 2 of Assumption 1 do, else None."""
        if self.covered and all(cluster.complete for cluster in self.clusters):
            return "2"
        if self.covered and all(cluster.connected for cluster in self.clusters):
            return "1"
        return None

    def explain(self) -> str:
        """Return in words what does not hold, with names and counts; empty if Assumption 1 or 2 holds."""
        problems = []
        apart = [cluster.cluster for cluster in self.clusters if not cluster.connected]
        if apart:
            problems.append(f"the participants of cluster(s) {quote(apart)} are not connected by shared features")
        bare = [cluster for cluster in self.clusters if cluster.unseen_features]
        if bare:
            worst = max(bare, key=lambda cluster: len(cluster.unseen_features))
            problems.append(
                f"in {len(bare)} of {len(self.clusters)} clusters no participant measured some features, at most "
                f"{len(worst.unseen_features)} (cluster {worst.cluster}: {quote(worst.unseen_features)}): their means are "
                "missing there"
            )
        return "; ".join(problems)


def check_assumptions(outcome: Outcome) -> AssumptionReport:
    """Check the assumptions on the grouping of an outcome, as far as summaries allow."""
    groups, owner = outcome.groups, outcome.owner
    local = LocalCentroids(outcome.local_centroids, owner, outcome.model.metric)
    n_groups = len(outcome.model.centroids)
    off_centre = distances_to_group(local, groups, merge(outcome.local_centroids, groups, n_groups))
    clusters = []
    for g in range(n_groups):
        if not (groups == g).any():  # gone since an earlier run: nothing is assumed of it
            clusters.append(ClusterAssumptions(g, (), connected=True, complete=True, unseen_features=(), spread=0.0))
            continue
        holders = np.unique(owner[groups == g])
        among = outcome.masks[holders]
        seen = outcome.local_centroids.seen[groups == g].any(axis=0)
        clusters.append(
            ClusterAssumptions(
                cluster=g,
                participants=tuple(outcome.participants[i] for i in holders),
                connected=is_connected(among),
                complete=is_complete(among),
                unseen_features=tuple(np.array(outcome.model.space.names)[~seen].tolist()),
                spread=float(off_centre[groups == g].mean()),
            )
        )
    lone = np.bincount(owner, minlength=len(outcome.participants))[owner] == 1
    doubtful = tuple(
        (c.participant, c.index)
        for c, alone in zip(outcome.local_clusters, lone, strict=True)
        # a participant with too few rows for a search has one local cluster, which may be several
        if c.margin < DOUBTFUL or (alone and n_groups > 1 and c.size < 2 * n_groups)
    )
    masks = outcome.masks
    return AssumptionReport(is_connected(masks), is_complete(masks), tuple(clusters), doubtful, _unstructured(outcome))


def _unstructured(outcome: Outcome) -> tuple[str, ...]:
    """Participants whose rows show no clusters while those of most others do; none if no participant's are clear."""
    clarity = outcome.clarity
    if len(clarity) < 2 or float(np.median(list(clarity.values()))) <= CLEAR:
        return ()
    return tuple(name for name, clear in sorted(clarity.items()) if clear <= NO_STRUCTURE)
