"""The exchange "refine": one round, in which each participant moves the global centroids by its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self

import numpy as np

from intarsia.protocol.checks import are_counts, are_sizes, check_centroids, check_values, require
from intarsia.protocol.facts import ALLOW_CROSSWISE, Fact, Need, count
from intarsia.protocol.parts import MOST_CENTRES, Centres, CommonColumns, key_of
from intarsia.protocol.terms import StudyTerms, departure
from intarsia.protocol.wire import Array, Exchange, Part, Reply, Request

MOST_SETS = 8  # of centroids in one request
_MOST_ROUNDS = 1 << 53


class Refine(Request, frozen=True, tag="query.refine"):
    """Asks a participant to refine the global centroids that fit its rows, and to tell which moved where.

    ``rivals`` are sets of centroids, each to be refined by itself: more than one while the coordinator is in doubt which
    local clusters belong together.
    """

    is_round: ClassVar[bool] = True

    seed: Annotated[int, Fact("seed of all random numbers")]
    round: Annotated[int, Fact("number of the round")]
    rivals: Annotated[tuple[Centres, ...], Fact("sets of global centroids")]
    min_points: Annotated[int, Fact("number of rows below which a centroid is ignored")]
    max_iter: Annotated[int, Fact("largest number of local iterations")]
    columns: CommonColumns = None
    crosswise: Annotated[bool, Fact("whether this participant's own part is removed from the centroids")] = False

    def check(self) -> None:
        """The numbers must be in their ranges."""
        require(self.seed >= 0, "seed must be at least 0")
        require(0 <= self.round < _MOST_ROUNDS, "round must be at least 0")
        require(self.min_points >= 1, "min_points must be at least 1")
        require(self.max_iter >= 1, "max_iter must be at least 1")
        require(1 <= len(self.rivals) <= MOST_SETS, f"there must be 1 to {MOST_SETS} sets of centroids")
        n_centres = sum(len(each.values) for each in self.rivals if each.values.ndim)
        require(n_centres <= MOST_CENTRES, f"there must be at most {MOST_CENTRES} centroids in all sets together")

    def needs(self) -> Iterator[Need]:
        """A participant may refuse crosswise rounds."""
        if self.crosswise:
            yield Need(ALLOW_CROSSWISE, "a crosswise round was asked for")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Rounds, sets of centroids and their number must be those of the study."""
        yield from terms.departing(seed=self.seed, min_points=self.min_points, local_iterations=self.max_iter)
        if not 1 <= self.round <= terms.max_rounds:
            yield departure("round", self.round, f"1 to {terms.max_rounds}" if terms.max_rounds else "no rounds")
        n_rivals = terms.n_rivals if self.round <= terms.trial_rounds else 0
        if len(self.rivals) > 1 + n_rivals:
            yield departure(f"n_rivals in round {self.round}", len(self.rivals) - 1, n_rivals)
        if self.crosswise and not terms.crosswise:
            yield from terms.departing(crosswise=True)
        for centres in self.rivals:
            yield from centres.departures(terms)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Each round is asked once."""
        return f"round {self.round}"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:  # noqa: ARG002
        """K, units and levels are the same in all requests."""
        return {"n_clusters": len(self.rivals[0].values), "columns": key_of(self.columns)}

    @property
    def n_sets(self) -> int:
        """The number of sets of centroids."""
        return len(self.rivals)


class Refined(Part, frozen=True):
    """Refined centroids in the order of the global ones, and the number of rows behind each, which may be 0."""

    values: Annotated[Array, Fact("centroids after local iterations: means over rows", rows="counts")]
    counts: Annotated[Array, count("observed values behind each entry")]
    sizes: Annotated[Array, count("rows behind each centroid")]
    misfit: Annotated[float, Fact("sum of squared distances of all rows to the nearest centroid that was sent")]

    def check(self) -> None:
        """The shapes must fit each other, and no cluster may have more values than rows."""
        fits = self.values.ndim == 2 and self.values.shape == self.counts.shape
        require(fits and self.sizes.shape == self.values.shape[:1], "centroids, counts and sizes must fit each other")
        require(are_sizes(self.sizes), "sizes must be whole numbers from 0")
        require(0 <= self.misfit < np.inf, "the misfit must be a finite sum of squares")
        check_centroids(self.values, self.counts, self.sizes)

    def weighted(self, weight: float) -> Self:
        """Return the centroids with counts and a misfit in which each row counts so much."""
        if weight == 1.0:
            return self
        return type(self)(self.values, self.counts * weight, self.sizes, self.misfit * weight)

    def check_shape(self, shape: tuple[int, int]) -> None:
        """The centroids must be as many, over as many features, as were sent."""
        require(self.values.shape == shape, "there must be as many centroids, over as many features, as were sent")


class Refinement(Reply, frozen=True, tag="reply.refinement"):
    """The refined centroids of each set that was sent."""

    refined: Annotated[tuple[Refined, ...], Fact("refined centroids of each set")]

    def check(self) -> None:
        """Each set must be valid."""
        for part in self.refined:
            part.check()

    def check_rows(self, n_rows: int) -> None:
        """Clusters must not have more rows than the participant: counts are weights, and could outweigh all others."""
        for part in self.refined:
            require(are_sizes(part.sizes, n_rows), "there must not be more rows in clusters than in all")
            check_values(part.counts, n_rows)

    def differences(self, before: Self | None) -> Iterator[int]:
        """The means and counts of two rounds are two sums; their difference is a sum over the rows that changed cluster."""
        for new, old in zip(self.refined, () if before is None else before.refined, strict=False):
            if new.counts.shape == old.counts.shape and are_counts(new.counts) and are_counts(old.counts):
                moved = np.abs(new.counts - old.counts)
                yield from np.unique(moved[moved > 0]).astype(int).tolist()


REFINE = Exchange(Refine, Refinement, title="rounds")
