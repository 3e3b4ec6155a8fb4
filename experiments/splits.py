"""Split a complete dataset over participants that see different features, in the two layouts of the paper.

Chain: consecutive participants share 30 % of their features. Core: all share about 10 % of the features, the rest is dealt
out. Features are dealt at random: a user cannot choose who measures what.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

LAYOUTS = ("chain", "core")


class DataMissingError(FileNotFoundError):
    """A dataset is not where it should be."""


@cache
def load(name: str) -> dict[str, np.ndarray]:
    folder = Path(os.environ.get("INTARSIA_DATA", "../shared/data"))
    path = folder / name
    if not path.exists():
        raise DataMissingError(
            f"{name} is not in {folder} (set INTARSIA_DATA to the folder that has it). DIM-sets come from the clustering "
            "basic benchmark of the University of Eastern Finland, HAR from UCI (HAPT, DOI 10.24432/C54G7M), QMNIST from "
            "facebookresearch/qmnist."
        )
    with np.load(path) as data:
        return {key: data[key] for key in data.files}


@dataclass(frozen=True)
class Split:
    """Complete rows X, true classes, and the participant and visible features of each row."""

    X: np.ndarray
    truth: np.ndarray
    participant: np.ndarray
    masks: np.ndarray

    @property
    def names(self) -> list[str]:
        return [f"f{k:04d}" for k in range(self.X.shape[1])]

    def rows_of(self, i: int) -> np.ndarray:
        return np.flatnonzero(self.participant == i)

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        return {
            f"p{i:02d}": {self.names[k]: self.X[self.rows_of(i), k] for k in np.flatnonzero(mask)}
            for i, mask in enumerate(self.masks)
        }

    def truth_of(self) -> dict[str, np.ndarray]:
        return {f"p{i:02d}": self.truth[self.rows_of(i)] for i in range(len(self.masks))}


def chain_masks(d: int, n: int, rng: np.random.Generator, overlap: float = 0.3) -> np.ndarray:
    order = rng.permutation(d)
    size = d / (n - (n - 1) * overlap)
    masks = np.zeros((n, d), dtype=bool)
    for i in range(n):
        first = i * size * (1 - overlap)
        masks[i, order[round(first) : round(first + size) if i < n - 1 else d]] = True
    return masks


def core_masks(d: int, n: int, rng: np.random.Generator, core: float = 0.1) -> np.ndarray:
    order = rng.permutation(d)
    masks = np.zeros((n, d), dtype=bool)
    masks[:, order[: round(core * d)]] = True
    for i, part in enumerate(np.array_split(order[round(core * d) :], n)):
        masks[i, part] = True
    return masks


def masks_for(layout: str, d: int, n: int, rng: np.random.Generator) -> np.ndarray:
    return chain_masks(d, n, rng) if layout == "chain" else core_masks(d, n, rng)


def dim_split(layout: str, seed: int, d: int = 128, n: int = 10) -> Split:
    """DIM-set: in the chain each cluster is held by 5 to 8 consecutive participants, rows at random; in the core by 4 to 7
    random ones, rows sorted by the first coordinate, so that local versions of a cluster are biased."""
    data = load("dim_sets.npz")
    X, y = data[f"X{d:03d}"].astype(float), data[f"y{d:03d}"]
    rng = np.random.default_rng([seed, d])
    masks = masks_for(layout, d, n, rng)
    participant = np.full(len(X), -1)
    for c in range(16):
        rows = np.flatnonzero(y == c)
        if layout == "chain":
            length = rng.integers(5, 9)
            first = rng.integers(0, n - length + 1)
            holders, rows = np.arange(first, first + length), rng.permutation(rows)
        else:
            holders = rng.choice(n, rng.integers(4, 8), replace=False)
            rows = rows[np.argsort(X[rows, 0], kind="stable")]
        for holder, part in zip(holders, np.array_split(rows, len(holders)), strict=True):
            participant[part] = holder
    return _without_empty(Split(X, y.astype(int), participant, masks))


def _without_empty(split: Split) -> Split:
    """Leave out participants that were dealt no row (rare, at the ends of the chain)."""
    present = np.unique(split.participant)
    position = {int(p): k for k, p in enumerate(present)}
    participant = np.array([position[int(p)] for p in split.participant])
    return Split(split.X, split.truth, participant, split.masks[present])


def har_split(layout: str, seed: int, activities: tuple[int, int] = (1, 4), n: int = 30) -> Split:
    """HAR, 561 recomputed columns, two activities (walking, sitting): rows at random and evenly in the chain, one subject
    each in the core."""
    data = load("har_recomputed561.npz")
    keep = np.isin(data["y"], activities)
    X, y, subject = data["X"][keep].astype(float), data["y"][keep].astype(int), data["subject"][keep]
    rng = np.random.default_rng(seed)
    masks = masks_for(layout, X.shape[1], n, rng)
    if layout == "core":
        participant = np.unique(subject, return_inverse=True)[1]
    else:
        participant = np.empty(len(X), dtype=int)
        for i, part in enumerate(np.array_split(rng.permutation(len(X)), n)):
            participant[part] = i
    return Split(X, y, participant, masks)
