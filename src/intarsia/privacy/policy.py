"""The release policy of a participant: what may leave it. No study can weaken it."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.exceptions import SettingError
from intarsia.privacy.period import PERIODS
from intarsia.protocol import MOST_SETS

SMALL = ("merge", "withhold")
_WHOLE = (
    ("min_cluster_size", 1),
    ("round_counts_to", 1),
    ("max_rounds", 0),
    ("max_rivals", 0),
    ("max_rounds_in_all", 0),
)


@dataclass(frozen=True)
class ReleasePolicy:
    """The rules of one participant. The defaults suit institutions that are responsible for other people's data.

    Attributes
    ----------
    min_cluster_size : int
        The smallest number of rows behind any number that leaves. Smaller local clusters are merged or suppressed; entries
        of centroids, columns and levels of categories with fewer rows are suppressed; a table with fewer rows cannot take
        part. 1 suppresses nothing.
    small : {"merge", "withhold"}
        Whether a local cluster that is too small is merged with the nearest one or suppressed. Its rows get a label in both
        cases.
    round_counts_to : int
        Counts of rows and values are rounded down to multiples of it; 1 leaves them as they are.
    allow_extremes : bool
        Whether smallest and largest values and quantiles may leave, each of which is the value of a single row. Units
        "minmax" and "robust" and bounding boxes need them.
    allow_discrete : bool
        Whether tables of probabilities ("discrete" densities) may leave: rare combinations in them are single rows.
    allow_any_covariance : bool
        Whether covariances with more parameters than 0.33 × points may leave; otherwise they are simplified.
    max_rounds : int or None
        The largest number of rounds that are answered in one study; None for any number. The same limit, but at least 5,
        applies to different requests for local clusters and for labels. In a study that is repeated, the same request counts
        once in each run.
    max_rounds_per : {"day", "week", "month", "quarter", "year"} or None
        The calendar period (UTC) in which ``max_rounds`` rounds are answered, for studies that are repeated. None: in all
        runs of a study together.
    max_rounds_in_all : int
        With ``max_rounds_per``: the largest number of rounds over all periods, and of requests of each other kind.
    max_rivals : int
        The largest number of alternative sets of centroids that one round may ask about; 0 refuses them.
    allow_crosswise : bool
        Whether rounds are answered whose centroids lack the participant's own part.
    """

    min_cluster_size: int = 5
    small: str = "merge"
    round_counts_to: int = 1
    allow_extremes: bool = False
    allow_discrete: bool = False
    allow_any_covariance: bool = False
    max_rounds: int | None = 20
    max_rounds_per: str | None = None
    max_rounds_in_all: int = 120
    max_rivals: int = MOST_SETS - 1
    allow_crosswise: bool = True

    @property
    def is_discreet(self) -> bool:
        """Whether errors must not contain numbers of rows, which nothing rounds or suppresses."""
        return self.min_cluster_size > 1 or self.round_counts_to > 1

    def __post_init__(self) -> None:
        for name, least in _WHOLE:
            value = getattr(self, name)
            if value is None and name == "max_rounds":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingError(f"{name} must be a whole number from {least}. Got {value!r} instead.")
        if self.round_counts_to > 1 and self.round_counts_to > self.min_cluster_size:
            raise SettingError(
                "round_counts_to must not be above min_cluster_size: all rows of a cluster would be rounded away. "
                f"Got {self.round_counts_to} and {self.min_cluster_size}."
            )
        if self.max_rounds_per is not None and self.max_rounds_per not in PERIODS:
            raise SettingError(f"max_rounds_per must be one of {PERIODS}. Got {self.max_rounds_per!r} instead.")
        if self.max_rounds_per is not None and self.max_rounds is None:
            raise SettingError("max_rounds_per needs a number of rounds: max_rounds must not be 'any'.")
        if self.small not in SMALL:
            raise SettingError(f"small must be one of {SMALL}. Got {self.small!r} instead.")


OPEN = ReleasePolicy(
    min_cluster_size=1, allow_extremes=True, allow_discrete=True, allow_any_covariance=True, max_rounds=None
)
"""A policy that suppresses nothing, for a user who has all tables."""
