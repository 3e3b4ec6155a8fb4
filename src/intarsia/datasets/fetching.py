"""Public datasets that are too large, or whose licence is too narrow, to come with the package.

They are read from the folder ``INTARSIA_DATA``, by default ``../shared/data``. Nothing is downloaded: the error about a
missing file says where it comes from. A file with another SHA-256 than the expected one is refused.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.types import FloatArray
from intarsia.exceptions import DatasetError, SettingError


class Dataset(NamedTuple):
    """Complete rows, their true classes, their origin (``groups``) if known, column names, and the file's name."""

    X: FloatArray
    truth: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    feature_names: tuple[str, ...]
    source: str


class _File(NamedTuple):
    sha256: str
    origin: str


_HAR = "UCI Machine Learning Repository, Human Activity Recognition Using Smartphones, DOI 10.24432/C54S4K"
_HAPT = (
    "derived: 561 features recomputed from the raw recordings of UCI HAPT, DOI 10.24432/C54G7M; there is no public copy of "
    "this recomputation"
)
_QMNIST = "labels and writers from facebookresearch/qmnist, pixels from MNIST (LeCun, Cortes, Burges)"
_DIM = "DIM-sets (high) of the clustering basic benchmark, University of Eastern Finland (cs.uef.fi/sipu/datasets)"

FILES = {
    "har_meanstd66.npz": _File("72d634818b25642f523669c7c1d91be5afb8d874a2d1e11b926adc1ebe643f1f", _HAR),
    "har_recomputed561.npz": _File("7552b59c4434194327aa2f5661c255a739a731fba0f4ef68397b08a340163af6", _HAPT),
    "qmnist_037.npz": _File("b6bee797ae8889a7ad93a7e2a2bc27f48b270735f3ed14576370b5645b15fcc9", _QMNIST),
    "qmnist.npz": _File("9f88edb6f06904ff2c769a9ced53774a59db652c2bd37a5371be064a4523b3b8", _QMNIST),
    "dim_sets.npz": _File("66ff2bdd4f608210858680c9f9cd9a8ee73207d5f462cfe8843b2fc65b0ca1a3", _DIM),
}
DIMENSIONS = (32, 64, 128, 256, 512, 1024)
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")


def data_folder() -> Path:
    """Return the folder of the datasets."""
    return Path(os.environ.get("INTARSIA_DATA", "../shared/data"))


def known() -> list[dict[str, str]]:
    """Return every dataset: its name, its origin, and where it is."""
    folder = data_folder()
    embedded = {
        "name": "heart_disease",
        "origin": "UCI Machine Learning Repository, Heart Disease, DOI 10.24432/C52P4X, CC BY 4.0",
        "where": "in the package",
    }
    return [embedded] + [
        {
            "name": name,
            "origin": file.origin,
            "where": str(folder / name)
            if (folder / name).is_file()
            else f"not found in {folder} (INTARSIA_DATA); from {file.origin}",
        }
        for name, file in FILES.items()
    ]


def fetch_har(columns: int = 561, activities: tuple[str, ...] = ("walking", "sitting")) -> Dataset:
    """Return HAR: windows of smartphone signals; ``groups`` is the subject.

    ``columns=66`` are the published mean and std columns. ``columns=561`` are all columns, computed again from the raw
    signals; they are close to the published ones, but not identical.
    """
    if columns not in {66, 561}:
        raise SettingError(f"columns must be 66 or 561. Got {columns!r} instead.")
    unknown = [name for name in activities if name not in ACTIVITIES]
    if unknown:
        raise SettingError(f"activities must be among {ACTIVITIES}. Got {unknown!r} instead.")
    name = "har_meanstd66.npz" if columns == 66 else "har_recomputed561.npz"
    data = _read(name)
    keep = np.isin(data["y"], [ACTIVITIES.index(activity) + 1 for activity in activities])
    truth = np.array(ACTIVITIES)[data["y"][keep] - 1]
    # names repeat in the published list of 561, and columns must not
    names = tuple(f"{k:03d} {label}" for k, label in enumerate(data["feature_names"].tolist()))
    return Dataset(data["X"][keep].astype(np.float64), truth, data["subject"][keep], names, name)


def fetch_qmnist(digits: tuple[int, ...] = (0, 3, 7)) -> Dataset:
    """Return QMNIST: 784 pixels from 0 to 1, which are MNIST's; ``groups`` is the writer."""
    name = "qmnist_037.npz" if set(digits) <= {0, 3, 7} else "qmnist.npz"
    data = _read(name)
    keep = np.isin(data["y"], digits)
    names = tuple(f"pixel {row:02d},{column:02d}" for row in range(28) for column in range(28))
    return Dataset(data["images"][keep] / 255.0, data["y"][keep].astype(np.intp), data["writer"][keep], names, name)


def fetch_dim_set(dimension: int = 128) -> Dataset:
    """Return a DIM-set: 1024 points in 16 well separated Gaussian clusters."""
    if dimension not in DIMENSIONS:
        raise SettingError(f"dimension must be one of {DIMENSIONS}. Got {dimension!r} instead.")
    data = _read("dim_sets.npz")
    names = tuple(f"x{k:04d}" for k in range(dimension))
    X, truth = data[f"X{dimension:03d}"].astype(np.float64), data[f"y{dimension:03d}"].astype(np.intp)
    return Dataset(X, truth, None, names, "dim_sets.npz")


def _read(name: str) -> dict[str, npt.NDArray[Any]]:
    path = data_folder() / name
    if not path.is_file():
        raise DatasetError(
            f"{name} not found in the folder {data_folder()}. It comes from: {FILES[name].origin}. "
            "Hint: set INTARSIA_DATA to the folder that contains it."
        )
    return _read_checked(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read_checked(path: Path, _changed: int) -> dict[str, npt.NDArray[Any]]:
    raw = sha256(path.read_bytes()).hexdigest()
    if raw != FILES[path.name].sha256:
        raise DatasetError(
            f"{path.name} is not the expected file: its SHA-256 begins with {raw[:12]}, not with "
            f"{FILES[path.name].sha256[:12]}. It should come from: {FILES[path.name].origin}."
        )
    with np.load(path, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}
