"""How often the paper's assumptions about masking hold, on complete rows whose true clusters are known.

Each assumption is an implication about triplets of points, x₁ and x₂ of one true cluster and x₃ of another: what is nearer
without masks is nearer with them. The functions differ in what the points are and in which distance is taken:

===================================  ==============================  ============================================
:func:`order_preservation_rate`      assumption:experiments          rows
:func:`local_order_rate`             assumption:LCOD                 rows, and points of the hulls of clusters
:func:`centroid_order_rate`          assumption:for_methodA          local centroids
:func:`merged_order_rate`            assumption:for_methodB          local centroids, and merged ones
:func:`proxy_order_rate`             assumption:for_algorithm2       proxies of local clusters
===================================  ==============================  ============================================

:func:`local_purity` is the rate of assumption:correct_local_overclustering. All of them need complete rows and the truth:
they are for studies of the method, not for a federation.

Parameters that they share:

``X`` (rows × features)
    The fictitious central table, complete.
``labels``, ``participants``, ``local_labels`` (one entry per row)
    True cluster, participant (a row of ``masks``), and local cluster within the participant; −1 is in no local cluster.
    For a fit on a split of ``intarsia.datasets`` the latter is ``split.in_order(result.local_labels)``.
``masks`` (participants × features)
    Which features each participant sees.
``n_triplets``
    How many triplets are drawn at random (the paper: 1000). None takes all that there are.
``vacuous``
    Whether triplets whose left side does not hold count as kept, as logic has it. If not, they do not count.
``metric``
    The distance φ.
``random_state``
    Seed of the draws.

A rate is NaN if no triplet counts: no left side holds, or no right side can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.centroids import centroids_of_rows, merge
from intarsia.core.densities import Clustered, fit_densities
from intarsia.core.densities.force import sample_inside
from intarsia.core.distances import Metric, extent_of, phi_of_pairs
from intarsia.core.randomness import stream
from intarsia.core.rows import ArrayRows
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import SettingError
from intarsia.results.triplets import (
    Points,
    Triplets,
    central_table,
    draws,
    local_centroids,
    local_clusters,
    rate,
    triplets_of,
)


class Purity(NamedTuple):
    """Shares: local clusters with rows of one true cluster only, rows in these, rows in the majority.

    A row is in the majority if its true cluster is the most frequent one of its local cluster.
    """

    clusters: float
    rows: float
    majority: float


class Proxies(NamedTuple):
    """The proxies of all local clusters (0 where a feature is not seen), and the row that each is mapped to."""

    values: FloatArray
    nearest_row: IntArray


def order_preservation_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    *,
    n_triplets: int | None = 1000,
    vacuous: bool = False,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often masking keeps the order of distances between rows (assumption:experiments, Table 1).

    .. math:: \phi(x_1, x_2) < \phi(x_1, x_3) \Rightarrow d_{ij}^{\bar X}(x_1, x_2) < d_{ik}^{\bar X}(x_1, x_3)

    for rows x₁ ≠ x₂ of one true cluster and x₃ of another, with the participants j of x₂ and k of x₃ sharing a feature with
    the participant i of x₁. :mod:`~intarsia.results.rates` describes the parameters.

    >>> X, masks = [[0.0, 0.0], [1.0, 0.0], [3.0, 9.0], [0.5, 9.0]], [[True, False]]
    >>> order_preservation_rate(X, [0, 0, 1, 1], [0, 0, 0, 0], masks, n_triplets=None)
    0.375
    """
    table = central_table(X, labels, participants, masks, metric)
    points = Points(table.values, table.masks[table.owner], table.values)
    extent = extent_of(table.values, np.ones(table.values.shape, dtype=np.bool_))
    rng = np.random.default_rng(random_state)
    triplets = triplets_of(points, table.truth, table.owner, table.masks, n_triplets, rng)
    return rate(triplets, extent, metric, vacuous=vacuous)


