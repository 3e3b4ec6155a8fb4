"""What the coordinator of a study with secure sums learned: totals, over how many participants, and what stayed at home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SecureTotals:
    """The secure sums of a run.

    Attributes
    ----------
    n_participants : int
        How many participants are in the last total.
    min_holders : int
        How many holders a column needs to be in a sum.
    sizes : tuple of int
        Rows of all participants together in each cluster; nobody told its own.
    at_home : mapping of participants to columns
        Columns with too few holders. Their holder told of them in its first summary, and in no round.
    n_sums : int
        How many totals the coordinator opened.
    epsilon_if_all_collude : float or None
        In a private study with shared noise: ε of one participant's rows if all other participants and the coordinator put
        together what they know. None if noise was not shared.
    """

    n_participants: int
    min_holders: int
    sizes: tuple[int, ...]
    at_home: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    n_sums: int = 0
    epsilon_if_all_collude: float | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.n_sums} totals over {self.n_participants} participants; no part of a single one was told in them."
        ]
        columns = sorted({column for each in self.at_home.values() for column in each})
        if columns:
            lines.append(f"In no total, because fewer than {self.min_holders} have them: {', '.join(columns)}.")
        return "\n".join(lines)
