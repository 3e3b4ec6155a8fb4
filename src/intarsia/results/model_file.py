"""A study as one file that lasts: no pickle inside, a version in front, a checksum over all.

::

    8 bytes   INTARSIA
    2 bytes   version of this layout, big-endian; 2
    32 bytes  SHA-256 of what follows
    the rest  one MessagePack map, :class:`Stored`; arrays as in :mod:`intarsia.protocol.wire`

A file holds what the coordinator knows: model, local clusters, rounds. Labels belong to whoever holds the rows, and are in
it only if asked for.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np

from intarsia._files import write_atomically
from intarsia._version import __version__
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import LARGEST, Extent
from intarsia.core.features import FeatureSpace, indicators
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.units import SCALES
from intarsia.exceptions import ModelFileError, OutputError, ProtocolError, SettingError
from intarsia.protocol.wire import Array, expect_array, pack_array, unpack_array
from intarsia.results.outcome import Aggregation, Coverage, GlobalModel, LocalCluster, Outcome, RoundInfo, RunRecord

MAGIC = b"INTARSIA"
VERSION = 2
_HEAD = len(MAGIC) + 2 + 32
MOST_ROWS = 2**53  # counts are exact up to here
KINDS_OF_ROUNDS = ("plain", "trial", "crosswise")
PHASES = ("describe", "summarize", "refine", "label", "assign")
_LONG = 100_000  # letters of a note
_METRICS = ("euclidean", "manhattan", "cosine")


class StoredTree(msgspec.Struct, frozen=True, eq=False):
    """A merge tree."""

    n_leaves: int
    merges: Array
    strengths: Array


class Stored(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Version 2. Fields that a later version adds are ignored by this one; those it lacks have defaults there."""

    written_by: str
    features: tuple[str, ...]
    names_in_order: tuple[str, ...]
    values: Array
    counts: Array
    low: Array
    high: Array
    shift: Array
    scale: Array
    metric: str
    participants: tuple[str, ...]
    masks: Array
    local_values: Array
    local_counts: Array
    owner: Array
    index: Array
    size: Array
    group: Array
    margin: Array
    aggregation: Aggregation
    rounds: tuple[RoundInfo, ...]
    converged: bool
    clarity: dict[str, float]
    sizes: dict[str, Array]
    tree: StoredTree | None
    silhouettes: dict[int, float]
    labels: dict[str, Array] | None = None
    local_labels: dict[str, Array] | None = None
    variances: Array | None = None
    cells: Array | None = None
    numbered: bool = False  # participants are known by position
    levels: dict[str, tuple[str, ...]] = {}
    units: str | None = None
    rows: Array | None = None
    filled: Array | None = None
    fidelity: Array | None = None
    weights: Array | None = None
    found: int | None = None
    leaves: tuple[LocalCluster, ...] = ()
    run: RunRecord | None = None
    strain: dict[str, float] = {}


Labels = Mapping[str, Array]

_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack_array)
_DECODER = msgspec.msgpack.Decoder(Stored, dec_hook=expect_array, ext_hook=unpack_array)


def save(
    path: str | os.PathLike[str],
    outcome: Outcome,
    names_in_order: tuple[str, ...],
    labels: Labels | None = None,
    local_labels: Labels | None = None,
    *,
    numbered: bool = False,
    run: RunRecord | None = None,
) -> None:
    """Write a whole file or none: beside the place first, then into it."""
    target = Path(path)
    stored = _stored(outcome, names_in_order, labels, local_labels, numbered=numbered, run=run)
    if (problem := next(_problems(stored), None)) is not None:
        raise ModelFileError(f"this study cannot be saved: {problem}.")
    body = _ENCODER.encode(stored)
    whole = MAGIC + struct.pack(">H", VERSION) + sha256(body).digest() + body
    try:
        write_atomically(target, whole)
    except OutputError as error:
        raise ModelFileError(str(error)) from error


