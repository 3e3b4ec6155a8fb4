"""Which participant has which column, and which features separate clusters, from summaries alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.features import indicators
from intarsia.core.types import FloatArray
from intarsia.results.outcome import GlobalModel, Outcome
from intarsia.results.privacy import centroid_errors, known

LEAST_WITHIN = 0.01  # of the deviation over all rows


@dataclass(frozen=True)
class Separation:
    """How a feature separates a cluster from all others: ``difference`` is in standard deviations within clusters.

    They count as at least a hundredth of the deviation over all rows, so that a difference is never more than about 100.
    ``participants`` measured the feature; a public model does not name them.
    ``name`` is that of the cluster, if it was given one. ``error`` is the standard deviation that the noise of a
    private study gives the mean; None where none is known.
    """

    cluster: int
    feature: str
    mean: float
    mean_of_others: float
    difference: float
    participants: tuple[str, ...]
    error: float | None = None
    name: str | None = None


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


class Comparison(NamedTuple):
    """By cluster and feature, the mean of all other clusters, NaN where nothing can be compared; by feature, the deviation.

    The deviation is that within clusters, in common units.
    """

    rest: FloatArray
    within: FloatArray


def comparison_of(model: GlobalModel, names: tuple[str, ...], *, all_spreads: bool = True) -> Comparison:
    """Compare each cluster with all others, by features in the order of ``names``.

    Unless ``all_spreads`` of the features are known, those without one are not compared.
    """
    index = model.space.index(names)
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
    if not all_spreads:
        comparable &= cells.sum(axis=0) > 0
    rest = middle + ((counts * offsets).sum(axis=0) - counts * offsets) / np.where(others > 0, others, 1.0)
    least = LEAST_WITHIN * np.sqrt(inside + between)
    return Comparison(np.where(comparable, rest, np.nan), np.maximum(np.sqrt(inside), least))


def separations(outcome: Outcome, names: tuple[str, ...]) -> tuple[Separation, ...]:
    """Return an entry per cluster and feature that another cluster has too, the largest difference first."""
    index = outcome.model.space.index(names)
    masks = outcome.masks[:, index]
    who = [tuple(outcome.participants[i] for i in np.flatnonzero(holders)) for holders in masks.T]
    errors = centroid_errors(outcome.privacy, *outcome.model.centroids.values.shape)[:, index]
    # with secure sums, the spread of columns that were in no sum is not known
    compared = comparison_of(outcome.model, names, all_spreads=outcome.secure is None)
    return separations_by(compared, outcome.model, names, errors, who)


def separations_by(
    compared: Comparison,
    model: GlobalModel,
    names: tuple[str, ...],
    errors: FloatArray,
    who: Sequence[tuple[str, ...]] | None = None,
) -> tuple[Separation, ...]:
    """Return the separations that a comparison shows; all arrays have the features in the order of ``names``."""
    index = model.space.index(names)
    values, (rest, within) = model.values[:, index], compared
    size = np.divide((values - rest) / model.scale[index], within, out=np.zeros(values.shape), where=within > 0)
    result = [
        Separation(
            k,
            names[m],
            float(values[k, m]),
            float(rest[k, m]),
            float(size[k, m]),
            () if who is None else who[m],
            known(errors[k, m]),
            model.named.get(k),
        )
        for m, k in np.argwhere(~np.isnan(rest).T).tolist()
    ]
    return tuple(sorted(result, key=lambda s: (-abs(s.difference), s.cluster, s.feature)))
