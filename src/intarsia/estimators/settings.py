"""The settings of both estimators: for each one the values that it accepts, and one error message for all.

The table is used by the estimators, :func:`intarsia.cluster`, the command line and the study file of a federation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np

from intarsia.coordinator.settings import FORCES, MODELS, MOST_RIVALS, REFINEMENTS
from intarsia.core.densities.base import density_names, family_of
from intarsia.core.distances import METRICS
from intarsia.core.grouping.aggregations import centroid_methods, force_methods
from intarsia.core.units import SCALES
from intarsia.exceptions import SettingError, quote
from intarsia.participant.warm_start import check_can_start
from intarsia.privacy.policy import ReleasePolicy

MISSING = ("observed", "error", "impute", "drop")
OBSERVED = MISSING[0]
AUTO = "auto"


class Constraint(Protocol):
    """A set of values; ``str`` describes it in words that follow "must be"."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is in the set."""
        ...


@dataclass(frozen=True)
class OneOf:
    """A few values: texts, or None."""

    values: tuple[str | None, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of them."""
        return value in self.values if value is None or isinstance(value, str) else False

    def __str__(self) -> str:
        return repr(self.values[0]) if len(self.values) == 1 else f"one of {self.values}"


class DensityName:
    """Names of densities; those of registered families are accepted, too."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is the name of a density."""
        return value in density_names()

    def __str__(self) -> str:
        return f"one of {density_names()}"


@dataclass(frozen=True)
class WholeNumber:
    """Whole numbers from ``least`` to ``most``."""

    least: int
    most: int | None = None

    def accepts(self, value: Any) -> bool:
        """Whether the value is a whole number within the bounds; truth values are not."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return whole and int(value) >= self.least and (self.most is None or int(value) <= self.most)

    def __str__(self) -> str:
        bounds = f"of at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        return f"a whole number {bounds}"


@dataclass(frozen=True)
class Number:
    """Numbers from ``low`` (or above it) to ``high``."""

    low: float
    high: float
    above_low: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the value is a number within the bounds."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number = float(value)
        return (self.low < number if self.above_low else self.low <= number) and number <= self.high

    def __str__(self) -> str:
        most = "" if self.high == np.inf else f" and at most {self.high:g}"
        return f"a number {'above' if self.above_low else 'of at least'} {self.low:g}{most}"


@dataclass(frozen=True)
class InstanceOf:
    """Objects of a few classes."""

    classes: tuple[type, ...]
    words: str

    def accepts(self, value: Any) -> bool:
        """Whether the value is an object of one of the classes."""
        return isinstance(value, self.classes)

    def __str__(self) -> str:
        return self.words


class NumberOfJobs:
    """Numbers of processes as in scikit-learn: negative numbers count from the number of cores."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is a whole number other than 0."""
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) != 0

    def __str__(self) -> str:
        return "a whole number of at least 1, −1 for all cores"


class Function:
    """Anything that can be called."""

    def accepts(self, value: Any) -> bool:
        """Whether the value can be called."""
        return callable(value)

    def __str__(self) -> str:
        return "a callable phi(u, v) -> float"


class Clusterer:
    """Instances with ``fit_predict`` and ``get_params``, as scikit-learn's clusterers have them."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is such an instance."""
        methods = (getattr(value, name, None) for name in ("fit_predict", "get_params"))
        return not isinstance(value, type) and all(map(callable, methods))

    def __str__(self) -> str:
        return "a scikit-learn clusterer such as KMeans(n_clusters=3)"


class Setting:
    """The values of one setting: any of the constraints, or, if ``by_participant``, a mapping of participants to such."""

    def __init__(self, *allowed: Constraint, by_participant: bool = False, hint: str = "") -> None:
        self.allowed, self.by_participant, self.hint = allowed, by_participant, hint


_NONE = OneOf((None,))
_BOOLEAN = InstanceOf((bool, np.bool_), "True or False")
_RANDOM = InstanceOf((np.random.RandomState, np.random.Generator), "a numpy generator")
_COMMON = {
    "n_clusters": Setting(
        WholeNumber(1), OneOf((AUTO,)), hint="n_clusters='auto' chooses the number of clusters from the tables."
    ),
    "local": Setting(_NONE, Clusterer(), by_participant=True),
    "n_local_clusters": Setting(WholeNumber(1), _NONE, by_participant=True),
    "metric": Setting(OneOf(METRICS), Function()),
    "scale": Setting(OneOf(SCALES)),
    "missing": Setting(OneOf(MISSING), by_participant=True),
    "n_starts": Setting(WholeNumber(0)),
    "random_state": Setting(WholeNumber(0), _RANDOM, _NONE),
    "release": Setting(InstanceOf((ReleasePolicy,), "a ReleasePolicy"), _NONE, by_participant=True),
    "n_jobs": Setting(NumberOfJobs(), _NONE),
}
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "federated": {
        **_COMMON,
        "aggregation": Setting(OneOf(centroid_methods())),
        "step_size": Setting(Number(0.0, 1.0, above_low=True)),
        "max_rounds": Setting(WholeNumber(0)),
        "tol": Setting(Number(0.0, np.inf)),
        "min_points": Setting(WholeNumber(1)),
        "local_iterations": Setting(WholeNumber(1)),
        "refinement": Setting(OneOf(REFINEMENTS)),
        "n_rivals": Setting(WholeNumber(0, MOST_RIVALS)),
        "model": Setting(OneOf(MODELS)),
    },
    "one_shot": {
        **_COMMON,
        "aggregation": Setting(OneOf(force_methods())),
        "force": Setting(OneOf(FORCES)),
        "exponent": Setting(Number(0.0, 100.0, above_low=True)),
        "softening": Setting(Number(0.0, 1.0)),
        "density": Setting(DensityName()),
        "n_proxies": Setting(WholeNumber(1, 100_000)),
        "bounding_boxes": Setting(_BOOLEAN),
        "fidelity": Setting(_BOOLEAN),
        "allow_partial": Setting(_BOOLEAN),
    },
}
METHODS = tuple(SETTINGS)


