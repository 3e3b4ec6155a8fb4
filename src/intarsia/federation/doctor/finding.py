"""One thing that the doctor looked at."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from intarsia.exceptions import IntarsiaError

_HINT = " Hint: "


class State(StrEnum):
    """How something is: fine, worth a look, in the way, or not examined because something before it is in the way."""

    FINE = "fine"
    WARNING = "warning"
    FAULT = "fault"
    SKIPPED = "skipped"


class Finding(NamedTuple):
    """What was looked at, how it is, what was seen, and what to do about it."""

    about: str
    state: State
    seen: str
    remedy: str = ""

    @classmethod
    def of_error(cls, about: str, error: IntarsiaError, state: State = State.FAULT) -> Finding:
        """Return the finding that an error of ours describes: its hint is the remedy."""
        seen, _, remedy = str(error).partition(_HINT)
        return cls(about, state, seen, remedy)
