"""The exchanges of a private study: a sketch of each table, noisy rounds, and labels of which nothing is told.

All numbers in the replies are sums of integers over rows with noise, or follow from such sums and from what is declared.
One row changes them by no more than the noise hides; see :mod:`intarsia.core.private`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np

from intarsia.core.private.declared import MOST_ROUNDS
from intarsia.protocol.checks import MOST_ROWS, check_names, is_bounded, require
from intarsia.protocol.facts import Fact
from intarsia.protocol.parts import MOST_CENTRES, Centres, CommonColumns, Gaussians
from intarsia.protocol.terms import LIKELIEST, StudyTerms, departure
from intarsia.protocol.wire import Array, Exchange, Reply, Request

MOST_MEANS = 1000  # small clusters of one sketch


def _departures_of_private(terms: StudyTerms) -> Iterator[str]:
    if terms.privacy is None:
        yield "differential privacy is not part of the study"


class AskSketch(Request, frozen=True, tag="query.sketch"):
    """Asks a participant for a noisy sketch of its table."""

    n_clusters: Annotated[int | None, Fact("number of clusters; None: it is chosen from the sketches")]

    def check(self) -> None:
        """The number of clusters must be possible."""
        require(self.n_clusters is None or 1 <= self.n_clusters <= MOST_CENTRES, "n_clusters must be at least 1")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The study must be private, and K that of the study."""
        yield from _departures_of_private(terms)
        yield from terms.departing(n_clusters=self.n_clusters)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """There is one sketch in a run."""
        return "sketch"


class Sketched(Reply, frozen=True, tag="reply.sketch"):
    """A noisy sketch of a table, in declared units: the means and weights of small clusters, and a common covariance.

    Values are (x − middle) / (range / 4) with the declared bounds; see :mod:`intarsia.core.private.declared`.
    """

    features: Annotated[tuple[str, ...], Fact("names of the declared features of the table")]
    n_rows: Annotated[float, Fact("number of rows, with noise")]
    weights: Annotated[Array, Fact("shares of the rows in each small cluster, with noise")]
    centroids: Annotated[Array, Fact("means of the small clusters, with noise")]
    covariance: Annotated[Array, Fact("common covariance around these means, with noise")]
    radius: Annotated[float, Fact("how far rows are clipped around a centroid, from noisy sums")]
    rho: Annotated[float, Fact("what the sketch cost, as zCDP")]

    def check(self) -> None:
        """All parts must fit each other and be finite."""
        check_names(self.features)
        n, d = len(self.weights) if self.weights.ndim == 1 else 0, len(self.features)
        require(d > 0 and 0 < n <= MOST_MEANS, f"there must be features, and 1 to {MOST_MEANS} means")
        arrays = (self.weights, self.centroids, self.covariance)
        require(all(part.dtype.kind == "f" and is_bounded(part) for part in arrays), "a sketch must be finite numbers")
        fits = self.centroids.shape == (n, d) and self.covariance.shape == (d, d)
        require(fits, "means and covariance must fit the features")
        require((self.weights >= 0).all() and self.weights.sum() > 0, "weights must be at least 0")
        require(0 < self.n_rows < MOST_ROWS, "there must be at least one row")
        require(0 < self.radius <= 1e6 and self.rho >= 0, "radius must be above 0, and rho at least 0")


class AskSums(Request, frozen=True, tag="query.sums"):
    """Asks a participant for noisy sums of its rows around the nearest of the current centroids, in declared units."""

    is_round = True
    round: Annotated[int, Fact("number of the round, from 0")]
    centres: Annotated[Array, Fact("global centroids over this participant's features, in declared units")]
    known: Annotated[Array, Fact("which entries of the centroids are known")]
    scales: Annotated[Array, Fact("by what each feature is divided when rows are compared with centroids")]
    radius: Annotated[float, Fact("how far rows are clipped around a centroid")]

    def check(self) -> None:
        """Centroids must be finite, with positive scales and radius."""
        fits = self.centres.ndim == 2 and self.known.shape == self.centres.shape
        require(fits and 0 < len(self.centres) <= MOST_CENTRES, f"there must be 1 to {MOST_CENTRES} centroids")
        require(self.scales.shape == self.centres.shape[1:], "there must be a scale for each feature")
        floats = all(part.dtype.kind == "f" and np.isfinite(part).all() for part in (self.centres, self.scales))
        require(floats and self.known.dtype.kind == "b", "centroids and scales must be finite numbers")
        require(bool((np.abs(self.centres) <= 1e6).all()), "centroids must be in declared units")
        require(bool(((self.scales >= 1e-9) & (self.scales <= 1e9)).all()), "scales must be positive")
        require(1e-6 <= self.radius <= 1e6, "radius must be positive")
        require(0 <= self.round < MOST_ROUNDS, f"round must be below {MOST_ROUNDS}")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The study must be private and have so many rounds; there must be K centroids."""
        yield from _departures_of_private(terms)
        if terms.privacy is not None and self.round >= terms.noisy_rounds:
            yield departure("noisy_rounds", self.round + 1, terms.noisy_rounds)
        yield from terms.departing_k(len(self.centres) if self.centres.ndim else 0)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Each round is asked once."""
        return f"round {self.round}"


class NoisySums(Reply, frozen=True, tag="reply.sums"):
    """Noisy sums of the deviations of rows from the nearest centroid, and the noisy number of rows of each centroid."""

    sums: Annotated[Array, Fact("sums of deviations by cluster and feature, in declared units, with noise")]
    counts: Annotated[Array, Fact("rows of each cluster, with noise")]
    deviation: Annotated[float, Fact("standard deviation of the noise of a sum")]
    deviation_of_counts: Annotated[float, Fact("standard deviation of the noise of a number of rows")]
    rho: Annotated[float, Fact("what the round cost, as zCDP")]

    def check(self) -> None:
        """Sums and counts must fit each other and be finite."""
        fits = self.sums.ndim == 2 and self.counts.shape == (len(self.sums),)
        require(fits, "there must be a sum and a count for each cluster")
        finite = all(part.dtype.kind == "f" and is_bounded(part) for part in (self.sums, self.counts))
        numbers = (self.deviation, self.deviation_of_counts, self.rho)
        possible = finite and bool((np.abs(self.counts) < MOST_ROWS).all())
        require(possible and all(0 <= each < MOST_ROWS for each in numbers), "noisy sums must be finite numbers")


class KeepLabels(Request, frozen=True, tag="query.keep_labels"):
    """Asks a participant to label its rows by the final centroids, to keep the labels, and to tell nothing."""

    is_counted = False
    centres: Annotated[Centres, Fact("global centroids")]
    gaussians: Annotated[
        Gaussians | None, Fact("clusters as Gaussians, if rows are labelled by the likeliest cluster")
    ] = None
    columns: CommonColumns = None

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The study must be private; there must be K centroids, and Gaussians only in a study that labels by them."""
        yield from _departures_of_private(terms)
        yield from self.centres.departures(terms)
        if self.gaussians is not None and terms.labels_by != LIKELIEST:
            yield departure("labels_by", LIKELIEST, terms.labels_by)

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:  # noqa: ARG002
        """Nothing leaves, so that nothing must be the same."""
        return {}


class LabelsKept(Reply, frozen=True, tag="reply.labels_kept"):
    """Says that rows were labelled, and nothing else: how many have which label would tell of rows."""


SKETCH = Exchange(AskSketch, Sketched, title="noisy sketches")
SUMS = Exchange(AskSums, NoisySums, title="noisy rounds")
KEEP_LABELS = Exchange(KeepLabels, LabelsKept, title="labels")
