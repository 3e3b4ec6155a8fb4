"""Intarsia: one clustering over tables that share only some of their columns and none of their rows.

``intarsia.cluster({"a": table_a, "b": table_b}, n_clusters=3)`` is the way in. Names are loaded when first used, so that
``import intarsia`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intarsia._version import __version__

if TYPE_CHECKING:
    from intarsia import datasets, exceptions, metrics
    from intarsia.assumptions import AssumptionReport, check_assumptions, order_preservation_rate
    from intarsia.core.features import FeatureSpace
    from intarsia.estimators import (
        Blocks,
        ClusteringResult,
        FederatedClustering,
        OneShotClustering,
        cluster,
        load,
        participants_from_blocks,
    )
    from intarsia.exceptions import AssumptionWarning, InputError, IntarsiaError
    from intarsia.feasibility import check_feasibility
    from intarsia.results import LocalCluster, RoundInfo
    from intarsia.streams import scan_parquet

_HOME = {
    "cluster": "intarsia.estimators",
    "load": "intarsia.estimators",
    "Blocks": "intarsia.estimators",
    "participants_from_blocks": "intarsia.estimators",
    "FederatedClustering": "intarsia.estimators",
    "OneShotClustering": "intarsia.estimators",
    "ClusteringResult": "intarsia.estimators",
    "LocalCluster": "intarsia.results",
    "RoundInfo": "intarsia.results",
    "ReleasePolicy": "intarsia.policy",
    "AssumptionReport": "intarsia.assumptions",
    "check_assumptions": "intarsia.assumptions",
    "order_preservation_rate": "intarsia.assumptions",
    "check_feasibility": "intarsia.feasibility",
    "scan_parquet": "intarsia.streams",
    "FeatureSpace": "intarsia.core.features",
    "IntarsiaError": "intarsia.exceptions",
    "InputError": "intarsia.exceptions",
    "AssumptionWarning": "intarsia.exceptions",
}
_MODULES = ("datasets", "exceptions", "metrics")

__all__ = [
    "AssumptionReport",
    "AssumptionWarning",
    "Blocks",
    "ClusteringResult",
    "FeatureSpace",
    "FederatedClustering",
    "InputError",
    "IntarsiaError",
    "LocalCluster",
    "OneShotClustering",
    "ReleasePolicy",
    "RoundInfo",
    "__version__",
    "check_assumptions",
    "check_feasibility",
    "cluster",
    "datasets",
    "exceptions",
    "load",
    "metrics",
    "order_preservation_rate",
    "participants_from_blocks",
    "scan_parquet",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"intarsia.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'intarsia' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
