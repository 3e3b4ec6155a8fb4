"""One split, many ways: everything that can be said about each, as rows of numbers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

import intarsia
from experiments.baselines import BASELINES
from experiments.splits import Case
from intarsia.coordinator import Algorithm, FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.settings import DEVIATIONS
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.densities.base import Density
from intarsia.core.densities.exact_force import exact_forces
from intarsia.core.densities.force import extent_of_densities
from intarsia.core.distances import Extent, extent_of, nearest_centre
from intarsia.core.grouping.local_centroids import LocalCentroids, objective
from intarsia.core.grouping.objective import ForceObjective
from intarsia.core.kmeans import lloyd
from intarsia.core.rows import ArrayRows
from intarsia.datasets import Split
from intarsia.participant import Participant
from intarsia.protocol import LocalSummary, Reply, Request, Summarize, encode
from intarsia.protocol.densities import unpacked
from intarsia.results.metrics import (
    aggregation_accuracy,
    centroid_agreement,
    clustering_accuracy,
    majority_classes,
    optimal_masked_centroids,
)
from intarsia.results.outcome import Outcome
from intarsia.results.rates import order_preservation_rate
from intarsia.runtime.contract import OnReply
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime
from intarsia.tables.frame import read_table

PRINTED = {"step_size": 0.8, "max_rounds": 3, "tol": 0.0, "refinement": "plain", "n_rivals": 0}  # the paper's F and α
FEDERATED, ONE_SHOT = "federated", "one-shot"
PAPER_1, PAPER_2 = "the paper's Algorithm 1", "the paper's Algorithm 2"  # preset="paper"
MIXTURE = "federated, labels by a mixture"
EXACT = "one-shot as printed, exact force"
K_CHOSEN = "one-shot, K chosen"
OURS = {
    FEDERATED: (FederatedAlgorithm, {}),
    "federated, search, the paper's rounds": (FederatedAlgorithm, PRINTED),
    "federated as printed, Method A": (FederatedAlgorithm, {"aggregation": "method_a", **PRINTED}),
    "federated as printed, Method B": (FederatedAlgorithm, {"aggregation": "method_b", **PRINTED}),
    MIXTURE: (FederatedAlgorithm, {"model": "mixture"}),
    ONE_SHOT: (OneShotAlgorithm, {}),
    EXACT: (
        OneShotAlgorithm,
        {"aggregation": "greedy", "softening": 0.0, "density": "gaussian_full", "shrink": False, "labels": "local"},
    ),
    K_CHOSEN: (OneShotAlgorithm, {"n_clusters": None}),
}
PRESET = {PAPER_1: intarsia.FederatedClustering, PAPER_2: intarsia.OneShotClustering}
GROUPING = (*OURS, *PRESET)  # all that group local clusters
CEILING = "ceiling: true masked centroids"
FROM_TRUTH = "masked Lloyd from the true centroids"
FROM_OUTSIDE = "masked Lloyd from the true centroids of other rows"
REFERENCES = (CEILING, FROM_TRUTH, FROM_OUTSIDE)  # they know the truth
WAYS = (*GROUPING, *REFERENCES, *BASELINES)
COLUMNS = (
    "aggregation", "accuracy", "adjusted_rand", "centroid_distance", "centroid_cosine", "n_clusters", "clear",
    "objective", "objective_of_truth", "rounds", "overruled", "order_preservation", "seconds", "bytes_out",
)  # fmt: skip
Row = dict[str, float]


class CountingRuntime(InProcessRuntime):
    """In process, but adds up what would have left each participant as bytes, and keeps the summaries."""

    def __init__(self, participants: list[Participant]) -> None:
        super().__init__(participants)
        self.bytes_out = dict.fromkeys(self.participants(), 0)
        self.summaries: dict[str, LocalSummary] = {}

    def exchange(self, requests: Mapping[str, Request], on_reply: OnReply | None = None) -> dict[str, Reply]:
        replies = super().exchange(requests, on_reply)
        for name, reply in replies.items():
            self.bytes_out[name] += len(encode(reply))
            if isinstance(reply, LocalSummary):
                self.summaries[name] = reply
        return replies


def measure_ways(case: Case, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """Each way with its row: every column of :data:`COLUMNS` that makes sense for it, the others NaN.

    All of ours share the participants, who cluster their rows once; the time that took is added to each. The paper's
    algorithms have participants of their own.
    """
    split = case.split
    always = {"order_preservation": order_preservation_rate(
        split.X, split.truth, split.participant, split.masks, random_state=seed
    )}  # fmt: skip
    people, local_seconds = [], 0.0
    if any(way in OURS for way in ways):
        people, local_seconds = participants(split, k, seed)
    for way in ways:
        started = time.perf_counter()
        row = dict.fromkeys(COLUMNS, float("nan")) | always
        if way in PRESET:
            row |= _preset(split, k, seed, way)
            row["seconds"] = time.perf_counter() - started
        elif way in OURS:
            row |= _ours(split, people, k, seed, way)
            row["seconds"] = time.perf_counter() - started + (local_seconds if way != K_CHOSEN else 0.0)
        else:
            labels = _reference(case, way) if way in REFERENCES else BASELINES[way].label(split, k, seed)
            row |= _agreement(split, labels)
            row["seconds"] = time.perf_counter() - started
            row["bytes_out"] = _bytes(split) if way not in REFERENCES and BASELINES[way].pools_rows else 0.0
        yield way, row


def participants(split: Split, k: int, seed: int) -> tuple[list[Participant], float]:
    """Everybody, with local clusters found, and how long that took."""
    people = [Participant(read_table(table, name)) for name, table in split.tables().items()]
    started = time.perf_counter()
    for person in people:
        person.handle(Summarize(seed=seed, n_clusters=k, n_local_clusters=None, max_local_clusters=k))
    return people, time.perf_counter() - started


def _bytes(split: Split) -> float:
    """What each participant would have to send to pool the rows, on average."""
    return float(np.mean(np.bincount(split.participant) * split.masks.sum(axis=1) * 8))


def _agreement(split: Split, labels: np.ndarray) -> Row:
    return {
        "accuracy": clustering_accuracy(split.truth, labels),
        "adjusted_rand": float(adjusted_rand_score(split.truth, labels)),
        "n_clusters": len(np.unique(labels)),
    }


def _preset(split: Split, k: int, seed: int, way: str) -> Row:
    """Run ``preset="paper"``: K_i = K where everybody has rows of all classes (HAR, QMNIST), else by the silhouette."""
    n_classes = len(np.unique(split.truth))
    all_have_all = all(len(np.unique(truth)) == n_classes for truth in split.truth_of().values())
    fixed = {"n_local_clusters": k} if all_have_all else {}
    estimator = PRESET[way].from_preset("paper", k, random_state=seed, **fixed)
    people = [Participant(read_table(table, name)) for name, table in split.tables().items()]
    return _run(split, people, estimator.algorithm_for(split.names), way)


def _ours(split: Split, people: list[Participant], k: int, seed: int, way: str) -> Row:
    kind, settings = OURS[way]
    return _run(split, people, kind(**{"n_clusters": k, "seed": seed, **settings}), way)


def _run(split: Split, people: list[Participant], algorithm: Algorithm, way: str) -> Row:
    runtime = CountingRuntime(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
        outcome = drive(algorithm, runtime)
    found = _agreement(split, split.in_order({person.name: person.labels for person in people}))
    truth = true_grouping(split, people)
    groups = np.array([cluster.group for cluster in outcome.local_clusters])
    found |= {"aggregation": aggregation_accuracy(truth.classes, groups), "clear": float(truth.clear)}
    found |= {"rounds": len(outcome.rounds), "overruled": float(outcome.aggregation.overruled)}
    found["bytes_out"] = float(np.mean(list(runtime.bytes_out.values())))
    if len(outcome.model.centroids) == len(np.unique(split.truth)):
        optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
        order = [split.feature_names.index(name) for name in outcome.model.space.names]
        e3 = centroid_agreement(outcome.model.values, optimal[:, order])
        found |= {"centroid_distance": e3.relative_distance, "centroid_cosine": e3.cosine_similarity}
    if way in {FEDERATED, ONE_SHOT}:
        found |= _objectives(split, outcome, runtime, truth, groups, federated=way == FEDERATED)
    return found


class Truth(NamedTuple):
    """The majority class of every local cluster, in the order of participants' names, and whether the split is clear.

    Clear is a split with every local majority at least 60 %, and no class of a participant without a cluster.
    """

    classes: np.ndarray
    clear: bool


def true_grouping(split: Split, people: list[Participant]) -> Truth:
    local_labels = {person.name: person.local_labels for person in people}
    classes, clear = [], True
    for name, truth in split.truth_of().items():
        local = local_labels[name]
        mine = majority_classes(truth, local)
        purity = [np.mean(truth[local == a] == mine[a]) for a in range(len(mine))]
        clear &= min(purity) >= 0.6 and set(mine.tolist()) == set(np.unique(truth).tolist())
        classes.append(mine)
    return Truth(np.concatenate(classes), clear)


def _objectives(
    split: Split, outcome: Outcome, runtime: CountingRuntime, truth: Truth, groups: np.ndarray, *, federated: bool
) -> Row:
    """The objective of the grouping that was found, and of the true one: which of the two does the method prefer?"""
    _, true_groups = np.unique(truth.classes, return_inverse=True)
    k = int(max(groups.max(), true_groups.max())) + 1
    if federated:
        owner = np.array([outcome.participants.index(c.participant) for c in outcome.local_clusters])
        local = LocalCentroids(outcome.local_centroids, owner)
        rate = partial(objective, local, n_groups=k)
    else:
        seen = summarised(split, runtime.summaries)
        rate = ForceObjective(exact_forces(seen.densities, seen.seen, seen.extent, 2.0, 0.01), seen.owner, k).loss
    return {"objective": rate(groups), "objective_of_truth": rate(true_groups)}


class Summarised(NamedTuple):
    """What the coordinator of a one-shot study has in its hands."""

    owner: np.ndarray
    seen: np.ndarray
    densities: list[Density]
    sizes: np.ndarray
    extent: Extent


def summarised(split: Split, summaries: Mapping[str, LocalSummary]) -> Summarised:
    owner, seen, densities, sizes = [], [], [], []
    for i, name in enumerate(split.names):
        summary = summaries[name]
        index = [split.feature_names.index(feature) for feature in summary.features]
        for values, counts, density, size in zip(
            summary.values, summary.counts, summary.densities or (), summary.sizes, strict=True
        ):
            mask = np.zeros(len(split.feature_names), dtype=bool)
            mask[np.array(index)[counts > 0]] = True
            place = np.argsort(np.argsort(np.array(index)[counts > 0]))
            owner.append(i)
            seen.append(mask)
            densities.append(unpacked(density, values[counts > 0]).placed(place, len(place)))
            sizes.append(size)
    extent = extent_of_densities(densities, np.array(seen), DEVIATIONS)
    return Summarised(np.array(owner), np.array(seen), densities, np.array(sizes), extent)


def _reference(case: Case, way: str) -> np.ndarray:
    """Rows to the nearest true masked centroid, or masked Lloyd on the pooled rows started from the truth.

    Started from centroids of the very rows, Lloyd remembers their true labels; started from those of other rows, it
    cannot.
    """
    split = case.split
    seen = split.masks[split.participant]
    if way == CEILING:
        optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
        known = ~np.isnan(optimal)
        extent = extent_of(np.nan_to_num(optimal), known)
        return nearest_centre(split.X, seen, np.nan_to_num(optimal), known, extent, "euclidean")
    if way == FROM_TRUTH:
        names, truth = np.unique(split.truth, return_inverse=True)
        return lloyd(ArrayRows(split.X, seen), centroids_of_rows(split.X, seen, truth, len(names))).labels
    assert case.outside is not None
    return lloyd(ArrayRows(split.X, seen), MaskedCentroids.of(case.outside, np.ones(case.outside.shape))).labels
