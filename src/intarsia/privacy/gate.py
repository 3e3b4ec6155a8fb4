"""The gate: every byte that leaves a participant goes through it, and what the participant's own rules forbid does not.

It acts four times: on the table (columns and levels that too few rows stand behind are left out), on each request (what
the rules forbid is refused), on local clusters (small ones are merged or kept back), and on each reply (what is still too
small is hidden, counts are rounded, and a last look makes sure). What left is written down, without what was in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia.core.centroids import MaskedCentroids, centroids_of_rows, counts_of_rows, merge
from intarsia.core.densities import family_of
from intarsia.core.distances import Extent, extent_of, nearest_centre, rescaled_distances
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import TooFewRowsError, quote
from intarsia.participant.clusterers import LEFT_OUT, Rows
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Cells, Pipeline
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.protocol import (
    Refined,
    Reply,
    Request,
)
from intarsia.tables import StreamedTable
from intarsia.tables.categories import Category
from intarsia.tables.frame import Table
from intarsia.tables.missing import without_empty_columns


class Crossing(NamedTuple):
    """Two ways to put the same rows into clusters: rows and cells of each cluster by the one and by the other, and of
    every two clusters that have rows in common.
    """

    sizes: IntArray
    counts: FloatArray
    old_sizes: IntArray
    old_counts: FloatArray
    pairs: IntArray
    rows: IntArray
    cells: FloatArray


class Gate:
    """One participant's rules at work."""

    def __init__(self, policy: ReleasePolicy = OPEN, journal: Journal | None = None) -> None:
        self.policy = policy
        self.pipeline = Pipeline(policy, journal)
        self._left_out: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    @property
    def fewest(self) -> int:
        """So many rows must stand behind a number."""
        return self.policy.min_cluster_size

    @property
    def is_discreet(self) -> bool:
        """Whether numbers of rows stay out of what is said of failures, which nothing rounds."""
        return self.fewest > 1 or self.policy.round_counts_to > 1

    def prepare(self, table: Table) -> Table:
        """The table without what too few rows stand behind."""
        if len(table) < self.fewest:
            raise TooFewRowsError(
                f"{table.owner!r} has fewer than the {self.fewest} rows that its release rules ask for, so it takes no part."
            )
        known = {name: self._without_rare(category) for name, category in table.categories.items()}
        table = replace(table, categories=known)
        sparse = [name for name, there in table.filled.items() if there.sum() < self.fewest]
        self._check_sparse(table.owner, sparse, table.given_names)
        return without_empty_columns(table, fewest=self.fewest)

    def prepare_stream(self, table: StreamedTable) -> StreamedTable:
        """The same for a table that is not in memory."""
        if len(table) < self.fewest:
            raise TooFewRowsError(
                f"{table.owner!r} has fewer than the {self.fewest} rows that its release rules ask for, so it takes no part."
            )
        kept = {name: {w for w, n in levels.items() if n >= self.fewest} for name, levels in table.counted.items()}
        self._left_out["levels"] += sum(len(levels) - len(kept[name]) for name, levels in table.counted.items())
        table = table.with_levels(kept)
        sparse = [name for name, n in table.filled.items() if n < self.fewest]
        self._check_sparse(table.owner, sparse, table.given_names)
        return table.without(set(sparse))

    def _check_sparse(self, owner: str, sparse: Sequence[str], names: Sequence[str]) -> None:
        self._left_out["columns"] += len(sparse)
        if len(sparse) == len(names):
            raise TooFewRowsError(
                f"every column of {owner!r} has fewer than {self.fewest} filled cells: {quote(sparse)}. "
                "Its release rules leave nothing to take part with."
            )

    def settle_sizes(self, centres: MaskedCentroids, sizes: IntArray, extent: Extent) -> IntArray:
        """Which local cluster each becomes, −1 for those left out: :meth:`settle` where every row is in a cluster."""
        if sizes.min() >= self.fewest:
            return np.arange(len(sizes))
        if self.policy.small == "withhold":
            new = np.where(hidden_sizes(sizes, self.fewest), -1, np.arange(len(sizes)))
        else:
            new = merged_small(centres, sizes, extent, self.fewest)
        if not (new >= 0).any():
            raise self._all_small(len(sizes))
        new[new >= 0] = renumber(new[new >= 0])
        self._now["clusters"] += len(sizes) - (int(new.max()) + 1)
        return new

    def _all_small(self, n_clusters: int) -> TooFewRowsError:
        return TooFewRowsError(
            f"all {n_clusters} local clusters have fewer than the {self.fewest} rows that the release rules here ask for. "
            "Hint: ask for fewer local clusters."
        )

    def _without_rare(self, category: Category) -> Category:
        """Levels that too few rows have are empty cells, and their names stay at home."""
        counts = np.bincount(category.codes[category.codes >= 0], minlength=len(category.levels))
        kept = np.flatnonzero(counts >= self.fewest)
        if len(kept) == len(category.levels):
            return category
        self._left_out["levels"] += len(category.levels) - len(kept)
        new = np.full(len(category.levels) + 1, -1, dtype=np.intp)
        new[kept] = np.arange(len(kept))
        return Category(tuple(category.levels[k] for k in kept), new[category.codes])

    def admit(self, request: Request) -> None:
        """Refuse what the policy forbids, and count the rest."""
        self._now = Counter(self._left_out)
        self.pipeline.admit(request)

    def density(self, kind: str) -> str:
        """Return the density to fit: one with few parameters for its rows, unless the policy allows any."""
        return kind if self.policy.allow_any_covariance else family_of(kind).parsimonious(kind)

    def settle(self, labels: IntArray, rows: Rows) -> IntArray:
        """Local clusters without small ones: merged into the nearest, or left out.

        Noise and rows that took no part are in no cluster. Where there are some, but too few, all rows less those of the
        clusters would tell of them: each joins its nearest cluster ("merge"), or the smallest cluster is kept back with
        them ("withhold"). This is about what is told; to the participant itself noise is still noise.
        """
        sizes = np.bincount(labels[labels >= 0])
        if not len(sizes) or (sizes.min() >= self.fewest and not self._few_outside(labels)):
            return labels
        labels = labels.copy()
        before = len(sizes)
        if self.policy.small == "withhold":
            hidden = hidden_sizes(sizes, self.fewest, len(labels) - int(sizes.sum()))
            labels[np.isin(labels, np.flatnonzero(hidden))] = LEFT_OUT
        else:
            _merge_small(labels, rows.values, rows.observed, self.fewest)
        inside = labels >= 0
        if not inside.any():
            raise self._all_small(before)
        labels[inside] = renumber(labels[inside])
        self._now["clusters"] += before - (int(labels.max()) + 1)
        return self.gather(labels, rows) if self.policy.small == "merge" else labels

    def gather(self, labels: IntArray, rows: Rows) -> IntArray:
        """Rows in no cluster, if there are some but too few, put into the nearest; into the largest if none is near."""
        if not self._few_outside(labels) or not (labels >= 0).any():
            return labels
        outside, values, observed = labels < 0, rows.values, rows.observed
        names, own, sizes = np.unique(labels[~outside], return_inverse=True, return_counts=True)
        centres = centroids_of_rows(values[~outside], observed[~outside], own, len(names))
        extent = extent_of(values, observed)
        near = nearest_centre(values[outside], observed[outside], centres.values, centres.seen, extent, "euclidean")
        result = labels.copy()
        result[outside] = names[np.where(near >= 0, near, sizes.argmax())]
        return result

    def _few_outside(self, labels: IntArray) -> bool:
        return 0 < int((labels < 0).sum()) < self.fewest

    def hide(self, centroids: MaskedCentroids, cells: IntArray) -> MaskedCentroids:
        """Centroids without entries that too few cells stand behind, of columns with so many cells in all."""
        few = hidden_entries(centroids.counts, cells, self.fewest)
        self._now["entries"] += int(few.sum())
        return MaskedCentroids.of(centroids.values, np.where(few, 0.0, centroids.counts)) if few.any() else centroids

    def apart(
        self, parts: Sequence[Refined], crossing: Callable[[int, int], Crossing], cells: Cells
    ) -> tuple[Refined, ...]:
        """Answers about several sets of centroids, of which none is another's but for a few rows.

        Where a cluster has the same rows as one of an earlier set, or quite other ones, both are told of. Where fewer rows
        than the rules ask for are in only one of the two, their difference would be a sum over these: what was told of the
        earlier one is told again in the place of the later one. If that were the only such cluster, all the others would
        tell of it, so that the next smallest is hidden. Entries that few cells of a column tell apart are hidden likewise.
        ``crossing`` tells of the clusters of the rows by one set, and by an earlier one.
        """
        told: list[Refined] = []
        for at, part in enumerate(parts):
            few = np.zeros(part.counts.shape, dtype=np.bool_)
            instead = np.full((len(part.sizes), 2), -1, dtype=np.intp)  # a set, and one of its clusters
            for n, before in enumerate(told if self.fewest > 1 else ()):  # otherwise nothing is too few
                close, close_cells = _differ_by_few(crossing(at, n), part, before, self.fewest)
                few |= close_cells
                new = (close >= 0) & (instead[:, 0] < 0)
                instead[new, 0], instead[new, 1] = n, close[new]
            hidden = _not_alone(part.sizes[:, None], instead[:, :1] >= 0)[:, 0]
            few = _not_alone(part.counts, few | hidden[:, None])
            self._now["clusters"] += int((hidden & (part.sizes > 0)).sum())
            self._now["entries"] += int((few & ~hidden[:, None] & (part.counts > 0)).sum())
            counts, values = (np.where(few, 0.0, numbers) for numbers in (part.counts, part.values))
            kept = msgspec.structs.replace(part, values=values, counts=counts, sizes=np.where(hidden, 0, part.sizes))
            told.append(_with_earlier(kept, told, instead, cells))
        return tuple(told)

    def release(self, request: Request, reply: Reply, cells: Cells) -> Reply:
        """Return what may leave of a reply."""
        return self.pipeline.release(request, reply, cells, self._now)


