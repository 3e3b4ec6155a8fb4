"""The exchange "keep model": a participant gets its copy of the public model of a finished run. Nothing leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from intarsia.protocol.checks import require
from intarsia.protocol.facts import Fact
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Exchange, Reply, Request

MOST_BYTES = 1 << 25  # of a public model that is sent


class KeepModel(Request, frozen=True, tag="query.keep_model"):
    """Gives a participant its copy of the study's public model, by which it labels new rows at home."""

    model: Annotated[bytes, Fact("public model of the study, as its file")]

    def check(self) -> None:
        """The model must not be endless."""
        require(0 < len(self.model) <= MOST_BYTES, f"a model that is sent must have 1 to {MOST_BYTES >> 20} MiB")

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """Participants of the study must have agreed that each gets the model."""
        yield from terms.departing(share_model=True)

    def place(self, terms: StudyTerms) -> str:  # noqa: ARG002
        """There is one model of a run."""
        return "model"


class ModelKept(Reply, frozen=True, tag="reply.model_kept"):
    """Says that the participant has its copy of the model, and nothing else."""


KEEP_MODEL = Exchange(KeepModel, ModelKept, title="copies of the model")