def local_order_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    *,
    n_combined: int | None = None,
    n_triplets: int | None = 1000,
    vacuous: bool = False,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often the mask of one participant keeps the order of distances (assumption:LCOD).

    .. math:: \phi(x_1, x_2) < \phi(x_1, x_3) \Rightarrow \phi(\Omega_i x_1, \Omega_i x_2) < \phi(\Omega_i x_1, \Omega_i x_3)

    for a row x₁ of a true cluster a, points x₂ and x₃ of the convex hulls of a and of another true cluster b, and a
    participant i that has rows of both; the rows may be any participant's. :mod:`~intarsia.results.rates` describes the
    other parameters.

    Parameters
    ----------
    n_combined : int or None, default=None
        A point of a hull is a random convex combination of this many rows of the cluster, x₁ excepted; all weights that add
        up to 1 are equally likely. 1 gives the rows themselves, many give points near the centroid. None draws the number
        for each point, from 1 to all, uniformly on a logarithmic scale. ``n_triplets=None`` needs 1.

    Examples
    --------
    >>> X, masks = [[0.0, 0.0], [1.0, 0.0], [3.0, 9.0], [0.5, 9.0]], [[True, False]]
    >>> local_order_rate(X, [0, 0, 1, 1], [0, 0, 0, 0], masks, n_triplets=None, n_combined=1)
    0.375
    """
    table = central_table(X, labels, participants, masks, metric)
    rng, holders = np.random.default_rng(random_state), table.holders
    choices = [
        [(int(i), int(b)) for i, b in np.argwhere(holders) if b != a and holders[i, a]] for a in range(holders.shape[1])
    ]

    def combined(members: IntArray) -> FloatArray:
        return np.asarray(rng.dirichlet(np.ones(len(members))) @ table.values[members])

    def triplets() -> Iterator[Triplets]:
        for block in draws(table.truth, lambda first: choices[table.truth[first]], n_triplets, n_combined, rng):
            seen = table.masks[[draw.participant for draw in block]]
            first = table.values[[draw.first for draw in block]]
            second = np.array([combined(draw.second) for draw in block])
            third = np.array([combined(draw.third) for draw in block])
            yield Points(first, seen, first), Points(second, seen, second), Points(third, seen, third)

    return rate(triplets(), None, metric, vacuous=vacuous)


def centroid_order_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    local_labels: npt.ArrayLike,
    *,
    n_triplets: int | None = 1000,
    vacuous: bool = False,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often masking keeps the order of distances between local centroids (assumption:for_methodA).

    .. math:: \phi(\mho(x_1), \mho(x_2)) < \phi(\mho(x_1), \mho(x_3)) \Rightarrow d_{ij}^c(x_1, x_2) < d_{ik}^c(x_1, x_3)

    for local centroids x₁ ≠ x₂ of one true cluster and x₃ of another, with the participants j of x₂ and k of x₃ sharing a
    feature with the participant i of x₁. ℧(x) is the centroid of the same rows unmasked (eq:mho). The true cluster of a
    local centroid is the most frequent one of its rows; ℧(x) is in its convex hull, as the paper asks, if the local cluster
    is pure. To test only pure ones, set the local labels of the others to −1. :mod:`~intarsia.results.rates` describes the
    parameters.

    >>> X, masks = [[0.0, 0.0], [1.0, 0.0], [3.0, 9.0], [0.5, 9.0]], [[True, False], [True, False]]
    >>> centroid_order_rate(X, [0, 0, 1, 1], [0, 1, 0, 1], masks, [0, 0, 1, 1], n_triplets=None)
    0.375
    """
    table = central_table(X, labels, participants, masks, metric)
    clusters = local_clusters(table, local_labels)
    centroids, unmasked = local_centroids(table, clusters)
    points = Points(centroids.values, centroids.seen, unmasked.values)
    rng = np.random.default_rng(random_state)
    triplets = triplets_of(points, clusters.truth, clusters.owner, table.masks, n_triplets, rng)
    return rate(triplets, extent_of(points.values, points.seen), metric, vacuous=vacuous)


