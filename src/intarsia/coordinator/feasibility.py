"""Which columns do participants have? One exchange before a study, from which no run follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from intarsia.coordinator.gather import replies_of
from intarsia.exceptions import ProtocolError
from intarsia.protocol import AskColumns, ColumnKinds, Failure, Reply, Request

NUMBERS, CATEGORIES = "numbers", "categories"


@dataclass(frozen=True)
class ColumnsTold:
    """What participants answered: kinds of columns by name, why others refused, and why the rest did not answer."""

    kinds: Mapping[str, Mapping[str, str]]
    refused: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnsQuestion:
    """The question for names and kinds of columns. It has no settings, so that there is nothing to choose at its sites."""

    def requests(self, participants: Sequence[str]) -> dict[str, Request]:
        """Return the request to each participant."""
        return {name: AskColumns() for name in sorted(participants)}

    def told(self, replies: Mapping[str, Reply], silent: Mapping[str, str]) -> ColumnsTold:
        """Return what participants answered; an invalid reply counts as a refusal, because others are not concerned."""
        kinds: dict[str, Mapping[str, str]] = {}
        refused: dict[str, str] = {}
        for name, reply in sorted(replies.items()):
            if isinstance(reply, Failure):
                refused[name] = reply.message
                continue
            try:
                columns = replies_of(ColumnKinds, {name: reply}, [name])[name]
            except ProtocolError as error:
                refused[name] = str(error)
                continue
            kinds[name] = dict.fromkeys(columns.numbers, NUMBERS) | dict.fromkeys(columns.categories, CATEGORIES)
        return ColumnsTold(kinds, refused, dict(silent))
