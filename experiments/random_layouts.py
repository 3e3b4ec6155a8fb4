"""Layouts that users have: participants of unequal size that each lack a random 30 % of the columns.

Six participants share the rows of HAR (six activities), QMNIST (ten digits) or breast cancer; the four hospitals of UCI
Heart Disease keep their rows, and each drops a random 30 % of its own columns. All ways see the same rows in the same
units: standard units of the pooled observed values, or pixels as they are. Splits from 1000 on are reported; those before
were looked at while the method was made.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score

import intarsia
from experiments.baselines import BASELINES, CENTRALISED, MASKED_LLOYD, MEAN, NEIGHBOURS, STEPMIX
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT, Row
from experiments.splits import HAR_FILE, Case
from intarsia.core.features import is_connected
from intarsia.core.kmeans import fit_of, loss, observed_kmeans
from intarsia.core.rows import ArrayRows
from intarsia.datasets import Split, fetch_har, fetch_qmnist, load_heart_disease, mask_features, partition
from intarsia.datasets.fetching import ACTIVITIES
from intarsia.results.metrics import clustering_accuracy

LAYOUT = "random"
PARTICIPANTS, SHARE, ROWS = 6, 0.7, 2000
METHODS = {FEDERATED: "federated", ONE_SHOT: "one_shot"}
OPIMC = "pooled, OPIMC"
RANDOM_WAYS = (FEDERATED, ONE_SHOT, CENTRALISED, MASKED_LLOYD, MEAN, NEIGHBOURS, STEPMIX, OPIMC)


def standard(split: Split) -> Split:
    """The split in standard units of the pooled observed values; a constant column keeps its unit."""
    masked = split.masked()
    spread = np.nanstd(masked, axis=0)
    X = (split.X - np.nanmean(masked, axis=0)) / np.where(spread > 0, spread, 1.0)
    return Split(X, split.truth, split.participant, split.masks, split.feature_names)


def random_split(
    X: np.ndarray, truth: np.ndarray, names: tuple[str, ...], rng: np.random.Generator, n: int = PARTICIPANTS
) -> Split:
    """At most 2,000 random rows over ``n`` participants of unequal size with 70 % of the columns each."""
    rows = rng.permutation(len(X))[:ROWS]
    masks = mask_features(X.shape[1], n, layout=LAYOUT, share=SHARE, random_state=rng)
    owner = partition(len(rows), n, sizes="unequal", random_state=rng)
    return Split.of(X[rows], truth[rows], owner, masks, names)


def random_har(_: str, seed: int) -> Case:
    """HAR, 2,000 windows of all six activities, 561 columns, in standard units."""
    data = fetch_har(561, ACTIVITIES)
    return Case(standard(random_split(data.X, data.truth, data.feature_names, np.random.default_rng([seed, 6]))))


def random_qmnist(_: str, seed: int) -> Case:
    """QMNIST, 2,000 images of all ten digits, 784 pixels from 0 to 1, which share one unit."""
    data = fetch_qmnist(tuple(range(10)))
    return Case(random_split(data.X, data.truth, data.feature_names, np.random.default_rng([seed, 10])))


def random_cancer(_: str, seed: int) -> Case:
    """Breast cancer (Wisconsin), 569 tumours, 30 columns, in standard units."""
    data = load_breast_cancer()
    names = tuple(map(str, data.feature_names))
    return Case(standard(random_split(data.data, data.target, names, np.random.default_rng([seed, 2]))))


def random_hospitals(_: str, seed: int) -> Case:
    """Four hospitals with their own rows and a random 70 % of their own columns, in standard units."""
    return Case(standard(hospitals_split(seed)))


def hospitals_split(seed: int | None) -> Split:
    """The hospitals in their own units, with all their columns if there is no seed.

    With a seed, columns are drawn until every column has a hospital and the hospitals are connected.
    """
    tables, diagnosis = load_heart_disease()
    names = tuple(dict.fromkeys(column for table in tables.values() for column in table))
    own = np.array([[column in table for column in names] for table in tables.values()])
    masks = own.copy() if seed is None else np.zeros(own.shape, dtype=bool)
    rng = np.random.default_rng([seed or 0, 4])
    while not (masks.any(axis=0).all() and is_connected(masks)):
        masks[:] = False
        for mask, has in zip(masks, own, strict=True):
            mask[rng.choice(np.flatnonzero(has), int(np.ceil(SHARE * has.sum())), replace=False)] = True
    sizes = [len(truth) for truth in diagnosis.values()]
    rows = [
        np.column_stack([table.get(column, np.full(n, np.nan)) for column in names])
        for table, n in zip(tables.values(), sizes, strict=True)
    ]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return Split.of(np.vstack(rows), np.concatenate([*diagnosis.values()]), owner, masks, names)


class Data(NamedTuple):
    """A maker of splits, K, where the data come from, their units, and on how many splits slow ways are tried."""

    case: Callable[[str, int], Case]
    n_clusters: int
    source: str
    units: str
    at_most: Mapping[str, int]


STANDARD = "in standard units of the pooled observed values"
MINUTES = {NEIGHBOURS: 3, STEPMIX: 0, OPIMC: 10}  # ways that take minutes
RANDOM = {
    "Random columns: HAR, six activities": Data(random_har, 6, HAR_FILE, STANDARD, MINUTES),
    "Random columns: QMNIST, ten digits": Data(
        random_qmnist,
        10,
        "qmnist.npz (MNIST's pixels with QMNIST's writers)",
        "pixels from 0 to 1 as they are",
        MINUTES,
    ),
    "Random columns: breast cancer": Data(
        random_cancer, 2, "scikit-learn's load_breast_cancer", STANDARD, {STEPMIX: 10, OPIMC: 10}
    ),
    "Random columns: hospitals": Data(
        random_hospitals, 2, "the package's UCI Heart Disease", STANDARD, {STEPMIX: 10, OPIMC: 10}
    ),
}


def masked_objective(split: Split, labels: np.ndarray) -> float:
    """Squares of the observed values of the pooled rows around the means of their clusters, per observed value."""
    rows = split.masked()
    observed = ~np.isnan(rows)
    held = ArrayRows(np.where(observed, rows, 0.0), observed)
    return loss(held, fit_of(held, np.unique(labels, return_inverse=True)[1])) / observed.sum()


def complete(split: Split, k: int, seed: int) -> np.ndarray:
    """k-means on all columns that anybody measured, with 10 restarts; missing values (hospitals only) are ignored."""
    if not np.isnan(split.X).any():
        return BASELINES[CENTRALISED].label(split, k, seed)
    return observed_kmeans(split.X, ~np.isnan(split.X), k, np.random.default_rng(seed), n_init=10).labels


def measure_random(case: Case, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """Each way's agreement with the truth, masked objective, seconds and bytes, of the labels of all rows."""
    split = case.split
    of_truth = masked_objective(split, np.unique(split.truth, return_inverse=True)[1])
    for way in ways:
        started = time.process_time()  # of the processor: other work on the machine does not count
        labels, more = _labels(split, k, seed, way)
        seconds = time.process_time() - started
        yield (
            way,
            dict.fromkeys(COLUMNS, float("nan"))
            | more
            | {
                "accuracy": clustering_accuracy(split.truth, labels),
                "adjusted_rand": float(adjusted_rand_score(split.truth, labels)),
                "n_clusters": len(np.unique(labels)),
                "objective": masked_objective(split, labels),
                "objective_of_truth": of_truth,
                "seconds": seconds,
            },
        )


def _labels(split: Split, k: int, seed: int, way: str) -> tuple[np.ndarray, Row]:
    if way in METHODS:
        return ours(split, k, seed, METHODS[way])
    label = complete if way == CENTRALISED else BASELINES[way].label
    cells = (~np.isnan(split.X) if way == CENTRALISED else ~np.isnan(split.masked())).sum()
    return label(split, k, seed), {"bytes_out": 8.0 * float(cells) / len(split.masks)}


def ours(split: Split, k: int, seed: int, method: str, **settings: object) -> tuple[np.ndarray, Row]:
    """Labels with default settings in the units of the split, the number of rounds, and bytes per participant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
        result = intarsia.cluster(split.tables(), k, method=method, scale=None, random_state=seed, **settings)
    sent = [sum(exchange.bytes_out.values()) for exchange in result.run.exchanges]
    row = {"bytes_out": sum(sent) / len(split.masks), "rounds": float(len(result.rounds))}
    return split.in_order(result.labels), row


__all__ = ["RANDOM", "RANDOM_WAYS", "masked_objective", "measure_random", "ours"]
