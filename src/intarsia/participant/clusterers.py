"""Local clustering: the built-in k-means, or any clusterer with ``fit_predict`` that the participant prefers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances, nan_euclidean_distances
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from threadpoolctl import ThreadpoolController

from intarsia.core.blocks import by_columns
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.grouping.agglomeration import renumber
from intarsia.core.grouping.n_clusters import CLEAR, NO_STRUCTURE, clearest_number
from intarsia.core.grouping.silhouettes import silhouettes_of_complete_rows, silhouettes_of_rows
from intarsia.core.kmeans import lloyd_labels, observed_kmeans
from intarsia.core.randomness import draw_seed
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.core.units import in_units
from intarsia.exceptions import LocalAlgorithmError, MissingCellsError, TooFewRowsError, quote
from intarsia.participant.kmeans import KMeans
from intarsia.participant.warm_start import Started
from intarsia.tables.missing import columns_with_missing_values

N_INIT = 10
SILHOUETTE_ROWS = 1000  # a silhouette costs the square of the rows; a sample of this size is close enough to choose K
FEWER_ROWS, CLEAR_ENOUGH = 400, 0.3  # a smaller sample, and what it must show for nobody to look at a larger one
LARGE = 1_000_000  # cells, from which on threads help
CODES = 10  # a column with no more different values holds codes
REFERENCES, REFERENCE_INIT = 5, 3  # clouds without structure that a participant compares its silhouettes with


NOISE, LEFT_OUT = -1, -2  # the labels of a row that is in no cluster, and of one that took no part


class Units(NamedTuple):
    """(x − shift) / scale for every feature."""

    shift: FloatArray
    scale: FloatArray


class Rows(NamedTuple):
    """Rows to be clustered: numbers, which of them are there, and the same by column of the table, for messages.

    ``groups`` are the columns of each category. In ``units`` other than those of the cells, rows are made when they are
    asked for, and held by nobody else: a large table should not be there more often than it is used.
    """

    cells: FloatArray
    observed: BoolArray
    filled: Mapping[str, BoolArray]
    groups: tuple[IntArray, ...] = ()
    units: Units | None = None

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.cells)

    @property
    def values(self) -> FloatArray:
        """All rows in their units."""
        return self.cells if self.units is None else in_units(self.cells, *self.units)

    def own_values(self) -> FloatArray:
        """The same in an array of its own, for whoever changes it."""
        return self.cells.copy() if self.units is None else self.values

    def some(self, index: IntArray) -> FloatArray:
        """Some of the rows in their units."""
        return self._replace(cells=self.cells[index]).values

    def columns(self, which: slice | int) -> FloatArray:
        """Some of the columns in their units, or one."""
        cells = self.cells[:, which]
        return cells if self.units is None else in_units(cells, *(part[which] for part in self.units))


@dataclass(frozen=True)
class LocalAlgorithm:
    """How one participant clusters its rows; ``estimator`` None is the built-in k-means on observed entries.

    With ``missing`` "impute" it is shown the column's mean in the place of an empty cell, with "drop" only rows without one.
    Either way summaries are of the cells that are there. ``discreet`` leaves numbers of rows out of errors, which leave.
    """

    estimator: Any = None
    missing: str = "observed"
    discreet: bool = False

    @property
    def name(self) -> str:
        """The name of the estimator's class."""
        return "built-in k-means" if self.estimator is None else type(self.estimator).__name__

    def used(self, rows: Rows) -> IntArray:
        """Which rows take part."""
        if self.missing != "drop" or rows.observed.all():
            return np.arange(rows.n_rows)
        complete = np.flatnonzero(rows.observed.all(axis=1))
        if not len(complete):
            raise MissingCellsError(
                f"missing='drop' leaves none of {self._number(rows.n_rows)} rows: every row has an empty cell somewhere "
                f"({self._gaps(rows)}). Hint: drop the emptiest columns, or missing='observed'."
            )
        return complete

    def shown(self, rows: Rows) -> tuple[Rows, IntArray]:
        """What the algorithm gets to see, and which rows these are."""
        used = self.used(rows)
        if len(used) < rows.n_rows:
            return rows._replace(cells=rows.some(used), observed=rows.observed[used], units=None), used
        if self.missing == "impute" and not rows.observed.all():
            values, empty = rows.own_values(), ~rows.observed
            values[empty] = 0.0
            mean = values.sum(axis=0) / np.maximum(rows.observed.sum(axis=0), 1)
            np.copyto(values, mean, where=empty)
            return rows._replace(cells=values, observed=np.ones_like(empty), units=None), used
        return rows, used

    def cluster(self, rows: Rows, n_clusters: int, rng: np.random.Generator, n_init: int = N_INIT) -> IntArray:
        """A label for every row, −1 for noise, −2 for rows left out, others numbered from 0 without holes."""
        shown, used = self.shown(rows)
        if self.estimator is not None:
            self._check_complete(shown)
            labels = self._fitted(self._seeded(rng), shown)
        elif shown.observed.all():
            kmeans = KMeans(n_clusters, n_init=n_init, random_state=draw_seed(rng), copy_x=False)
            labels = _fit_predict(kmeans, shown.own_values(), discreet=self.discreet)
        else:
            labels = renumber(observed_kmeans(shown.values, shown.observed, n_clusters, rng, n_init).labels)
        return _for_all(labels, used, rows.n_rows)

    def refine(self, rows: Rows, start: FloatArray, max_iter: int, rng: np.random.Generator) -> IntArray:
        """Labels after a few iterations from given centres."""
        shown, used = self.shown(rows)
        if self.estimator is None:
            centres = MaskedCentroids.of(start, np.ones_like(start))
            labels, _ = lloyd_labels(shown.values, shown.observed, centres, max_iter)
        else:
            self._check_complete(shown)
            labels = self._fitted(Started(self._seeded(rng), start, max_iter), shown)
        return _for_all(labels, used, rows.n_rows)

    def _fitted(self, estimator: Any, rows: Rows) -> IntArray:
        if rows.observed.all():
            return _fit_predict(estimator, rows.own_values(), discreet=self.discreet)
        try:
            return _fit_predict(estimator, np.where(rows.observed, rows.values, np.nan), discreet=self.discreet)
        except LocalAlgorithmError as error:
            raise MissingCellsError(
                f"{error} It said that it could do with empty cells, of which there are some ({self._gaps(rows)}). "
                "Hint: missing='impute' or 'drop', or an imputer as the first step."
            ) from error

    def _seeded(self, rng: np.random.Generator) -> Any:
        """The estimator exactly as given, but for any ``random_state`` in it that was left open."""
        estimator = clone(self.estimator)
        open_seeds = [
            name
            for name, value in sorted(estimator.get_params(deep=True).items())
            if value is None and name.rsplit("__", 1)[-1] == "random_state"
        ]
        return estimator.set_params(**{name: draw_seed(rng) for name in open_seeds}) if open_seeds else estimator

    def _number(self, n: int) -> str:
        return "the" if self.discreet else str(n)

    def _gaps(self, rows: Rows) -> str:
        if self.discreet:
            return f"columns: {quote([name for name, there in rows.filled.items() if not there.all()])}"
        return f"columns, share of rows: {quote(columns_with_missing_values(rows.filled))}"

    def _check_complete(self, rows: Rows) -> None:
        if rows.observed.all() or takes_gaps(self.estimator):
            return
        gappy = columns_with_missing_values(rows.filled)
        raise MissingCellsError(
            f"{self.name} needs every cell filled, but {len(gappy)} of {len(rows.filled)} columns have empty ones "
            f"({self._gaps(rows)}). Hint: missing='impute' shows it the column's mean there, missing='drop' only rows "
            "without any; local=None clusters on the cells that are there."
        )


