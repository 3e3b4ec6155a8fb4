"""Global clusters as a participant receives them: centroids, and Gaussians around them."""

from __future__ import annotations

from intarsia.protocol.wire import Array, Part


class Centres(Part, frozen=True):
    """Global centroids over the receiver's features, which entries are known, and the extent distances divide by."""

    values: Array
    known: Array
    low: Array
    high: Array


class Gaussians(Part, frozen=True):
    """Global clusters as Gaussians with independent features, over the receiver's; see :mod:`intarsia.core.mixture`."""

    means: Array
    variances: Array
    seen: Array
    weights: Array
    overall: Array
    width: Array
