"""The exchange "describe": which columns a participant has, and their moments."""

from __future__ import annotations

import msgspec

from intarsia.protocol.layout import Moments
from intarsia.protocol.wire import Exchange, Reply, Request


class Describe(Request, frozen=True, tag="query.describe"):
    """Which columns do you have, and, for common units, what are their moments? ``scale`` says which are needed."""

    scale: str | None = None


class Description(Reply, frozen=True, tag="reply.description"):
    """Columns of numbers by name, columns of categories with their levels, and the number of rows."""

    features: tuple[str, ...]
    n_rows: int
    levels: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    moments: Moments | None = None


DESCRIBE = Exchange(Describe, Description, title="who has what")
