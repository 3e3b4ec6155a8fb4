"""The settings and versions that the record of a run contains."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from numbers import Integral, Real
from typing import Any

import narwhals
import numpy as np
import sklearn
from sklearn.base import BaseEstimator

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.estimators.previous import words_for
from intarsia.privacy.policy import ReleasePolicy
from intarsia.runtime import recorder
from intarsia.runtime.forecast import forecast_for
from intarsia.runtime.progress import Progress

SILENT = 3.0  # seconds of a run that nothing is said of with verbose=1
_LONGEST = 20  # values of a list that are recorded one by one
VERSIONS = recorder.VERSIONS | {"scikit-learn": sklearn.__version__, "narwhals": narwhals.__version__}


def progress_of(estimator: Any) -> AbstractContextManager[Progress | None]:
    """Return a watcher that writes lines to standard error, as a context; that of None unless the estimator is verbose."""
    if not estimator.verbose:
        return nullcontext()
    say = partial(print, file=sys.stderr, flush=True)
    return Progress(say, forecast=forecast_for(estimator), silent=SILENT)


def settings_of(estimator: Any) -> dict[str, Any]:
    """Return the settings of an estimator as JSON can hold them."""
    settings = {name: plain(value) for name, value in estimator.get_params(deep=False).items() if name != "verbose"}
    return settings | ({"previous": words_for(estimator.previous)} if "previous" in settings else {})


def plain(setting: Any) -> Any:  # noqa: PLR0911  (one return per type)
    """Return a setting as JSON can hold it: of code only the name, and of an array, which may be data, only the shape."""
    if setting is None or isinstance(setting, str):
        return setting
    if isinstance(setting, bool | np.bool_):
        return bool(setting)
    if isinstance(setting, Integral):
        return int(setting)
    if isinstance(setting, Real):
        return float(setting) if np.isfinite(float(setting)) else str(float(setting))
    if isinstance(setting, Mapping):
        return {str(key): plain(value) for key, value in setting.items()}
    if isinstance(setting, ReleasePolicy | DifferentialPrivacy):
        return plain(asdict(setting))
    if isinstance(setting, list | tuple):
        return [plain(value) for value in setting] if len(setting) <= _LONGEST else f"{len(setting)} values"
    if isinstance(setting, np.ndarray):
        return f"array of shape {setting.shape}"
    if isinstance(setting, BaseEstimator):
        return _estimator(setting)
    return str(getattr(setting, "__name__", type(setting).__name__))


def _estimator(estimator: Any) -> str:
    """The class of an estimator, and the settings that differ from its defaults."""
    defaults = {name: p.default for name, p in inspect.signature(type(estimator).__init__).parameters.items()}
    changed = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        text = plain(value)
        if isinstance(value, np.ndarray) or text != plain(defaults.get(name)):
            changed.append(f"{name}={text!r}" if isinstance(value, str) else f"{name}={text}")
    return f"{type(estimator).__name__}({', '.join(changed)})"
