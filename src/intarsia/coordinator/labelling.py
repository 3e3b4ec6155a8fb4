"""Requests for labels by the clusters of a model, over the features that each participant has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from intarsia.coordinator.members import Members
from intarsia.core.distances import Extent
from intarsia.core.mixture import Mixture
from intarsia.core.types import IntArray
from intarsia.protocol import Centres, Gaussians, Label, Request
from intarsia.results.outcome import GlobalModel


def label_requests(
    members: Members, model: GlobalModel, names: Iterable[str], *, spread: bool = True, tails: bool = False
) -> dict[str, Request]:
    """Ask participants to label rows by the nearest centroid or, if the model has weights, the likeliest Gaussian.

    ``members`` may have more features at the end than the model, which no cluster knows. With ``spread``, the replies also
    have the spread of values around the centroids, with ``tails`` counts of rows by distance.
    """
    model = wider(model, len(members.space))
    mixture = None if model.weights is None else model.mixture(model.weights)
    return {
        name: Label(
            centres=_centres(model, index := members.index(name)),
            columns=members.columns_for(name),
            gaussians=None if mixture is None else _gaussians(mixture.on(index)),
            spread=spread,
            tails=tails,
        )
        for name in names
    }


def centres_of(members: Members, model: GlobalModel, name: str) -> Centres:
    """Return the centroids of a model over the features of one participant."""
    return _centres(wider(model, len(members.space)), members.index(name))


def gaussians_of(members: Members, model: GlobalModel, name: str) -> Gaussians | None:
    """Return the clusters of a model as Gaussians over the features of one participant; None if it labels by centroids."""
    model = wider(model, len(members.space))
    return None if model.weights is None else _gaussians(model.mixture(model.weights).on(members.index(name)))


def wider(model: GlobalModel, n_features: int) -> GlobalModel:
    """Return the model with more features at the end, which are unknown."""
    if not (new := n_features - len(model.space)):
        return model
    low, high = (np.pad(side, (0, new)) for side in model.extent)
    variances, cells = (np.pad(each, ((0, 0), (0, new))) for each in (model.variances, model.cells))
    centroids = model.centroids.wider(n_features)
    return replace(model, centroids=centroids, extent=Extent(low, high), variances=variances, cells=cells)


def _centres(model: GlobalModel, index: IntArray) -> Centres:
    centroids, (low, high) = model.centroids, model.extent
    return Centres(values=centroids.values[:, index], known=centroids.seen[:, index], low=low[index], high=high[index])


def _gaussians(part: Mixture) -> Gaussians:
    return Gaussians(
        means=part.means,
        variances=part.variances,
        seen=part.seen,
        weights=part.weights,
        overall=part.overall,
        width=part.width,
    )
