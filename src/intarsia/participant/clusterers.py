"""Local clusterers behind one interface: the built-in k-means, and any object with ``fit_predict``.

A new built-in clusterer is a subclass of :class:`Clusterer` and one line in :data:`BUILT_IN`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.kmeans import Fit, fit_of, lloyd, observed_kmeans
from intarsia.core.randomness import draw_seed
from intarsia.core.rows import ArrayRows, Rows
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import LocalAlgorithmError, MissingCellsError, SettingError, TooFewRowsError
from intarsia.participant.kmeans import KMeans
from intarsia.participant.samples import MissingValues, Sample, for_all_rows
from intarsia.participant.warm_start import WarmStarted
from intarsia.tables.in_memory import HeldTable

N_INIT, MAX_ITER = 10, 300
CONTINUED = 20  # iterations on all rows from the centres of a part of them
_MOST_STEPS = 3e10  # restarts × iterations × clusters × values that one k-means may take: about 20 s
_ITERATIONS = 30  # that a restart takes in the mean
_FEWEST_ITERATIONS = 10


class Clusterer(ABC):
    """How one participant clusters its rows."""

    name: str
    """The name of the algorithm, for messages."""

    chooses_k: bool
    """Whether the algorithm decides itself how many clusters it finds."""

    def __init__(self, missing: MissingValues | None = None) -> None:
        self.missing = MissingValues() if missing is None else missing

    @property
    def needs_all_rows(self) -> bool:
        """Whether all rows must be in memory; otherwise a sample of a large table is clustered first."""
        return self.chooses_k or self.missing.how in {"impute", "drop"}

    def cluster(self, rows: Sample, n_clusters: int, rng: np.random.Generator, n_init: int = N_INIT) -> IntArray:
        """Return a label for every row, −1 for noise, −2 for rows left out, the others numbered from 0 without a break."""
        prepared, used = self.missing.prepared(rows)
        return for_all_rows(self._cluster(prepared, n_clusters, rng, n_init), used, rows.n_rows)

    def continued(self, rows: Sample, start: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return a label for every row, prepared for the algorithm, from centres of a part of the rows."""
        return self._refine(rows, start, CONTINUED, rng)

    def refine(
        self, rows: Rows, sample: Callable[[], Sample], start: FloatArray, max_iter: int, rng: np.random.Generator
    ) -> Fit:
        """Return clusters of all rows after a few iterations from given centres; ``sample`` returns all rows in memory."""
        prepared, used = self.missing.prepared(sample())
        return fit_of(rows, for_all_rows(self._refine(prepared, start, max_iter, rng), used, rows.n_rows))

    @abstractmethod
    def _cluster(self, rows: Sample, n_clusters: int, rng: np.random.Generator, n_init: int) -> IntArray:
        """Return labels of rows that are prepared for the algorithm."""

    @abstractmethod
    def _refine(self, rows: Sample, start: FloatArray, max_iter: int, rng: np.random.Generator) -> IntArray:
        """Return labels of rows that are prepared for the algorithm, after a few iterations from given centres."""


class BuiltInKMeans(Clusterer):
    """k-means on the observed values: scikit-learn's if no value is missing."""

    name = "built-in k-means"
    chooses_k = False

    def _cluster(self, rows: Sample, n_clusters: int, rng: np.random.Generator, n_init: int) -> IntArray:
        n_init, max_iter = affordable(n_clusters * rows.cells.size, n_init)
        if not rows.complete:
            return renumber(observed_kmeans(rows.values, rows.observed, n_clusters, rng, n_init, max_iter).labels)
        kmeans = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=draw_seed(rng), copy_x=False)
        return fit_predict(kmeans, rows.copied_values(), discreet=self.missing.discreet)

    def refine(
        self, rows: Rows, sample: Callable[[], Sample], start: FloatArray, max_iter: int, rng: np.random.Generator
    ) -> Fit:
        """Return clusters of all rows after a few iterations from given centres, without a copy of the rows."""
        if self.needs_all_rows:
            return super().refine(rows, sample, start, max_iter, rng)
        return lloyd(rows, MaskedCentroids.of(start, np.ones_like(start)), max_iter)

    def _refine(self, rows: Sample, start: FloatArray, max_iter: int, rng: np.random.Generator) -> IntArray:  # noqa: ARG002
        centres = MaskedCentroids.of(start, np.ones_like(start))
        return lloyd(ArrayRows(rows.values, rows.observed), centres, max_iter).labels.astype(np.intp)


def affordable(step: int, n_init: int) -> tuple[int, int]:
    """Return numbers of restarts and of iterations that take bounded time, where one iteration takes so many steps.

    >>> affordable(10_000, 10), affordable(20 * 65_536 * 100, 10)
    ((10, 300), (7, 32))
    """
    n_init = max(1, min(n_init, int(_MOST_STEPS / _ITERATIONS / max(step, 1))))
    return n_init, max(_FEWEST_ITERATIONS, min(MAX_ITER, int(_MOST_STEPS / n_init / max(step, 1))))


