"""The content of a saved study: one struct, and how an outcome is turned into it and back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from intarsia._version import __version__
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.distances import Extent
from intarsia.core.features import FeatureSpace
from intarsia.core.grouping.agglomeration import MergeTree
from intarsia.core.odd_columns import OddColumn
from intarsia.exceptions import SettingError
from intarsia.protocol.wire import Array
from intarsia.results.choices import ConsideredNumber
from intarsia.results.outcome import Aggregation, Coverage, GlobalModel, LocalCluster, Outcome, RoundInfo, RunRecord
from intarsia.results.privacy import PrivacyAccount
from intarsia.results.repeat import Repeat
from intarsia.results.secure import SecureTotals
from intarsia.results.stability import Stability

Labels = Mapping[str, Array]


class StoredTree(msgspec.Struct, frozen=True, eq=False):
    """A merge tree: the two members of every merge, and its strength."""

    n_leaves: int
    merges: Array
    strengths: Array


class StoredStudy(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Everything that a file of version 2 contains. A field added later needs a default, so that older files load."""

    written_by: str
    features: tuple[str, ...]
    names_in_order: tuple[str, ...]
    values: Array
    counts: Array
    low: Array
    high: Array
    shift: Array
    scale: Array
    metric: str
    variances: Array
    cells: Array
    levels: dict[str, tuple[str, ...]]
    units: str | None
    weights: Array | None
    participants: tuple[str, ...]
    numbered: bool  # participants were given as a sequence: their names are 0, 1, …
    masks: Array
    rows: Array
    filled: Array
    local_values: Array
    local_counts: Array
    owner: Array
    index: Array
    size: Array
    group: Array
    margin: Array
    aggregation: Aggregation
    rounds: tuple[RoundInfo, ...]
    converged: bool
    clarity: dict[str, float]
    strain: dict[str, float]
    sizes: dict[str, Array]
    tree: StoredTree | None
    silhouettes: dict[int, float]
    found: int | None
    leaves: tuple[LocalCluster, ...]
    fidelity: Array | None
    labels: dict[str, Array] | None
    local_labels: dict[str, Array] | None
    run: RunRecord
    doubts: dict[str, dict[str, float]] = {}
    stability: Stability | None = None
    odd_columns: tuple[OddColumn, ...] | None = None
    choices: tuple[ConsideredNumber, ...] = ()
    privacy: PrivacyAccount | None = None
    secure: SecureTotals | None = None
    repeat: Repeat | None = None
    row_weights: dict[str, float] = {}
    tails: Array | None = None
    n_joined: int = 0
    names: tuple[str, ...] = ()


# fields that a file and the model, or the outcome, have under the same name
_OF_MODEL = (
    "shift",
    "scale",
    "metric",
    "variances",
    "cells",
    "levels",
    "units",
    "weights",
    "tails",
    "n_joined",
    "names",
)
_OF_OUTCOME = (
    "participants", "aggregation", "rounds", "converged", "clarity", "strain", "sizes", "silhouettes", "found", "leaves",
    "fidelity", "doubts", "stability", "odd_columns", "choices", "privacy", "secure", "row_weights",
    "repeat",
)  # fmt: skip


def stored_from(
    outcome: Outcome,
    names_in_order: tuple[str, ...],
    run: RunRecord,
    labels: Labels | None,
    local_labels: Labels | None,
    *,
    numbered: bool,
) -> StoredStudy:
    """Return the content of the file for an outcome, with labels if they are given."""
    model, clusters, tree = outcome.model, outcome.local_clusters, outcome.merge_tree
    if not isinstance(model.metric, str):
        raise SettingError("a study with a metric of your own cannot be saved: a file contains no code.")
    return StoredStudy(
        written_by=__version__,
        features=model.space.names,
        names_in_order=names_in_order,
        values=model.centroids.values,
        counts=model.centroids.counts,
        low=model.extent.low,
        high=model.extent.high,
        numbered=numbered,
        masks=outcome.masks,
        rows=outcome.coverage.rows,
        filled=outcome.coverage.filled,
        local_values=outcome.local_centroids.values,
        local_counts=outcome.local_centroids.counts,
        owner=outcome.owner,
        index=np.array([c.index for c in clusters], dtype=np.intp),
        size=np.array([c.size for c in clusters], dtype=np.intp),
        group=outcome.groups,
        margin=np.array([c.margin for c in clusters], dtype=np.float64),
        tree=None if tree is None else StoredTree(tree.n_leaves, tree.merges, tree.strengths),
        labels=None if labels is None else dict(labels),
        local_labels=None if local_labels is None else dict(local_labels),
        run=run,
        **{name: getattr(model, name) for name in _OF_MODEL},
        **{name: getattr(outcome, name) for name in _OF_OUTCOME},
    )


def outcome_from(stored: StoredStudy) -> Outcome:
    """Return the outcome that a file contains."""
    columns = (stored.owner, stored.index, stored.size, stored.group, stored.margin)
    tree = stored.tree
    return Outcome(
        model=GlobalModel(
            space=FeatureSpace(stored.features),
            centroids=MaskedCentroids.of(stored.values, stored.counts),
            extent=Extent(stored.low, stored.high),
            **{name: getattr(stored, name) for name in _OF_MODEL},
        ),
        masks=stored.masks.astype(np.bool_),
        local_centroids=MaskedCentroids.of(stored.local_values, stored.local_counts),
        local_clusters=tuple(
            LocalCluster(stored.participants[owner], int(index), int(size), int(group), float(margin))
            for owner, index, size, group, margin in zip(*columns, strict=True)
        ),
        coverage=Coverage(stored.rows, stored.filled),
        merge_tree=None if tree is None else MergeTree(tree.n_leaves, tree.merges, tree.strengths),
        **{name: getattr(stored, name) for name in _OF_OUTCOME},
    )
