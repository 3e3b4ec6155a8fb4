"""Weights on the command line: ``age=2``, given once for each column or participant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intarsia.exceptions import SettingError

_HOW = {
    "--feature-weight": "--feature-weight age=2",
    "--participant-weights": "--participant-weights equal, or --participant-weights north=2",
}


def feature_weights(given: Sequence[str] | None) -> dict[str, float] | None:
    """Return the weights of columns; None if no weight was given."""
    return None if not given else _numbers(given, "--feature-weight")


def participant_weights(given: Sequence[str] | None) -> dict[str, float] | str | None:
    """Return the way participants are weighted, or the weight of each that is named; None if nothing is said."""
    if not given:
        return None
    return given[0] if len(given) == 1 and "=" not in given[0] else _numbers(given, "--participant-weights")


def _numbers(given: Sequence[str], option: str) -> dict[str, float]:
    weights = {}
    for text in given:
        name, is_pair, number = text.rpartition("=")  # names of columns may contain the sign
        try:
            weight = float(number)
        except ValueError:
            is_pair = ""
        if not (is_pair and name):
            raise SettingError(f"{option} must be NAME=NUMBER. Got {text!r} instead. Hint: {_HOW[option]}.")
        if name in weights:
            raise SettingError(f"{option} gives {name!r} two weights. Hint: leave one out.")
        weights[name] = weight
    _check_range(weights, option)
    return weights


def _check_range(weights: Mapping[str, float], option: str) -> None:
    from intarsia.coordinator.weights import wrong_weight

    name, problem = wrong_weight(weights)
    if not problem:
        return
    if option == "--feature-weight":
        raise SettingError(f"feature_weights: {problem} Hint: to leave a column out, use -x {name}.")
    raise SettingError(f"participant_weights: {problem} Hint: to leave a participant out, leave its file out.")
