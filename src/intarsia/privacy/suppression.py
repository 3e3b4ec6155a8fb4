"""What a release policy suppresses of a table and of local clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.disclosure import merged_small
from intarsia.core.distances import Extent
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.types import IntArray
from intarsia.exceptions import TooFewRowsError, quote
from intarsia.privacy.policy import ReleasePolicy


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

    def settle(self, sizes: IntArray, extent: Extent, centroids: Callable[[], MaskedCentroids]) -> IntArray:
        """Return the released cluster that each local cluster becomes, −1 if it is suppressed.

        Small clusters are merged into the nearest, or suppressed ("withhold"). ``centroids`` is called only if clusters are
        merged.
        """
        if not len(sizes) or sizes.min() >= self.fewest:
            return np.arange(len(sizes))
        if self.policy.small == "withhold":
            released = np.where(sizes < self.fewest, -1, np.arange(len(sizes)))
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
