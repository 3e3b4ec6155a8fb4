"""The stability of a result in one process: all participants' rows are resampled and clustered anew."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from intarsia.core.randomness import stream
from intarsia.core.stability import Part, Task, figures, similarities, tasks
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import IntarsiaError, SettingError, TooFewRowsError
from intarsia.results.outcome import GlobalModel, RunRecord
from intarsia.results.stability import Stability, known
from intarsia.tables import AnyTable
from intarsia.tables.frame import Table, table_of
from intarsia.tables.missing import without_empty_columns
from intarsia.tables.streamed import StreamedTable

MOST_ROWS = 5_000  # of all participants: of more, a sample is measured
FEWEST_ROWS = 50  # of a participant in that sample, if it has so many
KINDS: dict[str, Any] = {}
"""The estimators by method; each class of estimators adds itself."""
_SHAPED = ("dirichlet", "discrete")  # densities of rows that cannot be moved


class Fitted(NamedTuple):
    """What a result of this process was computed from: an estimator, and what it was given."""

    estimator: Any
    tables: Any

    def held(self, tables: Any = None) -> dict[Hashable, AnyTable]:
        """Return the tables (default: those of the fit) as participants hold them."""
        given = self.tables if tables is None else tables
        if isinstance(given, Mapping) and all(isinstance(table, AnyTable) for table in given.values()):
            return dict(given)
        held: dict[Hashable, AnyTable] = self.estimator.held(given)
        return held


def fitted_from(run: RunRecord) -> Fitted:
    """Return the estimator that the record of a run describes, without tables."""
    kind = KINDS[run.method]
    names = set(kind().get_params(deep=False))
    settings = {name: value for name, value in run.settings.items() if name in names} | {"release": None}
    settings |= {"previous": None} if "previous" in names else {}
    if settings.get("local") is not None:
        raise SettingError(
            "the study has local algorithms of its own, and its file contains no code. Hint: cluster the tables again, and "
            "ask the new result."
        )
    return Fitted(kind(**settings | {"random_state": 0}), None)


def measure(
    model: GlobalModel,
    estimator: Any,
    tables: Mapping[Hashable, AnyTable],
    labels: Mapping[Hashable, IntArray],
    n_resamples: int,
    seed: int,
    n_jobs: int | None,
) -> Stability:
    """Return how surely the clusters come back when the rows are resampled and clustered anew, with the same K."""
    if getattr(estimator, "density", "") in _SHAPED:
        raise SettingError(
            f"stability moves rows a little, and density={estimator.density!r} does not allow that. "
            "Hint: density='gaussian'."
        )
    k = len(model.centroids)
    parts = _parts(model, tables, labels, seed)
    sizes = np.bincount(np.concatenate([part.labels[part.labels >= 0] for part in parts.values()]), minlength=k)
    if k == 1:  # one cluster always comes back
        return Stability((1.0,), (int(sizes[0]),), (1.0,), (0.0,), None, n_resamples, seed)
    again = clone(estimator).set_params(n_clusters=k, scale=None, release=None, n_jobs=None, stability=False)
    if "previous" in again.get_params(deep=False):
        again.set_params(previous=None)
    again.set_params(feature_weights=None)  # rows are in common units, which have the weights of columns
    recluster = partial(_recluster, again, tuple(parts), model.space.names)
    run = delayed(_similarities)
    todo = tasks(n_resamples)
    jobs = effective_n_jobs(estimator.n_jobs if n_jobs is None else n_jobs)
    results = Parallel(n_jobs=jobs)(run(list(parts.values()), k, recluster, seed, task) for task in todo)
    _check_enough(results, n_resamples)
    found = figures([result for result, _ in results], n_resamples)
    return Stability(
        known(found.scores),
        tuple(map(int, sizes)),
        known(found.jaccard),
        known(found.dissolved),
        round(found.reference, 6),
        n_resamples,
        seed,
    )


def _check_enough(results: Sequence[tuple[FloatArray, str]], n_resamples: int) -> None:
    """Raise an error if no resample, or no reference, could be clustered."""
    for some in (results[:n_resamples], results[n_resamples:]):
        if all(np.isnan(result).all() for result, _ in some):
            raise TooFewRowsError(f"no resample of half the rows could be clustered. The last error: {some[-1][1]}")


def _similarities(
    parts: Sequence[Part], n_clusters: int, recluster: Any, seed: int, task: Task
) -> tuple[FloatArray, str]:
    """Return the similarities of one resample, or NaN and the error if its rows could not be clustered."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return similarities(parts, n_clusters, recluster, seed, task), ""
    except IntarsiaError as error:
        return np.full(1 if task.is_reference else n_clusters, np.nan), str(error)


def _recluster(
    estimator: Any, keys: Sequence[Hashable], names: Sequence[str], parts: Sequence[Part], seed: int
) -> list[IntArray]:
    """Return the labels of a new clustering of all parts."""
    tables: dict[Hashable, AnyTable] = {}
    for key, part in zip(keys, parts, strict=True):
        values = np.where(part.observed, part.values, np.nan)
        tables[key] = without_empty_columns(table_of(str(key), [names[m] for m in part.features], values))
    result = clone(estimator).set_params(random_state=seed).fit_handed_over(tables)
    return [np.asarray(result.labels[key]) for key in keys]


def _parts(
    model: GlobalModel, tables: Mapping[Hashable, AnyTable], labels: Mapping[Hashable, IntArray], seed: int
) -> dict[Hashable, Part]:
    """Return the rows of all participants in common units; of large tables a sample."""
    n_rows = sum(len(table) for table in tables.values())
    parts = {}
    for key, held in tables.items():
        table, positions = (
            (held.sample, held.drawn) if isinstance(held, StreamedTable) else (held, np.arange(len(held)))
        )
        n = max(MOST_ROWS * len(held) // max(n_rows, 1), FEWEST_ROWS)
        if n < len(positions):
            chosen = np.sort(stream(seed, str(key), "stability", "rows").choice(len(positions), n, replace=False))
            table, positions = table.of_rows(chosen), positions[chosen]
        parts[key] = _part(model, table, np.asarray(labels[key])[positions])
    return parts


def _part(model: GlobalModel, table: Table, labels: IntArray) -> Part:
    table = table.in_numbers({name: model.levels[name] for name in table.categories})
    at = np.flatnonzero([name in model.space for name in table.names])
    features = model.space.index([table.names[m] for m in at])
    observed = table.observed[:, at]
    values = np.where(observed, model.in_common_units(table.values[:, at], features), 0.0)
    used = observed.any(axis=1)  # release rules may have suppressed all columns of a row
    return Part(values[used], observed[used], features, labels[used].astype(np.intp))
