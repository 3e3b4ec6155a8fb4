"""Checks of a public file whose bytes are intact: shapes, names and numbers must fit together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.features import indicators
from intarsia.core.mixture import SMALLEST
from intarsia.core.tails import LEVELS
from intarsia.core.units import SCALES
from intarsia.protocol.wire import Array
from intarsia.results.outcome import problem_of_names
from intarsia.results.public import METRICS, PublicStudy
from intarsia.results.stored_checks import MOST_CHARACTERS, MOST_ROWS, are_between

_LEAST_SHARE = float(np.nextafter(0, 1))


def problems_of_public(stored: PublicStudy) -> Iterator[str]:
    """Yield what is wrong with the content, in words. Later checks rely on the earlier ones: stop at the first problem."""
    yield from _wrong_shapes(stored)
    yield from _wrong_names(stored)
    yield from _wrong_numbers(stored)


def _wrong_shapes(stored: PublicStudy) -> Iterator[str]:
    k, d = len(stored.sizes) if stored.sizes.ndim else 0, len(stored.features)
    by_entry, by_feature = (k, d), (d,)
    expected: dict[str, tuple[tuple[int, ...], str]] = {
        **dict.fromkeys(("values", "squares", "rest", "errors"), (by_entry, "f")),
        **dict.fromkeys(("shift", "scale", "width", "overall", "overall_width", "within"), (by_feature, "f")),
        "known": (by_entry, "b"),
        "sizes": ((k,), "i"),
        "weights": ((k,), "f"),
        "tails": ((k, len(LEVELS)), "f"),
    }
    for name, (shape, kind) in expected.items():
        array = getattr(stored, name)
        if array is not None and (array.shape != shape or array.dtype.kind != kind):
            yield f"{name} has the wrong shape or type"
    if not (k and d):
        yield "features or clusters are missing"


def _wrong_names(stored: PublicStudy) -> Iterator[str]:
    if len(set(stored.features)) != len(stored.features) or not all(name.strip() for name in stored.features):
        yield "features repeat or have no name"
    if sorted(stored.names_in_order) != sorted(stored.features):
        yield "names_in_order must contain the same names as features"
    of_levels = indicators(stored.levels)
    named = all(levels and column not in stored.features for column, levels in stored.levels.items())
    if not named or len(set(of_levels)) != len(of_levels) or not set(of_levels) <= set(stored.features):
        yield "levels are not among the features"
    if stored.units not in SCALES or stored.units == "auto":
        yield "units are unknown"
    if stored.metric not in METRICS:
        yield f"metric must be one of {METRICS}"
    if (problem := problem_of_names(stored.names, len(stored.sizes))) is not None:
        yield problem
    if stored.privacy is not None and len(stored.privacy) > MOST_CHARACTERS:
        yield f"the words about privacy must have at most {MOST_CHARACTERS} characters"


# the smallest and the largest value of every array of numbers
_RANGES: dict[str, tuple[float, float]] = {
    "shift": (-LARGEST, LARGEST),
    "scale": (1 / LARGEST, LARGEST),
    "values": (-LARGEST, LARGEST),
    "width": (0, 2 * LARGEST),
    "sizes": (0, MOST_ROWS),
    "weights": (_LEAST_SHARE, 1),
    "squares": (SMALLEST, LARGEST**2),
    "overall": (-LARGEST, LARGEST),
    "overall_width": (0, LARGEST**2),
    "within": (0, LARGEST**2),
    "tails": (0, np.inf),
}


def _wrong_numbers(stored: PublicStudy) -> Iterator[str]:
    for name, (low, high) in _RANGES.items():
        array = getattr(stored, name)
        if array is not None and not are_between(array, low, high):
            yield f"{name} must be between {low:g} and {high:g}"
    if not 0 <= stored.typical <= LARGEST**2:
        yield "the typical variance must be finite and at least 0"
    if np.isinf(stored.rest).any() or not (np.isnan(stored.rest) | stored.known).all():
        yield "a mean of the others must be finite, and only where the cluster is known"
    if stored.errors is not None and not _are_errors(stored.errors):
        yield "the errors of centroids must be numbers of at least 0"
    if not (1 <= stored.fewest <= MOST_ROWS and 1 <= stored.min_holders <= MOST_ROWS):
        yield "fewest and min_holders must be at least 1"


def _are_errors(errors: Array) -> bool:
    return are_between(errors[~np.isnan(errors)], 0, LARGEST)
