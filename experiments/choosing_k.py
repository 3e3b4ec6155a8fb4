"""How often is K right when nobody knows it? Beside it, what the highest silhouette says of the complete table in one place.

Mixtures: equal Gaussian clusters in 12 dimensions, in random directions, so far apart that the best possible labels, with
all columns, reach a given adjusted Rand index. Three participants have 400 rows each, of all clusters; in the chain 3 of 6
columns with each neighbour, in the core 4 of 6 or 7 with all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, pairwise_distances

import intarsia
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT, Row
from experiments.splits import Case, dim_split
from intarsia.core.grouping.n_clusters import silhouettes_of_rows
from intarsia.datasets import Split, mask_features, partition

FEATURES, PARTIES, ROWS, MOST = 12, 3, 400, 20
SHARED = {"overlap": 0.5, "core": 1 / 3}
TARGETS = (0.99, 0.95, 0.85)
NUMBERS = range(2, 13)
DIMENSIONS = (32, 64, 128, 256, 512, 1024)
POOLED = "pooled: k-means, highest silhouette"
K_WAYS = (ONE_SHOT, FEDERATED, POOLED)
METHODS = {ONE_SHOT: "one_shot", FEDERATED: "federated"}


def centres(K: int, target: float, rng: np.random.Generator) -> np.ndarray:
    """Centres in random directions, so far apart that the best possible labels reach an adjusted Rand index."""
    directions, noise = rng.normal(size=(K, FEATURES)), rng.normal(size=(4000, FEATURES))
    truth = rng.integers(K, size=len(noise))
    low, high = 0.05, 20.0
    for _ in range(25):
        middle = np.sqrt(low * high)
        c = middle * directions
        best = (np.square(c).sum(axis=1) - 2 * (c[truth] + noise) @ c.T).argmin(axis=1)
        low, high = (middle, high) if adjusted_rand_score(truth, best) < target else (low, middle)
    return high * directions


def mixture_split(layout: str, seed: int, *, target: float | None) -> Case:
    """A mixture of 2 + seed modulo 11 clusters, or, without a target, a single cloud."""
    K = 1 if target is None else NUMBERS[seed % len(NUMBERS)]
    rng = np.random.default_rng([seed, K, round(100 * (target or 1.0))])
    middle = np.zeros((1, FEATURES)) if target is None else centres(K, target, rng)
    truth = np.arange(PARTIES * ROWS) % K
    X = middle[truth] + rng.normal(size=(len(truth), FEATURES))
    masks = mask_features(FEATURES, PARTIES, layout=layout, random_state=rng, **SHARED)
    return Case(Split.of(X, truth, partition(len(X), PARTIES, random_state=rng), masks))


CASES = {
    **{f"K of mixtures, {target:g}": partial(mixture_split, target=target) for target in TARGETS},
    "K of one cloud": partial(mixture_split, target=None),
    **{f"K of DIM-set {d}": partial(dim_split, dimension=d) for d in DIMENSIONS},
}


def true_number(study: str, seed: int) -> int:
    """The K that was to be found."""
    if study.startswith("K of mixtures"):
        return NUMBERS[seed % len(NUMBERS)]
    return 1 if study == "K of one cloud" else 16


def measure_number(case: Case, _: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """The K that each way chooses, and how well the labels agree."""
    split = case.split
    for way in ways:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
            if way == POOLED:
                labels = highest_silhouette(split.X, np.random.default_rng(seed))
            else:
                method = METHODS[way]
                result = intarsia.cluster(split.tables(), "auto", method=method, scale=None, random_state=seed)
                labels = split.in_order(result.labels)
        row = dict.fromkeys(COLUMNS, float("nan")) | {"n_clusters": len(np.unique(labels[labels >= 0]))}
        row |= {"adjusted_rand": float(adjusted_rand_score(split.truth, labels))}
        yield way, row | {"seconds": time.perf_counter() - started}


def highest_silhouette(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by k-means with the k that has the highest mean silhouette."""
    sample = rng.permutation(len(X))[:1000]
    distances = pairwise_distances(X[sample])
    found = []
    for k in range(2, min(MOST, len(X) // 2) + 1):
        labels = KMeans(k, n_init=5, random_state=int(rng.integers(2**31))).fit_predict(X)
        found.append((silhouettes_of_rows(distances, labels[sample]).mean(), labels))
    return max(found, key=lambda pair: pair[0])[1]
