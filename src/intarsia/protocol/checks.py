"""What the checks of requests and replies share. A check raises a ProtocolError that says what must hold, without data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.exceptions import ProtocolError
from intarsia.protocol.wire import Array

MOST_ROWS = 2**53  # counts are exact up to here
MOST_LETTERS = 1000  # of a name
MOST_JOINT_LEVELS = 200  # of one column, over all participants


def require(holds: bool | np.bool_, rule: str) -> None:
    """Raise a ProtocolError that states the rule, unless it holds."""
    if not holds:
        raise ProtocolError(rule)


def is_bounded(values: Array, *, squared: bool = False) -> bool:
    """Whether all values can be squared and summed; sums of squares may be as large as such sums get."""
    return bool((np.abs(values) <= (LARGEST**2 * MOST_ROWS if squared else LARGEST)).all())


def are_counts(values: Array) -> bool:
    """Whether all values are whole numbers from 0 to the largest number of rows."""
    if values.dtype.kind not in "fi":
        return False
    in_range = bool(((values >= 0) & (values < MOST_ROWS)).all())
    return in_range and bool((values % 1 == 0).all())


def are_sizes(values: Array, most: int = MOST_ROWS) -> bool:
    """Whether values are integers from 0, with a sum of at most ``most``."""
    return values.dtype.kind == "i" and bool((values >= 0).all()) and int(values.sum(dtype=object)) <= most


def check_names(names: Sequence[str]) -> None:
    """Feature names must be sorted, different and neither blank nor too long."""
    require(all(map(_is_name, names)), f"feature names must have 1 to {MOST_LETTERS} letters")
    require(len(set(names)) == len(names), "feature names must be different")
    require(sorted(names) == list(names), "feature names must be sorted")


def check_levels(levels: Mapping[str, Sequence[str]]) -> None:
    """Each column must have a name and 1 to ``MOST_JOINT_LEVELS`` different levels."""
    named = all(map(_is_name, levels)) and all(
        len(level) <= MOST_LETTERS for names in levels.values() for level in names
    )
    require(named, f"names of columns and levels must have at most {MOST_LETTERS} letters")
    require(all(0 < len(names) == len(set(names)) for names in levels.values()), "levels of a column must be different")
    require(
        all(len(names) <= MOST_JOINT_LEVELS for names in levels.values()),
        f"a column must have at most {MOST_JOINT_LEVELS} levels",
    )


def check_centroids(values: Array, counts: Array, sizes: Array) -> None:
    """Counts must be counts, of clusters with rows, and entries with a count must be moderate numbers.

    A cluster may count a few more values of a feature than rows: a participant tells values that are too few for a sum of
    their own with another cluster than their row (:mod:`intarsia.privacy.audit`).
    """
    require(are_counts(counts), "counts must be whole numbers from 0")
    require(values.dtype.kind == "f" and is_bounded(values[counts > 0]), "centroids must be finite numbers")
    require((counts[sizes == 0] == 0).all(), "a cluster without rows must not have values")


def check_values(counts: Array, n_rows: int) -> None:
    """All clusters together must not have more values of a feature than there are rows: counts are weights."""
    require((counts.sum(axis=0) <= n_rows).all(), "there must not be more values of a feature than rows")


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MOST_LETTERS
