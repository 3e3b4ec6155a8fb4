"""The finding about columns that a participant seems to have in other units."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.core.odd_columns import OddColumn
from intarsia.report.data import Finding, State
from intarsia.report.words import counted
from intarsia.results.advice import MOST_LISTED
from intarsia.results.outcome import Outcome


def same_meaning(outcome: Outcome) -> Iterator[Finding]:
    """Yield whether any column seems to be in other units at a participant; nothing for files of older versions."""
    odd, about = outcome.odd_columns, "Columns mean the same everywhere"
    if odd is None:
        return
    if not odd:
        yield Finding(about, State.GOOD, "No column looks as if it had other units at one participant.")
        return
    more = f"; and {len(odd) - MOST_LISTED} more" if len(odd) > MOST_LISTED else ""
    yield Finding(
        about,
        State.BAD,
        f"{counted(len(odd), 'column')} may have other units or another meaning: "
        f"{'; '.join(map(_in_words, odd[:MOST_LISTED]))}{more}.",
        "Ask how it is measured there and convert it, or leave it out.",
    )


def _in_words(odd: OddColumn) -> str:
    elsewhere = f"at {odd.other!r}" if odd.other else "elsewhere"
    means = f"{odd.column!r} averages {odd.mean:.3g} at {odd.participant!r} and {odd.elsewhere:.3g} {elsewhere}"
    where = f"at {odd.participant!r}, or convert the other" if odd.other else "there"
    remedy = f"{odd.remedy} {where}" if odd.remedy else ""
    return f"{means} ({', '.join(part for part in (odd.units, remedy) if part)})" if odd.units or remedy else means
