"""Weights: what a row of each participant counts, and what differences of a column count.

A row with weight w counts as w rows wherever the coordinator merges what several participants told: common units, groupings,
centroids, spreads, the choice of K. Sizes are numbers of rows in any case. The squared difference of a column with weight w
counts as that of w columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from intarsia.core.distances import Metric
from intarsia.core.features import indicators, near_misses
from intarsia.core.robust import caps
from intarsia.core.types import FloatArray
from intarsia.exceptions import SettingError, quote

ROWS, EQUAL, CAPPED = WAYS = ("rows", "equal", "capped")
SMALLEST, LARGEST = 1e-6, 1e6  # weights


def row_weights(setting: Mapping[str, float] | str, n_rows: Mapping[str, int]) -> dict[str, float]:
    """Return what a row of each participant counts.

    "rows": 1. "equal": the rows of each participant count together for as much as those of any other. "capped": those of
    none count for more than those of the median one. A mapping: the number of its participant, 1 for one that it lacks.

    >>> row_weights("equal", {"a": 10, "b": 30})
    {'a': 2.0, 'b': 0.6666666666666666}
    """
    if isinstance(setting, Mapping):
        return {name: float(setting.get(name, 1.0)) for name in n_rows}
    rows = np.array(list(n_rows.values()), dtype=np.float64)
    if setting == EQUAL:
        weights: FloatArray = rows.mean() / rows
    else:
        weights = caps(rows) if setting == CAPPED else np.ones(len(rows))
    return dict(zip(n_rows, weights.tolist(), strict=True))


def unequal(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights, or none if all are 1."""
    return dict(weights) if any(weight != 1.0 for weight in weights.values()) else {}


def factors_of(weights: Mapping[str, float], metric: Metric) -> dict[str, float]:
    """Return what differences of columns are multiplied by so that they count with their weights.

    It is the root of a weight, because distances are roots of sums of squares; only the Manhattan distance is a plain sum.

    >>> factors_of({"age": 4.0}, "euclidean"), factors_of({"age": 4.0}, "manhattan")
    ({'age': 2.0}, {'age': 4.0})
    """
    power = 1.0 if metric == "manhattan" else 0.5
    return {name: float(weight) ** power for name, weight in weights.items()}


def wrong_weight(weights: Mapping[Any, Any]) -> tuple[str, str]:
    """Return whose weight is not accepted, and what is said of it; two empty texts if all are.

    >>> wrong_weight({"size": 2, "age": 0})
    ('age', "the weight of 'age' must be from 1e-06 to 1e+06. Got 0.")
    """
    for key, weight in weights.items():
        is_number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not (is_number and SMALLEST <= float(weight) <= LARGEST):  # also what is not a number
            seen = (
                f"{float(weight):g}" if is_number else repr(weight) if isinstance(weight, str | bool) else "no number"
            )
            return str(key), f"the weight of {quote([key])} must be from {SMALLEST:g} to {LARGEST:g}. Got {seen}."
    return "", ""


def check_weighted(weights: Iterable[str], columns: Iterable[str], levels: Mapping[str, Iterable[str]]) -> None:
    """Raise a SettingError if weights are given to columns that no participant has; columns of categories are in both."""
    known = dict.fromkeys(columns)
    unknown = [name for name in weights if name not in known]
    if not unknown:
        return
    column_of = {feature: name for name in levels for feature in indicators({name: tuple(levels[name])})}
    alike = [f"{b!r} looks like {a!r}" for a, _, b, _ in near_misses({"columns": list(known), "weights": unknown})]
    alike += [f"all levels of {column_of[name]!r} share one weight" for name in unknown if name in column_of]
    hint = "; ".join(dict.fromkeys(alike)) or f"the columns are {quote(sorted(known), 20)}"
    raise SettingError(
        f"feature_weights names {len(unknown)} column(s) that no participant has: {quote(unknown)}. Hint: {hint}."
    )
