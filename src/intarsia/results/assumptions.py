"""The conditions under which the paper expects the right answer, checked as far as summaries allow.

Assumption 1 (Method A): the participants of every cluster are connected by shared features, together they see every
feature, and their rows of that cluster follow one distribution. Assumption 2 (Method B): every two participants of a
cluster share a feature, and together they see every feature. Assumption 3: no local cluster mixes global ones. Of
these, connection and coverage can be checked on the grouping; equal distributions and purity cannot be checked without
rows, so that indications of them are reported as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from intarsia.core.centroids import merge
from intarsia.core.distances import Extent, Metric, check_metric, extent_of, phi_of_pairs
from intarsia.core.features import is_complete, is_connected, overlap_graph
from intarsia.core.grouping.certainty import DOUBTFUL
from intarsia.core.grouping.local_centroids import LocalCentroids, distances_to_group
from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import InputError, quote
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
                f"{len(bare)} of {len(self.clusters)} clusters have features that none of their participants has, at most "
                f"{len(worst.unseen_features)} (cluster {worst.cluster}: {quote(worst.unseen_features)}); "
                "those entries of their centroids are NaN"
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


def order_preservation_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    *,
    n_triplets: int = 1000,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often masking keeps the order of distances (assumption:experiments).

    .. math:: \phi(x_1, x_2) < \phi(x_1, x_3) \Rightarrow d_{ij}^{\bar X}(x_1, x_2) < d_{ik}^{\bar X}(x_1, x_3)

    for x₁, x₂ of one true cluster and x₃ of another, with the participants j of x₂ and k of x₃ sharing a feature with
    the participant i of x₁. Triplets are drawn at random; the rate is over those whose left side holds. It needs the
    complete rows, so it is for studies of the method, not for a federation.

    Parameters
    ----------
    X : (n_samples, n_features)
        The fictitious central table, complete.
    labels, participants : (n_samples,)
        True cluster and participant (a row of ``masks``) of every row.
    masks : (n_participants, n_features) of bool
        Which features each participant sees.
    """
    check_metric(metric)
    rows = np.asarray(X, dtype=np.float64)
    truth, owner = np.asarray(labels), np.asarray(participants, dtype=np.intp)
    seen = np.asarray(masks, dtype=np.bool_)
    if not (len(rows) == len(truth) == len(owner)) or rows.shape[1:] != seen.shape[1:]:
        raise InputError(
            f"X is {rows.shape[0]} × {rows.shape[1]}, with {len(truth)} labels, {len(owner)} participants and masks of "
            f"{seen.shape[-1]} features; rows and features must agree."
        )
    triplets = _triplets(truth, owner, overlap_graph(seen), n_triplets, np.random.default_rng(random_state))
    if not len(triplets):
        raise InputError(
            "there is no triplet of rows to compare: participants that overlap must have at least two clusters."
        )
    x, y, z = triplets.T
    everything = np.ones(rows.shape[1], dtype=np.bool_)
    premise = phi_of_pairs(rows[x], rows[y], everything, metric) < phi_of_pairs(rows[x], rows[z], everything, metric)
    extent = extent_of(rows, np.ones(rows.shape, dtype=np.bool_))
    near = _rescaled_pairs(rows, seen[owner], x, y, extent, metric)
    far = _rescaled_pairs(rows, seen[owner], x, z, extent, metric)
    testable = premise & ~np.isnan(near) & ~np.isnan(far)
    return float((near < far)[testable].mean()) if testable.any() else float("nan")


def _triplets(
    truth: npt.NDArray[np.generic], owner: IntArray, graph: BoolArray, n_triplets: int, rng: np.random.Generator
) -> IntArray:
    triplets = []
    for first in rng.integers(len(truth), size=n_triplets):
        near = graph[owner[first], owner]
        same = near & (truth == truth[first])
        same[first] = False
        other = near & (truth != truth[first])
        if same.any() and other.any():
            triplets.append((first, rng.choice(np.flatnonzero(same)), rng.choice(np.flatnonzero(other))))
    return np.array(triplets, dtype=np.intp).reshape(-1, 3)


def _rescaled_pairs(
    rows: FloatArray, seen: BoolArray, left: IntArray, right: IntArray, extent: Extent, metric: Metric
) -> FloatArray:
    shared = seen[left] & seen[right] & extent.varies
    largest = phi_of_pairs(extent.high, extent.low, shared, metric)
    distance = phi_of_pairs(rows[left], rows[right], shared, metric)
    return np.asarray(np.divide(distance, largest, out=np.full(len(left), np.nan), where=largest > 0))
