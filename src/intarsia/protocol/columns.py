"""The exchange "columns": which columns participants have, before any study is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from intarsia.protocol.checks import check_names, require
from intarsia.protocol.facts import Fact
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Exchange, Reply, Request


class AskColumns(Request, frozen=True, tag="query.columns"):
    """Asks for the names and kinds of columns, and for nothing else."""

    is_counted: ClassVar[bool] = False

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Only a study that says so asks this."""
        yield from terms.departing(feasibility=True)


class ColumnKinds(Reply, frozen=True, tag="reply.column_kinds"):
    """The names of the columns that take part, as numbers or as categories: no number of rows, no level, no value."""

    numbers: Annotated[tuple[str, ...], Fact("names of the columns of numbers")] = ()
    categories: Annotated[tuple[str, ...], Fact("names of the columns of categories")] = ()

    def check(self) -> None:
        """There must be columns, each of one kind."""
        check_names(self.numbers)
        check_names(self.categories)
        require(len(self.numbers) + len(self.categories) > 0, "there must be at least one column")
        require(not set(self.numbers) & set(self.categories), "a column must be numeric or categorical, not both")


COLUMNS = Exchange(AskColumns, ColumnKinds, title="names and kinds of columns")
