"""How surely the clusters of a result come back when rows are resampled: the figures, by cluster and over all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.core.types import FloatArray, IntArray

STABLE, DOUBTFUL = 0.75, 0.6  # a cluster is stable from the first on, doubtful from the second on, else unstable


@dataclass(frozen=True)
class Stability:
    """The stability of each cluster: 1 if it always comes back, 0 if no more surely than parts of one cloud.

    Attributes
    ----------
    scores : tuple of float or None
        By cluster, (J − J₀) / (1 − J₀), at least 0; None where it is unknown.
    sizes : tuple of int
        By cluster, the number of rows that weigh its score.
    jaccard, dissolved : tuples of float or None
        By cluster, J: the mean Jaccard similarity with the most similar new cluster; and the share of resamples in which
        it was below 0.5. Empty if participants measured (``local``), who send scores only.
    reference : float or None
        J₀: the mean Jaccard similarity for rows of one Gaussian with the covariance of all rows.
    n_resamples, seed : int
        The number of resamples, and the seed of all that is random.
    local : bool
        Whether each participant resampled its own rows, and the scores are means of theirs weighted by rows. They say how
        surely the parts of a cluster come back, not whether participants' parts belong together.
    """

    scores: tuple[float | None, ...]
    sizes: tuple[int, ...]
    jaccard: tuple[float | None, ...] = ()
    dissolved: tuple[float | None, ...] = ()
    reference: float | None = None
    n_resamples: int = 0
    seed: int = 0
    local: bool = False

    @property
    def mean(self) -> float:
        """The mean score, weighted by rows; NaN if no score is known."""
        known = [(score, size) for score, size in zip(self.scores, self.sizes, strict=True) if score is not None]
        total = sum(size for _, size in known)
        return sum(score * size for score, size in known) / total if total else float("nan")

    @property
    def smallest(self) -> float:
        """The smallest score of a cluster; NaN if no score is known."""
        return min((score for score in self.scores if score is not None), default=float("nan"))

    @property
    def doubtful(self) -> tuple[int, ...]:
        """The clusters that are not stable (below 0.75), among them those that are unstable (below 0.6)."""
        return self._below(STABLE)

    @property
    def unstable(self) -> tuple[int, ...]:
        """The clusters with a score below 0.6."""
        return self._below(DOUBTFUL)

    def _below(self, limit: float) -> tuple[int, ...]:
        return tuple(k for k, score in enumerate(self.scores) if score is not None and score < limit)

    @property
    def columns(self) -> dict[str, list[int | float | None]]:
        """The table as columns: cluster, rows, stability and, unless participants measured, jaccard and dissolved."""
        more = {} if self.local else {"jaccard": self.jaccard, "dissolved": self.dissolved}
        table = {"cluster": range(len(self.scores)), "rows": self.sizes, "stability": self.scores, **more}
        return {name: list(values) for name, values in table.items()}

    def __str__(self) -> str:
        how = "local, by each participant" if self.local else f"{self.n_resamples} resamples"
        lines = [f"stability {_shown(self.mean)}, smallest {_shown(self.smallest)} ({how})"]
        names = list(self.columns)
        rows = [[_shown(value) for value in row] for row in zip(*self.columns.values(), strict=True)]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines += [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in (names, *rows)
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Stability: {self}>"


def _shown(value: float | None) -> str:
    if value is None or np.isnan(value):
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def known(values: FloatArray) -> tuple[float | None, ...]:
    """Return figures with None for NaN, rounded so that they are the same on every machine."""
    return tuple(None if np.isnan(value) else round(float(value), 6) for value in values)


def pooled(scores: Mapping[str, FloatArray], sizes: Mapping[str, IntArray], n_clusters: int, seed: int) -> Stability:
    """Return the means of participants' scores, weighted by their rows in each cluster."""
    total, weight = np.zeros(n_clusters), np.zeros(n_clusters)
    for name, own in scores.items():
        at = ~np.isnan(own)
        total[at] += own[at] * sizes[name][at]
        weight[at] += sizes[name][at]
    mean = np.divide(total, weight, out=np.full(n_clusters, np.nan), where=weight > 0)
    return Stability(known(mean), tuple(map(int, weight)), seed=seed, local=True)
