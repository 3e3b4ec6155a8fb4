"""How often the assumptions of the paper hold on the splits: each as a share of 1,000 random triplets.

Table 1's rate is measured in both readings, with features dealt at random and by importance, and in the chain for fewer
participants, any two of which share more features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from experiments.measuring import COLUMNS, Row, participants
from experiments.splits import Case, dim_split, har_split, qmnist_split
from intarsia.datasets import Split
from intarsia.results.rates import (
    centroid_order_rate,
    local_order_rate,
    local_purity,
    merged_order_rate,
    order_preservation_rate,
    proxy_order_rate,
)

TESTED, ALL_TRIPLETS, BY_IMPORTANCE_TOO = "order", "order, all triplets", "order, by importance"
BY_NUMBER = {f"order, {n} participants": n for n in (2, 3, 5)}
LOCAL, METHOD_A, METHOD_B, ALGORITHM_2 = "order at one participant", "for Method A", "for Method B", "for Algorithm 2"
MAJORITY = "rows of the majority class"
RATES = (LOCAL, METHOD_A, METHOD_B, ALGORITHM_2, MAJORITY)
RATE_WAYS = (TESTED, ALL_TRIPLETS, BY_IMPORTANCE_TOO, *BY_NUMBER, *RATES)
OF_LOCAL_CLUSTERS = {METHOD_A: centroid_order_rate, METHOD_B: merged_order_rate, ALGORITHM_2: proxy_order_rate}
MAKERS: dict[str, Callable[..., Case]] = {
    "DIM-set 128": dim_split,
    "HAR": har_split,
    "QMNIST 0/3/7": qmnist_split,
}


def rates_of(name: str) -> str:
    """Return the name of the study of the rates on some data."""
    return f"Rates on {name}"


class RatesCase(NamedTuple):
    """The usual split, and a function that makes others from the same layout and seed."""

    split: Split
    layout: str
    other: Callable[..., Case]


def rates_case(layout: str, seed: int, *, name: str) -> RatesCase:
    """The split that all rates are measured on, but for those with other features or participants."""
    make = partial(MAKERS[name], layout, seed)
    return RatesCase(make().split, layout, make)


def measure_rates(case: RatesCase, k: int, seed: int, ways: list[str]) -> Iterator[tuple[str, Row]]:
    """Each rate, in the column of Table 1's."""
    people, _ = participants(case.split, k, seed)
    local = case.split.in_order({person.name: person.local_labels for person in people})
    for way in ways:
        rate = _rate(case, local, seed, way)
        yield way, dict.fromkeys(COLUMNS, float("nan")) | {"order_preservation": rate}


def _rate(case: RatesCase, local: np.ndarray, seed: int, way: str) -> float:
    split = case.split
    if way == BY_IMPORTANCE_TOO:
        split = case.other("importance").split
    elif way in BY_NUMBER:
        if case.layout != "chain":
            return float("nan")
        split = case.other(n=BY_NUMBER[way]).split
    truth = (split.X, split.truth, split.participant, split.masks)
    if way in {TESTED, ALL_TRIPLETS, BY_IMPORTANCE_TOO, *BY_NUMBER}:
        return order_preservation_rate(*truth, vacuous=way == ALL_TRIPLETS, random_state=seed)
    if way == LOCAL:
        return local_order_rate(*truth, random_state=seed)
    if way == MAJORITY:
        return local_purity(split.truth, split.participant, local).majority
    return OF_LOCAL_CLUSTERS[way](*truth, local, random_state=seed)
