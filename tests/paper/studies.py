"""Random studies: who has which features and clusters, with local clusterings that both implementations start from."""

from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

import intarsia
from tests.paper.distances import Centroid

LAYOUTS = ("chain", "core", "random")


class RandomStudy(NamedTuple):
    """Rows of each participant with NaN where masked, K, and the number of local clusters of each participant."""

    rows: list
    K: int
    n_local: list
    layout: str

    @property
    def tables(self):
        """The same rows as the package reads them: a participant has only the columns that its mask leaves."""
        return {
            name: {f"f{m:02}": X[:, m] for m in range(X.shape[1]) if not np.isnan(X[0, m])}
            for name, X in zip(self.names, self.rows, strict=True)
        }

    @property
    def names(self):
        return [f"p{i:02}" for i in range(len(self.rows))]

    @property
    def local(self):
        """A deterministic clusterer for each participant."""
        return {name: KMeans(n, n_init=1, random_state=0) for name, n in zip(self.names, self.n_local, strict=True)}

    def local_labels(self):
        """Return what these clusterers find, numbered from 0."""
        return [
            KMeans(n, n_init=1, random_state=0).fit_predict(X[:, ~np.isnan(X[0])])
            for X, n in zip(self.rows, self.n_local, strict=True)
        ]

    @property
    def n_local_by_name(self):
        return dict(zip(self.names, self.n_local, strict=True))

    def built_in_labels(self):
        """Return the local clusters that the built-in k-means finds.

        If there are as many clusters as local ones, every local cluster is a cluster of its own, and the labels tell them.
        """
        settings = {"n_local_clusters": self.n_local_by_name, "n_proxies": 1, "random_state": 0, "allow_partial": True}
        result = intarsia.cluster(self.tables, sum(self.n_local), method="one_shot", preset="paper", **settings)
        number = {local.group: local.index for local in result.outcome.local_clusters}
        return [np.array([number[g] for g in result.labels[name]]) for name in self.names]

    def with_n_local(self, k):
        """Return the study with k local clusters at every participant."""
        return self._replace(n_local=[k] * len(self.rows))

    def beside(self, other):
        """Return both studies as one, whose halves share no feature."""
        widths = self.rows[0].shape[1], other.rows[0].shape[1]
        left = [np.pad(X, ((0, 0), (0, widths[1])), constant_values=np.nan) for X in self.rows]
        right = [np.pad(X, ((0, 0), (widths[0], 0)), constant_values=np.nan) for X in other.rows]
        return RandomStudy(left + right, 2, self.n_local + other.n_local, "parts")

    def numbered_like(self, result, labels):
        """Return the same local clusters with the numbers that they have in a result."""
        local, values = result.outcome.local_clusters, result.outcome.local_centroids.with_nan()
        renumbered = []
        for name, X, each in zip(self.names, self.rows, labels, strict=True):
            theirs = values[[c.participant == name for c in local]]
            mine = np.array([X[each == a].mean(axis=0) for a in range(max(each) + 1)])
            assert len(mine) == len(theirs), f"{name}: {len(theirs)} instead of {len(mine)} local clusters"
            number = np.array([np.argmin(np.nansum((theirs - center) ** 2, axis=1)) for center in mine])
            assert np.allclose(theirs[number], mine, equal_nan=True), f"{name}: other local clusters"
            renumbered.append(number[each])
        return renumbered

    def values_of(self, result):
        """Return the centroids of a result in the order of our features."""
        order = [result.feature_names.index(f"f{m:02}") for m in range(self.rows[0].shape[1])]
        return result.centroids[:, order]


def cluster_of_each(result):
    """Return the cluster of every local cluster, in the order of participants."""
    return [local.group for local in result.outcome.local_clusters]


def renumbering(G, clusters):
    """Return the package's number of every group of G, or None if the groups are not the same."""
    numbers = [{clusters[z] for z in group} for group in G]
    found = [number for group in numbers for number in group]
    one_each = all(len(group) == 1 for group in numbers) and len(set(found)) == len(G)
    return found if one_each and sum(map(len, G)) == len(clusters) else None


def draw_study(seed, separation=None):
    """Draw a study; its layout is chain, core or random by turns, and everything else is random."""
    rng = np.random.default_rng([17, seed])
    layout = LAYOUTS[seed % 3]
    n, d = int(rng.choice([2, 3, 3, 4, 5])), int(rng.integers(4, 9))
    K = int(rng.integers(2, 6))
    masks = draw_masks(rng, layout, n, d)
    centres = rng.normal(size=(K, d)) * (separation or rng.choice([0.5, 2.0, 6.0]))
    everything = rng.random() < 0.4  # every participant has rows of every cluster
    rows, n_local = [], []
    for i in range(n):
        present = rng.permutation(K)[: K if everything else rng.integers(1, K + 1)]
        parts = [centres[a] + rng.normal(size=(rng.integers(4, 36), d)) for a in present]
        X = np.concatenate(parts)
        rows.append(np.where(masks[i], X, np.nan))
        n_local.append(len(present) if rng.random() < 0.8 else int(rng.integers(1, K + 1)))
    while sum(n_local) < K:  # there must be K local centroids
        n_local[int(np.argmin(n_local))] += 1
    return RandomStudy(rows, K, n_local, layout)


def draw_centroids(seed, n=6, d=5, K=5):
    """Draw local centroids of participants with random features, without rows."""
    rng = np.random.default_rng([20, seed])
    masks = np.zeros((n, d), dtype=bool)
    while not (masks.any(axis=0).all() and masks.any(axis=1).all() and connected(masks)):
        masks = rng.random((n, d)) < 0.45
    centroids = []
    for i, mask in enumerate(masks):
        for _ in range(rng.integers(1, K + 1)):
            n_rows = rng.integers(1, 20)
            centroids.append(Centroid(i, np.where(mask, rng.normal(size=d), np.nan), np.where(mask, n_rows, 0)))
    return centroids, K


def draw_masks(rng, layout, n, d):
    """Return who has which feature: a chain of overlaps, a core that all share, or at random but connected."""
    masks = np.zeros((n, d), dtype=bool)
    if layout == "chain":
        n_chain = min(n, d - 1)
        cuts = np.linspace(0, d - 1, n_chain + 1).astype(int)
        for i in range(n):
            masks[i, cuts[i % n_chain] : cuts[i % n_chain + 1] + 1] = True
        return masks
    if layout == "core":
        n_core = int(rng.integers(1, d // 2 + 1))
        masks[:, :n_core] = True
        for m in range(n_core, d):
            masks[rng.integers(n), m] = True
        return masks
    while not (masks.any(axis=0).all() and connected(masks)):
        masks = rng.random((n, d)) < rng.uniform(0.3, 0.9)
    return masks


def connected(masks):
    """Whether participants share features, at least through others."""
    reached, before = masks[0], None
    while before is None or (reached != before).any():
        before, reached = reached, reached | masks[(masks & reached).any(axis=1)].any(axis=0)
    return bool((masks & reached).any(axis=1).all())
