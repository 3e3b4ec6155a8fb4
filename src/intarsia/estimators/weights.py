"""Weights of columns and participants as the coordinator's settings have them: plain numbers by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from intarsia.estimators.settings import for_each


def weights_by_name(weights: Mapping[Hashable, float] | None) -> dict[str, float] | None:
    """Return the weights of columns as plain numbers by name; None if no weight was given."""
    return None if weights is None else {str(name): float(weight) for name, weight in weights.items()}


def row_weights_of(setting: Any, keys: Sequence[Hashable]) -> Any:
    """Return the weights of participants: the name of a way, or plain numbers by name."""
    if not isinstance(setting, Mapping):
        return setting
    return {
        name: 1.0 if each is None else float(each)
        for name, each in for_each(setting, keys, "participant_weights").items()
    }