def check_value(name: str, value: Any, *allowed: Constraint, hint: str = "") -> None:
    """Raise a SettingError unless one of the constraints accepts the value."""
    if not any(constraint.accepts(value) for constraint in allowed):
        words = " or ".join(str(constraint) for constraint in allowed)
        raise SettingError(f"{name} must be {words}. Got {_shown(value)} instead.{' Hint: ' if hint else ''}{hint}")


def check_names(method: str, names: Iterable[str]) -> None:
    """Raise a SettingError if the method is unknown, or has no setting of one of these names."""
    check_value("method", method, OneOf(METHODS))
    table = SETTINGS[method]
    if unknown := [name for name in names if name not in table]:
        other = next((other for other, settings in SETTINGS.items() if unknown[0] in settings), None)
        hint = (
            f"the settings are {', '.join(table)}" if other is None else f"{unknown[0]!r} belongs to method={other!r}"
        )
        raise SettingError(f"method={method!r} has no setting {quote(unknown)}. Hint: {hint}.")


def check_settings(method: str, values: Mapping[str, Any]) -> None:
    """Raise a SettingError if one of a method's settings has a value it does not accept, or two do not fit together.

    ``values`` has every setting of the method, as an estimator's ``get_params`` returns them.
    """
    for name, setting in SETTINGS[method].items():
        value = values[name]
        by_participant = setting.by_participant and isinstance(value, Mapping)
        for single in value.values() if by_participant else (value,):
            check_value(name, single, *setting.allowed, hint=setting.hint)
    for estimator in values["local"].values() if isinstance(values["local"], Mapping) else (values["local"],):
        _check_local(estimator)
        if values.get("max_rounds"):
            check_can_start(estimator)
    if method == "federated":
        _check_federated(values)
    else:
        _check_one_shot(values)


def _check_local(estimator: Any) -> None:
    """Refuse a local clusterer that expects distances: it is given rows."""
    parameters = {} if estimator is None else estimator.get_params(deep=False)
    for name in ("metric", "affinity"):
        if isinstance(parameters.get(name), str) and parameters[name] == "precomputed":
            raise SettingError(
                f"local has {name}='precomputed', but it is given rows, not distances. "
                f"Hint: {type(estimator).__name__}({name}=...), e.g. metric='euclidean'."
            )


def _check_federated(values: Mapping[str, Any]) -> None:
    if values["model"] == "mixture" and values["metric"] not in {"euclidean", "manhattan"}:
        raise SettingError("model='mixture' needs metric='euclidean' or 'manhattan'.")


def _check_one_shot(values: Mapping[str, Any]) -> None:
    gaussian, euclidean = family_of(values["density"]).has_exact_force, values["metric"] == "euclidean"
    if values["bounding_boxes"] and values["force"] != "sampled" and gaussian and euclidean:
        raise SettingError(
            "bounding_boxes limit proxies, and exact forces between Gaussians use no proxies. Hint: force='sampled'."
        )
    if values["force"] == "exact" and not (gaussian and euclidean):
        seen = f"density={values['density']!r} and metric={_shown(values['metric'])}"
        raise SettingError(
            f"force='exact' needs a Gaussian density and metric='euclidean'. Got {seen} instead. Hint: force='sampled'."
        )


def _shown(value: Any) -> str:
    """Return a text, a number or None as it is, and of anything else only the type: it may contain data."""
    if value is None or isinstance(value, str | Real):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else f"an object of type {type(value).__name__}"


def for_each(setting: Any, keys: Sequence[Hashable], name: str) -> dict[str, Any]:
    """Return a setting by participant: the same for all, or that of a mapping (None where it has no entry)."""
    if not isinstance(setting, Mapping):
        return {str(key): setting for key in keys}
    unknown = [key for key in setting if key not in keys]
    if unknown:
        raise SettingError(f"{name} names {len(unknown)} participant(s) that have no table: {quote(unknown)}.")
    return {str(key): setting.get(key) for key in keys}
