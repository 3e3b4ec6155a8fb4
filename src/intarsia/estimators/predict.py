"""New rows and a fitted model: labels, memberships, scores, imputed values, and profiles of the clusters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.centroids import merge
from intarsia.core.distances import LARGEST
from intarsia.core.features import near_misses
from intarsia.core.homoglyphs import differing_letters, look_the_same
from intarsia.core.mixture import Mixture, expected, log_memberships
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import MixedKindsError, UnknownFeaturesError, quote
from intarsia.results.outcome import GlobalModel, Outcome
from intarsia.tables import open_table
from intarsia.tables.frame import Table, native_table, read_table
from intarsia.tables.missing import without_empty_columns
from intarsia.tables.participants import for_all, is_many, keyed


class Imputed(NamedTuple):
    """Every column of the study for the rows of a table: values, and their standard deviation (0 if observed)."""

    values: dict[str, FloatArray]
    spread: dict[str, FloatArray]


@dataclass(frozen=True)
class Closeness:
    """How close points drawn from a local cluster's density are to its rows, measured at the participant.

    ``wasserstein`` is W₁ between rows and proxies in standard deviations per feature, ``chance`` the same between halves of
    the rows, which a good density reaches. For a discrete density, ``total_variation`` is that between rows and proxies, and
    ``bound`` the paper's upper bound of it (no information above 1). NaN where a measure does not apply.
    """

    participant: Hashable
    cluster: int
    wasserstein: float
    chance: float
    total_variation: float
    bound: float


def all_tables(model: GlobalModel, tables: Any) -> Iterator[Table]:
    """Yield one table or several; a table that is read in batches as one table per batch."""
    named = keyed(tables) if is_many(tables) else {"new rows": tables}
    for key, table in named.items():
        yield from _batches(model, table, str(key))


def each(model: GlobalModel, tables: Any, ask: Callable[[Table], Any]) -> Any:
    """Return the answer for one table, or a dict of answers for several; answers for batches are concatenated."""

    def answer(key: Hashable, table: Any) -> Any:
        parts = [ask(batch) for batch in _batches(model, table, str(key))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    return for_all(keyed(tables), answer) if is_many(tables) else answer("new rows", tables)


def _batches(model: GlobalModel, table: Any, owner: str) -> Iterator[Table]:
    for batch in open_table(table, owner).batches():
        yield read_table(batch, owner, model.levels)


def known_columns(model: GlobalModel, table: Table) -> Table:
    """Return the table in numbers, without empty columns; raise an error for a column that the model does not know.

    A level that the model does not know is 0 in every indicator.
    """
    table = without_empty_columns(table)
    unknown = [name for name in table.given_names if name not in model.space and name not in model.levels]
    if unknown:
        known = (*model.space.names, *model.levels)
        misses = near_misses({"the model": known, table.owner: unknown})
        hint = "; ".join(f"{c!r} looks like {a!r}" for a, _, c, _ in misses[:3]) or "drop them"
        if misses and look_the_same(misses[0][0], misses[0][2]):
            hint += f" ({differing_letters(misses[0][0], misses[0][2])})"
        raise UnknownFeaturesError(
            f"{len(unknown)} of {len(table.given_names)} columns are unknown to the model, which has {len(model.space)}: "
            f"{quote(unknown)}. Hint: {hint}."
        )
    mixed = [f"{name} (numbers)" for name in table.names if name in model.levels]
    mixed += [f"{name} (categories)" for name in table.categories if name not in model.levels]
    if mixed:
        levels = {level for name in table.names for level in model.levels.get(name, ())}
        how = "astype(bool)" if levels and levels <= {"True", "False"} else "astype('category'), or to_numeric"
        raise MixedKindsError(
            f"{len(mixed)} column(s) have another type than in the fitted tables: {quote(mixed)}. "
            f"Hint: in pandas, {how}."
        )
    return table.in_numbers(model.levels)


def predict_table(model: GlobalModel, table: Table) -> IntArray:
    """Return the cluster of every row of a table, which may have any of the known columns."""
    table = known_columns(model, table)
    return model.predict(table.values, table.observed, model.space.index(table.names))


def laid_out(model: GlobalModel, table: Table) -> tuple[FloatArray, BoolArray]:
    """Return the rows over all features of the study in common units, and which values are observed."""
    table = known_columns(model, table)
    index = model.space.index(table.names)
    rows, observed = np.zeros((len(table), len(model.space))), np.zeros((len(table), len(model.space)), dtype=np.bool_)
    rows[:, index] = np.where(table.observed, model.in_common_units(table.values, index), 0.0)
    observed[:, index] = table.observed
    return rows, observed


def memberships(model: GlobalModel, mixture: Mixture, table: Table) -> FloatArray:
    """Return the membership of each row in each cluster: rows × K."""
    rows, observed = laid_out(model, table)
    return np.exp(log_memberships(mixture, rows, observed & model.extent.varies))


def margin_of(belongs: FloatArray) -> FloatArray:
    """Return the largest membership minus the second largest, by row."""
    if belongs.shape[1] == 1:
        return np.ones(len(belongs))
    two = np.partition(belongs, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def squares_of(model: GlobalModel, table: Table) -> tuple[float, float]:
    """Return the sums of squares around the nearest centroid and around the overall mean, in common units."""
    rows, observed = laid_out(model, table)
    labels = predict_table(model, table)
    centroids = model.centroids
    overall = merge(centroids, np.zeros(len(centroids), dtype=np.intp), 1).values[0]
    nearest = np.where(centroids.seen, centroids.values, overall)[np.maximum(labels, 0)]
    counted = observed & (labels >= 0)[:, None]
    # differences are clipped so that their squares stay finite
    within, total = (
        np.square(np.where(counted, np.clip(rows - c, -LARGEST, LARGEST), 0.0)).sum() for c in (nearest, overall)
    )
    return float(within), float(total)


def imputed(model: GlobalModel, mixture: Mixture, table: Table, names: tuple[str, ...]) -> Imputed:
    """Return all columns of the study for the rows of a table, in original units."""
    rows, observed = laid_out(model, table)
    mean, spread = expected(mixture, np.exp(log_memberships(mixture, rows, observed & model.extent.varies)))
    values = np.where(observed, rows, mean) * model.scale + model.shift
    kept = known_columns(model, table)
    values[:, model.space.index(kept.names)] = np.where(
        kept.observed, kept.values, values[:, model.space.index(kept.names)]
    )
    spreads = np.where(observed, 0.0, spread) * model.scale
    at = dict(zip(names, model.space.index(names).tolist(), strict=True))
    return Imputed({name: values[:, k] for name, k in at.items()}, {name: spreads[:, k] for name, k in at.items()})


def joined(parts: list[Imputed]) -> Imputed:
    """Return the parts of a table as one."""
    if len(parts) == 1:
        return parts[0]
    return Imputed(*({name: np.concatenate([each[k][name] for each in parts]) for name in parts[0][k]} for k in (0, 1)))


def profile_frame(outcome: Outcome, names: tuple[str, ...], backend: str) -> Any:
    """Return one row per cluster and feature, as a table of an installed library."""
    model = outcome.model
    index = model.space.index(names)
    k, d = len(model.centroids), len(names)
    sizes = np.array([np.asarray(outcome.sizes[name]) for name in outcome.participants])
    holds, has = sizes > 0, outcome.masks[:, index].astype(np.intp)
    cells = model.cells[:, index].astype(np.int64)
    columns: dict[str, Any] = {
        "cluster": np.repeat(np.arange(k), d),
        "feature": list(names) * k,
        "mean": model.values[:, index].ravel(),
        "deviation": model.deviations[:, index].ravel(),
        "cells": cells.ravel(),
        "missing": np.maximum(sizes.T @ has - cells, 0).ravel(),
        "absent": (sizes.T @ (1 - has)).ravel(),
        "participants": (holds.T.astype(np.intp) @ has).ravel(),
    }
    if outcome.secure is not None:  # nobody told where its rows are
        columns |= dict.fromkeys(("missing", "absent", "participants"), [None] * (k * d))
    if outcome.privacy is not None:
        columns["error"] = outcome.privacy.error_matrix(*model.values.shape)[:, index].ravel()
    return native_table({name: list(column) for name, column in columns.items()}, backend)
