"""Whom the centroids follow: the share of each participant in the weighted rows behind them."""

from __future__ import annotations

import numpy as np

from intarsia.core.types import FloatArray
from intarsia.results.outcome import Outcome


def shares_by_cluster(outcome: Outcome) -> FloatArray:
    """Return participants × clusters: the share in the weighted rows of a cluster; NaN for a cluster without rows.

    In a study with secure sums, rows are those of the first summaries: later ones are known as totals only.
    """
    weighted = _weighted(outcome)
    total = weighted.sum(axis=0)
    nobody = np.full(weighted.shape, np.nan)
    return np.asarray(np.divide(weighted, total, out=nobody, where=total > 0))


def shares(outcome: Outcome) -> FloatArray:
    """Return the share of each participant in the weighted rows of all clusters together; NaN if there are none."""
    weighted = _weighted(outcome).sum(axis=1)
    return np.asarray(weighted / weighted.sum()) if weighted.sum() > 0 else np.full(len(weighted), np.nan)


def dominant_above(n_participants: int) -> float:
    """Return the share above which one participant dominates: halfway between an equal share and everything.

    >>> [round(dominant_above(n), 2) for n in (2, 4, 20)]
    [0.75, 0.62, 0.53]
    """
    return (1.0 + 1.0 / n_participants) / 2.0


def _weighted(outcome: Outcome) -> FloatArray:
    return np.array(
        [np.asarray(outcome.sizes[name]) * outcome.row_weights.get(name, 1.0) for name in outcome.participants],
        dtype=np.float64,
    ).reshape(len(outcome.participants), -1)
