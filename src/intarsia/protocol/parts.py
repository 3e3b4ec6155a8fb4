"""Parts of several messages: how rows are laid out, their moments, and global clusters as centroids and Gaussians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated

import msgspec
import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.features import indicators
from intarsia.core.mixture import FARTHEST, SMALLEST
from intarsia.core.units import MISMATCH, QUANTILES, SCALES, factors_of_features
from intarsia.protocol.checks import MOST_JOINT_LEVELS, is_bounded, require
from intarsia.protocol.facts import ALLOW_EXTREMES, Fact, Need, count, single_value
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Array, Part, pack_array

MOST_APART = 1e6  # times that common units may differ from the deviation of a participant's own column
LARGEST_FACTOR = 1e6  # of a column with a weight
MOST_CENTRES = 1000  # in one request: every row is compared with each
_MOST_DISTANCES = 1 << 30  # from rows to centroids, in memory at the same time
_NEED_EXTREMES = ("minmax", "robust")


class Columns(Part, frozen=True):
    """How the participant lays out its rows: an indicator for each level of its categorical columns, features sorted by
    name, in common units: (x − shift) / scale.
    """

    shift: Annotated[Array, Fact("what common units subtract from each feature")]
    scale: Annotated[Array, Fact("what common units divide each feature by")]
    levels: Annotated[
        dict[str, tuple[str, ...]],
        Fact("all levels that any participant has of this participant's categorical columns"),
    ] = msgspec.field(default_factory=dict)

    def check(self, n_features: int) -> None:
        """The units must be those of so many features."""
        shape = (n_features,)  # any other could be broadcast against single rows
        require(self.shift.shape == self.scale.shape == shape, f"units must have {n_features} entries, one per feature")
        require(is_bounded(self.shift), "the shift of units must be finite")
        positive = (self.scale >= 1 / LARGEST) & (self.scale <= LARGEST)
        require(positive.all(), "the scale of units must be positive and finite")

    @property
    def is_trivial(self) -> bool:
        """Whether rows stay as they are: no categories, and the units of the table."""
        return not self.levels and bool((self.shift == 0).all() and (self.scale == 1).all())

    def implausible(
        self, own: Mapping[str, tuple[float, float]], scale: str | None, factors: Mapping[str, float] | None = None
    ) -> list[str]:
        """Return the features whose units cannot follow from a table with these means and deviations of numeric columns.

        Common units are those of all participants together, so they may differ from a participant's own; but not by more
        than ``MOST_APART`` times. A feature that varies nowhere keeps its units, and so do all if ``scale`` is None. The
        units of columns with a weight are divided by exactly the ``factors`` of the study.
        """
        names = sorted((*own, *indicators(self.levels)))
        each = factors_of_features(names, self.levels, factors or {}).tolist()
        return [
            name
            for name, shift, unit, factor in zip(names, self.shift.tolist(), self.scale.tolist(), each, strict=True)
            if not (
                _is_indicator_unit(shift, unit, factor)
                if name not in own
                else _is_plausible(shift, unit, factor, *own[name], scale)
            )
        ]

    def check_levels(self, known: Mapping[str, Sequence[str]]) -> None:
        """The levels must include all those of the participant's categorical columns, and no other column."""
        fits = set(self.levels) == set(known) and all(
            set(names) <= set(self.levels[column]) for column, names in known.items()
        )
        require(fits, "the levels must include those of the participant's categorical columns, and no other column")
        require(
            all(len(set(sent)) == len(sent) for sent in self.levels.values()), "levels of a column must be different"
        )
        n_levels = max(map(len, self.levels.values()), default=0)
        require(n_levels <= MOST_JOINT_LEVELS, f"a column must have at most {MOST_JOINT_LEVELS} levels")


def _is_indicator_unit(shift: float, unit: float, factor: float) -> bool:
    return (shift, unit) == (0.0, MISMATCH / factor)


