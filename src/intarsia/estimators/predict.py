"""New rows and a fitted model: labels, memberships, scores, imputed values, and profiles of the clusters."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from intarsia.core.distances import LARGEST
from intarsia.core.features import FeatureSpace, indicators, near_misses
from intarsia.core.homoglyphs import differing_letters, look_the_same
from intarsia.core.mixture import Mixture, expected, log_memberships
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import (
    EmptyTableError,
    MixedKindsError,
    UnknownColumnsWarning,
    UnknownFeaturesError,
    UnknownLevelsWarning,
    quote,
)
from intarsia.results.outcome import GlobalModel, Outcome
from intarsia.tables import open_table
from intarsia.tables.frame import BACKENDS, Table, cells_of, native_table, read_table
from intarsia.tables.missing import without_empty_columns
from intarsia.tables.participants import for_all, is_many, keyed

_MOST_COLUMNS = 5  # with unknown levels, in a warning


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


def framed(given: Any, columns: Mapping[str, Any]) -> Any:
    """Return columns as a table of the library that a table is of, with its index; pandas for what is of none."""
    kind = type(given).__module__.partition(".")[0]
    frame = native_table(columns, kind if kind in BACKENDS else "pandas")
    if kind == "pandas":
        frame.index = given.index
    return frame


def _batches(model: GlobalModel, table: Any, owner: str) -> Iterator[Table]:
    opened = open_table(table, owner)
    opened.check_read()
    known = [name for name in opened.columns if name in model.space or name in model.levels]
    if len(known) < len(opened.columns):
        unknown = [name for name in opened.columns if name not in known]
        if not opened.is_streamed:  # a column without values tells nothing, and is left out of a fit as well
            unknown = [name for name in unknown if any(cell is not None for cell in cells_of(opened.table, name))]
        _check_known(model, owner, (*known, *unknown))
        opened = opened.only(known)
    unknown_levels: dict[str, Counter[str]] = {}
    for batch in opened.batches():
        try:
            rows = read_table(batch, owner, model.levels)
        except EmptyTableError:
            raise EmptyTableError(f"the table of {owner!r} has no rows, so there is nothing to label.") from None
        for name in model.levels.keys() & rows.categories.keys():
            counts = rows.categories[name].counts
            levels = {level: n for level, n in counts.items() if n and level not in model.levels[name]}
            unknown_levels.setdefault(name, Counter()).update(levels)
        yield rows
    _warn_of_levels(model, owner, {name: counts for name, counts in unknown_levels.items() if counts})


def _warn_of_levels(model: GlobalModel, owner: str, unknown: Mapping[str, Counter[str]]) -> None:
    """Warn of levels that the model does not know: by column their number, their rows, and the levels that it knows."""
    if not unknown:
        return
    shown = [
        f"{name!r} ({len(counts)} in {counts.total()} rows; known are {quote(model.levels[name], 3)})"
        for name, counts in list(unknown.items())[:_MOST_COLUMNS]
    ]
    more = f" and {len(unknown) - _MOST_COLUMNS} more" if len(unknown) > _MOST_COLUMNS else ""
    text = (
        f"{len(unknown)} column(s) of {owner!r} have levels that are unknown to the model: {', '.join(shown)}{more}. They "
        "count as none of the known ones. Hint: recode them if they are other words for known levels."
    )
    warnings.warn(text, UnknownLevelsWarning, stacklevel=_caller())


def unknown_columns(model: GlobalModel, columns: Iterable[str], owner: str) -> tuple[list[str], str]:
    """Return the columns that the model never saw, and a hint at names that are nearly those of known ones."""
    unknown = [name for name in columns if name not in model.space and name not in model.levels]
    misses = near_misses({"the model": (*model.space.names, *model.levels), owner: unknown})
    hint = "; ".join(f"{c!r} looks like {a!r}" for a, _, c, of in misses[:3] if of == owner)
    if misses and look_the_same(misses[0][0], misses[0][2]):
        hint += f" ({differing_letters(misses[0][0], misses[0][2])})"
    return unknown, hint


def _check_known(model: GlobalModel, owner: str, columns: Sequence[str]) -> None:
    """Warn of columns that the model does not know; raise an error if it knows none of a table."""
    unknown, hint = unknown_columns(model, columns, owner)
    seen = (
        f"{len(unknown)} of {len(columns)} columns of {owner!r} are unknown to the model, which has "
        f"{len(model.space)}: {quote(unknown)}."
    )
    if len(unknown) == len(columns):
        raise UnknownFeaturesError(f"{seen} Hint: {hint or 'result.feature_names lists those of the model'}.")
    if not unknown:
        return
    hint = f" Hint: {hint}." if hint else ""
    warnings.warn(f"{seen} They are ignored.{hint}", UnknownColumnsWarning, stacklevel=_caller())


def _caller() -> int:
    """Return how many frames up the code is that called this package."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("intarsia."):
        frame, level = frame.f_back, level + 1
    return max(level, 1)


