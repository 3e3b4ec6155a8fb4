"""scikit-learn's k-means, without the copy of a large table that it makes even with ``copy_x=False``, and with less to do
for many starts of small ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import cluster

from intarsia.core.blocks import by_columns
from intarsia.core.types import FloatArray, IntArray

_MANY = 20_000  # rows from which on the work outweighs the calls


class KMeans(cluster.KMeans):  # type: ignore[misc]  # scikit-learn has no types
    """The same, but for the last digits of distances that k-means++ draws by."""

    tol: float
    _starts: list[FloatArray] | None = None

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
        """k-means++ with scikit-learn's own draws, for all restarts at once: what they draw next depends on no other.

        On a few thousand rows, calls take longer than distances. If nobody calls this, it only takes longer.
        """
        plain = isinstance(X, np.ndarray) and X.dtype == np.float64 and isinstance(init, str) and init == "k-means++"
        if (
            not plain
            or more
            or settings
            or len(X) >= _MANY
            or self.n_clusters > len(X)
            or not isinstance(self.n_init, int)
        ):
            return super()._init_centroids(X, x_squared_norms, init, random_state, sample_weight, *more, **settings)
        if not self._starts:
            rows = plus_plus(X, x_squared_norms, sample_weight, self.n_clusters, self.n_init, random_state)
            self._starts = [X[some] for some in rows[::-1]]
        return self._starts.pop()


def plus_plus(
    X: FloatArray,
    squares: FloatArray,
    weight: FloatArray,
    n_clusters: int,
    n_init: int,
    random_state: np.random.RandomState,
) -> IntArray:
    """Which rows greedy k-means++ draws: of a few candidates each time the one that lowers the sum of squares most.

    Arthur and Vassilvitskii (2007), as scikit-learn has it; one line for each restart, with the draws that each would make
    after the one before.
    """
    n_tries, chance = 2 + int(np.log(n_clusters)), weight / weight.sum()
    chosen, draws = np.empty((n_init, n_clusters), dtype=np.intp), np.empty((n_init, n_clusters, n_tries))
    for r in range(n_init):
        chosen[r, 0] = random_state.choice(len(X), p=chance)
        for c in range(1, n_clusters):
            draws[r, c] = random_state.uniform(size=n_tries)
    # −2 x·c + |x|² + |c|² in one product
    wide = np.column_stack([X, squares, np.ones(len(X))]).T.copy()
    closest = _squared_distances(X, squares, wide, chosen[:, 0])
    total, each = closest @ weight, np.arange(n_init)
    candidates = np.empty((n_init, n_tries), dtype=np.intp)
    for c in range(1, n_clusters):
        below = np.cumsum(closest * weight, axis=1)
        for r in range(n_init):
            candidates[r] = below[r].searchsorted(draws[r, c] * total[r])
        np.minimum(candidates, len(X) - 1, out=candidates)
        apart = _squared_distances(X, squares, wide, candidates.ravel()).reshape(n_init, n_tries, len(X))
        np.minimum(closest[:, None], apart, out=apart)
        totals = apart @ weight
        best = totals.argmin(axis=1)
        total, closest, chosen[:, c] = totals[each, best], apart[each, best], candidates[each, best]
    return chosen


def _squared_distances(X: FloatArray, squares: FloatArray, wide: FloatArray, some: IntArray) -> FloatArray:
    """From some of the rows to all."""
    picked = np.column_stack([-2.0 * X[some], np.ones(len(some)), squares[some]])
    apart = picked @ wide
    return np.asarray(np.maximum(apart, 0.0, out=apart))
