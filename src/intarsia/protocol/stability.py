"""The exchange "stability": a participant says how surely its part of each cluster comes back in resamples of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np

from intarsia.protocol.checks import MOST_ROWS, require
from intarsia.protocol.facts import Fact
from intarsia.protocol.parts import Centres, CommonColumns, key_of, key_of_centres
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Array, Exchange, Reply, Request


class MeasureStability(Request, frozen=True, tag="query.stability"):
    """Asks a participant to resample its own rows, and how surely its part of each cluster comes back."""

    seed: Annotated[int, Fact("seed of random numbers")]
    centres: Annotated[Centres, Fact("global centroids, those that rows were labelled by")]
    columns: CommonColumns = None

    def check(self) -> None:
        """The seed must not be negative."""
        require(0 <= self.seed < 2**63, "the seed must be at least 0")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The study must measure stability, with K finite centroids and its seed."""
        yield from terms.departing(stability=True, seed=self.seed)
        yield from self.centres.departures(terms)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """It is measured once."""
        return "stability"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:
        """Centroids are those that rows were labelled by; in rounds K, units and levels are those of all requests."""
        centroids = {"centroids": key_of_centres(self.centres)}
        if not terms.in_rounds:
            return centroids
        return {"n_clusters": len(self.centres.values), "columns": key_of(self.columns), **centroids}


class LocalStability(Reply, frozen=True, tag="reply.stability"):
    """How surely this participant's part of each global cluster comes back when its rows are resampled."""

    scores: Annotated[
        Array,
        Fact(
            "stability of the rows in each global cluster, from 0 to 1 with two digits; NaN: too few rows, or one cluster",
            rows="fewest",
        ),
    ]
    fewest: Annotated[int, Fact("smallest number of rows behind a score that the release rules allow")] = 1

    def check(self) -> None:
        """Scores must be numbers from 0 to 1, or unknown."""
        require(self.scores.ndim == 1 and self.scores.dtype.kind == "f", "there must be a list of scores")
        known = self.scores[~np.isnan(self.scores)]
        require(bool(((known >= 0) & (known <= 1)).all()), "scores must be between 0 and 1")
        require(1 <= self.fewest < MOST_ROWS, "the smallest number of rows must be at least 1")

    def check_scores(self, n_clusters: int) -> None:
        """There must be a score for each cluster."""
        require(self.scores.shape == (n_clusters,), f"there must be {n_clusters} scores, one for each cluster")


STABILITY = Exchange(MeasureStability, LocalStability, title="stability")