def merged_order_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    local_labels: npt.ArrayLike,
    *,
    n_combined: int | None = None,
    n_triplets: int | None = 1000,
    vacuous: bool = False,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often masking keeps the order of distances from local to merged centroids (assumption:for_methodB).

    .. math:: \phi(\mho(x_1), \mho(x_2)) < \phi(\mho(x_1), \mho(x_3)) \Rightarrow
              \phi(x_1, \Omega_i x_2) < \phi(x_1, \Omega_i x_3)

    for a local centroid x₁ of participant i, and x₂ and x₃ merged from local centroids of the same true cluster and of
    another one (eq:merge_centroids_function); ℧ merges the same centroids unmasked. True clusters are those of
    :func:`centroid_order_rate`. Where x₂ or x₃ lacks a feature of participant i, distances are over the features that both
    points have and rescaled, as Method B computes them (eq:d); where none is lacking, this is the printed comparison.
    :mod:`~intarsia.results.rates` describes the other parameters.

    Parameters
    ----------
    n_combined : int or None, default=None
        How many local centroids x₂ and x₃ are merged from, x₁ excepted. None as in :func:`local_order_rate`.

    Examples
    --------
    >>> X, masks = [[0.0, 0.0], [1.0, 0.0], [3.0, 9.0], [0.5, 9.0]], [[True, False], [True, False]]
    >>> labels, owner, local = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1]
    >>> merged_order_rate(X, labels, owner, masks, local, n_triplets=None, n_combined=1)
    0.375
    """
    table = central_table(X, labels, participants, masks, metric)
    clusters = local_clusters(table, local_labels)
    centroids, unmasked = local_centroids(table, clusters)
    present = np.unique(clusters.truth).tolist()

    def choices(first: int) -> list[tuple[int, int]]:
        return [(int(clusters.owner[first]), b) for b in present if b != clusters.truth[first]]

    def merged(members: Sequence[IntArray]) -> Points:
        at, group = np.concatenate(members), np.repeat(np.arange(len(members)), [len(some) for some in members])
        known, everything = (merge(each.take(at), group, len(members)) for each in (centroids, unmasked))
        return Points(known.values, known.seen, everything.values)

    def triplets() -> Iterator[Triplets]:
        for block in draws(clusters.truth, choices, n_triplets, n_combined, np.random.default_rng(random_state)):
            first = [np.array([draw.first]) for draw in block]
            yield merged(first), merged([draw.second for draw in block]), merged([draw.third for draw in block])

    return rate(triplets(), extent_of(centroids.values, centroids.seen), metric, vacuous=vacuous)


def proxy_order_rate(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    participants: npt.ArrayLike,
    masks: npt.ArrayLike,
    local_labels: npt.ArrayLike,
    *,
    density: str = "gaussian_full",
    shrink: bool = False,
    n_proxies: int | tuple[int, int] = (30, 100),
    n_triplets: int | None = 1000,
    vacuous: bool = False,
    metric: Metric = "euclidean",
    random_state: int = 0,
) -> float:
    r"""Return how often proxies keep the order of distances between the rows they represent (assumption:for_algorithm2).

    .. math:: \phi(\mho(\varphi(x_1)), \mho(\varphi(x_2))) < \phi(\mho(\varphi(x_1)), \mho(\varphi(x_3)))
              \Rightarrow d_{ij}^P(x_1, x_2) < d_{ik}^P(x_1, x_3)

    for proxies, with participants as in :func:`centroid_order_rate`. φ(x) is the nearest row of the local cluster
    (:func:`draw_proxies`) and ℧ the same row unmasked, whose true cluster is that of the proxy. Proxies are not rows, so
    that the rate can be below 1 without any mask. :mod:`~intarsia.results.rates` describes the other parameters.

    Parameters
    ----------
    density, shrink, n_proxies : default="gaussian_full", False, (30, 100)
        What is fitted to each local cluster, and how many points are drawn, as in :class:`~intarsia.OneShotClustering`. The
        defaults are the paper's.
    """
    table = central_table(X, labels, participants, masks, metric)
    clusters = local_clusters(table, local_labels)
    values, rows = draw_proxies(
        table.values, table.owner, table.masks, clusters.of_row,
        density=density, shrink=shrink, n_proxies=n_proxies, metric=metric, random_state=random_state,
    )  # fmt: skip
    points = Points(values, table.masks[table.owner[rows]], table.values[rows])
    rng = np.random.default_rng(random_state)
    triplets = triplets_of(points, table.truth[rows], table.owner[rows], table.masks, n_triplets, rng)
    return rate(triplets, extent_of(points.values, points.seen), metric, vacuous=vacuous)


def draw_proxies(
    X: FloatArray,
    participants: IntArray,
    masks: BoolArray,
    local_labels: IntArray,
    *,
    density: str,
    shrink: bool,
    n_proxies: int | tuple[int, int],
    metric: Metric,
    random_state: int,
) -> Proxies:
    r"""Draw proxies of each local cluster, and find the nearest of its rows as the participant sees them (eq:varphi).

    .. math:: \varphi_i^a(x) = \mathrm{argmin}_{x' \in C_i^a} \phi(x, x')
    """
    values, rows = [], []
    least, most = np.broadcast_to(n_proxies, 2).tolist()
    if not 1 <= least <= most:
        raise SettingError(
            f"n_proxies must be at least 1, or a pair (least, most) of such, the smaller one first. Got {least} and {most} "
            "instead. Hint: n_proxies=(30, 100) has the paper's bounds."
        )
    for i, mask in enumerate(masks):
        members = np.flatnonzero((participants == i) & (local_labels >= 0))
        names, local = np.unique(local_labels[members], return_inverse=True)
        cells, local = X[np.ix_(members, mask)], local.astype(np.intp)
        observed = np.ones(cells.shape, dtype=np.bool_)
        centroids, sizes = centroids_of_rows(cells, observed, local, len(names)), np.bincount(local)
        features = [str(feature) for feature in np.flatnonzero(mask)]
        clusters = Clustered(ArrayRows(cells, observed, centred=False), local, sizes, centroids, centroids, features)
        for k, fitted in enumerate(fit_densities(clusters, density, shrink=shrink)):
            points = sample_inside(fitted, stream(random_state, i, k, "proxies"), int(np.clip(sizes[k], least, most)))
            own = np.flatnonzero(local == k)
            distances = [phi_of_pairs(point, cells[own], observed[0], metric) for point in points]
            rows.append(members[own[np.argmin(distances, axis=1)]])
            values.append(np.zeros((len(points), X.shape[1])))
            values[-1][:, mask] = points
    return Proxies(np.concatenate(values), np.concatenate(rows))


def local_purity(labels: npt.ArrayLike, participants: npt.ArrayLike, local_labels: npt.ArrayLike) -> Purity:
    r"""Return how many local clusters have rows of one true cluster only (assumption:correct_local_overclustering).

    .. math:: C_i^a \subseteq X_i^b \text{ for some } b

    Rows in no local cluster do not count. :mod:`~intarsia.results.rates` describes the parameters.

    >>> local_purity(["a", "a", "a", "a", "b", "b"], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]).clusters
    0.5
    """
    owner = np.asarray(participants, dtype=np.intp)
    masks = np.zeros((int(owner.max(initial=-1)) + 1, 0), dtype=np.bool_)
    table = central_table(np.zeros((len(owner), 0)), labels, owner, masks, "euclidean")
    classes = local_clusters(table, local_labels).classes
    sizes, largest = classes.sum(axis=1), classes.max(axis=1)
    pure, total = sizes == largest, sizes.sum()
    return Purity(float(pure.mean()), float(sizes[pure].sum() / total), float(largest.sum() / total))
