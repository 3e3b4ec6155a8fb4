"""The finding about columns that a participant seems to have in other units, or with other words for its levels."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.core.odd_columns import OddColumn
from intarsia.report.data import Finding, State
from intarsia.report.words import counted
from intarsia.results.advice import MOST_LISTED, RECODE, listed, unlike_levels
from intarsia.results.outcome import Outcome


def same_meaning(outcome: Outcome) -> Iterator[Finding]:
    """Yield whether any column seems to be in other units at a participant, or to have other words for its levels.

    Nothing is known of units in files of older versions.
    """
    odd, about = outcome.odd_columns, "Columns mean the same everywhere"
    seen, advice = [], []
    if odd:
        more = f"; and {len(odd) - MOST_LISTED} more" if len(odd) > MOST_LISTED else ""
        columns = "; ".join(map(_in_words, odd[:MOST_LISTED]))
        seen.append(f"{counted(len(odd), 'column')} may have other units or another meaning: {columns}{more}.")
        advice.append("Ask how it is measured there and convert it, or leave it out.")
    if words := listed(unlike_levels(outcome)):
        seen.append(f"Levels may be other words for the same thing: {words}.")
        advice.append(f"Ask what they mean; {RECODE}")
    if seen:
        yield Finding(about, State.BAD if odd else State.CAUTION, " ".join(seen), " ".join(advice))
    elif odd is not None:
        yield Finding(about, State.GOOD, "No column looks as if it had other units at one participant.")


def _in_words(odd: OddColumn) -> str:
    elsewhere = f"at {odd.other!r}" if odd.other else "elsewhere"
    means = f"{odd.column!r} averages {odd.mean:.3g} at {odd.participant!r} and {odd.elsewhere:.3g} {elsewhere}"
    where = f"at {odd.participant!r}, or convert the other" if odd.other else "there"
    remedy = f"{odd.remedy} {where}" if odd.remedy else ""
    return f"{means} ({', '.join(part for part in (odd.units, remedy) if part)})" if odd.units or remedy else means
