"""The splits that measurements are made on: which data, who holds which rows, who sees which features.

Features are dealt at random unless ``deal="importance"``: a user cannot choose who measures what, the paper did.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.feature_selection import f_classif

from intarsia.datasets import (
    Dataset,
    Split,
    choose_holders,
    fetch_dim_set,
    fetch_har,
    fetch_qmnist,
    mask_features,
    partition,
)

LAYOUTS = ("chain", "core")
HAR_FILE = "har_recomputed561.npz (561 columns recomputed from the raw recordings, not the published ones)"
QMNIST_FILE = "qmnist_037.npz (MNIST's pixels with QMNIST's writers)"
DIM_FILE = "dim_sets.npz"
PARTIES, ROWS, FEATURES, K = 4, 300, 40, 4  # the Gaussian grid


class Case(NamedTuple):
    """A split, and the true centroids as rows outside of it show them, where there are such rows."""

    split: Split
    outside: np.ndarray | None = None


def deal(layout: str, n: int, data: Dataset, rng: np.random.Generator, how: str) -> np.ndarray:
    """Features at random, or so that everybody gets about as much of what tells the classes apart (F statistic)."""
    importance = None
    if how == "importance":
        with np.errstate(all="ignore"):
            importance = np.nan_to_num(f_classif(data.X, data.truth)[0], nan=0.0, posinf=0.0)
    return mask_features(data.X.shape[1], n, layout=layout, importance=importance, random_state=rng)


def dim_split(
    layout: str, seed: int, how: str = "random", *, dimension: int = 128, n: int = 10, nobody_has_all: bool = False
) -> Case:
    """DIM-set. Chain: each cluster is held by 5 to 8 consecutive participants, rows at random. Core: by 4 to 7 random ones,
    rows sorted by the first coordinate, so that local versions of a cluster are biased. If ``nobody_has_all``, holders are
    drawn until every participant lacks a cluster (the paper: K_i < K).
    """
    data = fetch_dim_set(dimension)
    rng = np.random.default_rng([seed, dimension])
    masks = deal(layout, n, data, rng, how)
    chain = layout == "chain"
    span = {"fewest": 5, "most": 8, "consecutive": True} if chain else {"fewest": 4, "most": 7}
    holders = choose_holders(data.truth, n, random_state=rng, **span)
    while nobody_has_all and _someone_has_all(holders, n):
        holders = choose_holders(data.truth, n, random_state=rng, **span)
    order = None if chain else data.X[:, 0]
    owner = partition(len(data.X), n, labels=data.truth, holders=holders, sort_by=order, random_state=rng)
    return Case(Split.of(data.X, data.truth, owner, masks, data.feature_names))


def _someone_has_all(holders: dict[int, np.ndarray], n: int) -> bool:
    """Whether a participant has rows of every cluster."""
    return bool(np.bincount(np.concatenate([*holders.values()]), minlength=n).max() == len(holders))


def har_split(
    layout: str, seed: int, how: str = "random", *, activities: tuple[str, str] = ("walking", "sitting"), n: int = 30
) -> Case:
    """HAR, two activities. Chain: rows at random and evenly. Core: one subject each."""
    data = fetch_har(561, activities)
    rng = np.random.default_rng(seed)
    masks = deal(layout, n, data, rng, how)
    owner = partition(len(data.X), n, groups=data.groups if layout == "core" else None, random_state=rng)
    return Case(Split.of(data.X, data.truth, owner, masks, data.feature_names))


def qmnist_split(
    layout: str, seed: int, how: str = "random", *, n: int = 10, n_rows: int = 7000, least: int = 8
) -> Case:
    """QMNIST digits 0, 3, 7. Chain: ``n_rows`` rows at random and evenly. Core: one writer each, drawn at random among those
    with at least ``least`` of every digit.
    """
    data = fetch_qmnist()
    rng = np.random.default_rng(seed)
    masks = deal(layout, n, data, rng, how)
    if layout == "chain":
        rows = rng.permutation(len(data.X))[:n_rows]
        owner = partition(len(rows), n, random_state=rng)
    else:
        writers, which = np.unique(data.groups, return_inverse=True)
        counts = np.array(
            [np.bincount(which[data.truth == digit], minlength=len(writers)) for digit in np.unique(data.truth)]
        )
        chosen = rng.choice(np.flatnonzero(counts.min(axis=0) >= least), n, replace=False)
        rows = np.flatnonzero(np.isin(which, chosen))
        owner = partition(len(rows), n, groups=which[rows], random_state=rng)
    rest = np.setdiff1d(np.arange(len(data.X)), rows)
    outside = np.stack([data.X[rest[data.truth[rest] == digit]].mean(axis=0) for digit in np.unique(data.truth)])
    return Case(Split.of(data.X[rows], data.truth[rows], owner, masks, data.feature_names), outside)


def gaussian_split(layout: str, seed: int, how: str = "random", *, separation: float = 1.0) -> Case:
    """Four participants with 300 rows each: four Gaussian clusters in 40 dimensions, about 13 features each in both layouts.

    Centres are standard normal times the separation, rows have unit variance around them.
    """
    assert how == "random", "no Gaussian feature is more important than another"
    rng = np.random.default_rng([seed, round(100 * separation)])
    truth = rng.integers(K, size=PARTIES * ROWS)
    centres = separation * rng.normal(size=(K, FEATURES))
    X = centres[truth] + rng.normal(size=(len(truth), FEATURES))
    masks = mask_features(FEATURES, PARTIES, layout=layout, random_state=rng)
    return Case(Split.of(X, truth, partition(len(X), PARTIES, random_state=rng), masks), centres)
