"""Newcomers to a result: the model stays, and only their tables are read."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from intarsia.coordinator.join import JoinAlgorithm, check_can_join, settings_of_join
from intarsia.coordinator.newcomers import united
from intarsia.estimators.predict import features_in_order
from intarsia.estimators.stability import KINDS, Fitted
from intarsia.exceptions import AssumptionWarning, SettingError
from intarsia.results.advice import advice, known_of
from intarsia.results.assumptions import check_assumptions
from intarsia.results.outcome import Outcome, RunRecord
from intarsia.runtime.contract import Watcher
from intarsia.runtime.drive import drive
from intarsia.runtime.recorder import VERSIONS, Recorder
from intarsia.tables import AnyTable
from intarsia.tables.participants import is_many, keyed

_OF_STUDY = ("scale", "step_size", "max_rounds", "tol", "min_points", "local_iterations", "feature_weights")
_OF_PARTICIPANTS = ("n_local_clusters", "missing")  # settings that a study may have by participant


def joined(result: Any, tables: Any, settings: Mapping[str, Any], watcher: Watcher | None = None) -> Any:
    """Return a :class:`~intarsia.ClusteringResult` with newcomers; ``settings`` are theirs, None for those of the fit."""
    named = _named(result, tables)
    check_can_join(result.outcome, list(map(str, named)))
    estimator = estimator_of_join(result.outcome, result.run, settings)
    held = _held(estimator, named)
    keys = {str(key): key for key in held}
    given_names = {name: held[key].given_names for name, key in keys.items()}
    algorithm = algorithm_of_join(result.outcome, estimator, list(keys))
    recorder = Recorder(watcher)
    with estimator.runtime_for(held, algorithm, None, {}) as runtime:
        late = drive(algorithm, runtime, recorder)
        labels_of = runtime.labels()
    outcome = united(result.outcome, late)
    notes = _say(result.outcome, outcome, late)
    record = recorder.record(result.run.method, {}, result.run.seed, VERSIONS, notes, late.participants)
    features = features_in_order(given_names.values(), outcome.model)
    return replace(
        result,
        labels=result.labels | {keys[name]: kept.labels for name, kept in labels_of.items()},
        local_labels=result.local_labels | {keys[name]: kept.local_labels for name, kept in labels_of.items()},
        feature_names=(*result.feature_names, *(name for name in features if name not in result.feature_names)),
        outcome=outcome,
        run=result.run.with_newcomers(record, late.participants),
        keys=result.keys | {name: keys[name] for name in late.participants},
        checked=None,
        fitted=_fitted(result, named),
    )


def algorithm_of_join(outcome: Outcome, estimator: Any, names: list[str]) -> JoinAlgorithm:
    """Return the algorithm by which these newcomers join the model of an outcome."""
    everybody = [*outcome.participants, *names]  # one participant alone would be clustered otherwise
    settings = settings_of_join(estimator.algorithm_for(everybody), outcome.model)
    return JoinAlgorithm(settings, outcome.model)


def estimator_of_join(outcome: Outcome, run: RunRecord, own: Mapping[str, Any]) -> Any:
    """Return the estimator that the record of a run describes, with the own settings of newcomers."""
    kind = KINDS[run.method]
    settings = {name: value for name, value in run.settings.items() if name in _OF_STUDY}
    for name in _OF_PARTICIPANTS:
        value = run.settings.get(name) if own.get(name) is None else own[name]
        if value is not None and (own.get(name) is not None or not isinstance(value, Mapping)):
            settings[name] = value  # those of single participants say nothing of a newcomer
    fixed = {"local": own.get("local"), "release": own.get("release"), "random_state": run.seed}
    return kind(len(outcome.model.centroids), metric=outcome.model.metric, **(settings | fixed))


def _named(result: Any, tables: Any) -> dict[Hashable, Any]:
    """Return the newcomers' tables by key; a sequence continues the numbers of numbered participants."""
    if not is_many(tables):
        raise SettingError("newcomers need names. Hint: result.join({'name': table}).")
    numbered = all(isinstance(key, int | np.integer) for key in result.keys.values())
    named = keyed(tables)
    if isinstance(tables, Mapping):
        if numbered and not all(isinstance(key, int | np.integer) for key in named):
            raise SettingError(
                f"the participants of this result are numbered, 0 to {len(result.keys) - 1}, so that a newcomer is, too. "
                "Hint: result.join([table])."
            )
        return named
    if not numbered:
        raise SettingError(
            "the participants of this result have names, so that a newcomer needs one, too. "
            "Hint: result.join({'name': table})."
        )
    return {len(result.keys) + k: table for k, table in enumerate(named.values())}


def _held(estimator: Any, tables: dict[Hashable, Any]) -> dict[Hashable, AnyTable]:
    if all(isinstance(table, AnyTable) for table in tables.values()):
        return dict(tables)
    held: dict[Hashable, AnyTable] = estimator.held(tables)
    return held


def _say(before: Outcome, outcome: Outcome, late: Outcome) -> list[str]:
    """Warn of what is to be said of the newcomers, and return it."""
    known = {text for _, text in advice(*known_of(before), before, check_assumptions(before))}
    every = advice(*known_of(outcome), outcome, check_assumptions(outcome))
    new = [(kind, text) for kind, text in every if text not in known]
    new += [(AssumptionWarning, text) for text in late.remarks]
    for kind, text in new:
        warnings.warn(text, kind, stacklevel=4)
    return [text for _, text in new]


def _fitted(result: Any, tables: dict[Hashable, Any]) -> Fitted | None:
    """Return what the result was computed from with the newcomers' tables, if all are known."""
    fitted: Fitted | None = result.fitted
    if fitted is None or not isinstance(fitted.tables, Mapping):
        return fitted
    return fitted._replace(tables={**fitted.tables, **tables})
