r"""k-means of a few rows with 1, 2, … clusters, each from the one before: fast and without random numbers.

The next centre is the row that lowers the sum of squares most (fast global k-means, Likas, Vlassis and Verbeek 2003): with
squared distances d of the rows to their nearest centre, the row y with the largest :math:`\sum_x \max(d_x - |x - y|^2, 0)`.
Then a few iterations of Lloyd follow. With missing values, squares are over the observed ones (k-POD).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray

MAX_ITER = 30
_TOLERANCE = 1e-4  # of the sum of squares: a smaller improvement ends the iterations


class Step(NamedTuple):
    """The labels of all rows, the centres, and the sum of squares around them."""

    labels: IntArray
    centres: FloatArray
    squares: float


class FewRows:
    """Rows × features in memory, 0 where a value is missing, with their squares and those of their products."""

    def __init__(self, values: FloatArray, observed: BoolArray) -> None:
        self.complete = bool(observed.all())
        self.observed = None if self.complete else observed.astype(np.float64)
        counts = np.maximum(observed.sum(axis=0), 1)
        values = np.where(observed, values, 0.0)
        self.mean = values.sum(axis=0) / counts
        self.values = np.where(observed, values - self.mean, 0.0)  # centred, so that products are exact enough
        self.total = np.einsum("ij,ij->i", self.values, self.values)

    def __len__(self) -> int:
        return len(self.values)

    def squares_to(self, centres: FloatArray) -> FloatArray:
        """Return the squared distances of all rows to centres, over the observed values."""
        squares = self.values @ (-2.0 * centres.T)
        squares += np.square(centres).sum(axis=1) if self.observed is None else self.observed @ np.square(centres).T
        squares += self.total[:, None]
        return np.asarray(np.maximum(squares, 0.0, out=squares))

    def means(self, labels: IntArray, before: FloatArray) -> FloatArray:
        """Return the mean of each cluster; where it has no value, the entry stays as before."""
        member = np.zeros((len(before), len(labels)))
        member[labels, np.arange(len(labels))] = 1.0
        counts = member.sum(axis=1)[:, None] if self.observed is None else member @ self.observed
        return np.where(counts > 0, (member @ self.values) / np.maximum(counts, 1.0), before)


def lloyd(rows: FewRows, centres: FloatArray, max_iter: int = MAX_ITER) -> Step:
    """Alternate between nearest centre and mean."""
    least = np.inf
    for _ in range(max_iter):
        apart = rows.squares_to(centres)
        labels = apart.argmin(axis=1)
        squares = float(apart[np.arange(len(rows)), labels].sum())
        if squares >= least * (1.0 - _TOLERANCE):
            break
        least, centres = squares, rows.means(labels, centres)
    return Step(labels, centres, squares)


def path(rows: FewRows, most: int, candidates: IntArray) -> Iterator[Step]:
    """Yield k-means with 1, 2, …, ``most`` clusters; only the candidates, rows by position, can become the next centre."""
    apart = np.ascontiguousarray(rows.squares_to(rows.values[candidates]).T)
    step = lloyd(rows, np.zeros((1, rows.values.shape[1])), 1)
    yield step
    for _ in range(1, most):
        nearest = rows.squares_to(step.centres).min(axis=1)
        gain = np.maximum(nearest - apart, 0.0).sum(axis=1)
        step = lloyd(rows, np.vstack([step.centres, rows.values[candidates[gain.argmax()]]]))
        yield step


def back(rows: FewRows, steps: Sequence[Step]) -> list[Step]:
    """Return the steps of a path, each replaced where the next one without a centre leads to a lower sum of squares.

    The centre is the one that costs least: the rows of its cluster go to their second nearest.
    """
    result = list(steps)
    for k in range(len(result) - 2, -1, -1):
        apart, larger = rows.squares_to(result[k + 1].centres), result[k + 1]
        nearest = np.partition(apart, 1, axis=1)
        cost = np.bincount(larger.labels, weights=nearest[:, 1] - nearest[:, 0], minlength=len(larger.centres))
        step = lloyd(rows, np.delete(larger.centres, cost.argmin(), axis=0))
        if step.squares < result[k].squares:
            result[k] = step
    return result


def agreement(first: IntArray, second: IntArray) -> float:
    """Return the adjusted Rand index of two clusterings of the same rows, with labels from 0 on.

    >>> agreement(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    >>> round(agreement(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), 3)
    -0.5
    """
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1.0)
    both, one, other, pairs = (
        float((n * (n - 1) / 2).sum())
        for n in (table, table.sum(axis=1), table.sum(axis=0), np.array([float(len(first))]))
    )
    expected = one * other / max(pairs, 1.0)
    most = (one + other) / 2
    return (both - expected) / (most - expected) if most > expected else 1.0
