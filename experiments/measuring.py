"""One split, one way: everything that can be said about it, as one row of numbers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.metrics import adjusted_rand_score

import intarsia
from experiments.baselines import BASELINES
from intarsia.algorithms import FederatedAlgorithm, OneShotAlgorithm
from intarsia.assumptions import order_preservation_rate
from intarsia.core.distances import extent_of, nearest_centre
from intarsia.datasets import Split
from intarsia.frames import read_table
from intarsia.messages import Reply, Request, encode
from intarsia.metrics import (
    aggregation_accuracy,
    centroid_agreement,
    clustering_accuracy,
    majority_classes,
    optimal_masked_centroids,
)
from intarsia.participant import Participant
from intarsia.results import Outcome
from intarsia.runtime import InProcessRuntime, drive

OURS = {
    "federated, search": (FederatedAlgorithm, {}),
    "federated, Method A": (FederatedAlgorithm, {"aggregation": "method_a"}),
    "federated, Method B": (FederatedAlgorithm, {"aggregation": "method_b"}),
    "one-shot, search": (OneShotAlgorithm, {}),
    "one-shot, greedy, exact": (OneShotAlgorithm, {"aggregation": "greedy"}),
    "one-shot, greedy, 100 proxies": (OneShotAlgorithm, {"aggregation": "greedy", "force": "sampled"}),
    "one-shot, search, K chosen": (OneShotAlgorithm, {"n_clusters": None}),
}
CEILING = "ceiling: true masked centroids"
WAYS = (*OURS, CEILING, *BASELINES)
COLUMNS = (
    "aggregation", "accuracy", "adjusted_rand", "centroid_distance", "centroid_cosine", "n_clusters", "clear",
    "order_preservation", "seconds", "bytes_out",
)  # fmt: skip


class CountingRuntime(InProcessRuntime):
    """In process, but adds up what would have left each participant as bytes."""

    def __init__(self, participants: list[Participant]) -> None:
        super().__init__(participants)
        self.bytes_out = dict.fromkeys(self.participants(), 0)

    def exchange(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        replies = super().exchange(requests)
        for name, reply in replies.items():
            self.bytes_out[name] += len(encode(reply))
        return replies


def measure(split: Split, k: int, seed: int, way: str) -> dict[str, float]:
    """Every column of :data:`COLUMNS` that makes sense for this way; the others are NaN."""
    started = time.perf_counter()
    row = dict.fromkeys(COLUMNS, float("nan"))
    if way in OURS:
        row |= _ours(split, k, seed, way)
    else:
        labels = ceiling(split) if way == CEILING else BASELINES[way].label(split, k, seed)
        rows = np.bincount(split.participant)
        pooled = way == CEILING or BASELINES[way].pools_rows
        row["bytes_out"] = float(np.mean(rows * split.masks.sum(axis=1) * 8)) if pooled else 0.0
        row |= _agreement(split, labels)
    return row | {"seconds": time.perf_counter() - started}


def _agreement(split: Split, labels: np.ndarray) -> dict[str, float]:
    return {
        "accuracy": clustering_accuracy(split.truth, labels),
        "adjusted_rand": float(adjusted_rand_score(split.truth, labels)),
        "n_clusters": len(np.unique(labels)),
    }


def _ours(split: Split, k: int, seed: int, way: str) -> dict[str, float]:
    kind, settings = OURS[way]
    people = [Participant(read_table(table, name)) for name, table in split.tables().items()]
    runtime = CountingRuntime(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
        outcome = drive(kind(**{"n_clusters": k, "seed": seed, **settings}), runtime)
    found = _agreement(split, split.in_order({person.name: person.labels for person in people}))
    found |= _grouping(split, outcome, {person.name: person.local_labels for person in people})
    found["bytes_out"] = float(np.mean(list(runtime.bytes_out.values())))
    if len(outcome.model.centroids) == len(np.unique(split.truth)):
        optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
        order = [split.feature_names.index(name) for name in outcome.model.space.names]
        e3 = centroid_agreement(outcome.model.values, optimal[:, order])
        found |= {"centroid_distance": e3.relative_distance, "centroid_cosine": e3.cosine_similarity}
    return found


def _grouping(split: Split, outcome: Outcome, local_labels: Mapping[str, np.ndarray]) -> dict[str, float]:
    """E1 or E4; clear is a split with every local majority at least 60 %, and no class of anybody without a cluster."""
    classes, groups, clear = [], [], True
    for name, truth in split.truth_of().items():
        local = local_labels[name]
        mine = majority_classes(truth, local)
        purity = [np.mean(truth[local == a] == mine[a]) for a in range(len(mine))]
        clear &= min(purity) >= 0.6 and set(mine.tolist()) == set(np.unique(truth).tolist())
        classes.append(mine)
        groups.append([c.group for c in outcome.local_clusters if c.participant == name])
    return {"aggregation": aggregation_accuracy(np.concatenate(classes), np.concatenate(groups)), "clear": float(clear)}


def ceiling(split: Split) -> np.ndarray:
    """Every row to the nearest true masked centroid: the best that centroids can do on this split."""
    optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
    known = ~np.isnan(optimal)
    extent = extent_of(np.nan_to_num(optimal), known)
    seen = split.masks[split.participant]
    return nearest_centre(split.X, seen, np.nan_to_num(optimal), known, extent, "euclidean")


def order_preservation(split: Split, seed: int) -> float:
    """Table 1, on 1000 triplets."""
    return order_preservation_rate(split.X, split.truth, split.participant, split.masks, random_state=seed)
