"""Densities, families of densities and their registry, and the clusters that a family is fitted to.

A *density* describes the rows of one local cluster. A *family* fits densities, turns them into named arrays for a message
and back, and says what these arrays disclose. :func:`register` adds a family; nothing else has to change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from intarsia.core.blocks import by_rows
from intarsia.core.centroids import MaskedCentroids, centroids_of_rows
from intarsia.core.distances import Extent, extent_of
from intarsia.core.rows import Piece
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, SettingError, quote

Parts = Mapping[str, npt.NDArray[Any]]


class Density(Protocol):
    """A probability density over the features of one local cluster."""

    @property
    def mean(self) -> FloatArray:
        """The mean of each feature."""

    @property
    def variances(self) -> FloatArray:
        """The variance of each feature."""

    @property
    def n_parameters(self) -> int:
        """The number of parameters."""

    @property
    def n_outcomes(self) -> float | None:
        """The number of different rows that can be drawn (inf if too many to count); None for a continuous density."""

    def marginal(self, features: BoolArray) -> Density:
        """Return the density of the features selected by a mask."""

    def placed(self, at: IntArray, width: int) -> Density:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Density:
        """Return the density of (x − shift) / scale."""

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""


class Part(NamedTuple):
    """Some rows of one cluster: an array of features × rows, and 1 or 0 for each observed or missing value.

    ``observed`` is None if no value is missing. A missing value is 0 in ``cells``.
    """

    cluster: int
    cells: FloatArray
    observed: FloatArray | None


class RowsInPieces(Protocol):
    """A table that can be read again and again in pieces of rows, each less ``offset``."""

    @property
    def offset(self) -> FloatArray: ...  # noqa: D102
    @property
    def extent(self) -> Extent: ...  # noqa: D102
    def __iter__(self) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class Clustered:
    """A table with a label for each row, and the centroids of its clusters.

    Attributes
    ----------
    rows
        The table, in pieces.
    labels
        The cluster of each row; negative for rows in no cluster.
    sizes
        The number of rows of each cluster.
    centroids
        The mean of each cluster over all features.
    released
        The same, without the entries that the participant suppresses. Densities are fitted to the features that remain.
    names
        The name of each feature.
    categories
        The features of each one-hot coded column, by the name of the column.
    """

    rows: RowsInPieces
    labels: IntArray
    sizes: IntArray
    centroids: MaskedCentroids
    released: MaskedCentroids
    names: Sequence[str]
    categories: Mapping[str, IntArray] = field(default_factory=dict)

    @classmethod
    def of_arrays(
        cls,
        rows: FloatArray,
        observed: BoolArray,
        labels: IntArray | None = None,
        *,
        centroids: MaskedCentroids | None = None,
        released: MaskedCentroids | None = None,
        names: Sequence[str] | None = None,
        categories: Mapping[str, IntArray] | None = None,
    ) -> Clustered:
        """Return the clusters of a table in memory (rows × features); without labels, all rows form one cluster."""
        labels = np.zeros(len(rows), dtype=np.intp) if labels is None else labels
        n_clusters = int(labels.max(initial=-1)) + 1 if centroids is None else len(centroids)
        if centroids is None:
            centroids = centroids_of_rows(rows, observed, labels, n_clusters)
        return cls(
            _ArrayRows(rows, observed),
            labels,
            np.bincount(labels[labels >= 0], minlength=n_clusters),
            centroids,
            centroids if released is None else released,
            [str(k) for k in range(rows.shape[1])] if names is None else names,
            {} if categories is None else categories,
        )

    def parts(self) -> Iterator[Part]:
        """Read the table once and yield, piece by piece, the rows of each cluster in arrays that may be overwritten."""
        for piece in self.rows:
            labels = self.labels[piece.at].astype(np.intp)
            order = np.argsort(labels, kind="stable")
            cells = _reordered(piece.cells, order)
            observed = None if piece.there is None else _reordered(piece.there, order)
            clusters, starts = np.unique(labels[order], return_index=True)
            for k, start, stop in zip(clusters.tolist(), starts, [*starts[1:], len(order)], strict=True):
                if k >= 0:
                    yield Part(k, cells[:, start:stop], None if observed is None else observed[:, start:stop])

    def released_parts(self) -> Iterator[Part]:
        """Like :meth:`parts`, with the released features of each cluster only."""
        released = self.released.seen
        for part in self.parts():
            k, cells, observed = part
            if not released[k].all():
                cells, observed = cells[released[k]], None if observed is None else observed[released[k]]
            yield Part(k, cells, None if observed is None or observed.all() else observed)

    def released_names(self, k: int) -> list[str]:
        """Return the names of the released features of cluster k."""
        return [name for name, released in zip(self.names, self.released.seen[k], strict=True) if released]

    def released_categories(self, k: int) -> dict[str, IntArray]:
        """Return the positions of each category's features among the released features of cluster k."""
        released = self.released.seen[k]
        position = np.cumsum(released) - 1
        kept = {column: position[at[released[at]]] for column, at in self.categories.items()}
        return {column: at for column, at in kept.items() if len(at)}