def known_columns(model: GlobalModel, table: Table) -> Table:
    """Return a table of known columns in numbers, without empty columns.

    A level that the model does not know is 0 in every indicator. A row that has nothing but such levels has no value.
    """
    table = without_empty_columns(table)
    mixed = [f"{name} (numbers)" for name in table.names if name in model.levels]
    mixed += [f"{name} (categories)" for name in table.categories if name not in model.levels]
    if mixed:
        levels = {level for name in table.names for level in model.levels.get(name, ())}
        how = "astype(bool)" if levels and levels <= {"True", "False"} else "astype('category'), or to_numeric"
        raise MixedKindsError(
            f"{len(mixed)} column(s) have another type than in the fitted tables: {quote(mixed)}. "
            f"Hint: in pandas, {how}."
        )
    numbers = table.in_numbers(model.levels)
    unlike = _of_unknown_levels(numbers, model.levels)
    return replace(numbers, observed=numbers.observed & ~unlike[:, None]) if unlike.any() else numbers


def _of_unknown_levels(table: Table, levels: Mapping[str, Sequence[str]]) -> BoolArray:
    """Return which rows have values, and in each of them a level that none of the indicators stands for."""
    observed, index = table.observed, FeatureSpace(table.names)
    of_levels = np.zeros(len(table.names), dtype=np.bool_)
    for column, each_level in levels.items():
        names = indicators({column: each_level})
        if all(name in index for name in names):
            of_levels[index.index(names)] = True
    has_number = (observed & ~of_levels).any(axis=1)
    has_level = (observed & of_levels & (np.nan_to_num(table.values) != 0)).any(axis=1)
    return np.asarray(observed.any(axis=1) & ~has_number & ~has_level)


def predict_table(model: GlobalModel, table: Table, none_beyond: float | None = None) -> IntArray:
    """Return the cluster of every row of a table, which may have any of the known columns; −1 for none of these."""
    table = known_columns(model, table)
    return model.predict(table.values, table.observed, model.space.index(table.names), none_beyond)


def distances_to(model: GlobalModel, table: Table) -> FloatArray:
    """Return the rescaled distance of each row to each centroid, rows × K; NaN where they share no feature that varies."""
    table = known_columns(model, table)
    return model.distances(table.values, table.observed, model.space.index(table.names))


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
    overall = model.spread.overall
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
        **({"name": [model.named.get(c) for c in range(k) for _ in range(d)]} if model.named else {}),
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


def features_in_order(names: Iterable[Sequence[str]], model: GlobalModel) -> tuple[str, ...]:
    """Return the features of the model in the order in which their columns first appear in a table."""
    return tuple(
        feature
        for column in FeatureSpace.union(names).names
        for feature in (indicators({column: model.levels[column]}) if column in model.levels else (column,))
        if feature in model.space  # release rules may have suppressed a column
    )
