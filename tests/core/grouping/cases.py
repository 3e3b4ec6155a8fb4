"""Local centroids with known groups, and the options of a search over them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.local_centroids import LocalCentroids
from intarsia.core.grouping.objective import SearchLimits
from intarsia.core.grouping.search import SearchOptions
from intarsia.core.randomness import stream


def streams(k):
    return stream(0, "test", k)


def masks_of(local):
    return np.array([local.centroids.seen[local.owner == i].any(axis=0) for i in range(local.owner.max() + 1)])


def options(local, n_starts, n_jobs=1, stream=streams, **limits):
    return SearchOptions(masks_of(local), n_starts, stream, n_jobs, SearchLimits(**limits))


def line(points, owner, d=1):
    values = np.array(points, dtype=float).reshape(-1, d)
    return LocalCentroids(MaskedCentroids.of(values, np.ones(values.shape)), np.array(owner))


def planted(rng, n=5, k=3, d=6, noise=0.05):
    """n participants that each have half of the features, with k well separated clusters."""
    truth = rng.normal(size=(k, d)) * 3
    values, counts, owner, label = [], [], [], []
    for i in range(n):
        seen = np.zeros(d, dtype=bool)
        seen[[0, 1 + i % (d - 1), 1 + (i + 1) % (d - 1)]] = True
        for g in rng.permutation(k):
            values.append(truth[g] + noise * rng.normal(size=d))
            counts.append(np.where(seen, 10, 0))
            owner.append(i)
            label.append(g)
    return LocalCentroids(MaskedCentroids.of(np.array(values), np.array(counts)), np.array(owner)), np.array(label)


@st.composite
def many_centroids(draw):
    """A few dozen participants with a few clusters each, tied or not, some of whom have few features."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, k = draw(st.integers(2, 40)), draw(st.integers(2, 12)), draw(st.integers(1, 5))
    sizes = rng.integers(1, k + 1 + draw(st.sampled_from([0, 2])), size=n)
    owner = np.repeat(np.arange(n), sizes)
    centres = rng.normal(size=(k, d)) * 3
    values = np.concatenate([centres[rng.permutation(np.arange(size) % k)] for size in sizes])
    values += draw(st.sampled_from([0.0, 0.1, 1.0, 10.0])) * rng.normal(size=values.shape)
    seen = rng.random((n, d)) < draw(st.sampled_from([0.2, 0.5, 1.0]))
    counts = seen[owner] * rng.integers(1, 30, size=values.shape)
    counts[rng.random(counts.shape) < draw(st.sampled_from([0.0, 0.1]))] = 0
    if draw(st.booleans()):
        values, counts = np.round(values), np.where(counts > 0, 4, 0)  # ties; sums of a power of two are exact
    values *= 10.0 ** rng.integers(-3, 4, size=d) if draw(st.booleans()) else 1.0
    metric = draw(st.sampled_from(["euclidean", "manhattan"]))
    return LocalCentroids(MaskedCentroids.of(values, counts), owner, metric), min(k, len(owner))
