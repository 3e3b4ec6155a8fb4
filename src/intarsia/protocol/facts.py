"""Facts about a field of a message: its meaning in words, the rows behind its entries, and the rule that lets it leave.

A field declares its fact beside its type::

    values: Annotated[Array, Fact("centroid of each local cluster", rows="counts")]
    counts: Annotated[Array, count("values behind each entry of a centroid")]

Rounding, the last check before a reply leaves, the journal, previews, consent forms and reports read these facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_type_hints

ITSELF = "itself"
ALLOW_EXTREMES, ALLOW_DISCRETE = "allow_extremes", "allow_discrete"  # rules of a release policy
ALLOW_CROSSWISE = "allow_crosswise"


@dataclass(frozen=True)
class Fact:
    """What is true of a field.

    Attributes
    ----------
    meaning
        The content of the field, in words.
    rows
        What counts the rows behind each entry: the name of a field beside this one, ``ITSELF`` for a count, a number, or a
        function of whatever contains the field that returns the smallest number by name of a subfield. None for names and
        settings, behind which there are no rows.
    is_count
        Whether the entries count rows or values, and are rounded as the release policy says.
    allowed_by
        The rule of the release policy that lets the field leave although its entries may tell of single rows.
    """

    meaning: str
    rows: str | int | Callable[[Any], Mapping[str, int]] | None = None
    is_count: bool = False
    allowed_by: str | None = None


def count(meaning: str, rows: str = ITSELF) -> Fact:
    """Return the fact of a field that counts rows or values."""
    return Fact(meaning, rows=rows, is_count=True)


def single_value(meaning: str) -> Fact:
    """Return the fact of a field whose entries are values of single rows."""
    return Fact(meaning, rows=1, allowed_by=ALLOW_EXTREMES)


class Need(NamedTuple):
    """A rule of the release policy without which a request is refused, and why."""

    rule: str
    reason: str


@cache
def facts_of(kind: type) -> Mapping[str, Fact]:
    """Return the declared fact of each field of a message, or of a part of one."""
    facts = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        declared = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Fact)]
        if declared:
            facts[name] = declared[0]
    return facts
