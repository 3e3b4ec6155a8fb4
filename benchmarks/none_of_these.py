"""How many ordinary rows and planted outliers get −1 at ``none_beyond=0.99``, over random studies.

Run: ``python -m benchmarks.none_of_these [first seed] [last seed]``. Studies have 2 to 5 clusters, 3 to 40 columns, 2 to 5
participants with 60 to 2,000 rows each, in a chain, around a shared core, or with all columns; some have correlated columns
or missing values. Outliers are 8 to 12 standard deviations away in every column, and at least 6 from every cluster.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

import intarsia
from intarsia import ReleasePolicy

SHARE, N_OUTLIERS = 0.99, 200
RULES = {"release": ReleasePolicy()}
WAYS: dict[str, dict[str, Any]] = {
    "federated": {},
    "federated, release rules": RULES,
    "one-shot": {"method": "one_shot"},
    "one-shot, release rules": {"method": "one_shot", **RULES},
    "secure sums": {"secure_sums": True},
}
Tables = dict[str, dict[str, np.ndarray]]


class Study(NamedTuple):
    """Clusters, the features of each participant, and how rows are drawn."""

    rng: np.random.Generator
    centres: np.ndarray
    mixing: np.ndarray
    parts: list[np.ndarray]
    missing: float

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each feature within a cluster."""
        return np.sqrt((self.mixing.T @ self.mixing).diagonal())

    def rows(self, n: int) -> Tables:
        """Draw as many ordinary rows for each participant, none without a value."""
        tables = {}
        for i, part in enumerate(self.parts):
            noise = self.rng.normal(size=(n, len(self.mixing))) @ self.mixing
            x = (self.centres[self.rng.integers(len(self.centres), size=n)] + noise)[:, part]
            gaps = self.rng.random(x.shape) < self.missing
            gaps[np.arange(n), self.rng.integers(len(part), size=n)] = False
            tables[f"p{i}"] = _table(part, np.where(gaps, np.nan, x))
        return tables

    def outliers(self) -> Tables:
        """Draw rows that are far from every cluster."""
        tables = {}
        for i, part in enumerate(self.parts):
            centres, deviations = self.centres[:, part], self.deviations[part]
            signs = self.rng.choice([-1.0, 1.0], size=(N_OUTLIERS, len(part)))
            far = signs * deviations * self.rng.uniform(8, 12, size=(N_OUTLIERS, 1))
            x = centres[self.rng.integers(len(centres), size=N_OUTLIERS)] + far
            distances = np.sqrt(np.square((x[:, None] - centres) / deviations).mean(axis=-1)).min(axis=1)
            tables[f"p{i}"] = _table(part, x[distances > 6])
        return {name: table for name, table in tables.items() if len(next(iter(table.values())))}


def _table(part: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    return {f"x{j:02d}": x[:, t] for t, j in enumerate(part.tolist())}


def random_study(seed: int) -> tuple[Study, int]:
    """Return a study and the number of rows of each participant."""
    rng = np.random.default_rng([seed, 46])
    k, d, m = int(rng.integers(2, 6)), int(rng.choice([3, 8, 15, 40])), int(rng.integers(2, 6))
    layout = "all" if d == 3 else rng.choice(["chain", "core", "all"])
    mixing = rng.normal(size=(d, d)) * 0.7 / np.sqrt(d) + np.eye(d) / 2 if rng.random() < 0.4 else np.eye(d)
    parts = [np.arange(d)] * m
    if layout == "core":
        core = d // 3
        own = [rng.choice(np.arange(core, d), size=max(1, (d - core) // m), replace=False) for _ in parts]
        parts = [np.unique(np.r_[np.arange(core), each]) for each in own]
    elif layout == "chain":
        width = min(d, max(2, int(np.ceil(d / m * 1.5))))
        parts = [np.arange(width) + i * (d - width) // (m - 1) for i in range(m)]
    centres = rng.normal(size=(k, d)) * rng.uniform(6, 14) / np.sqrt(d)
    return Study(rng, centres, mixing, parts, 0.1 * (rng.random() < 0.3)), int(rng.choice([60, 150, 500, 2000]))


def _left_out(result: intarsia.ClusteringResult, tables: Tables) -> float:
    labels = result.predict(tables, none_beyond=SHARE)
    return float((np.concatenate(list(labels.values())) < 0).mean())


def measured(seed: int) -> dict[str, tuple[float, float, float]]:
    """Return, for each way, the shares of fitted rows, new rows and outliers that get −1."""
    study, n_rows = random_study(seed)
    train, new, outliers = study.rows(n_rows), study.rows(max(n_rows, 500)), study.outliers()
    shares = {}
    for way, settings in WAYS.items():
        if "secure_sums" in settings and len(train) < 3:
            continue
        result = intarsia.cluster(train, len(study.centres), random_state=0, **settings)
        shares[way] = tuple(_left_out(result, tables) if tables else 1.0 for tables in (train, new, outliers))
    return shares  # type: ignore[return-value]  # three numbers each


def main(first: int = 1000, last: int = 1100) -> None:
    """Print each study, and the worst of all by way."""
    every: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(first, last):
        for way, shares in measured(seed).items():
            every.setdefault(way, []).append(shares)
            print(f"{seed} {way}: fitted {shares[0]:.4f} new {shares[1]:.4f} outliers {shares[2]:.3f}", flush=True)
    for way, each in every.items():
        fitted, new, outliers = np.array(each).T
        print(
            f"{way}, {len(each)} studies: fitted rows {fitted.mean():.4f}, at most {fitted.max():.4f}; "
            f"new rows {new.mean():.4f}, at most {new.max():.4f}; "
            f"outliers {outliers.mean():.3f}, at least {outliers.min():.3f}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
