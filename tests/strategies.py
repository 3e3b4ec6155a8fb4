"""Hypothesis strategies: local centroids in the shapes that make trouble."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.local_centroids import LocalCentroids

FEW = settings(max_examples=max(settings.default.max_examples // 4, 1))  # of laws that take long to check
SHAPES = ("chain", "core", "disjoint_pairs", "one_feature_overlap", "complete")


def masks(shape: str, n: int, d: int) -> np.ndarray:
    result = np.zeros((n, d), dtype=bool)
    if shape == "complete":
        result[:] = True
    elif shape == "core":
        result[:, 0] = True
        result[np.arange(n), 1 + np.arange(n) % (d - 1)] = True
    else:
        width = {"chain": 3, "disjoint_pairs": 2, "one_feature_overlap": 2}[shape]
        step = 1 if shape == "one_feature_overlap" else 2
        for i in range(n):
            for k in range(width):
                result[i, (i * step + k) % d] = True
    return result


@st.composite
def local_centroids(draw, metric="euclidean", shapes=SHAPES):
    """n participants with up to K clusters each; sometimes a constant feature, duplicates, or a hidden entry."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 5)), draw(st.integers(3, 8))
    k = draw(st.integers(1, 4))
    seen = masks(draw(st.sampled_from(shapes)), n, d)
    most = k + draw(st.sampled_from([0, 0, 2]))  # sometimes somebody has more clusters than are wanted
    sizes = [draw(st.integers(1, most)) for _ in range(n)]
    owner = np.repeat(np.arange(n), sizes)
    values = rng.normal(size=(len(owner), d)) * 10.0 ** draw(st.integers(-3, 3))
    counts = rng.integers(1, 50, size=(len(owner), d)) * seen[owner]
    if draw(st.booleans()):
        values[:, rng.integers(d)] = 7.0  # constant over all
    if draw(st.booleans()) and len(owner) > 1:
        counts[rng.integers(len(owner)), rng.integers(d)] = 0  # hidden although the participant has the column
    if draw(st.booleans()) and len(owner) > 1:
        # duplicates on integers with counts of a power of two: every sum is exact, so that ties are real ties
        values, counts = np.round(values / np.abs(values).max() * 2), np.where(counts > 0, 4, 0)
        values[rng.integers(len(owner))] = values[rng.integers(len(owner))]
    counts[counts.sum(axis=1) == 0, 0] = 1
    return LocalCentroids(MaskedCentroids.of(values, counts), owner, metric), min(k, len(owner))
