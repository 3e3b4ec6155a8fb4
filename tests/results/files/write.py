"""Writes the saved studies of this folder: run it with the version of intarsia whose files are to be kept readable.

``python tests/results/files/write.py`` writes ``<name>.intarsia`` and, beside it, ``<name>.json``: new rows, and the labels
that this version predicts for them. Files that a released version wrote are never written again.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import intarsia

FOLDER = Path(__file__).parent


def tables(*, missing: bool = False, categories: bool = False) -> dict[str, dict[str, Any]]:
    """Three participants, 40 rows each of three clusters, each with its own columns of x, y, z, w."""
    rng = np.random.default_rng(7)
    truth = rng.integers(3, size=(3, 40))
    rows = 6 * rng.normal(size=(3, 4))[truth] + rng.normal(size=(3, 40, 4))
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    columns = {"a": "xyz", "b": "yzw", "ü": "xzw"}
    result: dict[str, dict[str, Any]] = {
        name: {column: rows[i][:, "xyzw".index(column)] for column in columns[name]} for i, name in enumerate(columns)
    }
    if categories:
        for i, table in enumerate(result.values()):
            table["ward"] = [("north", "south", "west")[k] for k in truth[i]]
    return result


def studies() -> dict[str, Any]:
    """Results by file name."""
    named, policy = tables(), intarsia.ReleasePolicy()
    settings: dict[str, Any] = {"random_state": 0}
    federated = intarsia.cluster(named, 3, **settings)
    absent = replace(federated.run, absent={"ü": ("refine",), "late": ("summarize", "refine", "label")})
    return {
        "federated": federated,
        "federated-auto-mixture": intarsia.cluster(named, model="mixture", scale="standard", **settings),
        "federated-categories-missing": intarsia.cluster(tables(missing=True, categories=True), 3, **settings),
        "federated-release-rules": intarsia.cluster(tables(categories=True), 3, release=policy, **settings),
        "federated-quorum": replace(federated, run=absent),
        "numbered": intarsia.cluster(list(named.values()), 3, metric="cosine", **settings),
        "one-shot-auto": intarsia.cluster(named, method="one_shot", fidelity=True, **settings),
        "one-shot-discrete": intarsia.cluster(
            tables(categories=True), 3, method="one_shot", density="discrete", scale="robust", **settings
        ),
    }


def main() -> None:
    """Write every study with its labels, but for the one under release rules."""
    rng = np.random.default_rng(11)
    new = {name: (8 * rng.normal(size=12)).round(3).tolist() for name in "xyzw"}
    new["y"][3] = new["z"][3] = float("nan")
    for name, result in studies().items():
        result.save(FOLDER / f"{name}.intarsia", labels=name != "federated-release-rules")
        rows = dict(new)
        if "ward" in result.levels:
            rows["ward"] = (["north", "south", "west", "elsewhere"] * 3)[:12]
        facts = {
            "text": str(result),
            "rows": {
                column: [None if value != value else value for value in values] for column, values in rows.items()
            },
            "predicted": result.predict(rows).tolist(),
            "labels": {str(key): labels.tolist() for key, labels in result.labels.items()},
            "margins": None if name == "numbered" else result.predict_margin(rows).round(9).tolist(),
            "score": result.score(rows),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
