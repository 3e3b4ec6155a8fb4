"""What differential privacy costs: our methods with and without it on the same splits, with bounds declared beforehand.

Splits from 1000 on are reported. Settings of the mechanism were chosen on seeds 100 to 199 and 300 to 499. Noise comes from
the operating system, so that a second measurement of the same split differs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import intarsia
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT, Row
from experiments.private_rivals import RIVALS, Table
from experiments.random_layouts import hospitals_split
from experiments.splits import FEATURES, LAYOUTS, PARTIES, QMNIST_FILE, K
from intarsia.datasets import Split, fetch_qmnist, mask_features, partition
from intarsia.results.metrics import clustering_accuracy

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS = {FEDERATED: "federated", ONE_SHOT: "one_shot"}
ROWS = (300, 3000, 30_000)
POOLED_ROWS = (1200, 12_000)
COMPLETE, WIDE, NARROW = "complete", "wide bounds", "narrow bounds"
KMEANS = "k-means"
HALF = 5.0  # bounds of a Gaussian column are ± this; its values have a standard deviation of √2 around 0
FIRST, SPLITS = 1000, 20
FEW = 5  # splits of the largest tables at ε = 2 and more, where nothing is lost any more

CODES = "codes of the form"
BOUNDS_OF_HOSPITALS = {  # column: (wide, narrow, reason); from general knowledge, not from the tables
    "age": ((0, 110), (20, 90), "a human life; adults who are sent to angiography"),
    "sex": ((0, 1), (0, 1), CODES),
    "cp": ((1, 4), (1, 4), CODES),
    "trestbps": ((60, 250), (80, 200), "systolic pressure at rest: from shock to crisis; beyond 200 rare"),
    "chol": ((50, 600), (100, 400), "beyond 400 only in rare hereditary disease"),
    "fbs": ((0, 1), (0, 1), CODES),
    "restecg": ((0, 2), (0, 2), CODES),
    "thalach": ((40, 220), (60, 200), "220 minus age is the usual upper limit"),
    "exang": ((0, 1), (0, 1), CODES),
    "oldpeak": ((-3, 7), (-1, 5), "ST depression in mm; beyond 4 is severe"),
    "slope": ((1, 3), (1, 3), CODES),
    "ca": ((0, 3), (0, 3), CODES),
    "thal": ((3, 7), (3, 7), CODES),
}


class PrivateCase(NamedTuple):
    """A split, and the declared bounds of its columns."""

    split: Split
    bounds: Mapping[str, tuple[float, float]]


def _gaussians(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """The Gaussian grid at separation 1, as in experiments/splits.py, with so many rows in all."""
    rng = np.random.default_rng([seed, 100])
    truth = rng.integers(K, size=n_rows)
    centres = rng.normal(size=(K, FEATURES))
    return centres[truth] + rng.normal(size=(n_rows, FEATURES)), truth, rng


def grid_case(layout: str, seed: int, *, rows: int) -> PrivateCase:
    """Four participants with ``rows`` rows each, about 13 of 40 columns."""
    X, truth, rng = _gaussians(seed, PARTIES * rows)
    masks = mask_features(FEATURES, PARTIES, layout=layout, random_state=rng)
    split = Split.of(X, truth, partition(len(X), PARTIES, random_state=rng), masks)
    return PrivateCase(split, dict.fromkeys(split.feature_names, (-HALF, HALF)))


def pooled_case(_: str, seed: int, *, rows: int) -> PrivateCase:
    """One participant with all rows and all 40 columns."""
    X, truth, _ = _gaussians(seed, rows)
    split = Split.of(X, truth, np.zeros(rows, dtype=int), np.ones((1, FEATURES), dtype=bool))
    return PrivateCase(split, dict.fromkeys(split.feature_names, (-HALF, HALF)))


def hospitals_case(layout: str, _: int) -> PrivateCase:
    """The four hospitals with their own rows and columns; codes are numbers. Only the noise differs by seed."""
    which = (WIDE, NARROW).index(layout)
    return PrivateCase(hospitals_split(None), {name: each[which] for name, each in BOUNDS_OF_HOSPITALS.items()})


def qmnist_case(layout: str, seed: int) -> PrivateCase:
    """QMNIST digits 0, 3, 7: all rows, at random, evenly over four participants. A pixel is 0 to 255, stored as 0 to 1."""
    data = fetch_qmnist()
    rng = np.random.default_rng([seed, 37])
    masks = mask_features(data.X.shape[1], PARTIES, layout=layout, random_state=rng)
    owner = partition(len(data.X), PARTIES, random_state=rng)
    return PrivateCase(
        Split.of(data.X, data.truth, owner, masks, data.feature_names), dict.fromkeys(data.feature_names, (0, 1))
    )


def way_of(method: str, epsilon: float | None) -> str:
    """Return the name of a way: "federated, epsilon 1" or "federated, no privacy"."""
    return f"{method}, no privacy" if epsilon is None else f"{method}, epsilon {epsilon:g}"


def _ways(methods: tuple[str, ...], epsilons: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(way_of(method, epsilon) for epsilon in (None, *epsilons) for method in methods)


class PrivateData(NamedTuple):
    """A maker of cases, K, where the data come from, what is tried, the layouts, and what is tried on few splits."""

    case: Callable[[str, int], PrivateCase]
    n_clusters: int
    source: str
    tried: tuple[str, ...]
    layouts: tuple[str, ...]
    at_most: Mapping[str, int] = {}


MADE = "made by experiments/private.py"
RIVAL_WAYS = tuple(way_of(name, epsilon) for epsilon in EPSILONS for name in RIVALS)
NEEDS = {way_of(name, epsilon): rival.needs for name, rival in RIVALS.items() for epsilon in EPSILONS if rival.needs}
HOSPITALS, QMNIST = "Private hospitals", "Private QMNIST 0/3/7"
PRIVATE = {
    **{f"Private Gaussian {rows}": PrivateData(
        partial(grid_case, rows=rows), K, MADE, _ways((FEDERATED, ONE_SHOT), EPSILONS), LAYOUTS,
        dict.fromkeys(_ways((FEDERATED, ONE_SHOT), EPSILONS[2:])[2:], FEW) if rows == ROWS[-1] else {},
    ) for rows in ROWS},
    HOSPITALS: PrivateData(
        hospitals_case, 2, "the package's UCI Heart Disease", _ways((FEDERATED, ONE_SHOT), EPSILONS[:4]), (WIDE, NARROW)
    ),
    QMNIST: PrivateData(qmnist_case, 3, QMNIST_FILE, _ways((FEDERATED, ONE_SHOT), (1.0,)), LAYOUTS),
    **{f"Private pooled {rows}": PrivateData(
        partial(pooled_case, rows=rows), K, MADE,
        (way_of(KMEANS, None), *_ways((FEDERATED, ONE_SHOT), EPSILONS)[2:], *RIVAL_WAYS), (COMPLETE,),
    ) for rows in POOLED_ROWS},
}  # fmt: skip


def measure_private(case: PrivateCase, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """Each way's agreement with the truth and its seconds."""
    split = case.split
    for way in ways:
        started = time.process_time()
        labels = _labels(case, k, seed, way)
        figures = {
            "accuracy": clustering_accuracy(split.truth, labels),
            "adjusted_rand": float(adjusted_rand_score(split.truth, labels)),
            "n_clusters": len(np.unique(labels)),
            "seconds": time.process_time() - started,
        }
        yield way, dict.fromkeys(COLUMNS, float("nan")) | figures


def _labels(case: PrivateCase, k: int, seed: int, way: str) -> np.ndarray:
    name, setting = way.split(", ")
    epsilon = None if setting == "no privacy" else float(setting.removeprefix("epsilon "))
    if name == KMEANS:
        return KMeans(k, n_init=10, random_state=seed).fit_predict(case.split.X)
    if name in RIVALS:
        assert epsilon is not None
        return RIVALS[name].label(Table(case.split.X, -HALF, HALF), k, epsilon, seed)
    settings = {} if epsilon is None else {"privacy": intarsia.DifferentialPrivacy(epsilon, bounds=case.bounds)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
        result = intarsia.cluster(case.split.tables(), k, method=METHODS[name], random_state=seed, **settings)
    return case.split.in_order(result.labels)
