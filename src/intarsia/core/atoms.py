"""Atoms: groups of rows that no labelling so far has divided, and how a new labelling may divide them.

A participant that tells sums over the clusters of several labellings tells, by subtraction, sums over the rows that have the
same label in all of them, and over unions of such groups, but never over a part of one. These groups are the *atoms*. If
every atom has at least n rows, no sum over fewer than n rows follows from all that was told, whoever subtracts what from
what.

What is not divided must not become an answer either. Whoever tries the same part with and without one row would see, from
whether it is told, if that row exists: so rows whose part was once too small are *pinned*. They follow the main part of
their atom from then on, and do not help another part to be large enough. And an atom that followed the majority of its rows
would change its cluster when a single row does: so an atom goes where its mean goes, which follows from sums that are told
anyway.

All functions are pure; a release policy decides on n (:mod:`intarsia.privacy.audit`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from intarsia.core.blocks import by_rows
from intarsia.core.centroids import MaskedCentroids, membership
from intarsia.core.rows import Labeller, Piece, Rows
from intarsia.core.types import BoolArray, FloatArray, IntArray

_FEW = 8  # groups: a product with a dense matrix is faster
_DENSE = 4  # times as many possible parts as rows are counted in an array; more are sorted


class Partition(NamedTuple):
    """The atom of each row, −1 for a row that takes no part, and whether it is pinned to the main part of its atom."""

    atoms: IntArray
    pinned: BoolArray

    @classmethod
    def whole(cls, observed: BoolArray) -> Partition:
        """Return one atom of all these rows."""
        return cls(np.where(observed, 0, -1).astype(np.int32), np.zeros(len(observed), dtype=np.bool_))


class AtomMeans(NamedTuple):
    """The means of atoms as rows, over features of which at least the minimum number of values is observed.

    ``counts`` (atoms × features) are the values behind each mean; 0 where the mean is not known. ``variances``, of the same
    shape, are those of the values around their mean, if they are asked for.
    """

    piece: Piece
    counts: FloatArray
    variances: FloatArray | None = None

    def labelled(self, label: Labeller, n_centres: int) -> IntArray:
        """Label the means, a few at a time if each is compared with many centres."""
        cells, mask = self.piece.cells, self.piece.mask
        places = by_rows(cells.shape[1], max(4 * len(cells), n_centres))
        parts = (label(Piece(at, cells[:, at], None if mask is None else mask[:, at])) for at in places)
        return np.concatenate([np.zeros(0, dtype=np.intp), *parts]).astype(np.intp)


class Labelling(NamedTuple):
    """A function that labels atoms by their means.

    ``convex`` says that the mean of rows with one label has this label, too: true of the nearest of several centres. Atoms
    that were just divided then follow their means as well; otherwise they keep the label of their rows. ``by_spread`` says
    that the function needs variances, too.
    """

    of: Callable[[AtomMeans], IntArray]
    convex: bool = True
    by_spread: bool = False


class Split(NamedTuple):
    """The label under which each row is told, the partition afterwards, and which rows are in an atom that was divided."""

    labels: IntArray
    partition: Partition
    divided: BoolArray

    def by_means(self, labels: IntArray, *, convex: bool) -> IntArray:
        """Return the told labels with those of atoms (by their means) in the place of the rows'."""
        of_atoms = labels.astype(self.labels.dtype)[self.partition.atoms]
        return of_atoms if convex else np.where(self.divided, self.labels, of_atoms)


