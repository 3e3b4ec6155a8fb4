"""Findings about units: one participant's, words for levels, and whether columns can be compared as they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intarsia.core.features import indicators
from intarsia.core.odd_columns import OddColumn
from intarsia.exceptions import quote
from intarsia.report.data import Finding, State
from intarsia.report.words import counted
from intarsia.results.advice import MOST_LISTED, RECODE, listed, unlike_levels
from intarsia.results.outcome import Outcome, RunRecord

CLEARLY_MORE = 3.0  # times the median deviation; above four times, scale="auto" standardises


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


def units_left(outcome: Outcome, run: RunRecord) -> Iterator[Finding]:
    """Yield a finding if ``scale="auto"`` left units as they are, although one column varies clearly more than others."""
    model, numbers = outcome.model, ~outcome.model.space.mask(indicators(outcome.model.levels))
    if model.units is not None or run.settings.get("scale") != "auto" or outcome.privacy is not None:
        return
    n = np.maximum(model.cells.sum(axis=0), 1.0)
    between = np.where(model.cells > 0, np.square(model.centroids.values - model.spread.overall), 0.0)
    deviations = np.sqrt((model.cells * (model.variances + between)).sum(axis=0) / n) * model.scale
    used = np.flatnonzero(numbers & (deviations > 0))
    if not len(used):
        return
    most, typical = used[np.argmax(deviations[used])], np.sort(deviations[used])[(len(used) - 1) // 2]
    if (ratio := float(deviations[most] / typical)) > CLEARLY_MORE:
        yield Finding(
            "Columns vary about as much as each other",
            State.CAUTION,
            f"Units were left as they are. {quote([model.space.names[most]])} varies {ratio:.1f} times as much as the "
            "typical column, and counts that much more in distances.",
            "If columns have different units, use scale='standard' (--scale standard); otherwise scale=None (--scale none).",
        )


def _in_words(odd: OddColumn) -> str:
    elsewhere = f"at {odd.other!r}" if odd.other else "elsewhere"
    means = f"{odd.column!r} averages {odd.mean:.3g} at {odd.participant!r} and {odd.elsewhere:.3g} {elsewhere}"
    where = f"at {odd.participant!r}, or convert the other" if odd.other else "there"
    remedy = f"{odd.remedy} {where}" if odd.remedy else ""
    return f"{means} ({', '.join(part for part in (odd.units, remedy) if part)})" if odd.units or remedy else means
