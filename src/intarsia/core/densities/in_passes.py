"""Densities of clusters whose rows do not fit into memory: from sums over a pass or two (see :mod:`~intarsia.core.rows`).

The same densities as :func:`~intarsia.core.densities.gaussian.fit_density` finds, up to the last digits of sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.densities.dirichlet import Dirichlet, Strays, maximum_likelihood
from intarsia.core.densities.discrete import Block, Discrete, check_codes, check_group
from intarsia.core.densities.gaussian import Density, gaussian_of_moments, rank_of
from intarsia.core.rows import Pieces
from intarsia.core.types import BoolArray, FloatArray, IntArray

_MOMENTS = 1 << 24  # numbers that are held at the same time: 128 MiB
_MOST_OUTCOMES = 1000  # of a column, after which it is no code in any case


class Part(NamedTuple):
    """Rows of one cluster: features × rows, and which cells are there; None if all."""

    cluster: int
    cells: FloatArray
    there: FloatArray | None


@dataclass(frozen=True)
class Clustered:
    """A table of which every row has a label (−1: none), with the clusters' means, and what may be told of them."""

    pieces: Pieces
    labels: IntArray
    sizes: IntArray
    whole: MaskedCentroids
    told: MaskedCentroids

    def parts(self) -> Iterator[Part]:
        """Piece by piece, the rows of each cluster."""
        for piece in self.pieces:
            labels = self.labels[piece.at].astype(np.intp)
            order = np.argsort(labels, kind="stable")
            cells = np.take(piece.cells, order, axis=1)
            there = None if piece.there is None else np.take(piece.there, order, axis=1)
            names, starts = np.unique(labels[order], return_index=True)
            for k, start, stop in zip(names, starts, [*starts[1:], len(order)], strict=True):
                if k >= 0:
                    filled = None if there is None else there[:, start:stop]
                    yield Part(int(k), cells[:, start:stop], filled)

    def told_cells(self, part: Part) -> tuple[FloatArray, FloatArray | None]:
        """Features that are told × rows: the cells, and which are there; None if all."""
        seen = self.told.seen[part.cluster]
        cells, there = part.cells, part.there
        if not seen.all():
            cells, there = cells[seen], None if there is None else there[seen]
        return cells, None if there is None or there.all() else there


