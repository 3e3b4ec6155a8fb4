"""Centroids of columns that stay at home, and rounds from the centroids of the others, with secure sums.

The coordinator knows totals only. So a participant refines the part of its own columns that is in no sum itself, and removes
its own part from the total where a round is crosswise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from intarsia.core.alignment import blend, without_own
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.types import BoolArray
from intarsia.participant.vault import Part, State
from intarsia.protocol import AskMasked, Centres, Refine
from intarsia.protocol.refine import Refined
from intarsia.protocol.secure import Merged


class OwnSets(NamedTuple):
    """Sets of centroids with the own part of columns at home: where a round starts, and what rows are compared with."""

    start: tuple[Centres, ...]
    asked: tuple[Centres, ...]


def part_of(request: AskMasked, parts: Sequence[Part], k: int) -> Part | None:
    """Return what this participant refined of the set of the last round that the k-th set came from, if it did."""
    if not request.came_from or not 0 <= (before := request.came_from[k]) < len(parts):
        return None
    return parts[before]


def with_home(sent: Centres, before: Part | None, at_home: BoolArray) -> Centres:
    """Return the centroids with this participant's own part of the columns that stay at home."""
    if before is None or before.home.shape != sent.values.shape:
        return sent
    values, known = np.where(at_home, before.home, sent.values), np.where(at_home, before.known, sent.known)
    return msgspec.structs.replace(sent, values=values, known=known)


def own_sets(request: AskMasked, question: Refine, state: State, at_home: BoolArray) -> OwnSets:
    """Return the sets of centroids of a round as this participant uses them."""
    before = [part_of(request, state.parts, k) for k in range(len(question.rivals))]
    start = tuple(with_home(sent, part, at_home) for sent, part in zip(question.rivals, before, strict=True))
    if not question.crosswise or not request.merged or question.round != state.round + 1:
        return OwnSets(start, start)
    asked = (
        sent if part is None or part.values.shape != sent.values.shape else _of_others(sent, part, merged, at_home)
        for sent, part, merged in zip(start, before, request.merged, strict=True)
    )
    return OwnSets(start, tuple(asked))


def _of_others(sent: Centres, part: Part, merged: Merged, at_home: BoolArray) -> Centres:
    """Return the centroids without this participant's part in them; those of columns at home stay as they are."""
    own = MaskedCentroids.of(part.values, part.counts)
    everybody = MaskedCentroids.of(
        np.where(at_home, own.values, merged.values), np.where(at_home, own.counts, merged.counts)
    )
    rest = without_own(everybody, own, MaskedCentroids.of(sent.values, sent.known.astype(np.float64)))
    return msgspec.structs.replace(sent, values=rest.values)


def moved_parts(start: Sequence[Centres], refined: Sequence[Refined], step_size: float) -> tuple[Part, ...]:
    """Return what to keep after a round: the refined part of each set, and where its columns at home have moved to."""
    parts = []
    for centres, each in zip(start, refined, strict=True):
        old = MaskedCentroids.of(centres.values, centres.known.astype(np.float64))
        moved = blend(old, MaskedCentroids.of(each.values, each.counts), step_size)
        parts.append(Part(each.values, each.counts, moved.values, moved.seen))
    return tuple(parts)