def takes_gaps(estimator: Any) -> bool:
    """Whether an estimator says of itself that it can do with empty cells."""
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    try:
        return bool(get_tags(first).input_tags.allow_nan)
    except Exception:  # noqa: BLE001  (whatever cannot say so cannot)
        return False


def _for_all(labels: IntArray, used: IntArray, n_rows: int) -> IntArray:
    if len(used) == n_rows:
        return labels
    result = np.full(n_rows, LEFT_OUT, dtype=np.intp)
    result[used] = labels
    return result


def _fit_predict(estimator: Any, rows: FloatArray, *, discreet: bool = False) -> IntArray:
    """Labels of an estimator, renumbered without holes, noise kept; its failure becomes ours, without its text."""
    name = estimator.name if isinstance(estimator, Started) else type(estimator).__name__
    wanted = getattr(estimator, "n_clusters", getattr(estimator, "n_components", None))
    if isinstance(wanted, int) and wanted > len(rows):
        raise TooFewRowsError(
            f"{name} was asked for {wanted} clusters of "
            + ("fewer rows. " if discreet else f"{len(rows)} row(s) (n_samples={len(rows)}). ")
            + "Hint: ask for fewer clusters, or leave participants this small out."
        )
    try:
        with warnings.catch_warnings():
            # fewer distinct rows than clusters, or fewer iterations than it would like: the labels show it
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = np.asarray(estimator.fit_predict(rows))
    except Exception as error:
        raise LocalAlgorithmError(
            f"{name} failed on {'the' if discreet else len(rows)} rows with a {type(error).__name__}. "
            "Hint: run it on this table alone to see why."
        ) from error
    if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
        raise LocalAlgorithmError(f"{name} did not give one whole number for each row.")
    result = np.full(len(rows), -1, dtype=np.intp)
    if (labels >= 0).any():
        result[labels >= 0] = np.unique(labels[labels >= 0], return_inverse=True)[1]
    return result


