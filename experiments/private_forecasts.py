"""Is the forecast of a private study right? Twelve studies: what is forecast, and what other runs with privacy then lose.

``python -m experiments.private_forecasts [SEED]`` prints a table for docs/how-to/differential-privacy.md; a quarter of an
hour. Data are drawn from SEED on, 8100 by default; the number of runs of a forecast was set on 7100.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia.datasets.splitting import Split, mask_features, partition

FIRST_SEED = 8100
FEWEST_RUNS, MOST_RUNS, PRECISE = 20, 150, 0.012  # of measured losses; the standard error of their mean
HOSPITALS = {
    "age": (0, 110), "sex": (0, 1), "cp": (1, 4), "trestbps": (60, 240), "chol": (50, 700), "fbs": (0, 1), "restecg": (0, 2),
    "thalach": (40, 220), "exang": (0, 1), "oldpeak": (-3, 7), "slope": (1, 3), "ca": (0, 3), "thal": (3, 7),
}  # fmt: skip
"""What is known of these measurements without looking at patients."""


class Declared(NamedTuple):
    """Tables, and what is declared about their columns."""

    tables: dict[str, Any]
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]] = {}  # noqa: RUF012


class Study(NamedTuple):
    """A study to forecast."""

    name: str
    k: int
    epsilon: float
    data: Callable[[int], Declared]
    method: str = "federated"


def _within(split: Split, bound: float) -> Declared:
    tables = split.tables()
    return Declared(tables, {name: (-bound, bound) for table in tables.values() for name in table})


def grid(layout: str, n_rows: int, separation: float = 1.0) -> Callable[[int], Declared]:
    """Return a function that draws four participants with so many rows each: four Gaussian clusters in 40 dimensions."""

    def draw(seed: int) -> Declared:
        rng = np.random.default_rng(seed)
        truth = rng.integers(4, size=4 * n_rows)
        rows = separation * rng.normal(size=(4, 40))[truth] + rng.normal(size=(len(truth), 40))
        masks = mask_features(40, 4, layout=layout, random_state=rng)
        split = Split.of(rows, truth, partition(len(rows), 4, random_state=rng), masks)
        return _within(split, 5.0)

    return draw


def hospitals(seed: int) -> Declared:
    """Return the four hospitals; there is one such study."""
    del seed
    return Declared(dict(intarsia.datasets.load_heart_disease().tables), HOSPITALS)


def har(seed: int) -> Declared:
    """Return walking and sitting of the HAR data, whose features are between −1 and 1, over four participants."""
    data, rng = intarsia.datasets.fetch_har(66), np.random.default_rng(seed)
    masks = mask_features(66, 4, layout="core", random_state=rng)
    split = Split.of(data.X, data.truth, partition(len(data.X), 4, random_state=rng), masks, data.feature_names)
    return _within(split, 1.0)


def clinic(n_rows: int) -> Callable[[int], Declared]:
    """Return a function that draws two participants with numbers, categories and missing values."""

    def draw(seed: int) -> Declared:
        rng, tables = np.random.default_rng(seed), {}
        for name, column in (("a", "chol"), ("b", "pulse")):
            sick = rng.integers(2, size=n_rows)
            age = 45 + 20 * sick + 8 * rng.normal(size=n_rows)
            pain = np.where(rng.random(n_rows) < 0.1 + 0.7 * sick, "yes", "no")
            other = {
                "chol": 200 + 60 * sick + 25 * rng.normal(size=n_rows),
                "pulse": 75 - 12 * sick + 8 * rng.normal(size=n_rows),
            }
            tables[name] = {"age": np.where(rng.random(n_rows) < 0.1, np.nan, age), "pain": pain, column: other[column]}
        return Declared(tables, {"age": (0, 110), "chol": (50, 400), "pulse": (30, 150)}, {"pain": ["no", "yes"]})

    return draw


STUDIES = (
    Study("grid, chain, 4 × 3,000 rows", 4, 1, grid("chain", 3000)),
    Study("grid, core, 4 × 3,000 rows", 4, 1, grid("core", 3000)),
    Study("grid, chain, 4 × 300 rows", 4, 2, grid("chain", 300)),
    Study("grid, core, 4 × 300 rows", 4, 4, grid("core", 300)),
    Study("grid, chain, 4 × 3,000 rows, one-shot", 4, 0.5, grid("chain", 3000), "one_shot"),
    Study("grid, core, 4 × 10,000 rows", 4, 0.5, grid("core", 10_000)),
    Study("four hospitals, 920 rows", 2, 2, hospitals),
    Study("four hospitals, 920 rows", 2, 0.5, hospitals),
    Study("HAR, walking and sitting, core", 2, 2, har),
    Study("categories and missing values, 2 × 2,000 rows", 2, 1, clinic(2000)),
    Study("categories and missing values, 2 × 150 rows", 2, 0.5, clinic(150)),
    Study("grid, separation 0.75, core, 4 × 3,000 rows, one-shot", 4, 2, grid("core", 3000, 0.75), "one_shot"),
)


def main(first_seed: int = FIRST_SEED) -> None:
    """Print the forecast and the measured loss of every study."""
    warnings.simplefilter("ignore")
    print("| study | ε | forecast loss | spread | runs | measured loss | apart |\n|---|---|---|---|---|---|---|")
    for number, study in enumerate(STUDIES):
        tables, bounds, levels = study.data(first_seed + number)
        privacy = intarsia.DifferentialPrivacy(study.epsilon, bounds=bounds, levels=levels)
        settings = {"method": study.method, "random_state": 0}
        forecast = intarsia.forecast_privacy(tables, study.k, privacy=privacy, **settings)
        plain = intarsia.cluster(tables, study.k, **settings)
        losses = []
        while len(losses) < FEWEST_RUNS or (len(losses) < MOST_RUNS and np.std(losses) > PRECISE * len(losses) ** 0.5):
            private = intarsia.cluster(tables, study.k, privacy=privacy, **settings)
            both = (np.concatenate([each.labels[name] for name in tables]) for each in (plain, private))
            losses.append(1 - adjusted_rand_score(*both))
        apart = abs(forecast.loss - np.mean(losses))
        agreement = forecast.agreement
        figures = f"{forecast.loss:.3f} | {agreement.spread:.3f} | {len(agreement.runs)} | {np.mean(losses):.3f}"
        print(f"| {study.name} | {study.epsilon:g} | {figures} | {apart:.3f} |", flush=True)
        print(f"    {forecast.verdict}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
