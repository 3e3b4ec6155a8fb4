"""The reply of a participant that cannot answer."""

from __future__ import annotations

from intarsia.protocol.wire import Reply

MOST_TEXT = 10_000  # letters of a failure


class Failure(Reply, frozen=True, tag="reply.failure"):
    """Something went wrong at the participant: the name of one of our exceptions, and a text without data in it."""

    error: str
    message: str
