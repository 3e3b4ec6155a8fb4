"""What is measured: each study makes a case from a layout and a seed, and says which ways are tried on it, how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

from experiments.baselines import BASELINES, CENTRALISED, ITERATIVE, MASKED_LLOYD, NEIGHBOURS, STEPMIX
from experiments.choosing_k import CASES, K_WAYS, measure_number
from experiments.linkages import LINKAGES, SWEEP, measure_exponents, measure_linkages
from experiments.measuring import (
    CEILING,
    FEDERATED,
    FROM_OUTSIDE,
    GROUPING,
    K_CHOSEN,
    ONE_SHOT,
    PRESET,
    REFERENCES,
    Row,
    measure_ways,
)
from experiments.missing_values import MISSING_VALUES, measure_missing_values
from experiments.private import FIRST as PRIVATE_FIRST
from experiments.private import NEEDS, PRIVATE, measure_private
from experiments.private import SPLITS as PRIVATE_SPLITS
from experiments.random_layouts import LAYOUT, RANDOM, RANDOM_WAYS, measure_random
from experiments.rates import BY_NUMBER, RATE_WAYS, measure_rates, rates_case, rates_of
from experiments.seeds_of_k import FIRST, SEED_WAYS, SEEDS, SEEDS_OF_K, measure_seeds
from experiments.splits import (
    DIM_FILE,
    HAR_FILE,
    LAYOUTS,
    QMNIST_FILE,
    K,
    dim_split,
    gaussian_split,
    har_split,
    qmnist_split,
)

ALL_LAYOUTS = tuple(dict.fromkeys((*LAYOUTS, LAYOUT, *(name for data in PRIVATE.values() for name in data.layouts))))
UNSEEN = 1000  # QMNIST splits and random columns before this one were looked at while the method was made
NEVER_SEEN = 2000  # and those of linkages and exponents before this one
SEPARATIONS = (0.5, 0.75, 1.0, 1.25, 1.5)
FILES = {"DIM-set 128": DIM_FILE, "HAR": HAR_FILE, "QMNIST 0/3/7": QMNIST_FILE}


@dataclass(frozen=True)
class Study:
    """``at_most`` says on how many splits a slow way is tried, 0 for never; by its name, or by (layout, name)."""

    name: str
    n_clusters: int
    case: Callable[[str, int], Any]
    source: str
    tried: tuple[str, ...]
    at_most: Mapping[str | tuple[str, str], int] = field(default_factory=dict)
    splits: int = 100
    first: int = 0  # the seed of the first split
    more: bool = False  # beyond the paper: missing values, K and privacy, which take another hour and a half
    measure: Callable[[Any, int, int, list[str]], Iterator[tuple[str, Row]]] = measure_ways
    layouts: tuple[str, ...] = LAYOUTS

    def ways(self, layout: str, seed: int, *, quick: bool = False) -> list[str]:
        """What is tried on one split: all that is installed, and slow ways on the first few only, or not when quick."""
        return [
            way for way in self.tried if seed < (0 if quick and self._slow(layout, way) else self._limit(layout, way))
        ]

    def _limit(self, layout: str, way: str) -> int:
        needed = BASELINES[way].needs if way in BASELINES else NEEDS.get(way)
        if needed and not find_spec(needed):
            return 0
        return self.at_most.get((layout, way), self.at_most.get(way, self.splits))

    def _slow(self, layout: str, way: str) -> bool:
        return (layout, way) in self.at_most or way in self.at_most


ALL = (*GROUPING, *(r for r in REFERENCES if r != FROM_OUTSIDE), *BASELINES)
WITH_OUTSIDE = (*GROUPING, *REFERENCES, *BASELINES)
OWN = (*(way for way in GROUPING if way != K_CHOSEN), CEILING, CENTRALISED)
SLOW = {K_CHOSEN: 3, STEPMIX: 10}


def _gaussian(separation: float) -> Study:
    skipped = {K_CHOSEN, "federated, search, the paper's rounds"}
    return Study(
        f"Gaussian {separation:g}", K, partial(gaussian_split, separation=separation), "made by experiments/splits.py",
        tuple(way for way in WITH_OUTSIDE if way not in skipped), {STEPMIX: 10, ITERATIVE: 50},
    )  # fmt: skip


def _number(name: str) -> Study:
    mixtures = name.startswith("K of mixtures")
    return Study(
        name, 0, CASES[name], DIM_FILE if "DIM" in name else "made by experiments/choosing_k.py",
        K_WAYS, {FEDERATED: 11 if mixtures else 3}, splits=22 if mixtures else 15 if name == "K of one cloud" else 3,
        measure=measure_number, more=True,
    )  # fmt: skip


def _rates(name: str, k: int, tried: tuple[str, ...]) -> Study:
    case = partial(rates_case, name=name)
    return Study(rates_of(name), k, case, FILES[name], tried, splits=30, first=NEVER_SEEN, measure=measure_rates)


def _seeds(name: str) -> Study:
    return Study(
        name, 0, lambda _, __: SEEDS_OF_K[name], "the package or scikit-learn", SEED_WAYS,
        splits=SEEDS, first=FIRST, measure=measure_seeds, layouts=(LAYOUT,), more=True,
    )  # fmt: skip


def _random(name: str) -> Study:
    data = RANDOM[name]
    return Study(
        name, data.n_clusters, data.case, data.source, RANDOM_WAYS, data.at_most,
        splits=40, first=UNSEEN, measure=measure_random, layouts=(LAYOUT,),
    )  # fmt: skip


def _private(name: str) -> Study:
    data = PRIVATE[name]
    return Study(
        name, data.n_clusters, data.case, data.source, data.tried, data.at_most,
        splits=PRIVATE_SPLITS, first=PRIVATE_FIRST, measure=measure_private, layouts=data.layouts, more=True,
    )  # fmt: skip


STUDIES = {
    study.name: study
    for study in (
        Study("DIM-set 128", 16, dim_split, DIM_FILE, ALL, SLOW | {STEPMIX: 1, MASKED_LLOYD: 10, ITERATIVE: 20}),
        Study("HAR", 2, har_split, HAR_FILE, ALL, SLOW | {NEIGHBOURS: 3, MASKED_LLOYD: 3, ITERATIVE: 5, STEPMIX: 0}),
        Study(
            "QMNIST 0/3/7", 3, qmnist_split, QMNIST_FILE, WITH_OUTSIDE,
            SLOW | {("chain", NEIGHBOURS): 2, ("chain", MASKED_LLOYD): 3, ("chain", ITERATIVE): 5, ("core", ITERATIVE): 10,
                    ("chain", STEPMIX): 0, ("core", STEPMIX): 2}, first=UNSEEN,
        ),
        Study(
            "DIM-set 128, nobody has all", 16, partial(dim_split, nobody_has_all=True), DIM_FILE,
            (FEDERATED, ONE_SHOT, *PRESET, CEILING, CENTRALISED), splits=30,
        ),
        *(_random(name) for name in RANDOM),
        *(_gaussian(separation) for separation in SEPARATIONS),
        Study("DIM-set 128 by importance", 16, partial(dim_split, how="importance"), DIM_FILE, OWN, splits=10),
        Study("HAR by importance", 2, partial(har_split, how="importance"), HAR_FILE, OWN, splits=30),
        Study(
            "HAR walking and standing by importance", 2,
            partial(har_split, how="importance", activities=("walking", "standing")), HAR_FILE, OWN, splits=30,
        ),
        Study(
            "QMNIST 0/3/7 by importance", 3, partial(qmnist_split, how="importance"), QMNIST_FILE, OWN,
            splits=30, first=UNSEEN,
        ),
        Study(
            "Missing values in QMNIST 0/3/7", 3, qmnist_split, QMNIST_FILE, MISSING_VALUES,
            splits=10, first=UNSEEN, measure=measure_missing_values, more=True,
        ),
        Study(
            "Missing values in HAR", 2, har_split, HAR_FILE, MISSING_VALUES,
            splits=10, measure=measure_missing_values, more=True,
        ),
        *(_number(name) for name in CASES),
        *(_seeds(name) for name in SEEDS_OF_K),
        *(_rates(name, k, tried) for name, k, tried in (
            ("DIM-set 128", 16, tuple(way for way in RATE_WAYS if way not in BY_NUMBER)),
            ("HAR", 2, RATE_WAYS),
            ("QMNIST 0/3/7", 3, RATE_WAYS),
        )),
        Study(
            "Linkages on QMNIST 0/3/7", 3, qmnist_split, QMNIST_FILE, LINKAGES,
            first=NEVER_SEEN, measure=measure_linkages,
        ),
        Study(
            "Exponents on QMNIST 0/3/7", 3, qmnist_split, QMNIST_FILE, SWEEP,
            splits=20, first=NEVER_SEEN, measure=measure_exponents,
        ),
        *(_private(name) for name in PRIVATE),
    )
}  # fmt: skip
__all__ = ["ALL_LAYOUTS", "LAYOUTS", "SEPARATIONS", "STUDIES", "Study"]
