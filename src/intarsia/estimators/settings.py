"""The settings of both estimators: for each one the values that it accepts, and one error message for all.

The table is used by the estimators, :func:`intarsia.cluster`, the command line and the study file of a federation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from intarsia.coordinator.settings import BY_LOCAL, FORCES, LABELS, MERGES, MODELS, MOST_RIVALS, REFINEMENTS
from intarsia.coordinator.weights import LARGEST, SMALLEST, WAYS, wrong_weight
from intarsia.core.densities.base import density_names, family_of
from intarsia.core.distances import METRICS
from intarsia.core.features import near_misses
from intarsia.core.grouping.aggregations import centroid_methods, force_methods
from intarsia.core.grouping.linkages import FORCE, LINKAGES, OF_MOMENTS, OF_POINTS
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.units import SCALES
from intarsia.exceptions import SettingError, quote
from intarsia.participant.clusterers import BUILT_IN
from intarsia.participant.warm_start import check_can_start
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol.terms import SILHOUETTE

MISSING = ("observed", "error", "impute", "drop")
OBSERVED = MISSING[0]


class Values(NamedTuple):
    """A set of values: a test, the words that follow "must be", and what is wrong inside a value of the right kind."""

    words: Callable[[], str]
    accepts: Callable[[Any], bool]
    problem: Callable[[Any], str] = lambda _: ""


class Setting(NamedTuple):
    """The values of one setting: of any of these sets, or, if ``by_participant``, a mapping of participants to such."""

    allowed: tuple[Values, ...]
    by_participant: bool = False
    hint: str = ""


def one_of(names: Callable[[], tuple[str | None, ...]]) -> Values:
    """The texts (or None) that ``names`` returns; a registry may grow after the table was made."""
    return Values(
        lambda: f"one of {names()}" if len(names()) > 1 else repr(names()[0]),
        lambda value: (value is None or isinstance(value, str)) and value in names(),
    )


def whole_number(least: int, most: int | None = None) -> Values:
    """Whole numbers within bounds; truth values are not numbers."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    return Values(
        lambda: f"a whole number {bounds}",
        lambda value: _is_whole(value) and least <= int(value) and (most is None or int(value) <= most),
    )


def number(low: float, high: float = np.inf, *, above: bool = False) -> Values:
    """Numbers from ``low``, or above it, to ``high``."""
    most = "" if high == np.inf else f" and at most {high:g}"
    return Values(
        lambda: f"a number {'above' if above else 'of at least'} {low:g}{most}",
        lambda value: (
            isinstance(value, Real)
            and not isinstance(value, bool)
            and (low < float(value) if above else low <= float(value))
            and float(value) <= high
        ),
    )


def instance(words: str, *classes: type) -> Values:
    """Objects of these classes."""
    return Values(lambda: words, lambda value: isinstance(value, classes))


def bounds(within: Values) -> Values:
    """Pairs (least, most) of values of a set; in files a pair is a list."""
    return Values(
        lambda: "a pair (least, most) of such, the smaller one first",
        lambda value: (
            isinstance(value, tuple | list)
            and len(value) == 2
            and all(map(within.accepts, value))
            and bool(value[0] <= value[1])
        ),
    )


