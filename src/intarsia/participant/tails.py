"""How far rows are from their centroids: noted while rows are labelled, told as counts of rows beyond a few marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intarsia.core.atoms import AtomMeans, Labelling
from intarsia.core.rows import Labeller, Nearest, small_type
from intarsia.core.tails import FEWEST, N_BINS, bands_of, bins_of, counts_of, without_few
from intarsia.core.types import IntArray

Tell = Callable[[IntArray, Labelling], IntArray]
"""Returns the labels that may be told."""


class Distances:
    """The nearest centroid of each row, and the bin of its distance."""

    def __init__(self, near: Nearest, n_rows: int, n_clusters: int) -> None:
        self._near, self._n_clusters = near, n_clusters
        self._nearest: IntArray = np.full(n_rows, -1, dtype=small_type(n_clusters))
        self._bins: IntArray = np.full(n_rows, -1, dtype=small_type(N_BINS))

    def noted_by(self, label: Labeller) -> Labeller:
        """Return a labeller that notes the distance of each row that it labels."""

        def labelled(piece: Any, /) -> IntArray:
            self._nearest[piece.at], far = self._near.closest(piece)
            self._bins[piece.at] = bins_of(far)
            return label(piece)

        return labelled

    def counts(self, marks: IntArray) -> IntArray:
        """Return the number of rows by centroid and bin, of which only the first and those behind a mark have rows."""
        return self._counted(self._cells(marks), marks)

    def told(self, marks: IntArray, tell: Tell) -> IntArray:
        """Return the counts as they may be told, by labels in the place of which ``tell`` returns others.

        ``tell`` is asked about one mark after the other, from near to far. So rows beyond a mark with too few of them are
        told with those just before it. An atom that is not divided is where the root of its mean squared distance is.
        """
        result = np.zeros(0, dtype=np.intp)
        for last in range(1, marks.shape[1] + 1):
            upto = marks[:, :last]
            result = tell(self._cells(upto), Labelling(self._of_atoms(upto), convex=False, by_spread=True))
        return self._counted(result, marks)

    def _of_atoms(self, marks: IntArray) -> Callable[[AtomMeans], IntArray]:
        def label(atoms: AtomMeans) -> IntArray:
            assert atoms.variances is not None
            nearest, far = self._near.closest(atoms.piece)
            around = self._near.share_of_reach(atoms.piece, nearest, atoms.variances)
            with np.errstate(over="ignore"):  # huge rows and tiny extents
                spread = np.sqrt(np.square(far) + around)
            return cells_of(nearest, bands_of(nearest, bins_of(spread), marks), marks)

        return label

    def _cells(self, marks: IntArray) -> IntArray:
        return cells_of(self._nearest, bands_of(self._nearest, self._bins, marks), marks)

    def _counted(self, cells: IntArray, marks: IntArray) -> IntArray:
        shape = (self._n_clusters, marks.shape[1] + 1)
        sizes = np.bincount(cells[cells >= 0], minlength=shape[0] * shape[1])
        return counts_of(without_few(sizes.reshape(shape), FEWEST), marks)


def cells_of(nearest: IntArray, bands: IntArray, marks: IntArray) -> IntArray:
    """Return one number for each cluster and band."""
    return np.where(bands < 0, -1, nearest.astype(np.intp) * (marks.shape[1] + 1) + bands)
