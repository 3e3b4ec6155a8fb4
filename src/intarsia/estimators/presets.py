"""Presets: named sets of settings, one table for Python, the command line and study files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.estimators.settings import NONE, check_names, check_value, one_of

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "federated": {
        "paper": {
            "aggregation": "paper",
            "max_rounds": 3,
            "step_size": 0.8,
            "tol": 0.0,
            "scale": None,
            "refinement": "plain",
            "n_rivals": 0,
            "min_points": 1,
            "local_iterations": 1,
            "n_local_clusters": "silhouette",
            "merge": "mean",
            "model": "kmeans",
        },
    },
    "one_shot": {
        "paper": {
            "aggregation": "greedy",
            "linkage": "force",
            "force": "sampled",
            "exponent": 2.0,
            "softening": 0.0,
            "density": "gaussian_full",
            "shrink": False,
            "n_proxies": (30, 100),
            "scale": None,
            "n_local_clusters": "silhouette",
            "bounding_boxes": False,
            "labels": "local",
            "model": "kmeans",
        },
    },
}
"""By method and name of the preset, the settings; those that it does not name keep their defaults."""


def with_preset(method: str, settings: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings without ``"preset"``, on top of those that it names, on top of ``defaults``."""
    own = dict(settings)
    preset = own.pop("preset", None)
    check_names(method, own)
    if preset is None:
        return {**(defaults or {}), **own}
    check_value("preset", preset, one_of(lambda: tuple(PRESETS[method])), NONE)
    return {**(defaults or {}), **PRESETS[method][preset], **own}
