"""A participant that joins a finished model, compared with a run that had it from the start.

``python -m experiments.late`` writes ``experiments/results/late_participants.csv``: 40 splits of each dataset, in each of
which two participants drawn at random come late, one at a time. No split was used to choose anything.

``agree`` is the share of the newcomer's rows with the same cluster in both runs, ``old_columns`` the same if they are
labelled by ``predict`` over the columns that the model has; clusters of the two runs are matched by the labels of all
others. ``changed`` is the number of rows of the others with another label after the join, ``differ`` the share of their
rows that the newcomer moves when it is there from the start, and ``farthest`` how far its local clusters are from the
nearest cluster, in deviations.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

import intarsia
from experiments.splits import Case, har_split, qmnist_split
from intarsia.coordinator.local_clusters import LocalClusters
from intarsia.coordinator.newcomers import unlike_all

CASES = {"har": (har_split, 2), "qmnist 0-3-7": (qmnist_split, 3)}
LAYOUTS = ("core",)
FIRST, N_SPLITS, N_LATE = 1000, 40, 2
TARGET = Path(__file__).parent / "results" / "late_participants.csv"


def measure_split(case: Case, k: int, seed: int) -> list[dict[str, object]]:
    """A row for each of the participants that come late."""
    tables = case.split.tables()
    whole = intarsia.cluster(tables, k, scale=None, random_state=seed)
    drawn = np.random.default_rng([seed, 11]).permutation(len(tables))
    rows: list[dict[str, object]] = []
    for name in np.array(list(tables), dtype=object)[drawn]:
        early = {other: table for other, table in tables.items() if other != name}
        try:
            first = intarsia.cluster(early, k, scale=None, random_state=seed)
        except intarsia.exceptions.DisjointFeaturesError:
            continue  # the others are not connected without it
        rows.append({"late": name, **_compared(whole, first, tables, str(name), k)})
        if len(rows) == N_LATE:
            break
    return rows


def _compared(whole, first, tables, name: str, k: int) -> dict[str, object]:
    joined = first.join({name: tables[name]})
    votes = np.zeros((k, k))
    for other, labels in first.labels.items():
        np.add.at(votes, (labels, whole.labels[other]), 1)
    row, column = linear_sum_assignment(-votes)
    number = np.empty(k, dtype=np.intp)
    number[row] = column
    known = [c for c in tables[name] if c in first.feature_names]
    by_old = number[first.predict({c: tables[name][c] for c in known})]
    outcome = joined.outcome
    own = outcome.owner == len(outcome.participants) - 1
    local = LocalClusters(outcome.local_centroids.take(own), outcome.owner[own], np.zeros(0), outcome.coverage)
    return {
        "rows": len(whole.labels[name]),
        "agree": float((number[joined.labels[name]] == whole.labels[name]).mean()),
        "old_columns": float((by_old == whole.labels[name]).mean()),
        "changed": sum(
            int((joined.labels[o] != first.labels[o]).sum() + (joined.predict(tables[o]) != first.labels[o]).sum())
            for o in first.labels
        ),
        "differ": float(1.0 - votes[row, column].sum() / votes.sum()),
        "farthest": float(unlike_all(first.outcome.model, local).max()),
    }


def main(n_splits: int) -> None:
    """Measure all splits, print means and the worst, and write every row."""
    warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
    rows: list[dict[str, object]] = []
    for data, (split, k) in CASES.items():
        for layout in LAYOUTS:
            here: list[dict[str, object]] = []
            for seed in range(FIRST, FIRST + n_splits):
                case = split(layout, seed)
                head = {"data": data, "layout": layout, "seed": seed}
                here += [head | row for row in measure_split(case, k, seed)]
            agree = [float(str(row["agree"])) for row in here]
            print(
                f"{data}, {layout}: mean {np.mean(agree):.4f}, worst {min(agree):.4f}, {len(here)} newcomers",
                flush=True,
            )
            rows += here
            pl.DataFrame(rows).write_csv(TARGET, float_precision=4)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else N_SPLITS)