def split(partition: Partition, labels: IntArray, fewest: int) -> Split:
    """Divide atoms by new labels (from −1) into parts of at least ``fewest`` rows.

    The *main part* of an atom is the largest, with all pinned rows of the atom. A smaller part that has fewer than
    ``fewest`` rows that are not pinned is told with the main part, and its rows are pinned. If every atom has ``fewest``
    rows, so does every new one; the same labels once more divide nothing.

    >>> told, (atoms, pinned), _ = split(Partition.whole(np.ones(8, dtype=bool)), np.array([0, 0, 0, 1, 1, 1, 1, 2]), 3)
    >>> told.tolist(), atoms.tolist(), np.flatnonzero(pinned).tolist()
    ([0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], [7])
    """
    atoms, pinned = partition
    there = atoms >= 0
    n_labels = int(labels.max(initial=-1)) + 2  # with −1
    keys = (atoms.astype(np.int64) * n_labels + labels + 1)[there]
    parts, part, sizes = _counted(keys, n_labels * (int(atoms.max(initial=-1)) + 1))
    free = np.bincount(part, weights=~pinned[there], minlength=len(parts))
    main = _main_parts(parts // n_labels, free, sizes)
    own = (free >= fewest) & (free[main] >= fewest)
    joined = np.where(own, np.arange(len(parts)), main)
    number = np.unique(joined, return_inverse=True)[1].reshape(-1)
    told: IntArray = np.full(len(atoms), -1, dtype=labels.dtype)
    after: IntArray = np.full(len(atoms), -1, dtype=np.int32)
    follows = np.where(pinned[there], main[part], joined[part])
    told[there] = (parts[follows] % n_labels - 1).astype(labels.dtype)
    after[there] = number[follows]
    atom = parts // n_labels
    divided = np.isin(atom, atom[joined != main], kind="sort")
    in_divided = np.zeros(len(atoms), dtype=np.bool_)
    in_divided[there] = divided[part]
    pinned = pinned.copy()
    pinned[there] |= joined[part] != part
    return Split(told, Partition(after, pinned), in_divided)


def _counted(keys: IntArray, n_keys: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the different keys, the position of each key among them, and how often they occur."""
    if n_keys > _DENSE * max(len(keys), 1024):
        parts, part, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        return parts, part.reshape(-1), sizes
    counts = np.bincount(keys)
    parts = np.flatnonzero(counts)
    return parts, (np.cumsum(counts > 0) - 1)[keys], counts[parts]


def _main_parts(atom: IntArray, free: FloatArray | IntArray, sizes: IntArray) -> IntArray:
    """Return the main part of the atom of each part: most rows that are not pinned, then most rows, then the first."""
    order = np.lexsort((np.arange(len(atom)), -sizes, -free, atom))
    starts = np.flatnonzero(np.diff(atom[order], prepend=-1))
    result = np.empty(len(atom), dtype=np.intp)
    result[order] = np.repeat(order[starts], np.diff(np.append(starts, len(atom))))
    return result


def atom_means(rows: Rows, atoms: Told, fewest: int, *, spread: bool = False) -> AtomMeans:
    """Read all rows once and return the mean of each atom of rows, with ``spread`` the variances as well.

    ``atoms`` has the atoms of rows, and those of the values of columns with missing values. Told sums of such a column are
    over the latter: each of its values counts as the mean of its atom, so that no mean is over other values than told ones.
    """
    n_atoms, d = int(atoms.rows.max(initial=-1)) + 1, len(rows.offset)
    groups = atoms.by_features(d)
    sums = [np.zeros((1 + spread, len(features), int(own.max(initial=-1)) + 1)) for features, own in groups]
    for piece in rows.pieces():
        for k, (features, own) in enumerate(groups):
            if len(features):
                n_own = sums[k].shape[2]
                sums[k][0] += _sums_by(own[piece.at], piece.cells, features, n_own)
                if spread:
                    sums[k][1] += _sums_by(own[piece.at], np.square(piece.cells), features, n_own)
    powers, counts = np.zeros((1 + spread, d, n_atoms)), np.zeros((d, n_atoms))
    for (features, own), total in zip(groups, sums, strict=True):
        there = own >= 0
        size = np.maximum(np.bincount(own[there], minlength=total.shape[2]), 1)
        counts[features] = behind = np.bincount(atoms.rows[there], minlength=n_atoms)
        if own is atoms.rows:
            powers[:, features] = total / size
            continue
        for power, means in zip(powers, total / size, strict=True):
            for m, mean in zip(features, means, strict=True):
                power[m] = np.bincount(atoms.rows[there], mean[own[there]], minlength=n_atoms) / np.maximum(behind, 1)
    known = counts >= fewest
    mask = None if known.all() else known.astype(np.float64)
    piece = Piece(slice(0, n_atoms), np.where(known, powers[0], 0.0), mask)
    variances = np.maximum(powers[-1] - np.square(powers[0]), 0.0).T if spread else None
    return AtomMeans(piece, np.where(known, counts, 0.0).T, variances)


class Told(NamedTuple):
    """The labels that told sums are over: of rows, and of the values of columns with missing values.

    ``columns`` has pairs of features and the labels of their values; all other features have those of the rows.
    """

    rows: IntArray
    columns: tuple[tuple[IntArray, IntArray], ...] = ()

    def by_features(self, n_features: int) -> list[tuple[IntArray, IntArray]]:
        """Return all features with the labels of their values."""
        others = np.ones(n_features, dtype=np.bool_)
        for features, _ in self.columns:
            others[features] = False
        return [(np.flatnonzero(others), self.rows), *self.columns]


class ToldSums(NamedTuple):
    """Rows of each cluster; and by cluster and feature the number of values, their mean, and squares around a centre."""

    sizes: IntArray
    means: MaskedCentroids
    squares: FloatArray


def _sums_by(groups: IntArray, cells: FloatArray, features: IntArray, n_groups: int) -> FloatArray:
    """Return the sums of some features (features × groups) over rows of each group; negative numbers belong to no group."""
    some = cells if len(features) == len(cells) else cells[features]
    if n_groups <= _FEW:
        return np.asarray(some @ membership(groups, n_groups).T)
    there = groups >= 0
    inside = groups if there.all() else groups[there]
    return np.array([np.bincount(inside, each if there.all() else each[there], n_groups) for each in some])


def told_sums(rows: Rows, told: Told, n_clusters: int, around: FloatArray | None = None) -> ToldSums:
    """Read all rows once and add up each cluster, feature by feature with its own labels.

    ``around`` are the centres of the squares (clusters × features); without them squares are 0. A cluster without rows has
    no values.
    """
    d, offset = len(rows.offset), rows.offset
    sizes, counts, sums = np.zeros(n_clusters), np.zeros((n_clusters, d)), np.zeros((n_clusters, d))
    squares = np.zeros((n_clusters, d))
    shifted = None if around is None else around - offset
    groups = told.by_features(d)
    for piece in rows.pieces(n_clusters):
        for features, labels in groups:
            own = labels[piece.at]
            member = membership(own, n_clusters)
            if labels is told.rows:
                sizes += member.sum(axis=1)
            if not len(features):
                continue
            some: IntArray | slice = slice(None) if len(features) == d else features
            cells = piece.cells[some]
            sums[:, some] += member @ cells.T
            counts[:, some] += member.sum(axis=1)[:, None] if piece.mask is None else member @ piece.mask[some].T
            if shifted is not None:
                squares[:, some] += member @ np.square(cells).T
    if shifted is not None:  # Σ (x − c)² = Σ x² − 2 c Σ x + n c², for values that are near 0 (see Rows.offset)
        squares = np.maximum(squares - shifted * (2.0 * sums - counts * shifted), 0.0)
    means = offset + sums / np.maximum(counts, 1.0)
    counts[sizes == 0] = 0.0
    return ToldSums(sizes.astype(np.intp), MaskedCentroids.of(means, counts), np.where(counts > 0, squares, 0.0))
