"""The studies that are attacked: tables of several participants, and the settings of one run over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from intarsia.datasets import Split, fetch_har, load_heart_disease, mask_features, partition
from intarsia.datasets.fetching import ACTIVITIES

Table = dict[str, np.ndarray]
SEEDS = (0, 1, 2)


class Study(NamedTuple):
    """Who has which table, K, and further settings of the run."""

    tables: Mapping[str, Table]
    n_clusters: int
    settings: Mapping[str, Any] = {}


def hospitals(seed: int, n_clusters: int = 2) -> Study:
    """Four real hospitals with missing values; rows in a new order for each seed."""
    rng, tables = np.random.default_rng([seed, 1]), {}
    for name, table in load_heart_disease().tables.items():
        order = rng.permutation(len(table["age"]))
        tables[name] = {column: np.asarray(values)[order] for column, values in table.items()}
    return Study(tables, n_clusters)


def complete_hospitals(seed: int, n_clusters: int = 4) -> Study:
    """The rows of the hospitals that have every value of the columns that are nearly complete."""
    tables = {}
    for name, table in hospitals(seed).tables.items():
        cells = {column: values for column, values in table.items() if np.isnan(values).mean() < 0.1}
        whole = ~np.isnan(np.stack(list(cells.values()))).any(axis=0)
        tables[name] = {column: values[whole] for column, values in cells.items()}
    return Study(tables, n_clusters)


def gaussians(layout: str, n_rows: int, seed: int, missing: float = 0.0, n: int = 4) -> Study:
    """Four overlapping Gaussian clusters in 40 dimensions, as in ``experiments/splits.py``, ``n_rows`` each."""
    rng = np.random.default_rng([seed, n_rows])
    truth = rng.integers(4, size=n * n_rows)
    X = 0.5 * rng.normal(size=(4, 40))[truth] + rng.normal(size=(n * n_rows, 40))
    masks = mask_features(40, n, layout=layout, random_state=rng)
    split = Split.of(X, truth, partition(len(X), n, random_state=rng), masks)
    tables = {f"p{i}": dict(table) for i, table in enumerate(split.tables().values())}
    for table in tables.values() if missing else ():
        for values in list(table.values())[2:]:  # two columns are complete
            values[rng.random(len(values)) < missing] = np.nan
    return Study(tables, 4)


def whole_numbers(seed: int, n_rows: int = 300) -> Study:
    """Whole numbers and two categories, three participants that share most columns."""
    rng, tables = np.random.default_rng([seed, 5]), {}
    for name, absent in (("a", "c5"), ("b", "c0"), ("c", "c3")):
        group = rng.integers(3, size=n_rows)
        table = {f"c{j}": np.round(1000 + 90 * (group * (j + 1) % 3) + 90 * rng.normal(size=n_rows)) for j in range(6)}
        table["colour"] = np.array(["red", "green", "blue"])[(group + (rng.random(n_rows) < 0.3)) % 3]
        table["smokes"] = np.array(["yes", "no"])[(rng.random(n_rows) < 0.3 + 0.2 * (group == 1)).astype(int)]
        tables[name] = {column: values for column, values in table.items() if column != absent}
    return Study(tables, 3)


def har(seed: int, n: int = 5) -> Study:
    """Six activities of some subjects, one subject each, 46 of the 66 columns or so."""
    data = fetch_har(66, ACTIVITIES)
    rng = np.random.default_rng([seed, 7])
    subjects = rng.choice(np.unique(data.groups), n, replace=False)
    rows = np.flatnonzero(np.isin(data.groups, subjects))
    masks = mask_features(data.X.shape[1], n, layout="core", random_state=rng)
    owner = partition(len(rows), n, groups=np.unique(data.groups[rows], return_inverse=True)[1], random_state=rng)
    split = Split.of(np.asarray(data.X[rows], dtype=float), data.truth[rows], owner, masks, data.feature_names)
    return Study({f"s{i}": dict(table) for i, table in enumerate(split.tables().values())}, 6, {"n_local_clusters": 6})


STUDIES: dict[str, Callable[[int], Study]] = {
    "hospitals, K = 2": hospitals,
    "hospitals, K = 4": lambda seed: hospitals(seed, 4),
    "complete hospitals, K = 4": complete_hospitals,
    "chain, 300 rows": lambda seed: gaussians("chain", 300, seed),
    "core, 300 rows": lambda seed: gaussians("core", 300, seed),
    "chain, 300 rows, 5 % missing": lambda seed: gaussians("chain", 300, seed, 0.05),
    "chain, 3,000 rows": lambda seed: gaussians("chain", 3000, seed),
    "core, 3,000 rows": lambda seed: gaussians("core", 3000, seed),
    "whole numbers and categories": whole_numbers,
    "HAR, five subjects": har,
}
LARGE = ("chain, 3,000 rows", "core, 3,000 rows")  # only in the long form
