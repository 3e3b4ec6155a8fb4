"""The exchange "summarize": a participant clusters its rows and describes its local clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

import msgspec
import numpy as np

from intarsia.core.densities import density_names, family_of
from intarsia.core.features import indicators
from intarsia.core.grouping.tried_numbers import MOST_COMPACT, TriedNumbers
from intarsia.exceptions import TooFewClustersError
from intarsia.protocol.checks import (
    MOST_ROWS,
    are_sizes,
    check_centroids,
    check_levels,
    check_names,
    is_bounded,
    require,
)
from intarsia.protocol.densities import DensityMessage, fewest_rows, problem_of
from intarsia.protocol.facts import ALLOW_DISCRETE, ALLOW_EXTREMES, Fact, Need, count, single_value
from intarsia.protocol.parts import CommonColumns, CommonMoments, check_factors, check_scale, key_of, needs_of_scale
from intarsia.protocol.terms import SILHOUETTE, LocalNumber, StudyTerms, departure
from intarsia.protocol.wire import Array, Exchange, Reply, Request

TRIED = len(TriedNumbers._fields)  # columns of a table of numbers of clusters
_LARGEST_TRIED = np.array([MOST_COMPACT if name == "compactness" else 1 for name in TriedNumbers._fields])
MOST_LOCAL_CLUSTERS = 1000  # of one participant: the coordinator compares all with all


class Summarize(Request, frozen=True, tag="query.summarize"):
    """Asks a participant to cluster its rows and to describe the clusters.

    Without ``n_local_clusters`` the participant chooses up to ``max_local_clusters``; if it is ``"silhouette"``, it takes
    the number with the highest mean silhouette, and nothing else decides. While K is unknown, it tells what its rows show
    with other numbers (``tried``). Without ``columns`` it lays out its rows by its own levels, clusters them in its own
    units (``scale``), reports in original units, and adds its moments. With ``n_proxies`` it measures how close so many
    points of each density are to the rows that they stand for. With ``halves`` it splits each local
    cluster in two where that has rows enough, and describes the halves.
    """

    seed: Annotated[int, Fact("seed of all random numbers")]
    n_clusters: Annotated[int | None, Fact("number of global clusters; None: unknown")]
    n_local_clusters: Annotated[
        LocalNumber, Fact("number of local clusters, if it is fixed; silhouette: the one with the highest silhouette")
    ]
    max_local_clusters: Annotated[int, Fact("largest number of local clusters to try")]
    columns: CommonColumns = None
    scale: Annotated[str | None, Fact("units to cluster in")] = None
    factors: Annotated[
        dict[str, float] | None, Fact("columns with a weight, and what their differences are multiplied by")
    ] = None
    density: Annotated[str | None, Fact("which density to fit to each local cluster")] = None
    shrink: Annotated[bool, Fact("whether variances and correlations of densities are shrunk")] = True
    bounding_boxes: Annotated[bool, Fact("whether bounding boxes are asked for")] = False
    n_proxies: Annotated[int, Fact("points to compare a density with its rows by; 0: no comparison")] = 0
    halves: Annotated[bool, Fact("whether each local cluster is told as two halves")] = False

    def check(self) -> None:
        """Names must be known, and numbers in their ranges."""
        check_scale(self.scale)
        require(self.density is None or self.density in density_names(), f"density must be one of {density_names()}")
        require(self.seed >= 0, "seed must be at least 0")
        require(self.n_proxies >= 0, "n_proxies must be at least 0")
        check_factors(self.factors or {})
        alone = self.density is None and not self.bounding_boxes
        require(alone or not self.halves, "halves of local clusters have no densities and no bounding boxes")
        if isinstance(self.n_local_clusters, int):
            _check_number("n_local_clusters", self.n_local_clusters)
            return
        require(self.n_local_clusters in {None, SILHOUETTE}, f"n_local_clusters must be a number or {SILHOUETTE!r}")
        _check_number("max_local_clusters", self.max_local_clusters)
        if self.n_clusters is not None:
            _check_number("n_clusters", self.n_clusters)

    def needs(self) -> Iterator[Need]:
        """Some units, bounding boxes and some densities tell of single rows."""
        yield from needs_of_scale(self.scale)
        if self.bounding_boxes:
            yield Need(ALLOW_EXTREMES, "bounding boxes are values of single rows")
        if self.density is not None and family_of(self.density).tells_of_single_rows:
            yield Need(ALLOW_DISCRETE, f"{self.density} densities tell of single rows")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """All settings must be those of the study; a summary for rounds is in common units, any other in the table's own."""
        yield from terms.departing(
            seed=self.seed,
            n_local_clusters=self.n_local_clusters,
            shrink=self.shrink,
            bounding_boxes=self.bounding_boxes,
            n_proxies=self.n_proxies,
        )
        if self.n_clusters is not None:
            yield from terms.departing_k(self.n_clusters)
        elif terms.n_clusters is not None:
            yield departure("n_clusters", "auto", terms.n_clusters)
        most = self.n_clusters or terms.max_local_clusters
        if self.max_local_clusters != most:
            yield departure("max_local_clusters", self.max_local_clusters, most)
        density = None if terms.in_rounds and self.n_clusters is not None else terms.density
        if self.density != density:
            yield departure("density", self.density or "none", density or "none")
        scale = None if terms.in_rounds else terms.scale
        if self.scale != scale:
            yield departure("scale", self.scale or "none", scale or "none")
        factors = None if terms.in_rounds else terms.factors  # in rounds, common units have them
        if self.factors != factors:
            yield departure("factors", self.factors or "none", factors or "none")
        if self.halves and not (terms.halves and self.n_clusters is not None):
            yield departure("halves", self.halves, agreed=False)
        if self.columns is not None and not terms.in_rounds:
            yield departure("columns", "common units", "the units of the table")

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """There is one summary, after one without K if K is chosen."""
        return "summary" if self.n_clusters is not None else "summary without K"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:
        """K, once it is known, units and levels are the same in all requests; a previous model may have another K."""
        if not terms.in_rounds:
            return {}
        number = {} if self.n_clusters is None or terms.previous else {"n_clusters": self.n_clusters}
        return {**number, "columns": key_of(self.columns)}


