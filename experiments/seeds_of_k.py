"""Is the chosen K the same whatever the seed? Real tables with K unknown: one split with ten seeds, and ten splits.

Breast cancer and wine: three participants of unequal size with a random 70 % of the columns each. Hospitals: as they are,
and with a random 70 % of their own columns. Units are chosen by default (``scale="auto"``).
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import adjusted_rand_score

import intarsia
from experiments.figures import Results, column, table
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT, Row
from experiments.random_layouts import LAYOUT, hospitals_split, random_split
from intarsia.datasets import Split

METHODS = {FEDERATED: "federated", ONE_SHOT: "one_shot"}
ONE, TEN = "one split", "other splits"
SEED_WAYS = tuple(f"{way}, {which}" for way in METHODS for which in (ONE, TEN))
PARTICIPANTS, FIRST, SEEDS = 3, 1000, 10
Maker = Callable[[int | None], Split]


def _toy(load: Callable[[], object], number: int, seed: int | None) -> Split:
    data = load()
    rng = np.random.default_rng([FIRST if seed is None else seed, number])
    return random_split(data.data, data.target, tuple(map(str, data.feature_names)), rng, PARTICIPANTS)


MAKERS: dict[str, Maker] = {
    "breast cancer": partial(_toy, load_breast_cancer, 31),
    "wine": partial(_toy, load_wine, 32),
    "hospitals": hospitals_split,
}
SEEDS_OF_K = {f"Seeds of K: {data}": maker for data, maker in MAKERS.items()}
CLASSES = {"breast cancer": 2, "wine": 3, "hospitals": 2}


def measure_seeds(case: Maker, _: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """The K that each way chooses with one seed."""
    for way in ways:
        name, which = way.split(", ")
        split = case(None if which == ONE else seed)
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
            result = intarsia.cluster(split.tables(), "auto", method=METHODS[name], random_state=seed)
        rand = float(adjusted_rand_score(split.truth, split.in_order(result.labels)))
        figures = {"n_clusters": result.n_clusters, "adjusted_rand": rand, "seconds": time.process_time() - started}
        yield way, dict.fromkeys(COLUMNS, float("nan")) | figures


def chosen(rows: Results, data: str, way: str) -> Counter[int]:
    """How often each K was chosen."""
    return Counter(map(int, column(rows[f"Seeds of K: {data}"], "n_clusters", layout=LAYOUT, way=way)))


def seeds_table(rows: Results) -> str:
    """The chosen K of each way, over seeds and over splits."""
    lines = []
    for data in MAKERS:
        for way in SEED_WAYS:
            counts = chosen(rows, data, way)
            if counts:
                said = ", ".join(f"{k} ({n} times)" for k, n in sorted(counts.items()))
                same = f"{max(counts.values())} of {counts.total()}"
                lines.append((data, CLASSES[data], way, said, same))
    return table(("data", "classes", "way", "chosen K", "the same"), lines)


def seeds_sentence(rows: Results) -> str:
    """How often the most frequent K was chosen on one split, or nothing."""
    said = []
    for data in MAKERS:
        if counts := chosen(rows, data, f"{FEDERATED}, {ONE}"):
            k, times = counts.most_common(1)[0]
            said.append(f"{data} K = {k} with {times} of {counts.total()}")
    return f" Over seeds, federated: {'; '.join(said)}." if said else ""
