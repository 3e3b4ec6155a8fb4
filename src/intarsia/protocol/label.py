"""The exchanges "label" and "assign": a participant labels its rows, keeps the labels, and says how many rows have each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np

from intarsia.core.tails import N_BINS
from intarsia.exceptions import ProtocolError
from intarsia.protocol.checks import MOST_ROWS, are_sizes, check_centroids, check_values, is_bounded, require
from intarsia.protocol.facts import Fact, count
from intarsia.protocol.parts import Centres, CommonColumns, Gaussians, key_of, key_of_centres
from intarsia.protocol.terms import GROUPED, LIKELIEST, StudyTerms, departure
from intarsia.protocol.wire import Array, Exchange, Reply, Request

_PLACE = "labels"


class Label(Request, frozen=True, tag="query.label"):
    """Asks a participant to label its rows by the nearest centroid or the likeliest Gaussian, and to keep the labels."""

    centres: Annotated[Centres, Fact("global centroids")]
    gaussians: Annotated[
        Gaussians | None, Fact("clusters as Gaussians, if rows are labelled by the likeliest cluster")
    ] = None
    columns: CommonColumns = None
    spread: Annotated[bool, Fact("whether the reply also has counts and squares of values around the centroids")] = True
    tails: Annotated[bool, Fact("whether the reply also counts rows by their distance to the nearest centroid")] = False

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """There must be K finite centroids, and Gaussians only in a study that labels by them."""
        yield from self.centres.departures(terms)
        if self.tails:
            yield from terms.departing(tails=True)
        if self.gaussians is not None and terms.labels_by != LIKELIEST:
            yield departure("labels_by", LIKELIEST, terms.labels_by)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Rows are labelled once, and once more by Gaussians."""
        return _PLACE if self.gaussians is None else f"{_PLACE} by Gaussians"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:
        """K, units and levels are the same in all requests; stability is asked about the same centroids."""
        centroids = {"centroids": key_of_centres(self.centres)} if terms.stability else {}
        if not terms.in_rounds:
            return centroids
        return {"n_clusters": len(self.centres.values), "columns": key_of(self.columns), **centroids}


class Assign(Request, frozen=True, tag="query.assign"):
    """Asks a participant to label its rows by the group of their local cluster, and to keep the labels."""

    groups: Annotated[Array, Fact("the global cluster of each of this participant's local clusters")]
    n_groups: Annotated[int, Fact("number of global clusters")]

    def check_groups(self, n_local: int, most: int) -> None:
        """There must be a group for each local cluster, and at most ``most`` groups."""
        require(self.groups.shape == (n_local,), f"there must be a group for each of the {n_local} local clusters")
        inside = self.groups.dtype.kind == "i" and bool(((self.groups >= 0) & (self.groups < self.n_groups)).all())
        require(inside and self.n_groups <= most, "groups must be numbered from 0 and below n_groups")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Only a study that groups local clusters assigns them."""
        yield from terms.departing(labels_by=GROUPED)
        yield from terms.departing_k(self.n_groups)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Rows are labelled once."""
        return _PLACE


class Labelled(Reply, frozen=True, tag="reply.labelled"):
    """The number of rows in each global cluster and, if it was asked for, the spread of their values around its centroid."""

    sizes: Annotated[Array, count("rows in each global cluster")]
    counts: Annotated[Array | None, count("observed values of each global cluster and feature")] = None
    squares: Annotated[
        Array | None, Fact("sum of squared deviations of these values from the centroid", rows="counts")
    ] = None

    tails: Annotated[Array | None, count("rows by nearest centroid and distance to it, beyond a few marks")] = None
    audited: Annotated[
        int, Fact("smallest number of rows in any group whose sums follow from all that was told; 1: not audited")
    ] = 1

    def check(self) -> None:
        """Sizes must be sizes; counts and squares must fit them."""
        require(1 <= self.audited < MOST_ROWS, "the audited number of rows must be at least 1")
        require(self.sizes.ndim == 1 and are_sizes(self.sizes), "sizes must be whole numbers from 0")
        require((self.counts is None) == (self.squares is None), "counts and sums of squares must come together")
        if self.counts is not None and self.squares is not None:
            fits = self.counts.ndim == 2 and self.counts.shape == self.squares.shape
            require(fits and len(self.counts) == len(self.sizes), "counts and sums of squares must fit the clusters")
            check_centroids(np.zeros(self.counts.shape), self.counts, self.sizes)
            bounded = self.squares.dtype.kind == "f" and is_bounded(self.squares, squared=True)
            require(bounded and (self.squares >= 0).all(), "sums of squares must be finite and at least 0")

    def check_sizes(self, n_clusters: int, n_rows: int) -> None:
        """There must be a size for each cluster, and not more rows in clusters than the participant has."""
        fits = self.sizes.shape == (n_clusters,) and are_sizes(self.sizes, n_rows)
        require(fits, f"there must be {n_clusters} sizes, and not more rows in clusters than in all")
        if self.counts is not None:
            check_values(self.counts, n_rows)
        if self.tails is not None:
            fits = self.tails.shape == (n_clusters, N_BINS) and are_sizes(self.tails.ravel(), n_rows)
            require(fits, f"rows must be counted in {N_BINS} bins for each cluster, and not more than there are")

    def spread(self, n_clusters: int, n_features: int) -> tuple[Array, Array]:
        """Return counts and sums of squares, which must be there for each cluster and feature."""
        if self.counts is None or self.squares is None:
            raise ProtocolError("counts and sums of squares were asked for and are missing")
        fits = self.counts.shape == (n_clusters, n_features)
        require(fits, "counts and sums of squares must fit the clusters and features")
        return self.counts, self.squares


LABEL = Exchange(Label, Labelled, title="labels")
ASSIGN = Exchange(Assign, Labelled, title="labels")
