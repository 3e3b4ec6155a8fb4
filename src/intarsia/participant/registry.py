"""The clusterer that a participant names in its own settings, as text: ``"GaussianMixture(n_components=3)"``.

The text comes from the participant's own file or command line, never from a study or a job. Settings are literals
(:func:`ast.literal_eval`); nothing of the text is evaluated.
"""

from __future__ import annotations

import ast
from importlib import import_module
from typing import Any, NamedTuple

from intarsia.exceptions import SettingError
from intarsia.participant.clusterers import BUILT_IN

MODULES = ("sklearn.cluster", "sklearn.mixture", "kmedoids", "hdbscan")
"""Where a class without a dotted path is looked up, in this order."""

_EXAMPLE = (
    "Hint: 'HDBSCAN(min_cluster_size=20)', 'GaussianMixture(n_components=3)' or 'package.module.Class(setting=1)'."
)


class _Call(NamedTuple):
    """A class by its name or dotted path, and its settings by name."""

    path: str
    settings: dict[str, Any]


def clusterer_from_text(text: str | None) -> Any:
    """Return the clusterer that ``text`` names, or None (the built-in k-means) without a text.

    A name is looked up in :data:`MODULES`, a dotted path in the module that it names.

    Raises
    ------
    SettingError
        If the text is not ``Name(setting=value, …)``, no such class with a ``fit_predict`` method is found, or the class
        refuses its settings.
    """
    if text is None or text in BUILT_IN:
        return text
    call = _parsed(text)
    clusterer = _class_at(call.path)
    try:
        return clusterer(**call.settings)
    except Exception as error:
        names = ", ".join(call.settings) or "no settings"
        raise SettingError(
            f"local: {call.path} cannot be made with {names} ({type(error).__name__}). {_EXAMPLE}"
        ) from error


def _parsed(text: str) -> _Call:
    try:
        return _call_in(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SettingError(
            f"local must be the name of a clusterer with settings by name. Got {text!r} instead. {_EXAMPLE}"
        ) from None


def _call_in(node: ast.expr) -> _Call:
    if not isinstance(node, ast.Call):
        return _Call(_dotted(node), {})
    if node.args or any(word.arg is None for word in node.keywords):
        raise ValueError
    return _Call(_dotted(node.func), {str(word.arg): ast.literal_eval(word.value) for word in node.keywords})


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError


def _class_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    places = (module,) if module else MODULES
    outcomes = []
    for place in places:
        try:
            candidate = getattr(import_module(place), name, None)
        except ImportError:
            outcomes.append(f"{place} (not installed)")
            continue
        if isinstance(candidate, type) and hasattr(candidate, "fit_predict"):
            return candidate
        outcomes.append(f"{place} ({'no such name' if candidate is None else 'not a class with fit_predict'})")
    raise SettingError(f"local: no clusterer {name!r} was found. Looked in {', '.join(outcomes)}. {_EXAMPLE}")
