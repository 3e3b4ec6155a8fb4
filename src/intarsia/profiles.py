"""Who has what, and what tells a cluster from the others: facts about an outcome, from summaries alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.core.features import indicators
from intarsia.results import Outcome

LEAST_WITHIN = 0.01  # of the deviation over all rows


@dataclass(frozen=True)
class Separation:
    """How a feature tells a cluster from all others: ``difference`` is in standard deviations within clusters.

    They count as at least a hundredth of the deviation over all rows, so that a difference is never more than about 100.
    """

    cluster: int
    feature: str
    mean: float
    mean_of_others: float
    difference: float
    participants: tuple[str, ...]


@dataclass(frozen=True)
class Covered:
    """What one participant has of one column: ``absent`` if it has no such column at all, else how many cells are filled.

    ``missing`` is the share of its rows that lack a value in a column that it has; NaN where the column is absent.
    """

    participant: Hashable
    column: str
    rows: int
    filled: int
    absent: bool

    @property
    def missing(self) -> float:
        """The share of rows without a value."""
        return float("nan") if self.absent else 1.0 - self.filled / self.rows


def coverage_of(outcome: Outcome, names: tuple[str, ...], keys: Mapping[str, Hashable]) -> tuple[Covered, ...]:
    """Participants × columns; a column of categories is one column, whatever its levels."""
    if outcome.coverage is None:  # a file from before it was kept
        return ()
    model, found = outcome.model, []
    whole = {feature: column for column, own in model.levels.items() for feature in indicators({column: own})}
    columns = {whole.get(name, name): int(model.space.index([name])[0]) for name in names}
    for i, participant in enumerate(outcome.participants):
        for column, m in columns.items():
            filled, rows = int(outcome.coverage.filled[i, m]), int(outcome.coverage.rows[i])
            found.append(Covered(keys[participant], column, rows, filled, not outcome.masks[i, m]))
    return tuple(found)


def separations(outcome: Outcome, names: tuple[str, ...]) -> tuple[Separation, ...]:
    """Every cluster and feature that it and another cluster know, the largest difference first."""
    model, found = outcome.model, []
    centroids, values = model.centroids, model.values
    variances, cells = model.spread
    index = dict(zip(names, model.space.index(names).tolist(), strict=True))
    for name, m in index.items():
        counts, seen = centroids.counts[:, m], centroids.seen[:, m]
        if not model.extent.varies[m]:
            continue
        inside = float((cells[:, m] * variances[:, m]).sum() / max(cells[:, m].sum(), 1.0))
        mean = float(np.average(centroids.values[seen, m], weights=counts[seen]))
        between = float(np.average(np.square(centroids.values[seen, m] - mean), weights=counts[seen]))
        who = tuple(p for p, mask in zip(outcome.participants, outcome.masks, strict=True) if mask[m])
        for k in np.flatnonzero(seen):
            others = seen & (np.arange(len(seen)) != k)
            if not others.any():
                continue
            rest = float(np.average(values[others, m], weights=counts[others]))
            step = (float(values[k, m]) - rest) / float(model.scale[m])
            least = LEAST_WITHIN * float(np.sqrt(inside + between))
            size = step / max(float(np.sqrt(inside)), least) if least > 0 else 0.0
            found.append(Separation(int(k), name, float(values[k, m]), rest, float(size), who))
    return tuple(sorted(found, key=lambda s: (-abs(s.difference), s.cluster, s.feature)))
