"""Triplets of points, drawn at random or all of them, and the share in which masks keep the order of two distances.

The mathematics of :mod:`~intarsia.results.rates`: complete rows with their true clusters, local clusters of these rows,
and implications about triplets (x₁, x₂, x₃) with x₁ and x₂ of one true cluster and x₃ of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from intarsia.core.blocks import PIECE_VALUES
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.distances import Extent, Metric, check_metric, phi_of_pairs
from intarsia.core.features import overlap_graph
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import InputError, SettingError

T = TypeVar("T")
_AT_ONCE = 64  # triplets of combined points that are made together


class CentralTable(NamedTuple):
    """Complete rows (the paper's X̄) with the number of their true cluster, their participant, and all masks."""

    values: FloatArray
    truth: IntArray
    owner: IntArray
    masks: BoolArray

    @property
    def holders(self) -> BoolArray:
        """Participants × true clusters: who has rows of which (the paper's 𝒱ᵃ)."""
        result = np.zeros((len(self.masks), int(self.truth.max(initial=-1)) + 1), dtype=np.bool_)
        result[self.owner, self.truth] = True
        return result


class LocalClusters(NamedTuple):
    """The local clusters of all participants: of each row (−1: none), and of each its owner and rows per true cluster."""

    of_row: IntArray
    owner: IntArray
    classes: IntArray

    @property
    def truth(self) -> IntArray:
        """The most frequent true cluster of each."""
        return np.asarray(self.classes.argmax(axis=1), dtype=np.intp)


class Points(NamedTuple):
    """Points that were computed from masked rows, and what they would be without masks (the map ℧, eq:mho)."""

    values: FloatArray
    seen: BoolArray
    unmasked: FloatArray

    def take(self, at: IntArray) -> Points:
        """Return the points at these positions."""
        return Points(self.values[at], self.seen[at], self.unmasked[at])


class Draw(NamedTuple):
    """A triplet whose x₂ and x₃ combine several points; ``participant`` is the i whose mask applies."""

    first: int
    participant: int
    second: IntArray
    third: IntArray


Triplets = tuple[Points, Points, Points]


def central_table(
    X: npt.ArrayLike, labels: npt.ArrayLike, participants: npt.ArrayLike, masks: npt.ArrayLike, metric: Metric
) -> CentralTable:
    """Check and convert what all rates take."""
    check_metric(metric)
    rows, seen = np.asarray(X, dtype=np.float64), np.asarray(masks, dtype=np.bool_)
    truth, owner = np.asarray(labels), whole_numbers("participants", participants)
    if rows.ndim != 2 or seen.ndim != 2:
        raise InputError(f"X and masks must be tables. Got arrays of {rows.ndim} and {seen.ndim} dimensions instead.")
    if not (len(rows) == len(truth) == len(owner)) or rows.shape[1] != seen.shape[1]:
        raise InputError(
            f"X is {rows.shape[0]} × {rows.shape[1]}, with {len(truth)} labels, {len(owner)} participants and masks of "
            f"{seen.shape[1]} features; rows and features must agree."
        )
    if not np.isfinite(rows).all():
        columns = int((~np.isfinite(rows)).any(axis=0).sum())
        raise InputError(f"X has missing or infinite values in {columns} column(s); rates need complete rows.")
    if len(owner) and not 0 <= owner.min() <= owner.max() < len(seen):
        raise InputError(f"participants must be numbers from 0 to {len(seen) - 1}: there are {len(seen)} masks.")
    _, index = np.unique(truth, return_inverse=True)
    return CentralTable(rows, index.reshape(-1).astype(np.intp), owner, seen)


def whole_numbers(name: str, values: npt.ArrayLike) -> IntArray:
    """Return whole numbers as an array; names of participants or missing labels are an error."""
    numbers = np.asarray(values)
    if numbers.size and not (numbers.dtype.kind in "iuf" and (numbers == np.floor(numbers)).all()):
        raise InputError(
            f"{name} must be whole numbers, one for each row. Got values of type {numbers.dtype}. "
            "Hint: np.unique(..., return_inverse=True)[1] numbers names; −1 is a row in no local cluster."
        )
    return numbers.astype(np.intp)


def local_clusters(table: CentralTable, local_labels: npt.ArrayLike) -> LocalClusters:
    """Number the local clusters of all participants; a negative label belongs to none."""
    local = whole_numbers("local_labels", local_labels)
    if local.shape != table.owner.shape:
        raise InputError(f"there are {local.size} local labels for {len(table.owner)} rows; give one for each row.")
    inside = local >= 0
    pairs, number = np.unique(np.stack([table.owner, local], axis=1)[inside], axis=0, return_inverse=True)
    if not len(pairs):
        raise InputError("no row is in a local cluster; local labels must be at least 0 for some rows.")
    of_row = np.full(len(local), -1, dtype=np.intp)
    of_row[inside] = number.reshape(-1)
    classes = np.zeros((len(pairs), int(table.truth.max()) + 1), dtype=np.intp)
    np.add.at(classes, (of_row[inside], table.truth[inside]), 1)
    return LocalClusters(of_row, pairs[:, 0], classes)


def local_centroids(table: CentralTable, clusters: LocalClusters) -> tuple[MaskedCentroids, MaskedCentroids]:
    """Return the centroids of all local clusters as their participants see them, and of the same rows unmasked."""
    everything = np.ones(table.values.shape, dtype=np.bool_)
    masked, unmasked = (
        centroids_of_rows(table.values, seen, clusters.of_row, len(clusters.owner))
        for seen in (table.masks[table.owner], everything)
    )
    return masked, unmasked


def rate(triplets: Iterable[Triplets], extent: Extent | None, metric: Metric, *, vacuous: bool) -> float:
    """Return the share of triplets in which ℧(x₂) nearer to ℧(x₁) than ℧(x₃) implies x₂ nearer to x₁ than x₃.

    Distances between masked points are rescaled (eq:d), or plain φ if there is no extent. Triplets whose left side does not
    hold count as kept if ``vacuous``; those whose right side cannot be compared do not count. NaN if none counts.
    """
    kept = tested = 0
    for x, y, z in triplets:
        everything = np.ones(x.values.shape[1], dtype=np.bool_)
        plain = [phi_of_pairs(x.unmasked, other.unmasked, everything, metric) for other in (y, z)]
        premise = plain[0] < plain[1]
        near, far = (_distances(x, other, extent, metric) for other in (y, z))
        counted = np.where(premise, ~np.isnan(near) & ~np.isnan(far), vacuous)
        tested += int(counted.sum())
        kept += int((counted & (~premise | (near < far))).sum())
    return kept / tested if tested else float("nan")


def _distances(x: Points, y: Points, extent: Extent | None, metric: Metric) -> FloatArray:
    if extent is None:
        return phi_of_pairs(x.values, y.values, x.seen & y.seen, metric)
    shared = x.seen & y.seen & extent.varies
    largest = phi_of_pairs(extent.high, extent.low, shared, metric)
    distance = phi_of_pairs(x.values, y.values, shared, metric)
    return np.asarray(np.divide(distance, largest, out=np.full(len(distance), np.nan), where=largest > 0))


def triplets_of(
    points: Points,
    truth: IntArray,
    owner: IntArray,
    masks: BoolArray,
    n_triplets: int | None,
    rng: np.random.Generator,
) -> Iterator[Triplets]:
    """Yield triplets of given points, in blocks: participants of x₂ and x₃ share a feature with that of x₁."""
    _check_numbers(truth, n_triplets)
    height = max(1, PIECE_VALUES // max(1, points.values.shape[1]))
    for block in _in_blocks(_positions(truth, owner, overlap_graph(masks), n_triplets, rng), height):
        x, y, z = np.array(block, dtype=np.intp).T
        yield points.take(x), points.take(y), points.take(z)


def _positions(
    truth: IntArray, owner: IntArray, graph: BoolArray, n_triplets: int | None, rng: np.random.Generator
) -> Iterator[tuple[int, int, int]]:
    """Yield triplets of positions, one by one: all of many points would not fit into memory."""
    for first in range(len(truth)) if n_triplets is None else rng.integers(len(truth), size=n_triplets).tolist():
        near = graph[owner[first], owner]
        same = near & (truth == truth[first])
        same[first] = False
        other = near & (truth != truth[first])
        if not (same.any() and other.any()):
            continue
        seconds, thirds = np.flatnonzero(same), np.flatnonzero(other)
        if n_triplets is None:
            yield from product([first], seconds.tolist(), thirds.tolist())
        else:
            yield first, int(rng.choice(seconds)), int(rng.choice(thirds))


def draws(
    truth: IntArray,
    choices: Callable[[int], Sequence[tuple[int, int]]],
    n_triplets: int | None,
    n_combined: int | None,
    rng: np.random.Generator,
) -> Iterator[list[Draw]]:
    """Yield triplets whose x₂ and x₃ combine ``n_combined`` points of a true cluster, other than x₁, in blocks.

    ``choices`` returns, for the position of x₁, the pairs (participant, other true cluster) that it can be tested with.
    None draws the number of points between 1 and all of the cluster, uniformly on a logarithmic scale.
    """
    _check_numbers(truth, n_triplets)
    if n_combined is not None and n_combined < 1:
        raise SettingError(f"n_combined must be a whole number of at least 1 or None. Got {n_combined} instead.")
    if n_triplets is None and n_combined != 1:
        raise SettingError(
            "n_triplets=None takes all triplets, and points can be combined in too many ways. Hint: n_combined=1, or a "
            "number of triplets."
        )
    yield from _in_blocks(_single_draws(truth, choices, n_triplets, n_combined, rng), _AT_ONCE)


def _in_blocks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    block = list(islice(items, size))
    if not block:
        raise _nothing_to_compare()
    while block:
        yield block
        block = list(islice(items, size))


def _single_draws(
    truth: IntArray,
    choices: Callable[[int], Sequence[tuple[int, int]]],
    n_triplets: int | None,
    n_combined: int | None,
    rng: np.random.Generator,
) -> Iterator[Draw]:
    members = [np.flatnonzero(truth == a) for a in range(int(truth.max()) + 1)]
    for first in range(len(truth)) if n_triplets is None else rng.integers(len(truth), size=n_triplets).tolist():
        same, pairs = members[truth[first]], choices(first)
        same = same[same != first]
        if not len(same) or not pairs:
            continue
        if n_triplets is None:
            for (i, b), second in product(pairs, same):
                yield from (Draw(first, i, np.array([second]), np.array([third])) for third in members[b])
        else:
            i, b = pairs[int(rng.integers(len(pairs)))]
            yield Draw(first, i, _some(same, n_combined, rng), _some(members[b], n_combined, rng))


def _some(members: IntArray, n_combined: int | None, rng: np.random.Generator) -> IntArray:
    n = int((len(members) + 1) ** rng.random()) if n_combined is None else n_combined
    return rng.choice(members, size=min(n, len(members)), replace=False)


def _check_numbers(truth: IntArray, n_triplets: int | None) -> None:
    if not len(truth):
        raise _nothing_to_compare()
    if n_triplets is not None and n_triplets < 1:
        raise SettingError(f"n_triplets must be a whole number of at least 1 or None. Got {n_triplets} instead.")


def _nothing_to_compare() -> InputError:
    return InputError(
        "there is no triplet of points to compare: participants that overlap must have at least two clusters."
    )
