"""Forces between the local clusters of all participants, and the paper's greedy agglomeration of them (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from intarsia.core.grouping.agglomeration import MergeTree, agglomerate
from intarsia.core.types import FloatArray, IntArray


@dataclass(frozen=True)
class LocalForces:
    """The force between every two local clusters, NaN where a pair is incomparable, and the owner of each."""

    forces: FloatArray
    owner: IntArray

    @cached_property
    def tree(self) -> MergeTree:
        """The paper's merge tree."""
        return agglomerate(self.forces)

    def __len__(self) -> int:
        return len(self.owner)
