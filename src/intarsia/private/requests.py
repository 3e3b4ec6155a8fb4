"""Requests of a private study to one participant: centroids of the model over its declared features."""

from __future__ import annotations

import numpy as np

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.private.synthetic import columns_of
from intarsia.protocol import AskSums, Centres, Columns, Gaussians, KeepLabels, Sketched
from intarsia.results.outcome import GlobalModel

_FARTHEST = 4.0  # declared units: where centroids are cut off


def round_request(model: GlobalModel, privacy: DifferentialPrivacy, sketch: Sketched, n: int) -> AskSums:
    """Return the request for noisy sums around the centroids of the model, in declared units."""
    numbers, levels = columns_of(privacy, sketch.features)
    units = privacy.units_of([*numbers, *levels])
    shape = (len(model.centroids), len(sketch.features))
    centres, known, scales = np.zeros(shape), np.zeros(shape, dtype=np.bool_), np.ones(shape[1])
    at = np.array([feature in model.space for feature in sketch.features])
    index = model.space.index([feature for feature in sketch.features if feature in model.space])
    original = model.centroids.values[:, index] * model.scale[index] + model.shift[index]
    centres[:, at] = np.clip((original - units.shift[at]) / units.scale[at], -_FARTHEST, _FARTHEST)
    known[:, at] = model.centroids.seen[:, index]
    scales[at] = np.clip(model.scale[index] / units.scale[at], 1e-9, 1e9)
    return AskSums(round=n, centres=np.where(known, centres, 0.0), known=known, scales=scales, radius=sketch.radius)


def label_request(model: GlobalModel, privacy: DifferentialPrivacy, sketch: Sketched) -> KeepLabels:
    """Return the request to label rows by the clusters of the model."""
    numbers, levels = columns_of(privacy, sketch.features)
    levels = {name: tuple(level for level in each if f"{name}={level}" in model.space) for name, each in levels.items()}
    features = tuple(sorted((*numbers, *(f"{name}={level}" for name, each in levels.items() for level in each))))
    index = model.space.index(features)
    centroids, (low, high) = model.centroids, model.extent
    centres = Centres(
        values=centroids.values[:, index], known=centroids.seen[:, index], low=low[index], high=high[index]
    )
    gaussians = None
    if model.weights is not None:
        part = model.mixture(model.weights).on(index)
        gaussians = Gaussians(
            means=part.means, variances=part.variances, seen=part.seen,
            weights=part.weights, overall=part.overall, width=part.width,
        )  # fmt: skip
    return KeepLabels(
        centres=centres,
        gaussians=gaussians,
        columns=Columns(shift=model.shift[index], scale=model.scale[index], levels=levels),
    )
