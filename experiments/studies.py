"""What is measured: each study makes a split from a layout and a seed, and says which ways are tried on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from experiments.baselines import BASELINES
from experiments.measuring import CEILING, OURS
from experiments.splits import LAYOUTS, dim_split, har_split, qmnist_split
from intarsia.datasets import Split, mask_features, partition

PARTIES, ROWS, FEATURES, K = 4, 300, 40, 4  # the Gaussian grid
SEPARATIONS = (0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True)
class Study:
    name: str
    n_clusters: int
    split: Callable[[str, int], Split]
    source: str
    baselines: bool = True
    layouts: tuple[str, ...] = LAYOUTS

    def ways(self, n_features: int) -> list[str]:
        """Everything of ours, the ceiling, and the baselines that are installed and not too slow for so many features."""
        fits = [
            name
            for name, baseline in BASELINES.items()
            if n_features <= baseline.most_features and (baseline.needs is None or find_spec(baseline.needs))
        ]
        return [*OURS, CEILING, *(fits if self.baselines else [next(iter(BASELINES))])]


def gaussian_split(separation: float) -> Callable[[str, int], Split]:
    """Four parties with 300 rows each of four Gaussian clusters in 40 dimensions; 13 features each in both layouts.

    Centres are standard normal times the separation, rows have unit variance around them.
    """

    def make(layout: str, seed: int) -> Split:
        rng = np.random.default_rng([seed, round(100 * separation)])
        truth = rng.integers(K, size=PARTIES * ROWS)
        X = separation * rng.normal(size=(K, FEATURES))[truth] + rng.normal(size=(len(truth), FEATURES))
        masks = mask_features(FEATURES, PARTIES, layout=layout, random_state=rng)
        return Split.of(X, truth, partition(len(X), PARTIES, random_state=rng), masks)

    return make


STUDIES = {
    study.name: study
    for study in (
        Study("DIM-set 128", 16, dim_split, "dim_sets.npz"),
        Study("HAR", 2, har_split, "har_recomputed561.npz (recomputed columns)"),
        Study("QMNIST 0/3/7", 3, qmnist_split, "qmnist_037.npz (MNIST's pixels, QMNIST's writers)"),
        *(Study(f"Gaussian {s:g}", K, gaussian_split(s), "made by experiments/studies.py") for s in SEPARATIONS),
    )
}
