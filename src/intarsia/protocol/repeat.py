"""The exchanges of a study that starts from a previous model: how it labels the rows, and which rows changed cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np

from intarsia.protocol.checks import are_sizes, require
from intarsia.protocol.facts import Fact, count
from intarsia.protocol.label import Labelled
from intarsia.protocol.parts import Centres, CommonColumns, Gaussians, key_of
from intarsia.protocol.terms import LIKELIEST, StudyTerms, departure
from intarsia.protocol.wire import Array, Exchange, Reply, Request


class LabelBefore(Request, frozen=True, tag="query.label_before"):
    """Asks a participant to label its rows by the previous model, and how many rows each cluster has; no label is kept."""

    centres: Annotated[Centres, Fact("centroids of the previous model")]
    columns: CommonColumns = None

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Only a study that starts from a previous model asks this, with finite centroids."""
        yield from terms.departing(previous=True)
        yield from self.centres.departures(terms)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Rows are labelled by the previous model once."""
        return "labels by the previous model"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:  # noqa: ARG002
        """Units and levels are the same in all requests; the previous model may have had another K."""
        return {"columns": key_of(self.columns)}


class CountMoves(Request, frozen=True, tag="query.count_moves"):
    """Asks a participant how many of its rows are in which cluster, by the previous model and by the new one."""

    before: Annotated[Centres, Fact("centroids of the previous model")]
    now: Annotated[Centres, Fact("centroids of the new model, those that rows were labelled by")]
    gaussians_before: Annotated[
        Gaussians | None, Fact("clusters of the previous model as Gaussians, if it labels by the likeliest")
    ] = None
    gaussians_now: Annotated[
        Gaussians | None, Fact("clusters of the new model as Gaussians, if it labels by the likeliest")
    ] = None
    columns: CommonColumns = None

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Only a study that starts from a previous model asks this, with finite centroids."""
        yield from terms.departing(previous=True)
        yield from self.before.departures(terms)
        yield from self.now.departures(terms)
        if self.gaussians_now is not None and terms.labels_by != LIKELIEST:
            yield departure("labels_by", LIKELIEST, terms.labels_by)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """Rows that changed cluster are counted once."""
        return "rows that changed cluster"

    def shared(self, terms: StudyTerms) -> Mapping[str, int | str]:  # noqa: ARG002
        """Units and levels are the same in all requests."""
        return {"columns": key_of(self.columns)}


class Moves(Reply, frozen=True, tag="reply.moves"):
    """The number of rows in each pair of a cluster of the previous model and one of the new model."""

    rows: Annotated[Array, count("rows by cluster of the previous model and of the new one")]

    def check(self) -> None:
        """The numbers must be numbers of rows."""
        require(self.rows.ndim == 2 and are_sizes(self.rows.ravel()), "rows must be a table of whole numbers from 0")

    def check_rows(self, shape: tuple[int, int], n_rows: int) -> None:
        """There must be a number for each pair of clusters, and not more rows than the participant has."""
        fits = self.rows.shape == shape and are_sizes(np.ravel(self.rows), n_rows)
        require(fits, f"there must be {shape[0]} × {shape[1]} numbers of rows, and not more rows than in the table")


LABEL_BEFORE = Exchange(LabelBefore, Labelled, title="labels by the previous model")
COUNT_MOVES = Exchange(CountMoves, Moves, title="rows that changed cluster")
