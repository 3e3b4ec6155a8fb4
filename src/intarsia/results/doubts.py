"""What speaks against the replies of a participant, in words: contradictions, and rows that outweigh all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from intarsia.results.outcome import Outcome

DOMINANT_SHARE = 0.5  # of all rows
FEWEST = 3  # participants, of which one can have too large a share


class Kind(NamedTuple):
    """A kind of contradiction: the amount that no honest participant reaches, and what to say beyond it."""

    limit: float
    words: str


# docs/decisions/0032-liars.md says how the limits were measured
CONTRADICTIONS: dict[str, Kind] = {
    "values": Kind(0.01, "it counted more values of a column than its table has"),
    "means": Kind(0.25, "its centroids imply column means that differ from those of its table by {0:.3g} deviations"),
    "spread": Kind(1.05, "its centroids are farther apart than the deviations of its columns allow ({0:.3g} times)"),
    "order": Kind(2.0, "its centroids are not in the order of those that were sent to it"),
    "misfit": Kind(1.2, "its misfits favour one grouping by a factor of {0:.3g} over what its centroids imply"),
    "low misfit": Kind(2.0, "its misfit is {0:.3g} times smaller than its centroids imply"),
    "high misfit": Kind(1.05, "its misfit is {0:.3g} times larger than its columns allow"),
}
OUTLIER = 5.0  # times the range of all other centroids
INFLUENCE = 1.5  # times the range of the others' centroids, by which one participant moves a merged centroid


def contradictory(amounts: Mapping[str, float]) -> list[str]:
    """Return the kinds of contradictions that are beyond their limits."""
    return [key for key, kind in CONTRADICTIONS.items() if amounts.get(key, 0.0) > kind.limit]


def contradictions(outcome: Outcome) -> dict[str, list[str]]:
    """Return, by participant, in what its replies contradict each other; only participants for which there is something."""
    return {
        name: [CONTRADICTIONS[key].words.format(amounts[key]) for key in kinds]
        for name, amounts in outcome.doubts.items()
        if (kinds := contradictory(amounts))
    }


def influential(outcome: Outcome) -> dict[str, float]:
    """Return the participants without which a merged centroid would lie elsewhere, and how far, in ranges of the others."""
    moves = {name: amounts.get("influence", 0.0) for name, amounts in outcome.doubts.items()}
    return _blamed(outcome, {name: move for name, move in moves.items() if move > INFLUENCE})


def outlying(outcome: Outcome) -> dict[str, float]:
    """Return the participants that sent centroids far outside the range of all others, and how far, in such ranges."""
    return _blamed(outcome, {name: far for name, far in outcome.strain.items() if far > OUTLIER})


def _blamed(outcome: Outcome, amounts: dict[str, float]) -> dict[str, float]:
    """Drop participants that are far away because another one, whose replies contradict each other, moved all centroids."""
    blamed = contradictions(outcome)
    return {name: amount for name, amount in amounts.items() if not blamed or name in blamed}


def dominant(outcome: Outcome) -> tuple[str, float] | None:
    """Return the participant with more than half of all rows, and its share; None if nobody has so many."""
    rows = outcome.coverage.rows
    if len(rows) < FEWEST or rows.max() <= DOMINANT_SHARE * rows.sum():
        return None
    return outcome.participants[int(np.argmax(rows))], float(rows.max() / rows.sum())