def _weights(of: str, hint: str) -> Values:
    """Mappings to positive numbers."""
    return Values(
        lambda: f"a mapping of {of} to numbers from {SMALLEST:g} to {LARGEST:g}",
        lambda value: (
            isinstance(value, Mapping)
            and len({str(key) for key in value}) == len(value)
            and not any(wrong_weight(value))
        ),
        lambda value: (
            f"{wrong} Hint: {hint}." if isinstance(value, Mapping) and (wrong := wrong_weight(value)[1]) else ""
        ),
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_clusterer(value: Any) -> bool:
    methods = (getattr(value, name, None) for name in ("fit_predict", "get_params"))
    return not isinstance(value, type) and all(map(callable, methods))


NONE = Values(lambda: "None", lambda value: value is None)
_AUTO = Values(lambda: "'auto'", lambda value: isinstance(value, str) and value == "auto")
_SILHOUETTE = Values(lambda: f"{SILHOUETTE!r}", lambda value: isinstance(value, str) and value == SILHOUETTE)
_FUNCTION = Values(lambda: "a callable phi(u, v) -> float", callable)
_CLUSTERER = Values(lambda: "a scikit-learn clusterer such as KMeans(n_clusters=3)", _is_clusterer)
_JOBS = Values(
    lambda: "a whole number of at least 1, −1 for all cores", lambda value: _is_whole(value) and int(value) != 0
)
_BOOLEAN = instance("True or False", bool, np.bool_)
_MODEL = Values(  # models import this module
    lambda: "a result, a public model, or the path of a saved one",
    lambda value: isinstance(value, str | os.PathLike) or hasattr(type(value), "global_model"),
)
_GENERATOR = instance("a numpy generator", np.random.RandomState, np.random.Generator)
_N_PROXIES = whole_number(1, 100_000)
_COMMON = {
    "n_clusters": Setting((whole_number(1), _AUTO), hint="n_clusters='auto' chooses the number of clusters."),
    "local": Setting((NONE, one_of(lambda: tuple(BUILT_IN)), _CLUSTERER), by_participant=True),
    "n_local_clusters": Setting((whole_number(1), _SILHOUETTE, NONE), by_participant=True),
    "metric": Setting((one_of(lambda: METRICS), _FUNCTION)),
    "scale": Setting((one_of(lambda: SCALES),)),
    "missing": Setting((one_of(lambda: MISSING),), by_participant=True),
    "n_starts": Setting((whole_number(0),)),
    "random_state": Setting((whole_number(0), _GENERATOR, NONE)),
    "release": Setting((instance("a ReleasePolicy", ReleasePolicy), NONE), by_participant=True),
    "n_jobs": Setting((_JOBS, NONE)),
    "verbose": Setting((whole_number(0, 1), _BOOLEAN)),
    "privacy": Setting((instance("a DifferentialPrivacy", DifferentialPrivacy), NONE)),
    "stability": Setting((_BOOLEAN,)),
    "feature_weights": Setting((NONE, _weights("columns", "to leave a column out, drop it from the tables"))),
    "participant_weights": Setting(
        (one_of(lambda: WAYS), _weights("participants", "to leave a participant out, drop its table"))
    ),
}
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "federated": {
        **_COMMON,
        "aggregation": Setting((one_of(centroid_methods),), hint="aggregation='greedy' needs method='one_shot'."),
        "step_size": Setting((number(0.0, 1.0, above=True),)),
        "max_rounds": Setting((whole_number(0),)),
        "tol": Setting((number(0.0),)),
        "min_points": Setting((whole_number(1),)),
        "local_iterations": Setting((whole_number(1),)),
        "refinement": Setting((one_of(lambda: REFINEMENTS),)),
        "n_rivals": Setting((whole_number(0, MOST_RIVALS),)),
        "merge": Setting((one_of(lambda: MERGES),)),
        "model": Setting((one_of(lambda: MODELS),)),
        "secure_sums": Setting((_BOOLEAN,)),
        "min_holders": Setting((whole_number(2, 100),)),
        "previous": Setting((_MODEL, NONE)),
    },
    "one_shot": {
        **_COMMON,
        "aggregation": Setting(
            (one_of(force_methods),),
            hint="aggregation='greedy' is the paper's agglomeration; preset='paper' sets it, too.",
        ),
        "linkage": Setting((one_of(lambda: LINKAGES),)),
        "force": Setting((one_of(lambda: FORCES),)),
        "exponent": Setting((number(1.0, 100.0, above=True),), hint="exponent=2.0 is the paper's."),
        "softening": Setting((number(0.0, 1.0),)),
        "deviations": Setting((number(0.0, 100.0),)),
        "density": Setting((one_of(density_names),)),
        "shrink": Setting((_BOOLEAN,)),
        "n_proxies": Setting((_N_PROXIES, bounds(_N_PROXIES)), hint="n_proxies=(30, 100) has the paper's bounds."),
        "bounding_boxes": Setting((_BOOLEAN,)),
        "fidelity": Setting((_BOOLEAN,)),
        "allow_partial": Setting((_BOOLEAN,)),
        "labels": Setting(
            (one_of(lambda: LABELS),), hint="labels='local' is the paper's rule; preset='paper' sets it, too."
        ),
        "model": Setting((one_of(lambda: MODELS),)),
    },
}


