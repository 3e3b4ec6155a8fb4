"""The exchange "describe": which columns a participant has, and their moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from intarsia.protocol.checks import MOST_ROWS, check_levels, check_names, require
from intarsia.protocol.facts import Fact, Need, count
from intarsia.protocol.parts import CommonMoments, check_scale, needs_of_scale
from intarsia.protocol.terms import StudyTerms, departure
from intarsia.protocol.wire import Exchange, Reply, Request


class Describe(Request, frozen=True, tag="query.describe"):
    """Asks for the columns of a participant and, if common units need them, for their moments."""

    is_counted: ClassVar[bool] = False
    scale: Annotated[str | None, Fact("which statistics common units need")] = None
    moments_of: Annotated[tuple[str, ...] | None, Fact("numeric columns whose moments are asked for; none: all")] = None

    def check(self) -> None:
        """The units must be known."""
        check_scale(self.scale)

    def needs(self) -> Iterator[Need]:
        """Some units need values of single rows."""
        yield from needs_of_scale(self.scale)

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The units must be those of the study; where there are no rounds, only latecomers are asked, for no moments."""
        scale = terms.scale if terms.in_rounds else None
        if self.scale != scale:
            yield departure("scale", self.scale or "none", scale or "none")


class Description(Reply, frozen=True, tag="reply.description"):
    """The numeric columns by name, the categorical columns with their levels, and the number of rows."""

    features: Annotated[tuple[str, ...], Fact("names of the numeric columns", rows="n_rows")]
    n_rows: Annotated[int, count("number of rows")]
    levels: Annotated[dict[str, tuple[str, ...]], Fact("names of the categorical columns, and of their levels")] = (
        msgspec.field(default_factory=dict)
    )
    moments: CommonMoments = None

    def check(self) -> None:
        """There must be columns and rows, and the moments must fit them."""
        require(len(self.features) + len(self.levels) > 0, "there must be at least one column")
        check_names(self.features)
        require(not set(self.features) & set(self.levels), "a column must be numeric or categorical, not both")
        check_levels(self.levels)
        require(0 < self.n_rows < MOST_ROWS, "there must be at least one row")
        if self.moments is not None:
            self.moments.check(len(self.features), self.n_rows)


DESCRIBE = Exchange(Describe, Description, title="who has what")
