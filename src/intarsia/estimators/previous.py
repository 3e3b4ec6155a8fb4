"""The model that a repeated study starts from: a result, a public model, or where one was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intarsia.coordinator.previous import PreviousModel
from intarsia.estimators.model import Model
from intarsia.exceptions import SettingError

MODEL = "model.intarsia"  # in the folder of a study


def model_of(previous: Any) -> Model:
    """Return a model, or the one that was saved in a file or in the folder of a study."""
    if isinstance(previous, Model):
        return previous
    from intarsia.estimators.loading import load

    path = Path(previous)
    loaded: Model = load(path / MODEL if path.is_dir() else path)
    return loaded


def plain_model(previous: Any, metric: Any, scale: str | None) -> PreviousModel | None:
    """Return the plain values of a previous model, if one was given; raise a SettingError if it does not fit."""
    if previous is None:
        return None
    model = model_of(previous)
    old = model.global_model
    if callable(metric) or metric != old.metric:
        raise SettingError(
            f"the previous model compares rows by metric={_shown(old.metric)}, and this study by {_shown(metric)}. "
            "Hint: a repeat keeps the metric; a metric of your own cannot be repeated."
        )
    if scale not in {"auto", old.units}:
        raise SettingError(
            f"the previous model has scale={old.units!r}, and this study {scale!r}. Hint: a repeat keeps its units: leave "
            "scale out."
        )
    return PreviousModel.of(old, _made(model))


def scale_with(previous: PreviousModel | None, scale: str | None) -> str | None:
    """Return the units that participants are asked for: those of the previous model, where "auto" would not tell them."""
    return previous.units if previous is not None and previous.units in {"minmax", "robust"} else scale


def words_for(previous: Any) -> str | None:
    """Return what the record of a run says of the previous model: no path, and no value of it."""
    if previous is None:
        return None
    made = _made(previous) if isinstance(previous, Model) else ""
    kind = f"a model of {previous.n_clusters} clusters" if isinstance(previous, Model) else Path(previous).name
    return f"{kind}, made {made}" if made else kind


def _made(model: Model) -> str:
    """Return when the run of a model started, as far as it says so."""
    return str(getattr(getattr(model, "run", None), "started", ""))


def _shown(metric: Any) -> str:
    return repr(metric) if isinstance(metric, str) else "a function"
