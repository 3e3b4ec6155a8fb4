"""What missing values cost: the same splits with a share of all cells blanked at random."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import intarsia
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT, Row
from experiments.splits import Case
from intarsia.results.metrics import clustering_accuracy

SHARES = (0.0, 0.1, 0.3)
METHODS = {FEDERATED: "federated", ONE_SHOT: "one_shot"}
MISSING_VALUES = tuple(f"{way}, {share:.0%} blanked" for way in METHODS for share in SHARES)


def blanked(X: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The rows with this share of values removed; a larger share includes the values of a smaller one."""
    return np.where(np.random.default_rng([seed, 77]).random(X.shape) < share, np.nan, X)


def measure_missing_values(case: Case, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """Accuracy of each way on one split."""
    for way, method in METHODS.items():
        for share in SHARES:
            name = f"{way}, {share:.0%} blanked"
            if name not in ways:
                continue
            split = replace(case.split, X=blanked(case.split.X, share, seed))
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
                result = intarsia.cluster(split.tables(), k, method=method, scale=None, random_state=seed)
            accuracy = clustering_accuracy(split.truth, split.in_order(result.labels))
            seconds = time.perf_counter() - started
            yield (
                name,
                dict.fromkeys(COLUMNS, float("nan")) | {"accuracy": accuracy, "seconds": seconds, "n_clusters": k},
            )
