"""The splits that measurements are made on: which data, who holds which rows, who sees which features.

Features are dealt at random: a user cannot choose who measures what.
"""

from __future__ import annotations

import numpy as np

from intarsia.datasets import Split, choose_holders, fetch_dim_set, fetch_har, fetch_qmnist, mask_features, partition

LAYOUTS = ("chain", "core")


def dim_split(layout: str, seed: int, dimension: int = 128, n: int = 10) -> Split:
    """DIM-set. Chain: each cluster is held by 5 to 8 consecutive participants, rows at random. Core: by 4 to 7 random ones,
    rows sorted by the first coordinate, so that local versions of a cluster are biased.
    """
    data = fetch_dim_set(dimension)
    rng = np.random.default_rng([seed, dimension])
    masks = mask_features(dimension, n, layout=layout, random_state=rng)
    chain = layout == "chain"
    span = {"fewest": 5, "most": 8, "consecutive": True} if chain else {"fewest": 4, "most": 7}
    holders = choose_holders(data.truth, n, random_state=rng, **span)
    order = None if chain else data.X[:, 0]
    owner = partition(len(data.X), n, labels=data.truth, holders=holders, sort_by=order, random_state=rng)
    return Split.of(data.X, data.truth, owner, masks, data.feature_names)


def har_split(layout: str, seed: int, n: int = 30) -> Split:
    """HAR, 561 recomputed columns, walking and sitting. Chain: rows at random and evenly. Core: one subject each."""
    data = fetch_har(561)
    rng = np.random.default_rng(seed)
    masks = mask_features(data.X.shape[1], n, layout=layout, random_state=rng)
    owner = partition(len(data.X), n, groups=data.groups if layout == "core" else None, random_state=rng)
    return Split.of(data.X, data.truth, owner, masks, data.feature_names)


def qmnist_split(layout: str, seed: int, n: int = 10, n_rows: int = 7000, least: int = 8) -> Split:
    """QMNIST digits 0, 3, 7. Chain: ``n_rows`` rows at random and evenly. Core: one writer each, drawn at random among those
    with at least ``least`` of every digit.
    """
    data = fetch_qmnist()
    rng = np.random.default_rng(seed)
    masks = mask_features(data.X.shape[1], n, layout=layout, random_state=rng)
    if layout == "chain":
        rows = rng.permutation(len(data.X))[:n_rows]
        owner = partition(len(rows), n, random_state=rng)
        return Split.of(data.X[rows], data.truth[rows], owner, masks, data.feature_names)
    writers, which = np.unique(data.groups, return_inverse=True)
    counts = np.array(
        [np.bincount(which[data.truth == digit], minlength=len(writers)) for digit in np.unique(data.truth)]
    )
    chosen = rng.choice(np.flatnonzero(counts.min(axis=0) >= least), n, replace=False)
    rows = np.flatnonzero(np.isin(which, chosen))
    owner = partition(len(rows), n, groups=which[rows], random_state=rng)
    return Split.of(data.X[rows], data.truth[rows], owner, masks, data.feature_names)