def _reordered(cells: FloatArray, order: IntArray) -> FloatArray:
    """Copy the columns of an array in this order, along its memory layout."""
    if cells.flags.f_contiguous:
        return np.asarray(cells.T.take(order, axis=0).T)
    return np.asarray(cells.take(order, axis=1))


class _ArrayRows:
    """A table in memory, in pieces of rows."""

    def __init__(self, rows: FloatArray, observed: BoolArray) -> None:
        self._rows, self._observed = rows, observed
        self.offset = np.zeros(rows.shape[1])

    @property
    def extent(self) -> Extent:
        return extent_of(self._rows, self._observed)

    def __iter__(self) -> Iterator[Piece]:
        for at in by_rows(*self._rows.shape):
            rows, observed = self._rows[at], self._observed[at]
            if observed.all():
                yield Piece(at, rows.T, None)
            else:
                yield Piece(at, np.where(observed, rows, 0.0).T, observed.T.astype(np.float64))


class Family(ABC):
    """A family of densities: how it is fitted, how it travels, and what its parts disclose.

    A family that is not part of the package subclasses this and calls :func:`register`, at the coordinator and at every
    participant.
    """

    name: ClassVar[str]
    """The name of the family; the ``kind`` of a density in a message."""

    parts: ClassVar[Mapping[str, str]]
    """The meaning, in words, of each array that describes a density in a message."""

    densities: ClassVar[tuple[str, ...]] = ()
    """Values of the setting ``density`` that select this family; the name of the family if empty."""

    forms: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Sets of parts that make up a density in a message; all parts if empty."""

    has_exact_force: ClassVar[bool] = False
    """Whether its densities are Gaussians, between which forces are known without sampling."""

    takes_categories: ClassVar[bool] = True
    """Whether it can be fitted to tables with one-hot coded columns."""

    exact_cells: ClassVar[bool] = False
    """Whether the values themselves matter, so that :attr:`Clustered.rows` must have an offset of 0."""

    tells_of_single_rows: ClassVar[bool] = False
    """Whether a part may hold what is known of a single row. A release policy must allow such a family."""

    @abstractmethod
    def fit(self, clusters: Clustered, density: str) -> list[Density]:
        """Fit one density to each cluster, over its released features; ``density`` is the value of the setting."""

    @abstractmethod
    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that describe a density. The mean may be omitted: the centroid of the cluster travels anyway."""

    @abstractmethod
    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density that :meth:`to_parts` described; ``mean`` is the centroid of its cluster."""

    @abstractmethod
    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with arrays from a message (as "a covariance of the wrong shape"), None if nothing is.

        The parts are one of :attr:`forms`, and their numbers are finite.
        """

    def parsimonious(self, density: str) -> str:
        """Return the setting to fit where the number of parameters must be small compared with the number of rows."""
        return density

    def fewest_rows(self, parts: Parts, size: int, fewest_values: int) -> int:
        """Return the smallest number of rows behind any number in the parts of a density.

        ``size`` is the number of rows of its cluster, ``fewest_values`` the smallest number of values behind any entry of
        a centroid. The parts are one of :attr:`forms`, but nothing else about them is checked yet.
        """
        del parts, size
        return fewest_values


def is_bounded(values: npt.NDArray[Any], largest: float) -> bool:
    """Whether an array from a message holds floating-point numbers of at most this size; NaN and infinity are too large."""
    return values.dtype.kind == "f" and bool((np.abs(values) <= largest).all())


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Add a family of densities, so that ``density=`` accepts its names; a family of the same name is replaced."""
    taken = [
        name
        for name in family.densities or (family.name,)
        for other in _FAMILIES.values()
        if other.name != family.name and name in (other.densities or (other.name,))
    ]
    if taken:
        raise SettingError(f"the density name(s) {quote(taken)} belong to another family.")
    _FAMILIES[family.name] = family
    return family


def unregister(name: str) -> None:
    """Remove a family of densities."""
    _FAMILIES.pop(name, None)


def families() -> dict[str, Family]:
    """Return all families by name."""
    return dict(_FAMILIES)


def density_names() -> tuple[str, ...]:
    """Return all values that the setting ``density`` accepts."""
    return tuple(name for family in _FAMILIES.values() for name in family.densities or (family.name,))


def family_of(density: str) -> Family:
    """Return the family that a value of the setting ``density`` selects."""
    for family in _FAMILIES.values():
        if density in (family.densities or (family.name,)):
            return family
    raise SettingError(f"density must be one of {density_names()}. Got {density!r} instead.")


def fit_densities(clusters: Clustered, density: str) -> list[Density]:
    """Fit one density to each cluster; ``density`` is the value of the setting."""
    family = family_of(density)
    if clusters.categories and not family.takes_categories:
        raise DensityError(
            f"the density {density!r} does not support categories, and {len(clusters.categories)} column(s) hold "
            f"categories: {quote(clusters.categories)}. Hint: exclude these columns, or use density='gaussian'."
        )
    return family.fit(clusters, density)