def check_value(name: str, value: Any, *allowed: Values, hint: str = "") -> None:
    """Raise a SettingError unless the value is in one of these sets."""
    if not any(values.accepts(value) for values in allowed):
        if problem := next(filter(None, (values.problem(value) for values in allowed)), ""):
            raise SettingError(f"{name}: {problem}")
        words = " or ".join(values.words() for values in allowed)
        raise SettingError(f"{name} must be {words}. Got {_shown(value)} instead.{' Hint: ' if hint else ''}{hint}")


def check_names(method: str, names: Iterable[str]) -> None:
    """Raise a SettingError if the method is unknown, or has no setting of one of these names."""
    check_value("method", method, one_of(lambda: tuple(SETTINGS)))
    table = SETTINGS[method]
    if unknown := [name for name in names if name not in table]:
        other = next((other for other, settings in SETTINGS.items() if unknown[0] in settings), None)
        hint = (
            f"the settings are {', '.join(table)}" if other is None else f"{unknown[0]!r} belongs to method={other!r}"
        )
        if "previous" in unknown:
            hint = (
                "one-shot has no rounds that could start from a model. method='federated' repeats its studies as well"
            )
        if "secure_sums" in unknown:
            hint = (
                "local summaries are compared, not added up, so that one-shot has no sums to secure. method='federated' "
                "with privacy=DifferentialPrivacy(…, rounds=1) tells noisy sketches and one secure sum"
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
    _check_model(values)
    if values["privacy"] is not None:
        _check_private(values)
    if values.get("secure_sums"):
        _check_secure(values)
    if values.get("previous") is not None:
        _check_repeat(values)
    if method == "one_shot":
        _check_one_shot(values)


def _check_local(estimator: Any) -> None:
    """Refuse a local clusterer that expects distances: it is given rows."""
    parameters = {} if isinstance(estimator, str | None) else estimator.get_params(deep=False)
    for name in ("metric", "affinity"):
        if isinstance(parameters.get(name), str) and parameters[name] == "precomputed":
            raise SettingError(
                f"local has {name}='precomputed', but it is given rows, not distances. "
                f"Hint: {type(estimator).__name__}({name}=...), e.g. metric='euclidean'."
            )


def _check_model(values: Mapping[str, Any]) -> None:
    if values["model"] == "mixture" and values["metric"] not in {"euclidean", "manhattan"}:
        raise SettingError("model='mixture' needs metric='euclidean' or 'manhattan'.")
    if values["model"] == "mixture" and values.get("labels") == BY_LOCAL:
        raise SettingError(
            "labels='local' gives rows the cluster of their local cluster, and model='mixture' the likeliest one. "
            "Hint: leave one of the two out."
        )


_NOT_PRIVATE: Mapping[str, tuple[Any, str]] = {
    "local": (None, "a clusterer of your own has no bounded sensitivity"),
    "missing": ("observed", "missing values count as the middle of the declared bounds"),
    "release": (None, "noise takes the place of release rules"),
    "fidelity": (False, "fidelity compares single rows"),
    "bounding_boxes": (False, "bounding boxes are values of single rows"),
    "allow_partial": (False, "sketches of tables without a common column cannot be compared"),
    "metric": ("euclidean", "noisy sums are those of k-means"),
    "labels": ("nearest", "rows are labelled by the nearest released centroid"),
    "participant_weights": ("rows", "the noise of participants with few rows would be multiplied by their weight"),
    "stability": (False, "it resamples rows, and its figures have no noise"),
    "previous": (None, "clusters are compared with those of the previous model by exact sums"),
}
"""Settings that differential privacy excludes: the only value that is left, and why."""


def _check_private(values: Mapping[str, Any]) -> None:
    for name, (only, why) in _NOT_PRIVATE.items():
        value = values.get(name, only)
        same = value == only if isinstance(value, str | bool | None) else False
        if not same:
            raise SettingError(f"{name} cannot be set together with privacy: {why}. Hint: leave {name} out.")
    if values["scale"] in {"minmax", "robust"}:
        raise SettingError(
            f"scale={values['scale']!r} needs values of single rows, which differential privacy excludes. "
            "Hint: leave scale out."
        )


_NOT_SECURE: Mapping[str, tuple[Any, str]] = {
    "merge": ("mean", "medians need the part of each participant"),
    "model": ("kmeans", "a mixture needs the spread of columns that only one participant has"),
    "stability": (False, "it is told by each participant on its own"),
    "previous": (None, "what the rows show under its labels is told by each participant on its own"),
    "participant_weights": ("rows", "a total does not say which part of it is whose"),
}
"""Settings that secure sums exclude: the only value that is left, and why."""


def _check_secure(values: Mapping[str, Any]) -> None:
    for name, (only, why) in _NOT_SECURE.items():
        if values[name] != only:
            raise SettingError(f"{name} cannot be set together with secure_sums: {why}. Hint: leave {name} out.")
    if values["privacy"] is not None and not values["privacy"].rounds:
        raise SettingError(
            "secure_sums needs a noisy round: rounds=0 has no sums. Hint: DifferentialPrivacy(…, rounds=1)."
        )
    if values["scale"] in {"minmax", "robust"}:
        raise SettingError(
            f"scale={values['scale']!r} needs values of single rows, not sums. Hint: scale='standard' or 'auto'."
        )


_NOT_REPEATED: Mapping[str, tuple[Any, str]] = {
    "feature_weights": (None, "the units of the previous model contain its weights, and stay"),
    "participant_weights": ("rows", "rows are counted as they are, to see whether clusters changed"),
}
"""Settings that a repeat excludes: the only value that is left, and why."""


def _check_repeat(values: Mapping[str, Any]) -> None:
    for name, (only, why) in _NOT_REPEATED.items():
        if not isinstance(values[name], str | None) or values[name] != only:
            raise SettingError(f"{name} cannot be set together with previous: {why}. Hint: leave {name} out.")


def _check_one_shot(values: Mapping[str, Any]) -> None:
    gaussian, euclidean = family_of(values["density"]).has_exact_force, values["metric"] == "euclidean"
    _check_linkage(values)
    exact = values["force"] != "sampled" and gaussian and euclidean and values["linkage"] not in OF_POINTS
    if values["bounding_boxes"] and exact:
        raise SettingError(
            "bounding_boxes limit proxies, and exact forces between Gaussians use no proxies. Hint: force='sampled'."
        )
    if values["force"] == "exact" and not (gaussian and euclidean):
        seen = f"density={values['density']!r} and metric={_shown(values['metric'])}"
        raise SettingError(
            f"force='exact' needs a Gaussian density and metric='euclidean'. Got {seen} instead. Hint: force='sampled'."
        )


def _check_linkage(values: Mapping[str, Any]) -> None:
    linkage = values["linkage"]
    if linkage != FORCE and values["aggregation"] != "greedy":
        raise SettingError(
            f"linkage={linkage!r} needs aggregation='greedy': the search maximises forces. "
            f"Got aggregation={values['aggregation']!r} instead."
        )
    if linkage in OF_POINTS and values["force"] == "exact":
        raise SettingError(
            f"linkage={linkage!r} is a distance between points, and exact forces use no points. Hint: force='sampled'."
        )
    if linkage in OF_MOMENTS and values["metric"] != "euclidean":
        raise SettingError(
            f"linkage={linkage!r} needs metric='euclidean'. Got metric={_shown(values['metric'])} instead. "
            f"Hint: linkage='mean'."
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
    if unknown := [key for key in setting if key not in keys]:
        misses = near_misses({"tables": [str(key) for key in keys], name: [str(key) for key in unknown]})
        alike = "; ".join(f"{b!r} looks like {a!r}" for a, _, b, _ in misses) or f"they are {quote(keys, 20)}"
        raise SettingError(
            f"{name} names {len(unknown)} participant(s) that have no table: {quote(unknown)}. Hint: {alike}."
        )
    return {str(key): setting.get(key) for key in keys}
