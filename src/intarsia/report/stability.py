"""The finding about clusters that do not come back when rows are resampled, where that was measured."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.report.data import Finding, State
from intarsia.results.outcome import Outcome
from intarsia.results.stability import DOUBTFUL, STABLE, Stability

_ABOUT = "Clusters come back when rows are resampled"


def findings_of_stability(outcome: Outcome) -> Iterator[Finding]:
    """Yield how surely the clusters come back, and which do not."""
    figures = outcome.stability
    if figures is None or figures.mean != figures.mean:
        return
    where = ", in the rows of each participant by itself" if figures.local else ""
    overall = (
        f"Stability is {figures.mean:.2f} over all rows{where}; the least stable cluster has {figures.smallest:.2f}"
    )
    if not figures.doubtful:
        yield Finding(_ABOUT, State.GOOD, f"{overall} (1: always comes back; 0: as parts of one cloud).")
        return
    named = ", ".join(f"{k} ({figures.scores[k]:.2f})" for k in figures.doubtful)
    state = State.BAD if _dissolve(figures) else State.CAUTION
    how = (
        "Do not interpret these clusters"
        if state is State.BAD
        else f"Describe those below {DOUBTFUL} as ends of a scale, not as groups"
        if figures.unstable
        else "Expect rows between these clusters"
    )
    yield Finding(
        _ABOUT,
        state,
        f"{overall}. Not stable: cluster {named}. {_compared(figures)}",
        f"{how}. Try a smaller K, other columns or more rows, and see whether their profiles stay the same.",
    )


def _dissolve(figures: Stability) -> bool:
    """Whether an unstable cluster does not even come back as parts of a long cloud do."""
    return any(not figures.local and (figures.jaccard[k] or 0.0) < STABLE for k in figures.unstable)


def _compared(figures: Stability) -> str:
    """What the score is relative to, in words."""
    if figures.local or figures.reference is None:
        return "They come back hardly more surely than parts of one cloud."
    similar = ", ".join(f"{figures.jaccard[k] or 0.0:.2f}" for k in figures.doubtful)
    return (
        f"Their mean Jaccard similarity with the new clusters is {similar}; parts of one Gaussian cloud reach "
        f"{figures.reference:.2f}."
    )
