"""One question of each kind for a table with d features, and rows without an offset."""

from __future__ import annotations

import numpy as np

from intarsia.core.private.questions import (
    ClusterSums,
    GridCounts,
    Moments,
    NormCounts,
    Projection,
    RoundSums,
    TotalSums,
)
from intarsia.core.rows import ArrayRows


def rows_of(values, piece_values=1 << 18):
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return ArrayRows(values, ~np.isnan(values), centred=False, piece_values=piece_values)


def question(kind, d, seed=0):
    rng = np.random.default_rng(seed)
    q, radius = min(2, d), 0.5 * np.sqrt(d)
    directions = np.linalg.qr(rng.normal(size=(d, q)))[0]
    projection = Projection(rng.normal(size=d) * 0.3, radius, directions)
    centres, scales = rng.normal(size=(3, d)), rng.uniform(0.5, 2.0, size=d)
    match kind:
        case "totals":
            return TotalSums(d)
        case "norms":
            return NormCounts(rng.normal(size=d))
        case "moments":
            return Moments(rng.normal(size=d) * 0.3, radius)
        case "products":
            return Moments(rng.normal(size=d) * 0.3, radius, products_only=True)
        case "grid":
            return GridCounts(projection, np.full(q, radius), 5)
        case "clusters":
            return ClusterSums(projection, rng.normal(size=(3, q)), centres, radius)
        case _:
            return RoundSums(centres, rng.random((3, d)) < 0.9, scales, radius)


KINDS = ("totals", "norms", "moments", "products", "grid", "clusters", "round")
