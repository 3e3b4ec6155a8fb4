"""The rows that stand for a large table, and the order in which the rows of a small one are clustered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.blocks import by_rows, cleared
from intarsia.core.distances import extent_of
from intarsia.core.randomness import stream
from intarsia.core.types import FloatArray, IntArray
from intarsia.core.units import QUANTILES
from intarsia.tables.frame import Table

_FEWEST_ROWS = 2048  # of a sample, however wide the table is


@dataclass(frozen=True)
class Limits:
    """How many rows are held or computed with at a time. They bound memory; results hardly depend on them.

    Attributes
    ----------
    sample_rows, sample_values
        A larger table is represented by a sample of this size where k-means starts and where quantiles are computed.
    piece_values, piece_rows
        Values in one piece of a table on disk (2 MiB, which stay in the cache of a processor), but no fewer rows than this.
    fewest_rows
        Rows in one piece, where it would have fewer because rows are compared with many centres.
    """

    sample_rows: int = 1 << 16
    sample_values: int = 1 << 22
    piece_values: int = 1 << 18
    piece_rows: int = 512
    fewest_rows: int = 64

    def drawn(self, n_rows: int, n_columns: int) -> IntArray:
        """Return the positions of the sampled rows, in order; all positions if the table is no larger than the sample."""
        size = min(n_rows, self.sample_rows, max(_FEWEST_ROWS, self.sample_values // max(n_columns, 1)))
        if size == n_rows:
            return np.arange(n_rows)
        return np.sort(stream(0, "sample of rows").choice(n_rows, size, replace=False))


LIMITS = Limits()


def canonical_order(table: Table) -> IntArray:
    """Return an order of the rows that depends on their content only, in any units: by a fixed mix of their values."""
    weight = stream(0, "order of rows").normal(size=(2, len(table.names)))
    extent = extent_of(table.values, table.observed)
    width = np.where(extent.width > 0, extent.width, 1.0)
    mixed = np.empty(len(table))
    for at in by_rows(*table.values.shape):
        observed = table.observed[at]
        values = cleared(table.values[at] - extent.low, observed)
        values /= width
        values *= weight[0]
        values += weight[1] if observed.all() else observed * weight[1]
        mixed[at] = values.sum(axis=1)
    return np.argsort(mixed, kind="stable")


def quantiles_of(sample: Table, mean: FloatArray) -> FloatArray:
    """Return the quantiles of each column of a sample; the mean of the whole column if the sample has none of its values."""
    result = np.zeros((len(QUANTILES), len(sample.names)))
    for m in range(len(sample.names)):
        values = sample.values[sample.observed[:, m], m]
        result[:, m] = np.quantile(values, QUANTILES) if len(values) else mean[m]
    return np.maximum.accumulate(result, axis=0)  # between equal values rounding may step back by a last digit
