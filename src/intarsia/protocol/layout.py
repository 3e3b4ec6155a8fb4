"""How rows are laid out in features and units, and statistics of them: what several exchanges contain."""

from __future__ import annotations

import msgspec

from intarsia.protocol.wire import Array, Part

MOST_JOINT_LEVELS = 200  # of one column, over all participants


class Columns(Part, frozen=True):
    """How the receiver lays out its rows: an indicator for each of these levels of its columns of categories, features
    sorted by name, then common units, (x − shift) / scale.
    """

    shift: Array
    scale: Array
    levels: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class Moments(Part, frozen=True):
    """Per feature: how many cells are observed, their mean and the sum of squared deviations from it (Welford's M2).

    For ``scale="minmax"`` also the smallest and the largest cell, for ``"robust"`` quantiles (levels × features).
    """

    count: Array
    mean: Array
    m2: Array
    low: Array | None = None
    high: Array | None = None
    quantiles: Array | None = None
