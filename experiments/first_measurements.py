"""DIM-set 128, HAR and QMNIST over random splits: both algorithms with default settings, the paper's methods beside them.

    python -m experiments.first_measurements [n_splits]

Prints one table in Markdown.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans

import intarsia
from experiments.splits import LAYOUTS, dim_split, har_split, qmnist_split
from intarsia.core.distances import extent_of, nearest_centre
from intarsia.datasets import Split
from intarsia.metrics import (
    aggregation_accuracy,
    centroid_agreement,
    clustering_accuracy,
    majority_classes,
    optimal_masked_centroids,
)

ESTIMATORS = {"federated": intarsia.FederatedClustering, "one_shot": intarsia.OneShotClustering}
WAYS = {
    "federated, search (default)": {"method": "federated"},
    "federated, Method A": {"method": "federated", "aggregation": "method_a"},
    "federated, Method B": {"method": "federated", "aggregation": "method_b"},
    "one-shot, search (default)": {"method": "one_shot"},
    "one-shot, greedy, exact": {"method": "one_shot", "aggregation": "greedy"},
    "one-shot, greedy, 100 proxies": {"method": "one_shot", "aggregation": "greedy", "force": "sampled"},
}
STUDIES = {
    "DIM-set 128": (dim_split, 16),
    "HAR": (har_split, 2),
    "QMNIST 0/3/7": (qmnist_split, 3),
}


def measure(split: Split, n_clusters: int | None, seed: int, *, method: str, **settings) -> dict[str, float]:
    """E1 or E4 (aggregation), E2 or E5 (accuracy), E3 (relative centroid error), K, and whether the split is a clear one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
        result = ESTIMATORS[method](n_clusters, random_state=seed, **settings).fit_result(split.tables())
    classes, groups, clear = [], [], True
    for name, truth in split.truth_of().items():
        local = result.local_labels[name]
        mine = majority_classes(truth, local)
        purity = [np.mean(truth[local == k] == mine[k]) for k in range(len(mine))]
        clear &= min(purity) >= 0.6 and set(mine.tolist()) == set(np.unique(truth).tolist())
        classes.append(mine)
        groups.append([c.group for c in result.local_clusters if c.participant == name])
    error = np.nan
    if result.n_clusters == len(np.unique(split.truth)):
        optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
        order = [split.feature_names.index(name) for name in result.feature_names]
        error = centroid_agreement(result.centroids, optimal[:, order]).relative_distance
    return {
        "aggregation": aggregation_accuracy(np.concatenate(classes), np.concatenate(groups)),
        "accuracy": clustering_accuracy(split.truth, split.in_order(result.labels)),
        "centroid error": error,
        "K": result.n_clusters,
        "clear": clear,
    }


def ceiling(split: Split) -> float:
    """Accuracy of assigning every row to the nearest true masked centroid: the best that centroids can do on this split."""
    optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
    known = ~np.isnan(optimal)
    extent = extent_of(np.nan_to_num(optimal), known)
    seen = split.masks[split.participant]
    found = nearest_centre(split.X, seen, np.nan_to_num(optimal), known, extent, "euclidean")
    return clustering_accuracy(split.truth, found)


def line(data: str, layout: str, way: str, rows: list[dict[str, float]]) -> None:
    clear = [row for row in rows if row["clear"]]
    a, y, e = (np.array([row[key] for row in rows]) for key in ("aggregation", "accuracy", "centroid error"))
    right = sum(row["aggregation"] == 1 for row in clear)
    accuracy = f"{100 * y.mean():.2f} | {100 * y.min():.2f}"
    error = f"{np.nanmean(e):.4f} | {np.nanmax(e):.4f}"
    print(f"| {data} | {layout} | {way} | {right} of {len(clear)} | {a.min():.3f} | {accuracy} | {error} |", flush=True)


def main(n_splits: int = 20) -> None:
    print(
        "| data | layout | way | perfect aggregation | worst aggregation | accuracy % | worst | centroid error | worst |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for data, (make, k) in STUDIES.items():
        for layout in LAYOUTS:
            splits = [make(layout, seed) for seed in range(n_splits)]
            reference(data, layout, "centralised k-means, all columns", splits, lambda split, k=k: central(split, k))
            reference(data, layout, "ceiling: true masked centroids", splits, ceiling)
            for way, settings in WAYS.items():
                line(data, layout, way, [measure(split, k, seed, **settings) for seed, split in enumerate(splits)])
            if data.startswith("DIM"):
                rows = [measure(split, None, seed, method="one_shot") for seed, split in enumerate(splits)]
                found = ", ".join(
                    f"{n} × {sum(row['K'] == n for row in rows)}" for n in sorted({row["K"] for row in rows})
                )
                line(data, layout, f"one-shot, K chosen ({found})", rows)


def central(split: Split, k: int) -> float:
    return clustering_accuracy(split.truth, KMeans(k, n_init=10, random_state=0).fit_predict(split.X))


def reference(data: str, layout: str, name: str, splits: list[Split], accuracy: Callable[[Split], float]) -> None:
    found = 100 * np.array([accuracy(split) for split in splits])
    print(f"| {data} | {layout} | *{name}* | | | {found.mean():.2f} | {found.min():.2f} | | |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
