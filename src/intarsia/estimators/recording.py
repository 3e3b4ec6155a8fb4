"""The record of a run: settings, seed, versions and what was exchanged."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
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
from intarsia.results import RunRecord
from intarsia.runtime import Recorder

VERSIONS = {
    "intarsia": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
    "narwhals": narwhals.__version__,
    "msgspec": msgspec.__version__,
}


def run_record(estimator: Any, seed: int, started: float, recorder: Recorder, notes: Sequence[str]) -> RunRecord:
    """How a result came about."""
    return RunRecord(
        method=estimator.method,
        settings={name: plain(value) for name, value in estimator.get_params(deep=False).items()},
        seed=seed,
        versions=VERSIONS,
        started=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        seconds=time.time() - started,
        exchanges=recorder.exchanges,
        sent=recorder.sent,
        notes=tuple(notes),
        differences=recorder.differences,
    )


def plain(setting: Any) -> Any:
    """A setting as something that JSON can hold; of code only the name."""
    if setting is None or isinstance(setting, bool | str):
        return setting
    if isinstance(setting, Integral):
        return int(setting)
    if isinstance(setting, Real):
        return float(setting)
    if isinstance(setting, Mapping):
        return {str(key): plain(value) for key, value in setting.items()}
    if isinstance(setting, BaseEstimator):
        return repr(setting)
    return getattr(setting, "__name__", type(setting).__name__)
