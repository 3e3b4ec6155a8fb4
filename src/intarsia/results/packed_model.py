"""A global model as bytes, as a job carries it to the server: all entries exactly, and nothing of any participant."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.tails import LEVELS
from intarsia.core.units import SCALES
from intarsia.exceptions import ModelFileError, ProtocolError
from intarsia.protocol.checks import MOST_ROWS
from intarsia.protocol.wire import Array, expect_array, pack_array, unpack_array
from intarsia.results.outcome import GlobalModel

_METRICS = ("euclidean", "manhattan", "cosine")


class _Packed(msgspec.Struct, frozen=True, eq=False, kw_only=True, forbid_unknown_fields=True):
    features: tuple[str, ...]
    values: Array
    counts: Array
    low: Array
    high: Array
    shift: Array
    scale: Array
    metric: str
    variances: Array
    cells: Array
    levels: dict[str, tuple[str, ...]]
    units: str | None
    weights: Array | None
    n_joined: int
    tails: Array | None


_SAME = ("shift", "scale", "metric", "variances", "cells", "levels", "units", "weights", "n_joined", "tails")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_DECODER = msgspec.msgpack.Decoder(_Packed, dec_hook=expect_array, ext_hook=unpack_array)


def packed(model: GlobalModel) -> bytes:
    """Return a model as bytes."""
    content = _Packed(
        features=model.space.names,
        values=model.centroids.values,
        counts=model.centroids.counts,
        low=model.extent.low,
        high=model.extent.high,
        **{name: getattr(model, name) for name in _SAME},
    )
    return _ENCODER.encode(content)


def unpacked_model(data: bytes) -> GlobalModel:
    """Return the model of :func:`packed`; raise a ModelFileError if the bytes are damaged or do not fit together."""
    try:
        content = _DECODER.decode(data)
    except (msgspec.DecodeError, ProtocolError, RecursionError, ValueError) as error:
        raise ModelFileError(f"the job's model cannot be read ({type(error).__name__}).") from None
    if (problem := _problem(content)) is not None:
        raise ModelFileError(f"the job's model is invalid: {problem}.")
    return GlobalModel(
        space=FeatureSpace(content.features),
        centroids=MaskedCentroids.of(content.values, content.counts),
        extent=Extent(content.low, content.high),
        **{name: getattr(content, name) for name in _SAME},
    )


def _problem(content: _Packed) -> str | None:
    d = len(content.features)
    if content.values.ndim != 2 or content.values.shape[1] != d or not content.values.size:
        return "there must be centroids over its features"
    wrong = next(_wrong_arrays(content, len(content.values), d), None)
    if wrong is not None:
        return wrong
    if len(set(content.features)) != d or not set(indicators(content.levels)) <= set(content.features):
        return "features repeat, or levels are not among them"
    if content.metric not in _METRICS or content.units not in SCALES or not 0 <= content.n_joined < d:
        return "the metric, the units or the number of joined features are unknown"
    return None


def _wrong_arrays(content: _Packed, k: int, d: int) -> Iterator[str]:
    """Yield what is wrong with arrays; the extent of a feature that no cluster has is unknown."""
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("values", "counts", "variances", "cells"), (k, d))
    shapes |= dict.fromkeys(("low", "high", "shift", "scale"), (d,)) | {"weights": (k,), "tails": (k, len(LEVELS))}
    for name, shape in shapes.items():
        array = getattr(content, name)
        if array is not None and (array.shape != shape or array.dtype.kind != "f"):
            yield f"{name} has the wrong shape or type"
    most = {"counts": MOST_ROWS, "cells": MOST_ROWS, "variances": LARGEST**2, "shift": LARGEST, "scale": LARGEST}
    for name, largest in most.items():
        if not (np.abs(getattr(content, name)) <= largest).all():
            yield f"{name} must be finite"
    if not (content.scale > 0).all() or not (np.abs(content.values[content.counts > 0]) <= LARGEST).all():
        yield "units must be positive, and centroids finite"