class Chosen(NamedTuple):
    """Labels, and the mean silhouette of the least clear cluster where it was looked at."""

    labels: IntArray
    clarity: float | None


def choose_labels(
    algorithm: LocalAlgorithm, rows: Rows, expected: int | None, most: int, rng: np.random.Generator
) -> Chosen:
    """Cluster with as many clusters as the silhouette suggests, at most ``most``.

    Where the number of global clusters is unknown, silhouettes are compared with those of rows without structure
    (:func:`clearest_number`). Where it is known (``expected``), a participant need not have rows of all of them, but
    finding too few is worse than too many: it keeps to ``expected`` unless that leaves a cluster without structure of its
    own while fewer are all clear. Rows without any structure are taken for all the clusters if there are two or more for
    each, and for a single one if not. The algorithm is tried with ``expected`` clusters first, then with fewer and fewer.
    """
    shown, used = algorithm.shown(rows)
    most = min(most, len(used) // 2)  # clusters of single rows are no clusters
    # hundreds of small k-means: threads would wait for each other longer than they work
    with _threads().limit(limits=1) if shown.cells.size < LARGE else nullcontext():
        chosen = _clearest(shown, most, rng) if expected is None else _up_to(shown, expected, most, rng)
    return Chosen(_for_all(chosen.labels, used, rows.n_rows), chosen.clarity)


@cache
def _threads() -> Any:
    """Whoever limits threads. To find it takes as long as a small k-means, so it is found once."""
    return ThreadpoolController()


_BUILT_IN = LocalAlgorithm()


def _up_to(rows: Rows, expected: int, most: int, rng: np.random.Generator) -> Chosen:
    """As many clusters as expected, or fewer where these are clearer."""
    whole = _BUILT_IN.cluster(rows, expected, rng) if most >= expected else np.zeros(rows.n_rows, dtype=np.intp)
    if most >= expected and rows.n_rows > 2 * FEWER_ROWS:  # nearly always a look at a few rows is enough
        clarity = float(_silhouettes(rows, whole, rng, FEWER_ROWS).min())
        if clarity > CLEAR_ENOUGH:
            return Chosen(whole, clarity)
    clarity = float(_silhouettes(rows, whole, rng).min())
    if clarity > NO_STRUCTURE:
        return Chosen(whole, clarity)
    for k in range(min(most, expected - 1), 1, -1):
        labels = _BUILT_IN.cluster(rows, k, rng)
        if (of_fewer := float(_silhouettes(rows, labels, rng).min())) > CLEAR:
            return Chosen(labels, of_fewer)
    return Chosen(whole, clarity if most >= expected > 1 else None)


def _clearest(rows: Rows, most: int, rng: np.random.Generator) -> Chosen:
    """The labels of the number that :func:`clearest_number` takes, from 1 to ``most``."""
    numbers = range(2, most + 1)
    if not numbers:
        return Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    candidates = [_BUILT_IN.cluster(rows, k, rng).astype(np.int16) for k in numbers]  # so many, held at the same time
    sample = _sample(rows.n_rows, rng)
    distances = _distances(rows.some(sample), rows.observed[sample])
    sampled = [labels[sample].astype(np.intp) for labels in candidates]
    each = [_of_clusters(_of_rows(distances, labels), labels) for labels in sampled]
    references = np.zeros((REFERENCES, len(numbers)))
    for reference, cloud in zip(references, _clouds(rows, sample, rng), strict=False):
        apart = _distances(cloud.cells, cloud.observed)
        for k, n_clusters in enumerate(numbers):
            labels = _BUILT_IN.cluster(cloud, n_clusters, rng, REFERENCE_INIT)
            reference[k] = _of_rows(apart, labels).mean()
    mean = np.array([_of_rows(distances, labels).mean() for labels in sampled])
    number = clearest_number(mean, np.array([clusters.min() for clusters in each]), references)
    if number == 1:
        return Chosen(np.zeros(rows.n_rows, dtype=np.intp), None)
    return Chosen(candidates[number - 2].astype(np.intp), float(each[number - 2].min()))


def _clouds(rows: Rows, sample: IntArray, rng: np.random.Generator) -> Iterator[Rows]:
    """Rows without clusters, with the gaps of those given, as many as are sampled. Endless.

    Measurements are of a single Gaussian with their covariance. Codes and categories have gaps between their values whether
    there are clusters or not: they are drawn from the column, each row on its own, so that they go with nothing else.
    """
    observed = rows.observed
    there = observed[sample]
    blocks = [group for group in rows.groups if len(group)]
    grouped = np.concatenate([np.zeros(0, dtype=np.intp), *blocks])
    single = np.setdiff1d(np.arange(observed.shape[1]), grouped)
    coded = [m for m in single if len(np.unique(rows.columns(m)[observed[:, m]])) <= CODES]
    blocks += [np.array([m]) for m in coded]
    measured = np.setdiff1d(single, coded)
    mean = _means(rows)
    if observed.all() and not blocks:
        # in the axes of the covariance, of which there are no more than rows: silhouettes do not see the difference
        deviations = np.linalg.svd(rows.some(sample) - mean, compute_uv=False) / np.sqrt(len(sample))
        axes, there = np.eye(len(deviations)), np.ones((len(sample), len(deviations)), dtype=np.bool_)
        measured = np.arange(len(deviations))
    else:
        shape = (rows.n_rows, len(measured))
        products = _products(shape, (np.where(observed[:, m], rows.columns(m) - mean[m], 0.0) for m in measured))
        pairs = _products(shape, (observed[:, m] for m in measured))
        variances, axes = np.linalg.eigh(products / np.maximum(pairs, 1.0))
        deviations = np.sqrt(np.maximum(variances, 0.0))
    while True:
        cloud = np.zeros(there.shape)
        cloud[:, measured] = (rng.normal(size=(len(there), len(measured))) * deviations) @ axes.T
        for block in blocks:
            known = np.flatnonzero(observed[:, block[0]])
            cloud[:, block] = rows.some(rng.choice(known, size=len(there)))[:, block]
        yield Rows(np.where(there, cloud, 0.0), there, rows.filled)


def _means(rows: Rows) -> FloatArray:
    """The mean of every feature's cells."""
    sums = np.empty(rows.cells.shape[1])
    for some in by_columns(*rows.cells.shape):
        sums[some] = np.where(rows.observed[:, some], rows.columns(some), 0.0).sum(axis=0)
    return np.asarray(sums / np.maximum(rows.observed.sum(axis=0), 1))


def _products(shape: tuple[int, int], columns: Iterable[npt.NDArray[Any]]) -> FloatArray:
    """XᵀX of a matrix X that is filled column by column."""
    matrix = np.empty(shape, order="F")
    for at, column in enumerate(columns):
        matrix[:, at] = column
    return np.asarray(matrix.T @ matrix)


def _sample(n: int, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> IntArray:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _distances(rows: FloatArray, observed: BoolArray) -> FloatArray:
    """Between all rows; over the features that both have, rescaled, where there are gaps."""
    if observed.all():
        return np.asarray(euclidean_distances(rows))
    distances = nan_euclidean_distances(np.where(observed, rows, np.nan))
    comparable = ~np.isnan(distances)
    distances = np.where(comparable, distances, distances[comparable].mean() if comparable.any() else 0.0)
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def _of_rows(distances: FloatArray, labels: IntArray) -> FloatArray:
    """The silhouette of each row, −1 where there are not at least two clusters and not all are single rows."""
    if not 2 <= len(np.unique(labels)) < len(labels):
        return np.full(len(labels), -1.0)
    return silhouettes_of_rows(distances, labels)


def _of_clusters(each: FloatArray, labels: IntArray) -> FloatArray:
    """The mean silhouette of each cluster, so that an outlier in a cluster of its own is not taken for structure."""
    return np.array([each[labels == name].mean() for name in np.unique(labels)])


def _silhouettes(rows: Rows, labels: IntArray, rng: np.random.Generator, most: int = SILHOUETTE_ROWS) -> FloatArray:
    """The mean silhouette of each cluster; on a sample of the rows if there are many."""
    sample = _sample(rows.n_rows, rng, most)
    cells, observed, labels = rows.some(sample), rows.observed[sample], labels[sample]
    if not 2 <= len(np.unique(labels)) < len(labels):
        each = np.full(len(labels), -1.0)
    elif observed.all():
        each = silhouettes_of_complete_rows(cells, labels)
    else:
        each = silhouettes_of_rows(_distances(cells, observed), labels)
    return _of_clusters(each, labels)
