"""What travels between the coordinator and a participant: a closed list of requests and replies.

Every message is frozen and typed, and :func:`encode` / :func:`decode` turn it into bytes and back (MessagePack).
Arrays travel as dtype, shape and raw bytes, never as pickles. Arrays about a participant's features are in the order
of the names that the participant gave.

A reply is content or :class:`Failure`, never both. ``suppressed`` says how much of it the participant's own rules held back:
columns, levels, clusters, entries.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from intarsia.exceptions import ProtocolError

PROTOCOL = 1
MOST_SETS = 8  # of centroids in one question
MOST_JOINT_LEVELS = 200  # of one column, over all participants
MOST_LOCAL_CLUSTERS = 1000  # of one participant: who groups them compares all with all
MOST_TEXT = 10_000  # letters of a failure
Array = npt.NDArray[Any]
_ARRAY_CODE = 1
_DTYPES = {b"f": np.dtype("<f8"), b"i": np.dtype("<i8"), b"b": np.dtype("|b1")}
_LETTER = {"f": b"f", "i": b"i", "b": b"b"}


class Message(msgspec.Struct, frozen=True, eq=False, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What every message has: the version of this list."""

    protocol: int = PROTOCOL


class Columns(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """How the receiver lays out its rows: an indicator for each of these levels of its columns of categories, features
    sorted by name, then common units, (x − shift) / scale.
    """

    shift: Array
    scale: Array
    levels: dict[str, tuple[str, ...]] = {}


class Moments(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Per feature: how many cells are observed, their mean and the sum of squared deviations from it (Welford's M2).

    For ``scale="minmax"`` also the smallest and the largest cell, for ``"robust"`` quantiles (levels × features).
    """

    count: Array
    mean: Array
    m2: Array
    low: Array | None = None
    high: Array | None = None
    quantiles: Array | None = None


class Centres(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Global centroids over the receiver's features, which entries are known, and the extent distances divide by."""

    values: Array
    known: Array
    low: Array
    high: Array


class Gaussians(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Global clusters as Gaussians with independent features, over the receiver's; see :mod:`intarsia.core.mixture`."""

    means: Array
    variances: Array
    seen: Array
    weights: Array
    overall: Array
    width: Array


class GaussianDensity(
    msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, tag_field="kind", tag="gaussian"
):
    """Around the centroid: 1-d for a diagonal covariance, 2-d for a full one."""

    covariance: Array


class LowRankDensity(
    msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, tag_field="kind", tag="low_rank"
):
    """Around the centroid: a covariance of diag(diagonal) + factors factorsᵀ."""

    diagonal: Array
    factors: Array


class DirichletDensity(
    msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, tag_field="kind", tag="dirichlet"
):
    """Shares of a total."""

    alpha: Array
    total: float


class DiscreteBlock(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Columns that are drawn together: outcomes × columns, and their probabilities."""

    columns: Array
    outcomes: Array
    probabilities: Array


class DiscreteDensity(
    msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True, tag_field="kind", tag="discrete"
):
    """Independent draws of codes and levels."""

    blocks: tuple[DiscreteBlock, ...]


AnyDensity = GaussianDensity | LowRankDensity | DirichletDensity | DiscreteDensity


# -- requests -----------------------------------------------------------------------------------------------------


class Describe(Message, frozen=True, tag="query.describe"):
    """Which columns do you have, and, for common units, what are their moments? ``scale`` says which are needed."""

    scale: str | None = None


class Summarize(Message, frozen=True, tag="query.summarize"):
    """Cluster your rows and describe the clusters.

    ``n_clusters`` is the number of global clusters, None if unknown. ``n_local_clusters`` fixes how many to look for;
    otherwise the participant chooses up to ``max_local_clusters``. Without ``columns`` it lays out its rows by its own
    levels, clusters them in units of its own (``scale``), reports in original units, and adds its moments. With
    ``n_proxies`` it measures how close so many points of each density are to the rows they stand for.
    """

    seed: int
    n_clusters: int | None
    n_local_clusters: int | None
    max_local_clusters: int
    columns: Columns | None = None
    scale: str | None = None
    density: str | None = None
    bounding_boxes: bool = False
    n_proxies: int = 0


class Refine(Message, frozen=True, tag="query.refine"):
    """Start from these global centroids, refine those that fit your rows, and send back which moved where.

    ``rivals`` are sets of centroids to start from, each on its own: more than one while the coordinator is in doubt which
    local clusters belong together.
    """

    seed: int
    round: int
    rivals: tuple[Centres, ...]
    min_points: int
    max_iter: int
    columns: Columns | None = None


class Label(Message, frozen=True, tag="query.label"):
    """Label your rows by the nearest of these centroids, or by the likeliest of ``gaussians`` around them, where there are.

    The labels stay with you.
    """

    centres: Centres
    gaussians: Gaussians | None = None
    columns: Columns | None = None


class Assign(Message, frozen=True, tag="query.assign"):
    """Label your rows by the group of their local cluster. The labels stay with you."""

    groups: Array
    n_groups: int


# -- replies ------------------------------------------------------------------------------------------------------


class Description(Message, frozen=True, tag="reply.description"):
    """Columns of numbers by name, columns of categories with their levels, and the number of rows."""

    features: tuple[str, ...]
    n_rows: int
    levels: dict[str, tuple[str, ...]] = {}
    moments: Moments | None = None
    suppressed: dict[str, int] = {}


class LocalSummary(Message, frozen=True, tag="reply.summary"):
    """All that leaves a participant about its clusters: centroid, count per feature, size, density, box.

    ``values`` and ``counts`` are clusters × features; an entry with count 0 is hidden. ``clarity`` is the mean silhouette of
    the least clear cluster, where the participant looked at silhouettes. ``densities`` has one entry per cluster, over the
    features that the cluster sees; ``fidelity`` (clusters × 4) how close each is. ``features`` are those that the rows were
    laid out by, ``levels`` the participant's own. ``n_rows`` counts all rows, noise and rows left out too, and ``filled``
    per feature the cells that are there.
    """

    features: tuple[str, ...]
    n_rows: int
    filled: Array
    values: Array
    counts: Array
    sizes: Array
    levels: dict[str, tuple[str, ...]] = {}
    clarity: float | None = None
    densities: tuple[AnyDensity, ...] | None = None
    fidelity: Array | None = None
    low: Array | None = None
    high: Array | None = None
    moments: Moments | None = None
    suppressed: dict[str, int] = {}


class Refined(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Refined centroids, in the order of the global ones, and how many rows stand behind each; 0 where there are none.

    ``misfit`` is the sum over all rows of the squared distance to the nearest centroid that was sent.
    """

    values: Array
    counts: Array
    sizes: Array
    misfit: float


class Refinement(Message, frozen=True, tag="reply.refinement"):
    """One answer for each set of centroids that was sent."""

    refined: tuple[Refined, ...]
    suppressed: dict[str, int] = {}


class Labelled(Message, frozen=True, tag="reply.labelled"):
    """How many of the participant's rows are in each global cluster.

    After :class:`Label` also, per cluster and feature, how many cells are filled and the sum of their squared deviations
    from the centroid that was sent.
    """

    sizes: Array
    counts: Array | None = None
    squares: Array | None = None
    suppressed: dict[str, int] = {}


class Failure(Message, frozen=True, tag="reply.failure"):
    """Something went wrong at the participant: the name of one of our exceptions, and a text without data in it."""

    error: str
    message: str


Request = Describe | Summarize | Refine | Label | Assign
Reply = Description | LocalSummary | Refinement | Labelled | Failure


def pack_array(thing: Any) -> msgspec.msgpack.Ext:
    """An array as dtype, shape and raw bytes."""
    if not isinstance(thing, np.ndarray) or thing.dtype.kind not in _LETTER:
        raise ProtocolError(f"a message cannot hold a {type(thing).__name__}")
    letter = _LETTER[thing.dtype.kind]
    plain = np.asarray(thing, dtype=_DTYPES[letter], order="C")
    head = letter + struct.pack(f"<B{plain.ndim}Q", plain.ndim, *plain.shape)
    return msgspec.msgpack.Ext(_ARRAY_CODE, head + plain.tobytes())


def unpack_array(code: int, data: memoryview) -> Array:
    """The array that :func:`pack_array` packed, or a ProtocolError."""
    raw = bytes(data)
    if code != _ARRAY_CODE or len(raw) < 2 or raw[:1] not in _DTYPES or raw[1] > 2:
        raise ProtocolError("an array in the message is not well formed")
    dtype, ndim = _DTYPES[raw[:1]], raw[1]
    if len(raw) < 2 + 8 * ndim:
        raise ProtocolError("an array in the message is cut off")
    shape = struct.unpack_from(f"<{ndim}Q", raw, 2)
    body = raw[2 + 8 * ndim :]
    if prod(shape) * dtype.itemsize != len(body):
        raise ProtocolError("an array in the message has not as many bytes as its shape says")
    if dtype.kind == "b" and body.strip(b"\x00\x01"):
        raise ProtocolError("an array of truth values in the message holds something else")
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def expect_array(_kind: type, thing: Any) -> Any:
    """What a field that should hold an array holds, if it is one."""
    if not isinstance(thing, np.ndarray):  # arrays are the only fields of a kind that msgspec does not know
        raise ProtocolError("a field of the message should hold an array")
    return thing


_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_REQUESTS = msgspec.msgpack.Decoder(Request, dec_hook=expect_array, ext_hook=unpack_array)
_REPLIES = msgspec.msgpack.Decoder(Reply, dec_hook=expect_array, ext_hook=unpack_array)


def encode(message: Request | Reply) -> bytes:
    """The message as bytes."""
    return _ENCODER.encode(message)


def decode_request(data: bytes) -> Request:
    """Bytes from a coordinator as one of our requests, or a ProtocolError."""
    return _checked(_REQUESTS, data)  # type: ignore[no-any-return]


def decode_reply(data: bytes) -> Reply:
    """Bytes from a participant as one of our replies, or a ProtocolError."""
    return _checked(_REPLIES, data)  # type: ignore[no-any-return]


def _checked(decoder: Any, data: bytes) -> Any:
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        # the decoder's own text may quote what it read
        raise ProtocolError(f"the message cannot be read ({type(error).__name__})") from None
    if message.protocol != PROTOCOL:
        raise ProtocolError(f"the message is of protocol version {message.protocol}; this side speaks {PROTOCOL}")
    if isinstance(message, Failure) and max(len(message.error), len(message.message)) > MOST_TEXT:
        raise ProtocolError("the message is a failure with a text far too long")
    return message
