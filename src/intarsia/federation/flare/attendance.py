"""Which participants a job waits for before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from intarsia.exceptions import SettingError, quote
from intarsia.federation.flare.session import Ended
from intarsia.federation.study_file import Study

_UNSTEADY = 2  # times that a participant returns without a reply, before a job no longer ends for it


class Attendance:
    """Everybody is waited for until the deadline; after it, the quorum is enough.

    A participant that was waited for in vain is not waited for again; one without which the others could not go on is.
    """

    def __init__(self, study: Study, without: Sequence[str] = ()) -> None:
        if unknown := [name for name in without if name not in study.participants]:
            raise SettingError(f"{quote(unknown)} is not in this study. Participants: {quote(study.participants)}.")
        self._without, self._deadline = set(without), study.deadline
        self.wanted = [name for name in study.participants if name not in self._without]
        self.quorum = min(study.needed, len(self.wanted))
        self._stayed_away: set[str] = set()
        self._required: set[str] = set()
        self._returned: Counter[str] = Counter()

    @property
    def not_awaited(self) -> list[str]:
        """The participants whose return does not end a job."""
        unsteady = {name for name, times in self._returned.items() if times >= _UNSTEADY}
        return sorted(self._without | unsteady)

    def present(self, connected: Sequence[str]) -> list[str]:
        """Return the connected participants that take part."""
        return [name for name in connected if name not in self._without]

    def away(self, connected: Sequence[str], waited: float) -> list[str]:
        """Return the participants that are not connected, after ``waited`` seconds."""
        away = [name for name in self.wanted if name not in connected]
        self._required -= set(connected)
        self._stayed_away -= set(connected)
        if waited > self._deadline:
            self._stayed_away |= set(away)
        return away

    def can_start(self, away: Sequence[str]) -> bool:
        """Whether a job can start now without those who are away."""
        return not away or (self.has_quorum(away) and set(away) <= self._stayed_away)

    def has_quorum(self, away: Sequence[str]) -> bool:
        """Whether a job could do without those who are away, once the deadline is over."""
        return len(self.wanted) - len(away) >= self.quorum and not self._required & set(away)

    def update(self, ended: Ended, *, progress: bool) -> None:
        """Learn from how a job ended; ``progress``: it brought replies."""
        if progress:
            self._returned.clear()
        self._returned.update(ended.returned)

    def require(self, names: Sequence[str]) -> None:
        """Wait for these participants: the others could not go on without them."""
        self._required |= set(names)
