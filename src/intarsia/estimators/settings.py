"""Settings that make no sense are refused by name."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from intarsia.exceptions import SettingError


def check_one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """One of a few values."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise SettingError(f"{name} must be one of {allowed}. Got {value!r} instead.")


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> None:
    """A whole number within bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise SettingError(f"{name} must be a whole number {bounds}. Got {value!r} instead.")


def check_jobs(value: Any) -> None:
    """A number of processes as scikit-learn has it: −1 is one for each core."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) == 0:
        raise SettingError(f"n_jobs must be a whole number from 1, −1 for all cores, or None. Got {value!r} instead.")


def check_real(name: str, value: Any, low: float, high: float, *, open_below: bool = False) -> None:
    """A number within bounds."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else float("nan")
    if not (low < number if open_below else low <= number) or number > high:
        bound = "above" if open_below else "from"
        raise SettingError(f"{name} must be a number {bound} {low:g} up to {high:g}. Got {value!r} instead.")


def check_clusterer(name: str, value: Any) -> None:
    """None, or something that clusters: an instance with ``fit_predict`` and scikit-learn's parameters."""
    fits = callable(getattr(value, "fit_predict", None)) and callable(getattr(value, "get_params", None))
    if value is not None and (isinstance(value, type) or not fits):
        what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise SettingError(
            f"{name} must be None or a scikit-learn clusterer, such as KMeans(n_clusters=3). Got {what} instead."
        )
    settings = {} if value is None else value.get_params(deep=False)
    for distances in ("metric", "affinity"):
        if isinstance(settings.get(distances), str) and settings[distances] == "precomputed":
            raise SettingError(
                f"{name} has {distances}='precomputed', and is given rows, not distances. "
                f"Hint: {type(value).__name__}({distances}=...), e.g. metric='euclidean'."
            )
