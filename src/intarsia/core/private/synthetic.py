"""Synthetic rows that are drawn from the sketch of a table: they tell what the sketch tells, and nothing more."""

from __future__ import annotations

import numpy as np

from intarsia.core.private.questions import BOUND
from intarsia.core.private.sketch import Sketch
from intarsia.core.types import FloatArray


def synthetic_rows(sketch: Sketch, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw n rows from the mixture of the sketch, in declared units, clipped to the declared bounds."""
    values, vectors = np.linalg.eigh(sketch.covariance)
    labels = rng.choice(len(sketch.weights), size=n, p=sketch.weights)
    around = (rng.normal(size=(n, len(values))) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.clip(sketch.centroids[labels] + around, -BOUND, BOUND))
