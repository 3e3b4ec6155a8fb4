"""Which participants were asked to take part, who has answered, and how latecomers join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from intarsia.coordinator.columns import TableColumns
from intarsia.coordinator.gather import replies_of
from intarsia.coordinator.members import Members
from intarsia.exceptions import InputError, ProtocolError
from intarsia.protocol import Describe, Description, Reply, Request


class Roll(NamedTuple):
    """The descriptions of all participants that have answered, and the names of those that have not.

    ``remarks`` are about latecomers that could not join.
    """

    described: Mapping[str, Description]
    silent: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, participants: Sequence[str]) -> Roll:
        """Return a roll on which no participant has answered."""
        return cls({}, tuple(participants))

    @property
    def n_rows(self) -> dict[str, int]:
        """The number of rows of each participant that has answered."""
        return {name: description.n_rows for name, description in self.described.items()}

    def ask(self, scale: str | None) -> dict[str, Request]:
        """Return a request for a description to every participant that has not answered."""
        return dict.fromkeys(self.silent, Describe(scale=scale))

    def heard(self, replies: Mapping[str, Reply]) -> Roll:
        """Return the roll with the descriptions of participants that had been silent."""
        descriptions = replies_of(Description, replies, self.silent)
        silent = tuple(name for name in self.silent if name not in descriptions)
        return self._replace(described={**self.described, **descriptions}, silent=silent)

    def columns(self, name: str) -> TableColumns:
        """Return the columns of a participant that has answered."""
        description = self.described[name]
        return TableColumns(description.features, description.levels, description.moments)

    def with_latecomers(self, members: Members) -> tuple[Members, Roll]:
        """Return the members with all who have answered since, and the roll with remarks on those that do not fit."""
        remarks = self.remarks
        for name in [name for name in self.described if name not in members.participants]:
            try:
                members = members.with_latecomer(name, self.columns(name))
            except (InputError, ProtocolError) as error:
                remark = f"{name!r} came later and could not join: {error}"
                remarks = remarks if remark in remarks else (*remarks, remark)
        return members, self._replace(remarks=remarks)
