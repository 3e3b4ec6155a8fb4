"""The findings about single participants: replies that contradict each other, outliers, and too large a share of rows."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.exceptions import quote
from intarsia.report.data import Finding, State
from intarsia.results.doubts import FEWEST, contradictions, dominant, influential, outlying
from intarsia.results.outcome import Outcome


def findings_of_replies(outcome: Outcome) -> Iterator[Finding]:
    """Yield what the coordinator can see of replies that do not follow from honest rows."""
    yield from _contradictions(outcome)
    yield from _outliers(outcome)
    yield from _shares(outcome)


def _contradictions(outcome: Outcome) -> Iterator[Finding]:
    """Participants whose replies cannot be about the same rows."""
    if not outcome.doubts:
        return
    about, found = "Replies of each participant fit each other", contradictions(outcome)
    if not found:
        yield Finding(about, State.GOOD, "Local clusters and rounds fit the totals of each participant's table.")
        return
    yield Finding(
        about,
        State.BAD,
        " ".join(f"Of {name!r}: {'; '.join(texts)}." for name, texts in found.items()),
        f"Such replies cannot be about the same rows: ask {quote(found)} what happened, or run again without "
        "these participants.",
    )


def _outliers(outcome: Outcome) -> Iterator[Finding]:
    """Participants whose refined centroids were far from those of all others: means follow outliers."""
    if not outcome.strain:
        return
    about = "No participant's updates were outliers"
    far, moves = outlying(outcome), influential(outcome)
    if not far and not moves:
        yield Finding(about, State.GOOD, "No refined centroid was far outside the range of all other centroids.")
        return
    seen = []
    if far:
        seen.append(
            f"In some round {quote(far)} sent centroids far outside the range of all others, up to "
            f"{max(far.values()):.3g} times that range."
        )
    if moves:
        seen.append(
            f"Without {quote(moves)}, a centroid would have been elsewhere in some round, by up to "
            f"{max(moves.values()):.3g} times the range of the others' centroids."
        )
    advice = "Means follow outliers: ask what happened there, or run again without these participants."
    yield Finding(about, State.BAD, " ".join(seen), advice)


def _shares(outcome: Outcome) -> Iterator[Finding]:
    """A participant with so many rows that all centroids follow it."""
    if len(outcome.participants) < FEWEST:
        return
    about, large = "No participant has more than half of all rows", dominant(outcome)
    if large is None:
        yield Finding(about, State.GOOD, "No participant outweighs all others.")
        return
    yield Finding(
        about,
        State.CAUTION,
        f"{large[0]!r} says that it has {large[1]:.0%} of all rows. Centroids are means over rows: they follow it.",
        "Ask whether the number of rows is right.",
    )
