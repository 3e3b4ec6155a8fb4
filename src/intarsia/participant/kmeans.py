"""scikit-learn's k-means, without the copy of a large table that it makes even with ``copy_x=False``, and with less to do
before small ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import cluster

from intarsia.core.pieces import by_columns
from intarsia.core.types import FloatArray, IntArray

_MANY = 100_000  # rows from which on the work outweighs the questions


class KMeans(cluster.KMeans):  # type: ignore[misc]  # scikit-learn has no types
    """The same to the last bit."""

    tol: float

    def _check_params_vs_input(self, X: FloatArray, *more: Any, **settings: Any) -> None:
        """Scale the tolerance by the mean variance, a few columns at a time. If nobody calls this, there is only a copy."""
        tol, self.tol = self.tol, 0.0
        super()._check_params_vs_input(X, *more, **settings)
        self.tol = tol
        self._tol = tol * np.mean(np.concatenate([np.var(X[:, some], axis=0) for some in by_columns(*X.shape)]))

    def _init_centroids(
        self,
        X: Any,
        x_squared_norms: Any,
        init: Any,
        random_state: Any,
        sample_weight: Any,
        *more: Any,
        **settings: Any,
    ) -> Any:
        """k-means++ with scikit-learn's own draws, but for what it asks about its input before every distance.

        That is a third of its time on a few thousand rows. If nobody calls this, it only takes longer.
        """
        plain = isinstance(X, np.ndarray) and X.dtype == np.float64 and isinstance(init, str) and init == "k-means++"
        if not plain or more or settings or len(X) >= _MANY or self.n_clusters > len(X):
            return super()._init_centroids(X, x_squared_norms, init, random_state, sample_weight, *more, **settings)
        return X[plus_plus(X, x_squared_norms, sample_weight, self.n_clusters, random_state)]


def plus_plus(
    X: FloatArray, squares: FloatArray, weight: FloatArray, n_clusters: int, random_state: np.random.RandomState
) -> IntArray:
    """Which rows greedy k-means++ draws: of a few candidates each time the one that lowers the sum of squares most.

    Arthur and Vassilvitskii (2007), as scikit-learn has it; the order of every sum and of every draw is the same.
    """
    chosen = [int(random_state.choice(len(X), p=weight / weight.sum()))]
    closest = _squared_distances(X, squares, chosen)[0]
    total = closest @ weight
    for _ in range(1, n_clusters):
        draws = random_state.uniform(size=2 + int(np.log(n_clusters))) * total
        candidates = np.minimum((weight * closest).cumsum().searchsorted(draws), len(X) - 1)
        apart = _squared_distances(X, squares, candidates)
        np.minimum(closest, apart, out=apart)
        totals = apart @ weight[:, None]
        best = int(totals.argmin())
        total, closest = totals[best], apart[best]
        chosen.append(int(candidates[best]))
    return np.array(chosen)


def _squared_distances(X: FloatArray, squares: FloatArray, some: Any) -> FloatArray:
    """From some of the rows to all."""
    picked = X[some]
    apart = np.multiply((X @ np.ascontiguousarray(picked.T)).T, -2.0, order="C")  # twice as fast as the other way round
    apart += np.einsum("ij,ij->i", picked, picked)[:, None]
    apart += squares
    return np.asarray(np.maximum(apart, 0.0, out=apart))
