"""What may leave a participant: its own rules, which no study can loosen."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.exceptions import SettingError

SMALL = ("merge", "withhold")


@dataclass(frozen=True)
class ReleasePolicy:
    """The rules of one participant. The defaults are for institutions that answer for other people's rows.

    Attributes
    ----------
    min_cluster_size : int
        No number leaves that fewer rows stand behind: smaller local clusters are merged or withheld, entries of centroids
        with fewer cells hidden, columns with fewer filled cells and categories' levels with fewer rows left out, and a
        table with fewer rows takes no part. 1 lets everything pass.
    small : {"merge", "withhold"}
        Whether a local cluster that is too small joins the nearest, or is kept back; its rows get a label either way.
    round_counts_to : int
        Counts of rows and cells leave as multiples of it; 1 leaves them as they are.
    allow_extremes : bool
        Whether smallest and largest cells and quantiles may leave, which "minmax" and "robust" units and bounding boxes
        need. Each of them is some row's cell.
    allow_discrete : bool
        Whether tables of probabilities ("discrete" densities) may leave: rare combinations in them are single rows.
    allow_any_covariance : bool
        Whether covariances may leave that have more parameters than 0.33 × points; otherwise they are simplified.
    max_rounds : int or None
        So many rounds of refinement are answered in one study, and no more; None for any number. As many different
        questions for local clusters and for labels are answered, but at least 5 of each, which a study may need.
    """

    min_cluster_size: int = 5
    small: str = "merge"
    round_counts_to: int = 1
    allow_extremes: bool = False
    allow_discrete: bool = False
    allow_any_covariance: bool = False
    max_rounds: int | None = 20

    def __post_init__(self) -> None:
        for name, least in (("min_cluster_size", 1), ("round_counts_to", 1), ("max_rounds", 0)):
            value = getattr(self, name)
            if value is None and name == "max_rounds":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingError(f"{name} must be a whole number from {least}. Got {value!r} instead.")
        if self.round_counts_to > 1 and self.round_counts_to > self.min_cluster_size:
            raise SettingError(
                f"round_counts_to must not be above min_cluster_size, or whole clusters would be rounded away. "
                f"Got {self.round_counts_to} and {self.min_cluster_size}."
            )
        if self.small not in SMALL:
            raise SettingError(f"small must be one of {SMALL}. Got {self.small!r} instead.")


OPEN = ReleasePolicy(
    min_cluster_size=1, allow_extremes=True, allow_discrete=True, allow_any_covariance=True, max_rounds=None
)
"""For somebody who holds all tables anyway: everything passes."""