def gaussians(clusters: Clustered, kind: str) -> list[Density]:
    """A Gaussian for every cluster: one pass, or more where products of all pairs of features do not fit into memory."""
    seen = clusters.told.seen
    ranks = [
        rank_of(kind, int(n), int(own.sum()), complete=bool((clusters.whole.counts[k, own] == n).all()))
        for k, (n, own) in enumerate(zip(clusters.sizes, seen, strict=True))
    ]
    shared = [k for k, rank in enumerate(ranks) if rank]
    at_once = max(1, _MOMENTS // (2 * max(seen.shape[1], 1) ** 2))
    moments, squares = _moments(clusters, shared[:at_once])
    for start in range(at_once, len(shared), at_once):
        moments |= _moments(clusters, shared[start : start + at_once])[0]
    counts = np.maximum(clusters.whole.counts, 1.0)
    within = squares.sum(axis=0) / np.maximum(clusters.whole.counts.sum(axis=0), 1.0)
    return [
        gaussian_of_moments(
            int(clusters.sizes[k]),
            counts[k, own],
            clusters.told.values[k, own],
            (squares[k] / counts[k])[own],
            moments.get(k),
            rank,
            within[own],
        )
        for k, (own, rank) in enumerate(zip(seen, ranks, strict=True))
    ]


def _moments(clusters: Clustered, which: Sequence[int]) -> tuple[dict[int, tuple[FloatArray, FloatArray]], FloatArray]:
    """The mean products of centred cells, and of their squares, for some clusters; and squares around all means."""
    whole = clusters.whole
    shifted = np.where(whole.seen, whole.values - clusters.pieces.offset, 0.0)
    squares = np.zeros(shifted.shape)
    n_seen = clusters.told.seen.sum(axis=1)
    sums = {k: (np.zeros((n_seen[k], n_seen[k])), np.zeros((n_seen[k], n_seen[k]))) for k in which}
    for part in clusters.parts():
        k, centred = part.cluster, part.cells
        centred -= shifted[k][:, None]
        if part.there is not None:
            centred *= part.there
        if k in sums:
            seen, (second, fourth) = clusters.told.seen[k], sums[k]
            second += _products(centred, seen)
            np.square(centred, out=centred)
            fourth += _products(centred, seen)
        else:
            np.square(centred, out=centred)
        squares[k] += centred.sum(axis=1)
    n = clusters.sizes
    return {k: (second / n[k], fourth / n[k]) for k, (second, fourth) in sums.items()}, squares


def _products(cells: FloatArray, seen: BoolArray) -> FloatArray:
    own = cells if seen.all() else cells[seen]
    return np.asarray(own @ own.T)


def discretes(clusters: Clustered, groups: Sequence[Sequence[IntArray]], names: Sequence[str]) -> list[Density]:
    """The frequencies of every code; ``groups`` are, for every cluster, the columns of each category among its own.

    The pieces must be in the table's own units and around 0, or codes would not be codes.
    """
    blocks: list[list[IntArray]] = []
    for k, mine in enumerate(groups):
        own = [np.asarray(group, dtype=np.intp) for group in mine if len(group)]
        grouped = np.concatenate([np.zeros(0, dtype=np.intp), *own])
        single = np.setdiff1d(np.arange(int(clusters.told.seen[k].sum())), grouped)
        blocks.append([*(np.array([m]) for m in single), *own])
    counted: list[list[Counter[tuple[float, ...]]]] = [[Counter() for _ in own] for own in blocks]
    for part in clusters.parts():
        k, (cells, there) = part.cluster, clusters.told_cells(part)
        for columns, seen in zip(blocks[k], counted[k], strict=True):
            if len(seen) <= _MOST_OUTCOMES:
                filled = cells[columns] if there is None else cells[columns][:, (there[columns] > 0).all(axis=0)]
                outcomes, times = np.unique(filled.T, axis=0, return_counts=True)
                seen.update(dict(zip(map(tuple, outcomes.tolist()), times.tolist(), strict=True)))
    result: list[Density] = []
    for k, (own, counts) in enumerate(zip(blocks, counted, strict=True)):
        called = [name for name, there in zip(names, clusters.told.seen[k], strict=True) if there]
        made = tuple(_block(columns, seen) for columns, seen in zip(own, counts, strict=True))
        check_codes(made, len(called), called)
        n_single = len(own) - sum(1 for group in groups[k] if len(group))
        for n, (block, seen) in enumerate(list(zip(made, counts, strict=True))[n_single:]):
            times = np.array([seen[tuple(outcome)] for outcome in block.outcomes.tolist()], dtype=np.intp)
            check_group(n, block, called, block.outcomes, times)
        result.append(Discrete(made))
    return result


def _block(columns: IntArray, counts: Counter[tuple[float, ...]]) -> Block:
    outcomes = sorted(counts)
    times = np.array([counts[outcome] for outcome in outcomes], dtype=np.float64)
    return Block(columns, np.array(outcomes).reshape(len(outcomes), len(columns)), times / max(times.sum(), 1.0))


def dirichlets(clusters: Clustered, usual: FloatArray, names: Sequence[str]) -> list[Density]:
    """Two passes: the smallest share of every part, then means and logarithms.

    ``usual`` is the usual total of a row in every cluster; where it is NaN, that of the first rows counts.
    """
    total = usual.copy()
    seen, shape = clusters.told.seen, clusters.told.seen.shape
    smallest = np.full(shape, np.inf)
    problems = [Strays([name for name, own in zip(names, seen[k], strict=True) if own]) for k in range(len(seen))]
    for part in clusters.parts():
        k, (cells, there) = part.cluster, clusters.told_cells(part)
        total[k] = total[k] if np.isfinite(total[k]) else np.median(cells.sum(axis=0))
        problems[k].look(cells.T, np.ones(cells.T.shape, dtype=np.bool_) if there is None else there.T > 0, total[k])
        positive = np.where(cells > 0, cells / np.maximum(cells.sum(axis=0), 1e-300), np.inf)
        smallest[k, seen[k]] = np.minimum(smallest[k, seen[k]], positive.min(axis=1, initial=np.inf))
    for found in problems:
        found.refuse()
    sums, squares, logs = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    occurs = np.isfinite(smallest)
    for part in clusters.parts():
        k, (cells, _) = part.cluster, clusters.told_cells(part)
        kept = occurs[k, seen[k]]
        shares = (cells / cells.sum(axis=0))[kept]
        shares = np.where(shares > 0, shares, smallest[k, seen[k]][kept][:, None] / 2)
        shares /= shares.sum(axis=0)
        at = np.flatnonzero(seen[k])[kept]
        sums[k, at] += shares.sum(axis=1)
        squares[k, at] += np.square(shares).sum(axis=1)
        logs[k, at] += np.log(shares).sum(axis=1)
    result: list[Density] = []
    for k, n in enumerate(np.maximum(clusters.sizes, 1)):
        at = occurs[k] & seen[k]
        mean = sums[k, at] / n
        spread = float(np.maximum(squares[k, at] / n - np.square(mean), 0.0).sum())
        alpha = np.zeros(shape[1])
        alpha[at] = maximum_likelihood(mean, logs[k, at] / n, spread)
        result.append(Dirichlet.of(alpha[seen[k]], float(total[k])))
    return result
