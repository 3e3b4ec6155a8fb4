"""scikit-learn's k-means, with all restarts of k-means++ at once.

It overrides a private method, because it saves a quarter of the time of a whole run: on 10 participants × 1,000 rows × 10
columns 0.27 s instead of 0.37 s (federated, K=5), 17.8 s instead of 23.5 s (K="auto"). Where a version of
scikit-learn does not call this method, results are the same and only take longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import cluster

from intarsia.core.types import FloatArray, IntArray

_MANY = 20_000  # rows, from which on the distances take longer than the calls


class KMeans(cluster.KMeans):  # type: ignore[misc]  # scikit-learn has no types
    """scikit-learn's k-means; only the last digits of the distances in k-means++ differ."""

    _starts: list[FloatArray] | None = None

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
        """Run k-means++ with scikit-learn's random draws for all restarts at once; no draw depends on another restart.

        On a few thousand rows, the calls take longer than the distances.
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
            self._starts = [X[drawn] for drawn in rows[::-1]]
        return self._starts.pop()


def plus_plus(
    X: FloatArray,
    squares: FloatArray,
    weight: FloatArray,
    n_clusters: int,
    n_init: int,
    random_state: np.random.RandomState,
) -> IntArray:
    """Return the rows that greedy k-means++ draws, one line for each restart.

    Each time the best of a few candidates is taken (Arthur and Vassilvitskii, 2007, as in scikit-learn). Random numbers are
    drawn in the order in which successive restarts would draw them.
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


def _squared_distances(X: FloatArray, squares: FloatArray, wide: FloatArray, chosen: IntArray) -> FloatArray:
    """Return the squared distances from selected rows to all rows."""
    picked = np.column_stack([-2.0 * X[chosen], np.ones(len(chosen)), squares[chosen]])
    apart = picked @ wide
    return np.asarray(np.maximum(apart, 0.0, out=apart))
