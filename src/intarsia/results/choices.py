"""The numbers of clusters that were considered when K was chosen: a table, and what it says in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_CLEARLY = 0.05  # a score that is higher by less prefers no other number
_AROUND = 10  # rows of the table that are shown in a terminal


class ConsideredNumber(NamedTuple):
    """One number of clusters; NaN where a score is not known.

    Attributes
    ----------
    n_clusters
        The number of clusters.
    confidence
        How clearly the best grouping of local clusters wins: 0 for a tie, 1 if every start finds it.
    silhouette
        Mean silhouette over summaries, of the cut of the merge tree.
    stability
        Mean adjusted Rand index between clusters of all rows and of halves of them, over participants by their rows.
    objective
        Sum of squares within the clusters of the cut, as a share of that with one cluster.
    """

    n_clusters: int
    confidence: float
    silhouette: float
    stability: float
    objective: float


@dataclass(frozen=True)
class Choices(Sequence[ConsideredNumber]):
    """All numbers of clusters that were considered, from 1 on, and the one that was chosen; empty if K was given."""

    rows: tuple[ConsideredNumber, ...]
    chosen: int

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        return self.rows[at]

    def __iter__(self) -> Iterator[ConsideredNumber]:
        return iter(self.rows)

    def to_dicts(self) -> list[dict[str, float]]:
        """Return one dict per number, for any table library: ``pandas.DataFrame(result.choices.to_dicts())``."""
        return [row._asdict() for row in self.rows]

    def preferred(self, score: str) -> int:
        """Return the number with the highest score, the chosen one unless another is clearly higher.

        >>> rows = (ConsideredNumber(2, 0.9, 0.6, 0.9, 0.5), ConsideredNumber(3, 0.8, 0.4, 0.92, 0.4))
        >>> Choices(rows, 3).preferred("silhouette"), Choices(rows, 3).preferred("stability")
        (2, 3)
        """
        scores = {
            row.n_clusters: value
            for row in self.rows
            if row.n_clusters > 1 and not np.isnan(value := float(getattr(row, score)))
        }
        if not scores:
            return self.chosen
        best = max(scores, key=lambda k: (scores[k], -k))
        return self.chosen if scores[best] <= scores.get(self.chosen, -1.0) + _CLEARLY else best

    @property
    def candidates(self) -> tuple[int, ...]:
        """The numbers that some score prefers, in order; a single one if all agree."""
        if self.chosen == 1:
            return (1,)
        return tuple(sorted({self.chosen, *(self.preferred(score) for score in ("silhouette", "stability"))}))

    @property
    def verdict(self) -> str:
        """What the scores say in words.

        >>> rows = (ConsideredNumber(2, 0.9, 0.6, 0.9, 0.5), ConsideredNumber(3, 0.8, 0.4, 0.92, 0.4))
        >>> Choices(rows, 3).verdict
        '2 or 3 clusters: the silhouette prefers 2; 3 was chosen.'
        """
        clusters = "cluster" if self.chosen == 1 else "clusters"
        if len(self.candidates) == 1:
            return f"{self.chosen} {clusters}: no other number is a candidate."
        prefer = [
            f"the {score} prefers {k}"
            for score in ("silhouette", "stability")
            if (k := self.preferred(score)) != self.chosen
        ]
        return f"{' or '.join(map(str, self.candidates))} clusters: {', '.join(prefer)}; {self.chosen} was chosen."

    def around(self, most: int = _AROUND) -> tuple[ConsideredNumber, ...]:
        """Return at most so many rows, those around the chosen number."""
        first = max(0, min(self.chosen - 1 - most // 2, len(self.rows) - most))
        return self.rows[first : first + most]

    def __str__(self) -> str:
        if not self.rows:
            return "K was given: no other number was considered."
        lines = [f"{'K':>4}{'confidence':>12}{'silhouette':>12}{'stability':>11}{'objective':>11}"]
        for row in self.around():
            cells = ("" if np.isnan(value) else f"{value:.2f}" for value in row[1:])
            mark = " *" if row.n_clusters == self.chosen else ""
            widths = zip(cells, (12, 12, 11, 11), strict=True)
            lines.append(f"{row.n_clusters:>4}{''.join(f'{cell:>{width}}' for cell, width in widths)}{mark}")
        return "\n".join([*lines, self.verdict])
