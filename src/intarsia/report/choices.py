"""The finding about the number of clusters, where it was chosen: whether its scores agree."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.report.data import Finding, State
from intarsia.results.choices import Choices
from intarsia.results.outcome import Outcome


def findings_of_choices(outcome: Outcome) -> Iterator[Finding]:
    """Yield whether silhouette and stability prefer the number that was chosen."""
    if not outcome.choices:
        return
    choices = Choices(outcome.choices, len(outcome.model.centroids))
    about = "One number of clusters stands out"
    if len(choices.candidates) == 1:
        yield Finding(about, State.GOOD, _sentence(choices.verdict))
        return
    others = " or ".join(str(k) for k in choices.candidates if k != choices.chosen)
    yield Finding(
        about,
        State.CAUTION,
        _sentence(choices.verdict),
        f"Run it with {others} clusters as well, and compare the profiles.",
    )


def _sentence(verdict: str) -> str:
    return verdict[:1].upper() + verdict[1:]


def advice_on_number(outcome: Outcome) -> str:
    """Return what to do about an unclear number of clusters that was chosen; nothing if it was given."""
    if outcome.found is None and not outcome.choices:
        return ""
    return "The number was chosen from the rows: compare other numbers in the table of them, and measure the stability."
