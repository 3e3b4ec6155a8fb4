"""What a private study declares before anybody looks at data: the budget, and where the values of each column can be.

Declared units of a column with bounds are a quarter of the range around its middle, so that values are between −2 and 2.
The indicator of a level is 0 or 2. A missing value is 0 in these units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.features import indicators
from intarsia.core.types import FloatArray
from intarsia.exceptions import SettingError, quote

FARTHEST = 2.0  # declared units: no value is farther from the middle of its bounds
MOST_ROUNDS = 3
_PARTS, _OF_INDICATORS = 4.0, 0.5  # units in a range, and the unit of an indicator
_LARGEST = 1e100


class DeclaredUnits(NamedTuple):
    """The features of a participant, sorted, and how a value x of each becomes (x − shift) / scale."""

    features: tuple[str, ...]
    shift: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class DifferentialPrivacy:
    """A budget of differential privacy, and what is declared about the columns. Nothing of it may come from data.

    What a participant tells about its table is (ε, δ)-differentially private: whoever sees all of it can hardly tell
    whether one row (or all ``rows_per_person`` rows of a person) is in the table.

    Parameters
    ----------
    epsilon : float
        What each participant spends at most in the study. 1 is a strong promise, 8 a weak one.
    delta : float, default=1e-6
        The probability with which the promise may fail. It should be far below 1 / rows.
    bounds : mapping of columns to (low, high)
        Where the values of a column of numbers can be. Values outside are moved to the nearest bound. The narrower the
        bounds, the less noise.
    levels : mapping of columns to levels, default={}
        The levels of each column of categories. Other levels count as missing.
    rows_per_person : int, default=1
        The largest number of rows of a table that belong to one person.
    rounds : int, default=2
        Noisy rounds of the federated method, 0 to 3. Each takes a part of the budget. The one-shot method has none.

    Examples
    --------
    >>> print(DifferentialPrivacy(epsilon=1, bounds={"age": (0, 110)}))
    epsilon 1, delta 1e-06, 1 row per person, 1 declared column, 2 noisy rounds
    """

    epsilon: float
    delta: float = 1e-6
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows_per_person: int = 1
    rounds: int = 2

    def __post_init__(self) -> None:
        if not _is_number(self.epsilon) or not 0 < self.epsilon <= 100:
            raise SettingError(f"epsilon must be above 0 and at most 100. Got {self.epsilon!r} instead. Hint: 1.")
        if not _is_number(self.delta) or not 0 < self.delta <= 0.01:
            raise SettingError(f"delta must be above 0 and at most 0.01. Got {self.delta!r} instead. Hint: 1e-6.")
        for name, least, most in (("rows_per_person", 1, 10**6), ("rounds", 0, MOST_ROUNDS)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise SettingError(f"{name} must be a whole number from {least} to {most}. Got {value!r} instead.")
        if not isinstance(self.bounds, Mapping) or not isinstance(self.levels, Mapping):
            raise SettingError("bounds and levels must be mappings by column, e.g. bounds={'age': (0, 110)}.")
        object.__setattr__(self, "epsilon", float(self.epsilon))  # one way to write the same declaration
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds))
        object.__setattr__(self, "levels", _checked_levels(self.levels))
        if both := sorted(set(self.bounds) & set(self.levels)):
            raise SettingError(f"{len(both)} column(s) have both bounds and levels: {quote(both)}.")

    def __str__(self) -> str:
        columns = len(self.bounds) + len(self.levels)
        return (
            f"epsilon {self.epsilon:g}, delta {self.delta:g}, {_several(self.rows_per_person, 'row')} per person, "
            f"{_several(columns, 'declared column')}, {_several(self.rounds, 'noisy round')}"
        )

    def check_declared(self, owner: str, columns: Sequence[str]) -> None:
        """Raise a SettingError unless each of these columns of a participant is declared."""
        if missing := [name for name in columns if name not in self.bounds and name not in self.levels]:
            raise SettingError(
                f"{len(missing)} column(s) of {owner!r} have neither bounds nor levels, which differential privacy needs "
                f"and must not take from data: {quote(missing)}. Hint: add bounds={{{missing[0]!r}: (low, high)}} from what "
                "is known of the measurement, or levels, or leave the column out."
            )

    def units_of(self, columns: Sequence[str]) -> DeclaredUnits:
        """Return the features and units of a table with these columns.

        >>> units = DifferentialPrivacy(1, bounds={"age": (0, 100)}, levels={"sex": ("f", "m")}).units_of(["sex", "age"])
        >>> units.features, units.shift.tolist(), units.scale.tolist()
        (('age', 'sex=f', 'sex=m'), [50.0, 0.0, 0.0], [25.0, 0.5, 0.5])
        """
        units: dict[str, tuple[float, float]] = {}
        for name in columns:
            if name in self.levels:
                units |= dict.fromkeys(indicators({name: self.levels[name]}), (0.0, _OF_INDICATORS))
            else:
                low, high = self.bounds[name]
                units[name] = ((low + high) / 2, (high - low) / _PARTS)
        features = tuple(sorted(units))
        shift, scale = np.array([units[name] for name in features]).reshape(-1, 2).T
        return DeclaredUnits(features, shift, scale)


def _checked_bounds(bounds: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    checked = {}
    for name, pair in sorted(bounds.items(), key=_by_name):
        two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not two or not all(map(_is_number, pair)) or not pair[0] < pair[1] or max(map(abs, pair)) > _LARGEST:
            raise SettingError(f"the bounds of column {quote([str(name)])} must be two numbers, the lower one first.")
        checked[str(name)] = (float(pair[0]), float(pair[1]))
    return checked


def _checked_levels(levels: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    checked = {}
    for name, several in sorted(levels.items(), key=_by_name):
        listed = isinstance(several, Sequence) and not isinstance(several, str)
        if not listed or not several or not all(isinstance(level, str) for level in several):
            raise SettingError(f"the levels of column {quote([str(name)])} must be a list of texts, at least one.")
        checked[str(name)] = tuple(sorted(set(several)))
    return checked


def _by_name(item: tuple[Any, Any]) -> str:
    return str(item[0])


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= _LARGEST  # larger ones may not be floats
    return isinstance(value, float | np.integer | np.floating) and math.isfinite(value)


def _several(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