def hidden_sizes(sizes: IntArray, fewest: int, outside: int = 0) -> BoolArray:
    """Which groups are too small to be told of, and the next smallest where their total would still be too small.

    Whoever knows the number of all rows could otherwise subtract. Rows outside all groups are hidden as well.

    >>> hidden_sizes(np.array([40, 3, 9, 0]), 5)
    array([False,  True,  True, False])
    >>> hidden_sizes(np.array([40, 9]), 5, outside=2)
    array([False,  True])
    """
    return hidden_entries(sizes[:, None], np.array([sizes.sum() + outside]), fewest)[:, 0]


def hidden_entries(
    counts: FloatArray | IntArray, cells: IntArray, fewest: int, hidden: BoolArray | None = None
) -> BoolArray:
    """Which entries are not told of, column by column: those with few cells, and the next smallest, as with sizes.

    ``cells`` are all cells of a column, also those of rows in no group; ``hidden`` are entries that are so anyhow.

    >>> hidden_entries(np.array([[40, 40], [9, 9], [3, 0]]), np.array([52, 49]), 5)
    array([[False, False],
           [ True, False],
           [ True, False]])
    """
    hidden = ((counts > 0) & (counts < fewest)) | (False if hidden is None else hidden)
    while True:
        told = ~hidden & (counts > 0)
        left = cells - np.where(told, counts, 0).sum(axis=0)
        few = np.flatnonzero((left > 0) & (left < fewest) & told.any(axis=0))
        if not len(few):
            return hidden
        hidden[np.where(told, counts, np.inf)[:, few].argmin(axis=0), few] = True


