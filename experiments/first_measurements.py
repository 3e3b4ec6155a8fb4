"""DIM-set 128 and HAR over random splits: both algorithms with default settings, and the paper's methods beside them.

python -m experiments.first_measurements [n_splits]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.cluster import KMeans

import intarsia
from experiments.splits import LAYOUTS, Split, dim_split, har_split
from intarsia.metrics import (
    aggregation_accuracy,
    centroid_agreement,
    clustering_accuracy,
    majority_classes,
    optimal_masked_centroids,
)

WAYS = {
    "federated, search (default)": {"method": "federated"},
    "federated, method A": {"method": "federated", "aggregation": "method_a"},
    "federated, method B": {"method": "federated", "aggregation": "method_b"},
    "one-shot, search (default)": {"method": "one_shot"},
    "one-shot, greedy (the paper's)": {"method": "one_shot", "aggregation": "greedy"},
    "one-shot, greedy, 100 proxies": {"method": "one_shot", "aggregation": "greedy", "force": "sampled"},
}


def measure(split: Split, n_clusters: int, seed: int, **settings) -> dict[str, float]:
    """E1 or E4 (aggregation), E2 or E5 (accuracy), E3 (relative centroid error), and whether K was found where asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", intarsia.AssumptionWarning)
        estimator = {"federated": intarsia.FederatedClustering, "one_shot": intarsia.OneShotClustering}[
            settings.pop("method")
        ]
        result = estimator(n_clusters, random_state=seed, **settings).fit_result(split.tables())
    truth = split.truth_of()
    y, labels = (np.concatenate([part[name] for name in truth]) for part in (truth, result.labels))
    classes, groups = [], []
    for name, local in result.local_labels.items():
        classes.append(majority_classes(truth[name], local))
        groups.append([c.group for c in result.local_clusters if c.participant == name])
    optimal = optimal_masked_centroids(split.X, split.truth, split.participant, split.masks)
    order = [split.names.index(name) for name in result.feature_names]
    error = (
        centroid_agreement(result.centroids, optimal[:, order]).relative_distance
        if result.n_clusters == len(optimal)
        else np.nan
    )
    return {
        "aggregation": aggregation_accuracy(np.concatenate(classes), np.concatenate(groups)),
        "accuracy": clustering_accuracy(y, labels),
        "centroid error": error,
        "K": result.n_clusters,
    }


def report(name: str, rows: list[dict[str, float]]) -> None:
    a, y, e = (np.array([row[key] for row in rows]) for key in ("aggregation", "accuracy", "centroid error"))
    perfect = np.mean((a == 1) & (y == 1))
    print(
        f"  {name:32s} perfect {perfect:6.0%}   aggregation {a.mean():.4f} (worst {a.min():.4f})   "
        f"accuracy {100 * y.mean():7.3f} (worst {100 * y.min():7.3f})   centroid error {e.mean():.4f} (worst {e.max():.4f})",
        flush=True,
    )


def main(n_splits: int = 20) -> None:
    for layout in LAYOUTS:
        print(f"DIM-set 128 (dim_sets.npz), 10 participants, {layout}, {n_splits} splits")
        for name, settings in WAYS.items():
            report(name, [measure(dim_split(layout, seed), 16, seed, **settings) for seed in range(n_splits)])
        rows = [measure(dim_split(layout, seed), None, seed, method="one_shot") for seed in range(n_splits)]
        report("one-shot, K chosen", rows)
        print(f"  {'':32s} K chosen: {sorted({int(row['K']) for row in rows})}")
    for layout in LAYOUTS:
        print(
            f"HAR walking and sitting (har_recomputed561.npz, recomputed), 30 participants, {layout}, {n_splits} splits"
        )
        split = har_split(layout, 0)
        central = clustering_accuracy(split.truth, KMeans(2, n_init=10, random_state=0).fit_predict(split.X))
        print(f"  centralised k-means on all columns: accuracy {100 * central:.3f}")
        for name, settings in WAYS.items():
            report(name, [measure(har_split(layout, seed), 2, seed, **settings) for seed in range(n_splits)])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