class ScikitLearnClusterer(Clusterer):
    """An object with ``fit_predict`` and scikit-learn's parameters, used exactly as the participant configured it."""

    chooses_k = True

    def __init__(self, estimator: Any, missing: MissingValues | None = None) -> None:
        super().__init__(missing)
        self._estimator = estimator
        self.name = type(estimator).__name__

    def _cluster(self, rows: Sample, n_clusters: int, rng: np.random.Generator, n_init: int) -> IntArray:  # noqa: ARG002
        return self._fit(self._seeded(rng), rows)

    def _refine(self, rows: Sample, start: FloatArray, max_iter: int, rng: np.random.Generator) -> IntArray:
        return self._fit(WarmStarted(self._seeded(rng), start, max_iter), rows)

    def _fit(self, estimator: Any, rows: Sample) -> IntArray:
        if rows.complete:
            return fit_predict(estimator, rows.copied_values(), discreet=self.missing.discreet)
        described = self.missing.described(rows.filled)
        if not accepts_missing_values(self._estimator):
            n_columns = sum(share < 1 for share in rows.filled.values())
            raise MissingCellsError(
                f"{self.name} needs tables without missing values, but {n_columns} of {len(rows.filled)} columns have some "
                f"({described}). Hint: missing='impute' replaces them by the column's mean, missing='drop' omits rows with "
                "missing values; local=None clusters on the observed values."
            )
        try:
            values = np.where(rows.observed, rows.values, np.nan)
            return fit_predict(estimator, values, discreet=self.missing.discreet)
        except LocalAlgorithmError as error:
            raise MissingCellsError(
                f"{error} It declares that it accepts missing values, and there are some ({described}). "
                "Hint: missing='impute' or 'drop', or an imputer as the first step."
            ) from error

    def _seeded(self, rng: np.random.Generator) -> Any:
        """Return the estimator as it was given, with a seed for each ``random_state`` that is None."""
        estimator = clone(self._estimator)
        unseeded = [
            name
            for name, value in sorted(estimator.get_params(deep=True).items())
            if value is None and name.rsplit("__", 1)[-1] == "random_state"
        ]
        return estimator.set_params(**{name: draw_seed(rng) for name in unseeded}) if unseeded else estimator


DEFAULT = "k-means"
BUILT_IN: dict[str, type[Clusterer]] = {DEFAULT: BuiltInKMeans}


def clusterer_for(local: Any, missing: MissingValues) -> Clusterer:
    """Return the clusterer for a participant's setting ``local``: None, the name of a built-in one, or an estimator."""
    if local is not None and not isinstance(local, str):
        return ScikitLearnClusterer(local, missing)
    if (name := DEFAULT if local is None else local) not in BUILT_IN:
        raise SettingError(f"local must be one of {tuple(BUILT_IN)} or a scikit-learn clusterer. Got {name!r} instead.")
    return BUILT_IN[name](missing)


def accepts_missing_values(estimator: Any) -> bool:
    """Whether an estimator declares that it accepts missing values (NaN)."""
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    try:
        return bool(get_tags(first).input_tags.allow_nan)
    except Exception:  # noqa: BLE001  (an object without tags does not declare it)
        return False


def fit_predict(estimator: Any, rows: FloatArray, *, discreet: bool = False) -> IntArray:
    """Return the labels of an estimator, renumbered without a break, noise kept; its errors are raised without their text.

    The text of another library's error may contain values.
    """
    name = estimator.name if isinstance(estimator, WarmStarted) else type(estimator).__name__
    wanted = getattr(estimator, "n_clusters", getattr(estimator, "n_components", None))
    if isinstance(wanted, int) and wanted > len(rows):
        raise TooFewRowsError(
            f"{name} was asked for {wanted} clusters of "
            + ("fewer rows. " if discreet else f"{len(rows)} row(s) (n_samples={len(rows)}). ")
            + "Hint: ask for fewer clusters, or exclude participants with so few rows."
        )
    try:
        with warnings.catch_warnings():
            # fewer distinct rows than clusters, or fewer iterations than it would like: the labels show it
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = np.asarray(estimator.fit_predict(rows))
    except Exception as error:
        raise LocalAlgorithmError(
            f"{name} failed on {'the' if discreet else len(rows)} rows with a {type(error).__name__}. "
            "Hint: run it on this table alone to see the reason."
        ) from error
    if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
        raise LocalAlgorithmError(f"{name} did not return one whole number for each row.")
    result = np.full(len(rows), -1, dtype=np.intp)
    if (labels >= 0).any():
        result[labels >= 0] = np.unique(labels[labels >= 0], return_inverse=True)[1]
    return result


def check_in_memory(table: HeldTable, clusterer: Clusterer) -> None:
    """Raise an error if a clusterer needs all rows of a table that is read in batches."""
    if not clusterer.needs_all_rows or table.in_memory:
        return
    if clusterer.chooses_k:
        raise LocalAlgorithmError(
            f"{clusterer.name} needs all rows of {table.owner!r} in memory, but this table is read in batches. "
            "Hint: use local=None for this participant, or read the table into memory first."
        )
    raise MissingCellsError(
        f"missing={clusterer.missing.how!r} needs all rows of {table.owner!r} in memory, but this table is read in batches. "
        "Hint: use missing='observed', or read the table into memory first."
    )
