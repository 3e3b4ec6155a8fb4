"""What grouping methods take besides the local clusters, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from intarsia.core.types import BoolArray, IntArray


@dataclass(frozen=True)
class SearchLimits:
    """The sizes from which on the search computes differently, and the bounds of its effort. Only tests change them."""

    wide: int = 1 << 17  # differences of one participant's clusters and all centres; with more, matrix products
    several: int = 500  # local clusters; with more, the search ends as soon as starts agree
    many: int = 3000  # local clusters; with more, the search avoids all pairs of them, most starts and most rivals
    n_agreeing: int = 5  # consecutive starts that must lead to the best grouping for a search to end early
    n_random_starts: int = 8  # with many clusters: a search then takes less than 20 times as long as Method A
    n_sampled: int = 300  # clusters that typical costs are taken from with many clusters
    max_sweeps: int = 50  # sweeps of rematching over all participants
    close: float = 1 / 3  # how much worse a rival may be, as a share of its own loss
    n_doubtful: int = 20  # participants with the least certain clusters, for whom other matchings are tried


DEFAULT_LIMITS = SearchLimits()


class SearchOptions(NamedTuple):
    """What a search needs besides the local clusters.

    ``masks`` has the features of each participant, ``stream(k)`` is the generator of random start k, and ``n_jobs`` starts
    are improved at once (−1: one per processor), which does not change the result.
    """

    masks: BoolArray
    n_starts: int
    stream: Callable[[int], np.random.Generator]
    n_jobs: int = 1
    limits: SearchLimits = DEFAULT_LIMITS


class Grouping(NamedTuple):
    """The group of every local cluster, the loss, and how clearly this grouping won.

    A method that tries one grouping only has no runner-up, and a confidence of NaN. ``n_different`` groupings were reached
    from all starts. ``rivals`` are other groupings that are not much worse.
    """

    groups: IntArray
    loss: float
    runner_up: float | None = None
    confidence: float = float("nan")
    n_different: int = 1
    rivals: tuple[IntArray, ...] = ()