def _is_plausible(shift: float, unit: float, factor: float, mean: float, deviation: float, scale: str | None) -> bool:
    if (shift, unit) == (0.0, 1.0 / factor) or scale is None:
        return (shift, unit) == (0.0, 1.0 / factor)
    unit *= factor
    fits = deviation == 0 or deviation / MOST_APART <= unit <= deviation * MOST_APART
    return fits and abs(shift - mean) <= MOST_APART * max(unit, deviation)


class Moments(Part, frozen=True):
    """Statistics of each feature: the number of observed values, their mean and the sum of squared deviations from it.

    With ``scale="minmax"`` also the smallest and the largest value, with ``"robust"`` quantiles (quantiles × features).
    """

    count: Annotated[Array, count("observed values of each column")]
    mean: Annotated[Array, Fact("mean of each column", rows="count")]
    m2: Annotated[Array, Fact("sum of squared deviations of each column", rows="count")]
    low: Annotated[Array | None, single_value("smallest value of each column (for minmax units)")] = None
    high: Annotated[Array | None, single_value("largest value of each column (for minmax units)")] = None
    quantiles: Annotated[Array | None, single_value("19 quantiles of each column (for robust units)")] = None

    def only(self, kept: Array) -> Moments:
        """Return the count, mean and squares of the features in the mask; those of the others are 0."""
        count, mean, m2 = (np.where(kept, part, 0.0) for part in (self.count, self.mean, self.m2))
        return Moments(count=count, mean=mean, m2=m2)

    def check(self, n_features: int, n_rows: int) -> None:
        """The statistics must be those of so many features and rows."""
        require((self.low is None) == (self.high is None), "smallest and largest values must come together")
        several = [part for part in (self.count, self.mean, self.m2, self.low, self.high) if part is not None]
        shapes = all(part.shape == (n_features,) and part.dtype.kind == "f" for part in several)
        require(shapes, "moments must have one number per feature")
        moderate = all(is_bounded(part, squared=part is self.m2) for part in several)
        require(moderate, "moments must be finite numbers")
        require((self.count >= 0).all() and (self.m2 >= 0).all(), "counts and sums of squares must be at least 0")
        counts = (self.count <= n_rows) & (self.count % 1 == 0)
        require(counts.all(), "moments must not count more values than rows")
        if self.low is not None and self.high is not None:
            require((self.low <= self.high).all(), "the smallest value must not be above the largest")
        if self.quantiles is not None:
            fits = self.quantiles.shape == (len(QUANTILES), n_features) and self.quantiles.dtype.kind == "f"
            require(fits and is_bounded(self.quantiles), f"there must be {len(QUANTILES)} quantiles of each feature")
            require((np.diff(self.quantiles, axis=0) >= 0).all(), "quantiles must be in ascending order")

    def check_units(self, scale: str | None) -> None:
        """The statistics must include those that the units need."""
        require(scale != "minmax" or self.low is not None, "smallest and largest values were asked for and are missing")
        require(scale != "robust" or self.quantiles is not None, "quantiles were asked for and are missing")


class Centres(Part, frozen=True):
    """Global centroids over the participant's features, which entries are known, and the extent that distances divide by."""

    values: Annotated[Array, Fact("the global centroids, over this participant's features")]
    known: Annotated[Array, Fact("which entries of the centroids are known")]
    low: Annotated[Array, Fact("smallest entry of all local centroids, by feature")]
    high: Annotated[Array, Fact("largest entry of all local centroids, by feature")]

    def check(self, n_features: int, most: int) -> None:
        """There must be 1 to ``most`` centroids over so many features, with finite entries inside an extent."""
        n = len(self.values) if self.values.ndim == 2 else 0
        fits = self.values.shape == self.known.shape == (n, n_features) and n > 0
        extent = self.low.shape == self.high.shape == (n_features,)
        require(fits and extent, f"centroids must have {n_features} features, as the table has")
        require(n <= most, f"there must be at most {most} centroids")
        known = self.known.astype(np.bool_)
        seen = known.any(axis=0)
        finite = all(is_bounded(part) for part in (self.values[known], self.low[seen], self.high[seen]))
        require(finite, "centroids and their extent must be finite")
        require((self.low[seen] <= self.high[seen]).all(), "the extent must not end below its start")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """There must be K centroids, all finite."""
        yield from terms.departing_k(len(self.values) if self.values.ndim == 2 else 0)
        if self.values.shape == self.known.shape and not is_bounded(self.values[self.known.astype(np.bool_)]):
            yield "a centroid is not finite"


