"""The content of run.json: how a result was computed."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from intarsia._version import __version__
from intarsia.cli.schema import RUN_FORMAT

if TYPE_CHECKING:
    from intarsia.estimators import ClusteringResult


def record_of(
    result: ClusteringResult,
    method: str,
    n_clusters: Any,
    settings: dict[str, Any],
    files: dict[str, str],
    seconds: float,
) -> dict[str, Any]:
    """Return what run.json says: versions, settings, sizes, exchanges."""
    return {
        "format": RUN_FORMAT,
        "intarsia": __version__,
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in ("numpy", "scipy", "scikit-learn", "narwhals", "polars")},
        "command": sys.argv[1:],
        "method": method,
        "asked_for": n_clusters,
        "settings": {name: value for name, value in settings.items() if name not in {"privacy", "previous"}},
        "previous": str(settings["previous"]) if settings.get("previous") else None,
        "repeat": None if result.repeat is None else to_builtins(result.repeat),
        "joined": dict(result.run.joined) or None,
        "privacy": None,
        "files": files,
        "n_clusters": result.n_clusters,
        "units": result.units,
        "sizes": {str(name): sizes.tolist() for name, sizes in result.sizes.items()},
        "total_sizes": result.outcome.total_sizes.tolist(),
        "aggregation": result.outcome.aggregation.grouped_by,
        "confidence": None if result.confidence != result.confidence else result.confidence,
        "stability": None if result.outcome.stability is None else result.outcome.stability.columns,
        "rounds": [{"number": r.number, "movement": r.movement, "kind": r.kind} for r in result.rounds],
        "seed": result.run.seed,
        "exchanges": [asdict(exchange) for exchange in result.run.exchanges],
        "sent": [asdict(entry) for entry in result.run.sent],
        "seconds": round(seconds, 3),
    }
