"""The record of a run: settings, seed, versions and what was exchanged."""

from __future__ import annotations

import inspect
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from numbers import Integral, Real
from typing import Any

import msgspec
import narwhals
import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator

from intarsia._version import __version__
from intarsia.privacy.policy import ReleasePolicy
from intarsia.results.outcome import RunRecord
from intarsia.runtime.recorder import Recorder

_FEW = 20  # values of a list
VERSIONS = {
    "intarsia": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
    "narwhals": narwhals.__version__,
    "msgspec": msgspec.__version__,
}


class Start:
    """When a run began, and with which settings; they are written down first, so that nothing can go wrong afterwards."""

    def __init__(self, estimator: Any, seed: int) -> None:
        self._method, self._seed = str(estimator.method), seed
        self._settings = {name: plain(value) for name, value in estimator.get_params(deep=False).items()}
        self._started, self._clock = datetime.now(UTC), time.perf_counter()

    def record(self, recorder: Recorder, notes: Sequence[str]) -> RunRecord:
        """How a result came about."""
        return RunRecord(
            method=self._method,
            settings=self._settings,
            seed=self._seed,
            versions=dict(VERSIONS),
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - self._clock,
            exchanges=recorder.exchanges,
            sent=recorder.sent,
            notes=tuple(notes),
            differences=recorder.differences,
            suppressed=recorder.suppressed,
        )


def plain(setting: Any) -> Any:  # noqa: PLR0911  (one kind each)
    """A setting as something that JSON can hold; of code only the name, and of arrays only the shape: they may be data."""
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
    if isinstance(setting, ReleasePolicy):
        return asdict(setting)
    if isinstance(setting, list | tuple):
        return [plain(value) for value in setting] if len(setting) <= _FEW else f"{len(setting)} values"
    if isinstance(setting, np.ndarray):
        return f"array of shape {setting.shape}"
    if isinstance(setting, BaseEstimator):
        return _estimator(setting)
    return str(getattr(setting, "__name__", type(setting).__name__))


def _estimator(estimator: Any) -> str:
    """Its class, and the settings that are not as usual."""
    usual = {name: p.default for name, p in inspect.signature(type(estimator).__init__).parameters.items()}
    told = []
    for name, value in sorted(estimator.get_params(deep=False).items()):
        said = plain(value)
        if isinstance(value, np.ndarray) or said != plain(usual.get(name)):
            told.append(f"{name}={said!r}" if isinstance(value, str) else f"{name}={said}")
    return f"{type(estimator).__name__}({', '.join(told)})"
