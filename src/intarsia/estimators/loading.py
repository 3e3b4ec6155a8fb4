"""Saved studies and public models, read back."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace

from intarsia.estimators.public import PublicModel
from intarsia.estimators.result import ClusteringResult
from intarsia.results import model_file
from intarsia.results.advice import advice, known_of
from intarsia.results.assumptions import check_assumptions


def load(path: str | os.PathLike[str]) -> ClusteringResult | PublicModel:
    """Return a study that ``result.save`` wrote, or the public model. ``labels`` is empty if they were not saved.

    Raises
    ------
    ModelFileError
        The file is damaged, written by a newer version, or not a saved study.
    """
    shared = model_file.load_public(path)
    return load_result(path) if shared is None else PublicModel(shared)


def load_result(path: str | os.PathLike[str]) -> ClusteringResult:
    """Return a study that ``result.save`` wrote; a public model is refused."""
    outcome, stored = model_file.load(path)
    run = stored.run
    if not run.notes:  # the coordinator of a federation stores figures only; the notes are made from them here
        report = check_assumptions(outcome)
        run = replace(run, notes=tuple(text for _, text in advice(*known_of(outcome), outcome, report)))
    keys: dict[str, Hashable] = {name: int(name) if stored.numbered else name for name in stored.participants}
    return ClusteringResult(
        {keys[name]: labels.copy() for name, labels in (stored.labels or {}).items()},
        {keys[name]: labels.copy() for name, labels in (stored.local_labels or {}).items()},
        stored.names_in_order,
        outcome,
        run,
        keys,
    )