def crossing(labels: IntArray, old: IntArray, observed: BoolArray, n: int, n_old: int) -> Crossing:
    """Of rows that are at hand, by their labels; −1 for none."""
    both = (labels >= 0) & (old >= 0)
    pairs, index, shared = np.unique(labels[both] * n_old + old[both], return_inverse=True, return_counts=True)
    at = np.full(len(labels), -1, dtype=np.intp)
    at[both] = index
    return Crossing(
        sizes=np.bincount(labels[labels >= 0], minlength=n),
        counts=counts_of_rows(observed, labels, n),
        old_sizes=np.bincount(old[old >= 0], minlength=n_old),
        old_counts=counts_of_rows(observed, old, n_old),
        pairs=np.column_stack([pairs // n_old, pairs % n_old]),
        rows=shared,
        cells=counts_of_rows(observed, at, len(pairs)),
    )


def _differ_by_few(both: Crossing, part: Refined, before: Refined, fewest: int) -> tuple[IntArray, BoolArray]:
    """By cluster, one that was told of and has the same rows but for a few, −1 if none; entries like that."""
    close, close_cells = np.full(len(part.sizes), -1, dtype=np.intp), np.zeros(part.counts.shape, dtype=np.bool_)
    for (k, j), rows, these in zip(both.pairs, both.rows, both.cells, strict=True):
        if before.sizes[j] > 0 and 0 < both.sizes[k] + both.old_sizes[j] - 2 * rows < fewest:
            close[k] = j
        differ = both.counts[k] + both.old_counts[j] - 2 * these
        close_cells[k] |= (differ > 0) & (differ < fewest) & (before.counts[j] > 0)
    return close, close_cells


def _with_earlier(part: Refined, told: Sequence[Refined], instead: IntArray, cells: Cells) -> Refined:
    """The same with what was told of earlier clusters in the place of some, unless that makes more rows than there are."""
    values, counts, sizes = part.values.copy(), part.counts.copy(), part.sizes.copy()
    for k in np.flatnonzero(instead[:, 0] >= 0):
        before, j = told[instead[k, 0]], instead[k, 1]
        values[k], counts[k], sizes[k] = before.values[j], before.counts[j], before.sizes[j]
    if sizes.sum() > cells.n_rows or (counts.sum(axis=0) > cells.filled).any():
        return part
    return msgspec.structs.replace(part, values=values, counts=counts, sizes=sizes)


def _not_alone(counts: FloatArray | IntArray, hidden: BoolArray) -> BoolArray:
    """The same, and the next smallest where a single one of a column is hidden, which all the others would tell."""
    hidden, there = hidden.copy(), counts > 0
    alone = np.flatnonzero(((hidden & there).sum(axis=0) == 1) & (~hidden & there).any(axis=0))
    rest = np.where(hidden | ~there, np.inf, counts)[:, alone]
    hidden[rest.argmin(axis=0), alone] = True
    return hidden


def _merge_small(labels: IntArray, rows: FloatArray, observed: BoolArray, fewest: int) -> None:
    """The smallest cluster joins the nearest, until none is too small; labels are changed in place."""
    extent = extent_of(rows, observed)
    inside = labels >= 0
    names, own = np.unique(labels[inside], return_inverse=True)
    at = np.full(len(labels), -1, dtype=np.intp)
    at[inside] = own
    new = merged_small(
        centroids_of_rows(rows, observed, at, len(names)), np.bincount(own, minlength=len(names)), extent, fewest
    )
    labels[inside] = np.where(new >= 0, names[new], LEFT_OUT)[own]


def merged_small(centres: MaskedCentroids, sizes: IntArray, extent: Extent, fewest: int) -> IntArray:
    """Which cluster each joins: the smallest goes to the nearest, until none is too small; −1 if all together are."""
    joined = np.arange(len(sizes))
    while True:
        names, index = np.unique(joined, return_inverse=True)
        now = np.bincount(index, weights=sizes).astype(np.intp)
        if now.min() >= fewest or len(names) == 1:
            return joined if now.min() >= fewest else np.full(len(sizes), -1, dtype=np.intp)
        smallest = int(now.argmin())
        means = merge(centres, index, len(names))
        apart = rescaled_distances(means.values[[smallest]], means.seen[[smallest]], means.values, means.seen, extent)[
            0
        ]
        apart[smallest] = np.inf
        nearest = int(np.where(np.isnan(apart), np.finfo(np.float64).max, apart).argmin())
        joined[joined == names[smallest]] = names[nearest]