def load(path: str | os.PathLike[str]) -> tuple[Outcome, Stored]:
    """Read and check a file that :func:`save` wrote."""
    where = Path(path)
    try:
        raw = where.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{where} cannot be read: {error.strerror}.") from error
    if raw[: len(MAGIC)] != MAGIC or len(raw) < _HEAD:
        raise ModelFileError(f"{where.name} is not a saved study: it does not begin like one ({len(raw)} bytes).")
    (version,) = struct.unpack_from(">H", raw, len(MAGIC))
    if not 1 <= version <= VERSION:
        raise ModelFileError(
            f"{where.name} is of version {version}; intarsia {__version__} reads up to {VERSION}. Hint: a newer intarsia."
        )
    body = raw[_HEAD:]
    if sha256(body).digest() != raw[len(MAGIC) + 2 : _HEAD]:
        raise ModelFileError(f"{where.name} is damaged: its checksum does not fit. Hint: copy or save it again.")
    try:
        stored = _DECODER.decode(body)
    except (msgspec.DecodeError, ProtocolError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{where.name} cannot be read ({type(error).__name__}).") from None
    if (problem := next(_problems(stored), None)) is not None:
        raise ModelFileError(f"{where.name} does not make sense: {problem}.")
    return _outcome(stored), stored


def _stored(
    outcome: Outcome,
    names_in_order: tuple[str, ...],
    labels: Labels | None,
    local_labels: Labels | None,
    *,
    numbered: bool,
    run: RunRecord | None,
) -> Stored:
    model, clusters = outcome.model, outcome.local_clusters
    if not isinstance(model.metric, str):
        raise SettingError("a study with a metric of your own cannot be saved: a file holds no code.")
    tree = outcome.merge_tree
    return Stored(
        written_by=__version__,
        features=model.space.names,
        names_in_order=names_in_order,
        values=model.centroids.values,
        counts=model.centroids.counts,
        low=model.extent.low,
        high=model.extent.high,
        shift=model.shift,
        scale=model.scale,
        metric=model.metric,
        variances=model.variances,
        cells=model.cells,
        participants=outcome.participants,
        masks=outcome.masks,
        local_values=outcome.local_centroids.values,
        local_counts=outcome.local_centroids.counts,
        owner=outcome.owner,
        index=np.array([c.index for c in clusters], dtype=np.intp),
        size=np.array([c.size for c in clusters], dtype=np.intp),
        group=outcome.groups,
        margin=np.array([c.margin for c in clusters], dtype=np.float64),
        aggregation=outcome.aggregation,
        rounds=outcome.rounds,
        converged=outcome.converged,
        clarity=dict(outcome.clarity),
        sizes={name: np.asarray(sizes) for name, sizes in outcome.sizes.items()},
        tree=None if tree is None else StoredTree(tree.n_leaves, tree.merges, tree.strengths),
        silhouettes=dict(outcome.silhouettes),
        labels=None if labels is None else dict(labels),
        local_labels=None if local_labels is None else dict(local_labels),
        numbered=numbered,
        levels=dict(model.levels),
        units=model.units,
        weights=model.weights,
        rows=None if outcome.coverage is None else outcome.coverage.rows,
        filled=None if outcome.coverage is None else outcome.coverage.filled,
        fidelity=outcome.fidelity,
        found=outcome.found,
        leaves=outcome.leaves,
        run=run,
        strain=dict(outcome.strain),
    )


def _outcome(stored: Stored) -> Outcome:
    model = GlobalModel(
        FeatureSpace(stored.features),
        MaskedCentroids.of(stored.values, stored.counts),
        Extent(stored.low, stored.high),
        stored.shift,
        stored.scale,
        stored.metric,
        stored.variances,
        stored.cells,
        stored.levels,
        stored.units,
        stored.weights,
    )
    clusters = tuple(
        LocalCluster(stored.participants[owner], int(index), int(size), int(group), float(margin))
        for owner, index, size, group, margin in zip(
            stored.owner, stored.index, stored.size, stored.group, stored.margin, strict=True
        )
    )
    return Outcome(
        model=model,
        participants=stored.participants,
        masks=stored.masks.astype(np.bool_),
        local_centroids=MaskedCentroids.of(stored.local_values, stored.local_counts),
        local_clusters=clusters,
        aggregation=stored.aggregation,
        clarity=stored.clarity,
        sizes=stored.sizes,
        rounds=stored.rounds,
        converged=stored.converged,
        merge_tree=None
        if stored.tree is None
        else MergeTree(stored.tree.n_leaves, stored.tree.merges, stored.tree.strengths),
        silhouettes=stored.silhouettes,
        fidelity=stored.fidelity,
        found=stored.found,
        leaves=stored.leaves,
        strain=stored.strain,
        coverage=None if stored.rows is None or stored.filled is None else Coverage(stored.rows, stored.filled),
    )


def _problems(stored: Stored) -> Iterator[str]:
    """What is wrong with a file whose bytes are right, in words. Later checks rely on what earlier ones found in order."""
    yield from _wrong_shapes(stored)
    yield from _wrong_names(stored)
    yield from _wrong_numbers(stored)
    yield from _wrong_counts(stored)
    yield from _wrong_coverage(stored)
    yield from _wrong_pointers(stored)
    yield from _wrong_tree(stored.tree, len(stored.leaves) or len(stored.owner))
    yield from _wrong_run(stored.run, set(stored.participants))


def _wrong_shapes(stored: Stored) -> Iterator[str]:
    if stored.values.ndim != 2 or stored.owner.ndim != 1:
        yield "values or owner have not the shape that they should"
        return
    d, k, n, m = len(stored.features), len(stored.values), len(stored.participants), len(stored.owner)
    expected: dict[str, tuple[tuple[int, ...], str]] = {
        **dict.fromkeys(("values", "counts"), ((k, d), "f")),
        **dict.fromkeys(("low", "high", "shift", "scale"), ((d,), "f")),
        **dict.fromkeys(("local_values", "local_counts"), ((m, d), "f")),
        **dict.fromkeys(("owner", "index", "size", "group"), ((m,), "i")),
        "margin": ((m,), "f"),
        "masks": ((n, d), "b"),
    }
    for name, (shape, kind) in expected.items():
        array = getattr(stored, name)
        if array.shape != shape or array.dtype.kind != kind:
            yield f"{name} has not the shape or type that it should"
    optional = {
        **dict.fromkeys(("variances", "cells"), ((k, d), "f")),
        "rows": ((n,), "i"),
        "filled": ((n, d), "i"),
        "fidelity": ((m, 4), "f"),
        "weights": ((k,), "f"),
    }
    for name, (shape, kind) in optional.items():
        maybe = getattr(stored, name)
        if maybe is not None and (maybe.shape != shape or maybe.dtype.kind != kind):
            yield f"{name} have not the shape or type that they should"
    if not all(sizes.shape == (k,) and sizes.dtype.kind == "i" for sizes in stored.sizes.values()):
        yield "sizes have not the shape or type that they should"
    if not (d and k and n and m):
        yield "features, clusters or participants are missing"


def _wrong_names(stored: Stored) -> Iterator[str]:
    if len(set(stored.features)) != len(stored.features) or len(set(stored.participants)) != len(stored.participants):
        yield "features or participants repeat"
    if sorted(stored.names_in_order) != sorted(stored.features):
        yield "the names in order are not the features"
    of_levels = indicators(stored.levels)
    some = all(own and column not in stored.features for column, own in stored.levels.items())
    if not some or len(set(of_levels)) != len(of_levels) or not set(of_levels) <= set(stored.features):
        yield "levels are not among the features"
    if stored.units not in SCALES or stored.units == "auto":
        yield "the units are none of ours"
    if stored.metric not in _METRICS:
        yield "the metric is none of ours"
    spoken_of = {
        *(leaf.participant for leaf in stored.leaves),
        *stored.clarity,
        *stored.strain,
        *stored.sizes,
        *(stored.labels or {}),
        *(stored.local_labels or {}),
    }
    if strangers := spoken_of - set(stored.participants):
        yield f"it speaks of {len(strangers)} participants that it does not list"
    if set(stored.sizes) != set(stored.participants):
        yield "it does not say how many rows of each participant are in each cluster"
    if not all(name.strip() for name in stored.features):
        yield "a feature has no name"
    if stored.numbered and not all(_is_number(name) for name in stored.participants):
        yield "participants known by position have names"


def _wrong_numbers(stored: Stored) -> Iterator[str]:
    for values, counts in ((stored.values, stored.counts), (stored.local_values, stored.local_counts)):
        if not ((counts >= 0) & (counts <= LARGEST)).all():
            yield "counts are not counts"
        if not (np.abs(values[counts > 0]) <= LARGEST).all():
            yield "centroids are not finite"
    divisible = (stored.scale >= 1 / LARGEST) & (stored.scale <= LARGEST)
    if not (np.abs(stored.shift) <= LARGEST).all() or not divisible.all():
        yield "units are not numbers to divide by"
    for name, maybe, most in (("variances", stored.variances, LARGEST**2), ("cells", stored.cells, LARGEST)):
        if maybe is not None and not ((maybe >= 0) & (maybe <= most)).all():
            yield f"{name} are not what they should be"
    if stored.weights is not None and not ((stored.weights > 0) & (stored.weights <= 1)).all():
        yield "weights are not shares"
    known = stored.local_counts.sum(axis=0) > 0
    if not (np.abs(stored.low[known]) <= LARGEST).all() or not (stored.low[known] <= stored.high[known]).all():
        yield "the extent is not one"


def _wrong_counts(stored: Stored) -> Iterator[str]:
    if not all(((sizes >= 0) & (sizes <= MOST_ROWS)).all() for sizes in stored.sizes.values()):
        yield "sizes are not sizes"
    counted = [stored.counts, stored.local_counts, *([] if stored.cells is None else [stored.cells])]
    if not all((part <= MOST_ROWS).all() for part in counted) or not (stored.size <= MOST_ROWS).all():
        yield "counts are beyond all rows that there can be"
    if not all(0 <= r.movement < LARGEST and r.kind in KINDS_OF_ROUNDS for r in stored.rounds):
        yield "rounds are not rounds"
    sure = stored.aggregation.confidence
    if not (np.isnan(sure) or 0 <= sure <= 1):
        yield "the confidence is none"
    most = len(stored.leaves) or len(stored.owner)
    if not all(1 <= k <= most and not np.isinf(v) for k, v in stored.silhouettes.items()):
        yield "silhouettes are of numbers of clusters that cannot be"
    if not all(0 <= n < np.inf for n in stored.strain.values()):
        yield "the strain is none"
    if stored.found is not None and not 1 <= stored.found <= MOST_ROWS:
        yield "the number of clusters that participants found is none"


def _wrong_coverage(stored: Stored) -> Iterator[str]:
    if stored.rows is not None and stored.filled is not None:
        inside = (stored.filled >= 0) & (stored.filled <= stored.rows[:, None])
        if not inside.all() or not (stored.rows > 0).all():
            yield "there are more filled cells than rows"


def _wrong_pointers(stored: Stored) -> Iterator[str]:
    inside = _inside(stored.owner, len(stored.participants)) and _inside(stored.group, len(stored.values))
    if not inside or (stored.size <= 0).any():
        yield "local clusters point to participants or groups that are not there"
    for name, labels in (stored.labels or {}).items():
        if labels.ndim != 1 or labels.dtype.kind != "i" or not _inside(labels[labels != -1], len(stored.values)):
            yield "labels are not labels"
        elif not np.array_equal(np.bincount(labels[labels >= 0], minlength=len(stored.values)), stored.sizes[name]):
            yield "labels and sizes do not agree"
    for labels in (stored.local_labels or {}).values():
        if labels.ndim != 1 or labels.dtype.kind != "i" or not _inside(labels[labels != -1], len(stored.owner)):
            yield "local labels are not labels"


def _wrong_tree(tree: StoredTree | None, n_leaves: int) -> Iterator[str]:
    if tree is None:
        return
    steps = len(tree.merges) if tree.merges.ndim else 0
    fits = tree.n_leaves == n_leaves > steps and tree.merges.shape == (steps, 2) and tree.strengths.shape == (steps,)
    fits = fits and tree.merges.dtype.kind == "i" and tree.strengths.dtype.kind == "f"
    if not fits or not ((tree.strengths > 0) & (tree.strengths < np.inf)).all():
        yield "the merge tree does not fit the local clusters"
        return
    born = n_leaves + np.arange(steps)[:, None]
    once = len(np.unique(tree.merges)) == tree.merges.size
    if not ((tree.merges >= 0) & (tree.merges < born)).all() or not once:
        yield "the merge tree is not a tree"


def _wrong_run(run: RunRecord | None, participants: set[str]) -> Iterator[str]:
    if run is None:
        return
    spoken_of = {entry.participant for entry in run.sent} | {entry.participant for entry in run.suppressed}
    for exchange in run.exchanges:
        for by_name in (exchange.seconds, exchange.bytes_in, exchange.bytes_out):
            spoken_of |= set(by_name)
            if not all(0 <= number < LARGEST for number in by_name.values()):
                yield "the record of the run holds seconds or bytes that are none"
    spoken_of |= set(run.differences)
    if not spoken_of <= participants | set(run.absent):
        yield "the record of the run speaks of participants that are not listed"
    if not _is_plain(run.settings, 4) or not all(len(text) <= _LONG for text in (run.method, run.started, *run.notes)):
        yield "the record of the run holds settings that are none"
    missed = {phase for phases in run.absent.values() for phase in phases}
    if any(phase not in PHASES for phase in {exchange.phase for exchange in run.exchanges} | missed):
        yield "the record of the run speaks of exchanges that there are not"
    few = (entry.fewest_rows for entry in run.sent)
    if not all(n is None or 0 <= n <= MOST_ROWS for n in (*few, *run.differences.values())):
        yield "the record of the run holds rows that are none"
    counts = (count for entry in run.sent for count in (entry.times, entry.withheld, entry.entries, entry.n_bytes))
    if not all(0 <= count < LARGEST for count in counts) or not 0 <= run.seconds < LARGEST:
        yield "the record of the run holds counts that are none"


def _is_plain(thing: object, depth: int) -> bool:
    """Whether it is what JSON can hold, and no deeper than settings are."""
    if isinstance(thing, Mapping):
        return depth > 0 and all(isinstance(k, str) and _is_plain(v, depth - 1) for k, v in thing.items())
    if isinstance(thing, list | tuple):
        return depth > 0 and all(_is_plain(v, depth - 1) for v in thing)
    return thing is None or isinstance(thing, bool | int | float | str)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name


def _inside(values: Array, below: int) -> bool:
    return bool(((values >= 0) & (values < below)).all())
