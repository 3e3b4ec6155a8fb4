"""The reply of a participant that cannot answer."""

from __future__ import annotations

from typing import Annotated

from intarsia.protocol.checks import require
from intarsia.protocol.facts import Fact
from intarsia.protocol.wire import Reply

MOST_TEXT = 10_000  # letters of a failure


class Failure(Reply, frozen=True, tag="reply.failure"):
    """The participant could not answer: the name of one of our exceptions, and a text without data."""

    error: Annotated[str, Fact("kind of the failure")]
    message: Annotated[str, Fact("what went wrong, without data")]

    def check(self) -> None:
        """The texts must not be endless."""
        require(
            max(len(self.error), len(self.message)) <= MOST_TEXT,
            f"the text of a failure must not be longer than {MOST_TEXT} letters",
        )
