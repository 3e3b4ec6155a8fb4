"""Algorithm 2. Comments give the lines of the paper; "errata" is docs/theory/errata.md.

The paper leaves open by which silhouette K̂ is chosen (line 11): it names neither the points nor the distance between points
that share no feature. So every Q_k is returned, and the caller names K̂.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from tests.paper.distances import distance, reach_of


class Gaussian(NamedTuple):
    """θ̂_i^a: maximum-likelihood mean and covariance of one local cluster, on the features that participant i has."""

    participant: int
    features: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    n_rows: int


def fit_pdf(i, X, labels):
    """Return the Gaussian of every local cluster of participant i (line 3)."""
    features = np.flatnonzero(~np.isnan(X[0]))
    densities = []
    for a in range(max(labels) + 1):
        points = X[np.asarray(labels) == a][:, features]
        mean = sum(points) / len(points)
        covariance = sum(np.outer(x - mean, x - mean) for x in points) / len(points)
        densities.append(Gaussian(i, features, mean, covariance, len(points)))
    return densities


def number_of_proxies(n_rows, least=30, most=100):
    """Return M of one cluster: its number of rows, but 30 ≤ M ≤ 100 (the paper's experiments)."""
    return min(max(n_rows, least), most)


def attractive_force(P, Q, reach, w):
    """f′ of two proxy clusters (eq:attractive_force_two_clusters), NaN where their features are disjoint."""
    force = 0.0
    for x in P:
        force += np.sum(1.0 / distance(Q, x, reach) ** w)
    return force


def force_between(R, S, f, sizes):
    """f(G[r], G[s]) (eq:attractive_force_sets_of_clusters), or the table's third row, which is the same mean of distances.

    Pairs that cannot be compared leave numerator and denominator (errata); NaN where none can.
    """
    total, weight = 0.0, 0.0
    for y in R:
        for z in S:
            if not np.isnan(f[y, z]):
                total += f[y, z]
                weight += sizes[y] * sizes[z]
    return total / weight if weight > 0 else np.nan


def distances_between(P, Q, reach):
    """Return d_ij(x, x′) of all points of two proxy clusters, NaN where their features are disjoint."""
    return np.array([distance(Q, x, reach) for x in P])


def smallest(R, S, pairs):
    """The table's first two rows: the smallest number of any comparable pair of clusters."""
    return min((pairs[y, z] for y in R for z in S if not np.isnan(pairs[y, z])), default=np.nan)


def measure_of(linkage, w):
    """Return what is computed of two proxy clusters, and what of two groups; the groups where it is highest are merged."""
    if linkage == "force":
        return partial(attractive_force, w=w), force_between
    of_pair = {"smallest": np.min, "smallest_mean": np.mean, "mean": np.sum}[
        linkage
    ]  # the table of fig:merging_example

    def of_clusters(P, Q, reach):
        return of_pair(distances_between(P, Q, reach))

    def of_groups(R, S, pairs, sizes):
        return -(force_between(R, S, pairs, sizes) if linkage == "mean" else smallest(R, S, pairs))

    return of_clusters, of_groups


def agglomerate(proxies, w=2.0, linkage="force"):
    """Return {k: Q_k} for every k that is reached (lines 5 to 10); groups are lists of positions in ``proxies``."""
    n = len(proxies)
    sizes = [len(P) for P in proxies]
    reach = reach_of(np.concatenate(proxies))  # S is P, the union of all proxy clusters
    of_clusters, of_groups = measure_of(linkage, w)
    f = np.full((n, n), np.nan)
    for y in range(n):
        for z in range(y + 1, n):
            f[y, z] = f[z, y] = of_clusters(proxies[y], proxies[z], reach)
    G = [[z] for z in range(n)]  # line 5
    Q = {n: [list(group) for group in G]}
    while len(G) > 1:  # line 6
        H = {}
        for r in range(len(G)):
            for s in range(r + 1, len(G)):
                H[r, s] = of_groups(G[r], G[s], f, sizes)  # line 7
        comparable = [pair for pair in H if not np.isnan(H[pair])]
        if not comparable:
            break  # errata: groups wait until a merge makes them comparable; here none will
        r, s = max(comparable, key=H.__getitem__)  # line 8
        G[r] = G[r] + G[s]  # line 9
        del G[s]
        Q[len(G)] = [list(group) for group in G]  # line 10; errata: indexed by the current number of groups
    return Q


def embed(points, features, d):
    """Return points of one participant as vectors over all d features, NaN where it has none."""
    full = np.full((len(points), d), np.nan)
    full[:, features] = points
    return full


def labels_of(G, densities, local_labels):
    """Return the global cluster of every row: that of its local cluster (line 12)."""
    group = {z: g for g, members in enumerate(G) for z in members}
    labels, first = [], 0
    for i, local in enumerate(local_labels):
        labels.append(np.array([group[first + a] for a in local]))
        first += sum(density.participant == i for density in densities)
    return labels
