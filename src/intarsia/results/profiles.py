"""Which participant has which column, and which features separate clusters, from summaries alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.core.features import indicators
from intarsia.results.outcome import Outcome
from intarsia.results.privacy import centroid_errors, known

LEAST_WITHIN = 0.01  # of the deviation over all rows


@dataclass(frozen=True)
class Separation:
    """How a feature separates a cluster from all others: ``difference`` is in standard deviations within clusters.

    They count as at least a hundredth of the deviation over all rows, so that a difference is never more than about 100.
    ``error`` is the standard deviation that the noise of a private study gives the mean; None where none is known.
    """

    cluster: int
    feature: str
    mean: float
    mean_of_others: float
    difference: float
    participants: tuple[str, ...]
    error: float | None = None


@dataclass(frozen=True)
class Covered:
    """One column at one participant: ``absent`` if it does not have the column, else the number of values (``filled``).

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
    """Return an entry per participant and column; a column of categories is one column."""
    model, result = outcome.model, []
    column_of = {feature: column for column, own in model.levels.items() for feature in indicators({column: own})}
    columns = {column_of.get(name, name): int(model.space.index([name])[0]) for name in names}
    for i, participant in enumerate(outcome.participants):
        for column, m in columns.items():
            filled, rows = int(outcome.coverage.filled[i, m]), int(outcome.coverage.rows[i])
            result.append(Covered(keys[participant], column, rows, filled, not outcome.masks[i, m]))
    return tuple(result)


def separations(outcome: Outcome, names: tuple[str, ...]) -> tuple[Separation, ...]:
    """Return an entry per cluster and feature that another cluster has too, the largest difference first."""
    model, index = outcome.model, outcome.model.space.index(names)
    seen, counts = model.centroids.seen[:, index], model.centroids.counts[:, index]
    values = np.where(seen, model.values[:, index], 0.0)
    variances, cells = model.variances[:, index], model.cells[:, index]
    total = counts.sum(axis=0)
    inside = (cells * variances).sum(axis=0) / np.maximum(cells.sum(axis=0), 1.0)
    own = np.where(seen, model.centroids.values[:, index], 0.0)
    mean = (counts * own).sum(axis=0) / np.where(total > 0, total, 1.0)
    between = (counts * np.square(own - mean)).sum(axis=0) / np.where(total > 0, total, 1.0)
    # sums around the mean of all keep the digits when values are large and close together
    middle = mean * model.scale[index] + model.shift[index]
    offsets = np.where(seen, values - middle, 0.0)
    others = total - counts
    comparable = seen & (seen.sum(axis=0) > 1) & (others > 0) & model.extent.varies[index]
    if outcome.secure is not None:  # the spread of columns that were in no sum is not known
        comparable &= cells.sum(axis=0) > 0
    rest = middle + ((counts * offsets).sum(axis=0) - counts * offsets) / np.where(others > 0, others, 1.0)
    least = LEAST_WITHIN * np.sqrt(inside + between)
    within = np.maximum(np.sqrt(inside), least)
    size = np.divide((values - rest) / model.scale[index], within, out=np.zeros(values.shape), where=least > 0)
    masks = outcome.masks[:, index]
    who = {
        m: tuple(outcome.participants[i] for i in np.flatnonzero(masks[:, m]))
        for m in np.flatnonzero(comparable.any(axis=0)).tolist()
    }
    errors = centroid_errors(outcome.privacy, *model.centroids.values.shape)[:, index]
    result = [
        Separation(k, names[m], float(values[k, m]), float(rest[k, m]), float(size[k, m]), who[m], known(errors[k, m]))
        for m, k in np.argwhere(comparable.T).tolist()
    ]
    return tuple(sorted(result, key=lambda s: (-abs(s.difference), s.cluster, s.feature)))