def _check_number(name: str, n: int) -> None:
    require(1 <= n <= MOST_LOCAL_CLUSTERS, f"{name} must be between 1 and {MOST_LOCAL_CLUSTERS}")


def _rows_of_densities(summary: LocalSummary) -> dict[str, int]:
    """The smallest number of rows behind each field of the densities."""
    return fewest_rows(summary.densities or (), summary.sizes, summary.counts)


class LocalSummary(Reply, frozen=True, tag="reply.summary"):
    """All that leaves a participant about its local clusters.

    ``values`` and ``counts`` are clusters × features; an entry with count 0 is suppressed. ``densities`` has one entry per
    cluster, over the features that the cluster has entries of; ``fidelity`` is clusters × 4. ``features`` are those by which
    the rows were laid out, ``levels`` the participant's own. ``n_rows`` counts all rows, also noise. With ``half_of`` all
    entries are those of halves, and cluster ``half_of[z]`` is their sum.
    """

    features: Annotated[tuple[str, ...], Fact("names of the features", rows="n_rows")]
    n_rows: Annotated[int, count("number of rows")]
    filled: Annotated[Array, count("observed values of each feature", rows="n_rows")]
    values: Annotated[
        Array, Fact("centroid of each local cluster, or of each half of one: means over its rows", rows="counts")
    ]
    counts: Annotated[Array, count("observed values behind each entry of a centroid")]
    sizes: Annotated[Array, count("rows in each local cluster, or in each half of one")]
    levels: Annotated[dict[str, tuple[str, ...]], Fact("names of the categorical columns, and of their levels")] = (
        msgspec.field(default_factory=dict)
    )
    clarity: Annotated[
        float | None,
        Fact("how clearly the local clusters are apart (mean silhouette of the least clear)", rows="sizes"),
    ] = None
    tried: Annotated[
        Array | None,
        Fact(
            "for 2, 3, … clusters of a sample: mean silhouette, the same without structure, its deviation, stability, "
            "whether all clusters are large, and clear, enough, and the sum of squares compared with that without structure",
            rows="n_rows",
        ),
    ] = None
    densities: Annotated[
        tuple[DensityMessage, ...] | None, Fact("the shape of each local cluster", rows=_rows_of_densities)
    ] = None
    fidelity: Annotated[Array | None, Fact("how close points of each density are to the rows", rows="sizes")] = None
    low: Annotated[Array | None, single_value("smallest value of each local cluster (bounding box)")] = None
    high: Annotated[Array | None, single_value("largest value of each local cluster (bounding box)")] = None
    moments: CommonMoments = None
    half_of: Annotated[Array | None, Fact("the local cluster that each is a half of, if they were split")] = None

    def check(self) -> None:
        """The shapes must fit each other, counts must be counts, and entries must be numbers."""
        self._check_rows()
        self._check_clusters()
        self._check_shapes_of_clusters()
        if self.moments is not None:
            self.moments.check(len(self.features), self.n_rows)

    def _check_rows(self) -> None:
        require(len(self.features) > 0, "there must be at least one feature")
        check_names(self.features)
        check_levels(self.levels)
        require(set(indicators(self.levels)) <= set(self.features), "each level must have a feature")
        require(0 < self.n_rows < MOST_ROWS, "there must be at least one row")
        counts = self.filled.shape == (len(self.features),) and self.filled.dtype.kind == "i"
        fits = counts and bool(((self.filled >= 0) & (self.filled <= self.n_rows)).all())
        require(fits, "a feature must not have more observed values than rows")

    def _check_clusters(self) -> None:
        shape = (len(self.sizes), len(self.features)) if self.sizes.ndim == 1 else None
        require(self.values.shape == self.counts.shape == shape, "centroids, counts and sizes must fit each other")
        if len(self.sizes) == 0:
            raise TooFewClustersError(
                "no local cluster was found: every row is noise. Hint: use a less strict local algorithm, or exclude this "
                "participant."
            )
        n_clusters = len(self.sizes)
        require(n_clusters <= MOST_LOCAL_CLUSTERS, f"there must be at most {MOST_LOCAL_CLUSTERS} local clusters")
        require(self.sizes.dtype.kind == "i" and (self.sizes > 0).all(), "each local cluster must have rows")
        require(are_sizes(self.sizes, self.n_rows), "there must not be more rows in clusters than in all")
        check_centroids(self.values, self.counts, self.sizes)
        require((self.counts.sum(axis=0) <= self.filled).all(), "clusters must not have more values than the column")
        if self.half_of is not None:
            fits = self.half_of.shape == self.sizes.shape and self.half_of.dtype.kind == "i"
            inside = fits and bool(((self.half_of >= 0) & (self.half_of < len(self.sizes))).all())
            numbered = inside and bool((np.bincount(self.half_of) > 0).all())
            require(numbered, "halves must be those of clusters that are numbered from 0 without a break")
        require(self.clarity is None or -1 <= self.clarity <= 1, "clarity must be between -1 and 1")
        if self.tried is not None:
            fits = self.tried.ndim == 2 and 1 <= len(self.tried) < MOST_LOCAL_CLUSTERS and self.tried.shape[1] == TRIED
            fits = fits and self.tried.dtype.kind == "f" and bool((np.abs(self.tried) <= _LARGEST_TRIED).all())
            require(fits, f"numbers of clusters that were tried must have {TRIED} numbers each, within their ranges")

    def _check_shapes_of_clusters(self) -> None:
        if self.densities is not None:
            require(len(self.densities) == len(self.sizes), "there must be one density per cluster")
            for density, counts in zip(self.densities, self.counts, strict=True):
                problem = problem_of(density, int((counts > 0).sum()))
                require(problem is None, str(problem))
        if self.fidelity is not None:
            fits = self.fidelity.shape == (len(self.sizes), 4) and self.fidelity.dtype.kind == "f"
            valid = fits and not (np.isinf(self.fidelity[:, :3]) | (self.fidelity[:, :3] < 0)).any()
            require(valid, "fidelity must have 4 numbers per cluster, none of them negative")
        if self.low is not None and self.high is not None:
            require(self.low.shape == self.high.shape == self.values.shape, "bounding boxes must fit the centroids")
            bounded = is_bounded(self.low) and is_bounded(self.high) and bool((self.low <= self.high).all())
            require(bounded, "bounding boxes must be finite and must not end below their start")

    def check_densities(self, density: str) -> None:
        """There must be densities, of the family that was asked for."""
        require(self.densities is not None, "densities were asked for and are missing")
        family = family_of(density)
        same = all(sent.kind == family.name for sent in self.densities or ())
        require(same, f"densities must be {density}, which was asked for")
        fits = family.takes_categories or not self.levels
        require(fits, f"a table with categories must not have densities of the kind {family.name!r}")

    def differences(self, before: Self | None) -> Iterator[int]:  # noqa: ARG002
        """All rows less those in clusters are noise, and rows that took no part."""
        if are_sizes(self.sizes):
            yield self.n_rows - int(self.sizes.sum(dtype=object))


SUMMARIZE = Exchange(Summarize, LocalSummary, title="local clusters")
