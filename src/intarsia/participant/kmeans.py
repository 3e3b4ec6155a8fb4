"""scikit-learn's k-means, without the copy of a large table that it makes even with ``copy_x=False``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import cluster

from intarsia.core.pieces import by_columns
from intarsia.core.types import FloatArray


class KMeans(cluster.KMeans):  # type: ignore[misc]  # scikit-learn has no types
    """The same to the last bit."""

    tol: float

    def _check_params_vs_input(self, X: FloatArray, *more: Any, **settings: Any) -> None:
        """Scale the tolerance by the mean variance, a few columns at a time. If nobody calls this, there is only a copy."""
        tol, self.tol = self.tol, 0.0
        super()._check_params_vs_input(X, *more, **settings)
        self.tol = tol
        self._tol = tol * np.mean(np.concatenate([np.var(X[:, some], axis=0) for some in by_columns(*X.shape)]))