class Gaussians(Part, frozen=True):
    """Global clusters as Gaussians with independent features, over the participant's; see :mod:`intarsia.core.mixture`."""

    means: Annotated[Array, Fact("means of the Gaussians")]
    variances: Annotated[Array, Fact("variances of the Gaussians")]
    seen: Annotated[Array, Fact("which entries of the Gaussians are known")]
    weights: Annotated[Array, Fact("the clusters' shares of the rows")]
    overall: Annotated[Array, Fact("the mean of all rows")]
    width: Annotated[Array, Fact("the variance of all rows")]

    def check(self, n_clusters: int, n_features: int) -> None:
        """There must be a Gaussian for each cluster over so many features, with positive variances and weights."""
        single, each = (self.overall, self.width), (self.means, self.variances, self.seen)
        fits = all(part.shape == (n_features,) for part in single) and self.weights.shape == (n_clusters,)
        fits = fits and all(part.shape == (n_clusters, n_features) for part in each)
        require(fits, f"there must be {n_clusters} Gaussians over {n_features} features")
        finite = all(is_bounded(part) for part in (*single, self.means, self.variances, self.weights))
        require(finite, "Gaussians must be finite")
        require(
            ((self.width == 0) | (self.width >= 1 / LARGEST)).all(), "the variance of all rows must be 0 or positive"
        )
        near = (np.abs(self.means) <= FARTHEST).all() and (self.variances >= SMALLEST).all()
        require(near and (self.weights > 0).all(), "Gaussians must have positive variances and weights")


def most_centres(n_rows: int) -> int:
    """Return the number of centroids that can be compared with so many rows at the same time."""
    return max(1, min(MOST_CENTRES, _MOST_DISTANCES // max(n_rows, 1)))


OwnLevels = Annotated[dict[str, tuple[str, ...]], Fact("names of the categorical columns, and of their levels")]
CommonColumns = Annotated[Columns | None, Fact("how to lay out rows; None: in their own units and levels")]
CommonMoments = Annotated[Moments | None, Fact("statistics of each column, for common units")]


def key_of(columns: Columns | None) -> str:
    """Return a short text by which the same layout is recognised; that of a table's own units is the same as none."""
    if columns is None or columns.is_trivial:
        return ""
    parts = [
        pack_array(columns.shift).data,
        pack_array(columns.scale).data,
        repr(sorted(columns.levels.items())).encode(),
    ]
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()[:16]


def key_of_centres(centres: Centres) -> str:
    """Return a short text by which the same centroids are recognised."""
    parts = (centres.values, centres.known, centres.low, centres.high)
    return sha256(b"".join(sha256(pack_array(part).data).digest() for part in parts)).hexdigest()[:16]


def check_factors(factors: Mapping[str, float]) -> None:
    """What differences of columns are multiplied by must be positive and within bounds."""
    fits = all(1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR for factor in factors.values())
    require(fits, f"factors of columns must be from {1 / LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}")


def check_scale(scale: str | None) -> None:
    """The name of common units must be known."""
    require(scale in SCALES, f"scale must be one of {SCALES}")


def needs_of_scale(scale: str | None) -> tuple[Need, ...]:
    """Return the rules without which the statistics for these units may not leave."""
    if scale not in _NEED_EXTREMES:
        return ()
    return (Need(ALLOW_EXTREMES, f"units {scale!r} need values of single rows"),)
