"""Parts of requests as the participant computes with them, after they were checked against its table."""

from __future__ import annotations

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.mixture import Mixture
from intarsia.core.types import FloatArray
from intarsia.participant.samples import Units
from intarsia.protocol import Centres, Gaussians


def centroids_from(sent: Centres, n_features: int, most: int) -> tuple[MaskedCentroids, Extent]:
    """Return centroids, of which there may be ``most``, and the extent that distances are rescaled by."""
    sent.check(n_features, most)
    known = sent.known.astype(np.float64)
    return MaskedCentroids.of(sent.values, known), Extent(sent.low, sent.high)


def mixture_from(sent: Gaussians, centres: MaskedCentroids) -> Mixture:
    """Return the Gaussians of these clusters."""
    sent.check(*centres.values.shape)
    seen = sent.seen.astype(np.bool_)
    return Mixture(sent.means, sent.variances, sent.variances, seen, sent.weights, sent.overall, sent.width)


def units_of(shift: FloatArray, scale: FloatArray) -> Units | None:
    """Return units; None if they are those of the table."""
    return Units(shift, scale) if shift.any() or (scale != 1.0).any() else None
