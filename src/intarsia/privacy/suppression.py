"""What a release policy suppresses of a table, of local clusters, and of answers about several sets of centroids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.disclosure import (
    Crossing,
    differ_by_few,
    hidden_entries,
    hidden_sizes,
    merged_small,
    never_alone,
)
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import IntArray
from intarsia.exceptions import TooFewRowsError, quote
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Refined


class Cells(NamedTuple):
    """The number of rows of a table, and the number of observed values of each feature."""

    n_rows: int
    filled: IntArray


class Suppression:
    """The rules of one participant about small numbers of rows, and how much they suppressed.

    ``counts`` says how many columns, levels, clusters and entries are suppressed in the answer to the current request.
    """

    def __init__(self, policy: ReleasePolicy) -> None:
        self.policy = policy
        self.counts: Counter[str] = Counter()
        self._of_table: Counter[str] = Counter()

    @property
    def fewest(self) -> int:
        """The smallest number of rows that a released number may describe."""
        return self.policy.min_cluster_size

    def start_request(self) -> None:
        """Forget what the answer to the last request suppressed; what is suppressed of the table stays so."""
        self.counts = Counter(self._of_table)

    def check_rows(self, owner: str, n_rows: int) -> None:
        """Refuse a table with too few rows."""
        if n_rows < self.fewest:
            raise TooFewRowsError(
                f"{owner!r} has fewer than the {self.fewest} rows that its release rules require, so it cannot take part."
            )

    def kept_levels(self, counted: Mapping[str, Mapping[str, int]]) -> dict[str, set[str]]:
        """Return the levels of each column that enough rows have, from the number of rows of each level."""
        kept = {name: {level for level, n in levels.items() if n >= self.fewest} for name, levels in counted.items()}
        self._of_table["levels"] += sum(len(levels) - len(kept[name]) for name, levels in counted.items())
        return kept

    def sparse_columns(self, owner: str, filled: Mapping[str, int]) -> set[str]:
        """Return the columns with too few observed values, from their number in each column."""
        sparse = [name for name, n in filled.items() if n < self.fewest]
        self._of_table["columns"] += len(sparse)
        if len(sparse) == len(filled):
            raise TooFewRowsError(
                f"every column of {owner!r} has fewer than {self.fewest} observed values: {quote(sparse)}. "
                "Its release rules suppress the whole table."
            )
        return set(sparse)

    def are_few(self, n_rows: int) -> bool:
        """Whether there are rows, but fewer than a released number may describe."""
        return 0 < n_rows < self.fewest

    def gathers(self, outside: int) -> bool:
        """Whether rows outside all local clusters must be counted with their nearest cluster, being few."""
        return self.policy.small == "merge" and self.are_few(outside)

    def settle(
        self, sizes: IntArray, outside: int, extent: Extent, centroids: Callable[[], MaskedCentroids]
    ) -> IntArray:
        """Return the released cluster that each local cluster becomes, −1 if it is suppressed.

        Small clusters are merged into the nearest, or suppressed ("withhold"). ``outside`` rows are in no cluster: noise,
        and rows that were not clustered. Where they are too few, the number of all rows less those of the clusters would
        disclose them: "withhold" suppresses the smallest cluster with them, "merge" counts each of them with the nearest
        cluster (see :meth:`gathers`). ``centroids`` is called only if clusters are merged.
        """
        gathered = self.policy.small == "merge" or not self.are_few(outside)
        if not len(sizes) or (sizes.min() >= self.fewest and gathered):
            return np.arange(len(sizes))
        if self.policy.small == "withhold":
            released = np.where(hidden_sizes(sizes, self.fewest, outside), -1, np.arange(len(sizes)))
        else:
            released = merged_small(centroids(), sizes, extent, self.fewest)
        inside = released >= 0
        if not inside.any():
            raise TooFewRowsError(
                f"all {len(sizes)} local clusters have fewer than the {self.fewest} rows that the release rules of this "
                "participant require. Hint: ask for fewer local clusters."
            )
        released[inside] = renumber(released[inside])
        self.counts["clusters"] += len(sizes) - (int(released.max()) + 1)
        return released

    def hide(self, centroids: MaskedCentroids, totals: IntArray) -> MaskedCentroids:
        """Return the centroids without entries that describe too few of a column's ``totals`` observed values."""
        few = hidden_entries(centroids.counts, totals, self.fewest)
        self.counts["entries"] += int(few.sum())
        return MaskedCentroids.of(centroids.values, np.where(few, 0.0, centroids.counts)) if few.any() else centroids

    def apart(
        self, parts: Sequence[Refined], crossing: Callable[[int, int], Crossing], cells: Cells
    ) -> tuple[Refined, ...]:
        """Return answers about several sets of centroids such that no two clusters differ by only a few rows.

        A cluster may have the same rows as one of an earlier set, or quite different ones. Where fewer rows than the policy
        requires are in only one of the two, their difference would be a sum over these rows: the answer about the earlier
        cluster is then repeated in the place of the later one. If that were the only such cluster, all the others would
        disclose it, so that the next smallest is suppressed. Entries that differ by few values are suppressed likewise.
        ``crossing(later, earlier)`` compares the clusters of two sets.
        """
        released: list[Refined] = []
        for at, part in enumerate(parts):
            few = np.zeros(part.counts.shape, dtype=np.bool_)
            instead = np.full((len(part.sizes), 2), -1, dtype=np.intp)  # an earlier set, and one of its clusters
            for n, earlier in enumerate(released if self.fewest > 1 else ()):  # otherwise nothing is too few
                similar, similar_entries = differ_by_few(crossing(at, n), earlier.sizes, earlier.counts, self.fewest)
                few |= similar_entries
                new = (similar >= 0) & (instead[:, 0] < 0)
                instead[new, 0], instead[new, 1] = n, similar[new]
            hidden = never_alone(part.sizes[:, None], instead[:, :1] >= 0)[:, 0]
            few = never_alone(part.counts, few | hidden[:, None])
            self.counts["clusters"] += int((hidden & (part.sizes > 0)).sum())
            self.counts["entries"] += int((few & ~hidden[:, None] & (part.counts > 0)).sum())
            counts, values = (np.where(few, 0.0, numbers) for numbers in (part.counts, part.values))
            kept = msgspec.structs.replace(part, values=values, counts=counts, sizes=np.where(hidden, 0, part.sizes))
            released.append(_with_earlier(kept, released, instead, cells))
        return tuple(released)


def _with_earlier(part: Refined, released: Sequence[Refined], instead: IntArray, cells: Cells) -> Refined:
    """Return the answer with earlier clusters in the place of some, unless that makes more rows than there are."""
    values, counts, sizes = part.values.copy(), part.counts.copy(), part.sizes.copy()
    for k in np.flatnonzero(instead[:, 0] >= 0):
        earlier, j = released[instead[k, 0]], instead[k, 1]
        values[k], counts[k], sizes[k] = earlier.values[j], earlier.counts[j], earlier.sizes[j]
    if sizes.sum() > cells.n_rows or (counts.sum(axis=0) > cells.filled).any():
        return part
    return msgspec.structs.replace(part, values=values, counts=counts, sizes=sizes)
