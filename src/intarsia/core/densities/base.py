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

from intarsia.core.centroids import MaskedCentroids
from intarsia.core.rows import Rows
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, SettingError, quote

FEWEST_TOLD = 5  # rows whose number an error may tell

Parts = Mapping[str, npt.NDArray[Any]]


class Density(Protocol):
    """A probability density over the features of one local cluster."""

    @property
    def mean(self) -> FloatArray: ...  # noqa: D102
    @property
    def variances(self) -> FloatArray: ...  # noqa: D102
    @property
    def n_outcomes(self) -> float | None:
        """The number of different rows that can be drawn (inf if too many to count); None for a continuous density."""

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Density:
        """Return the density of (x − shift) / scale."""

    def placed(self, at: IntArray, width: int) -> Density:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""


class Movable:
    """The base class of densities that have no shorter way to other units and positions than to move their points."""

    n_outcomes: float | None = None

    def in_units(self: Density, shift: FloatArray, scale: FloatArray) -> Density:
        """Return the density of (x − shift) / scale."""
        return _Moved(self, np.arange(len(shift)), shift, scale)

    def placed(self: Density, at: IntArray, width: int) -> Density:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        source = np.full(width, -1)
        source[at] = np.arange(len(at))
        return _Moved(self, source, np.zeros(width), np.ones(width))


class _Moved(Movable):
    """(x − shift) / scale of the features ``source`` of another density; a feature −1 is always 0."""

    def __init__(self, density: Density, source: IntArray, shift: FloatArray, scale: FloatArray) -> None:
        self._density, self._source, self._shift, self._scale = density, source, shift, scale
        self.n_outcomes = density.n_outcomes
        self.mean = self._moved(density.mean)
        self.variances = np.append(density.variances, 0.0)[source] / np.square(scale)

    def _moved(self, points: FloatArray) -> FloatArray:
        constant = np.zeros((*points.shape[:-1], 1))
        return np.asarray((np.concatenate([points, constant], axis=-1)[..., self._source] - self._shift) / self._scale)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        return self._moved(self._density.sample(rng, n))


class Part(NamedTuple):
    """Some rows of one cluster: features × rows, 0 for a missing value; ``observed`` is 1 or 0, None if none is missing."""

    cluster: int
    cells: FloatArray
    observed: FloatArray | None


@dataclass(frozen=True)
class Clustered:
    """A table with a label for each row (negative: in no cluster), and the sizes and centroids of its clusters.

    ``released`` are the centroids without the entries that the participant suppresses; densities are fitted to the features
    that remain. ``categories`` are the features of each one-hot coded column, by the name of the column. ``columns`` has
    pairs of features and the labels of their values, where these differ from those of the rows
    (:class:`~intarsia.core.atoms.Told`).
    """

    rows: Rows
    labels: IntArray
    sizes: IntArray
    centroids: MaskedCentroids
    released: MaskedCentroids
    names: Sequence[str]
    categories: Mapping[str, IntArray] = field(default_factory=dict)
    columns: tuple[tuple[IntArray, IntArray], ...] = ()

    @property
    def in_columns(self) -> BoolArray:
        """Which features have labels of their own."""
        result = np.zeros(len(self.names), dtype=np.bool_)
        for features, _ in self.columns:
            result[features] = True
        return result

    def parts(self) -> Iterator[Part]:
        """Read the table once and yield, piece by piece, the rows of each cluster in arrays that may be overwritten."""
        for piece in self.rows:
            labels = self.labels[piece.at].astype(np.intp)
            order = np.argsort(labels, kind="stable")
            cells = _reordered(piece.cells, order)
            observed = None if piece.mask is None else _reordered(piece.mask, order)
            clusters, starts = np.unique(labels[order], return_index=True)
            for k, start, stop in zip(clusters.tolist(), starts, [*starts[1:], len(order)], strict=True):
                if k >= 0:
                    yield Part(k, cells[:, start:stop], None if observed is None else observed[:, start:stop])

    def released_parts(self) -> Iterator[Part]:
        """Like :meth:`parts`, with the released features of each cluster only."""
        for k, cells, observed in self.parts():
            released = self.released.seen[k]
            seen = None if observed is None or observed[released].all() else observed[released]
            yield Part(k, cells if released.all() else cells[released], seen)

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
    return np.asarray(cells.T.take(order, axis=0).T if cells.flags.f_contiguous else cells.take(order, axis=1))


class Family(ABC):
    """A family of densities: how it is fitted, how it travels, and what its parts disclose.

    A family from outside the package is registered at the coordinator and at every participant.
    """

    name: ClassVar[str]  # the ``kind`` of a density in a message
    densities: ClassVar[tuple[str, ...]]  # values of the setting ``density`` that select this family
    parts: ClassVar[Mapping[str, str]]  # the meaning, in words, of each array that describes a density in a message
    optional: ClassVar[frozenset[str]] = frozenset()  # parts that a density need not have
    has_exact_force: ClassVar[bool] = False  # its densities are Gaussians, between which forces need no sampling
    takes_categories: ClassVar[bool] = True  # it can be fitted to tables with one-hot coded columns
    exact_cells: ClassVar[bool] = False  # the values themselves matter: ``Clustered.rows`` must have an offset of 0
    tells_of_single_rows: ClassVar[bool] = False  # a part may disclose a single row, which a release policy must allow

    @abstractmethod
    def fit(self, clusters: Clustered, density: str, *, shrink: bool = True) -> list[Density]:
        """Fit one density to each cluster, over its released features; ``density`` is the value of the setting.

        Without ``shrink``, the parameters must be those of maximum likelihood.
        """

    @abstractmethod
    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that describe a density; the mean may be omitted, as the centroid travels anyway."""

    @abstractmethod
    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density that :meth:`to_parts` described; ``mean`` is the centroid of its cluster."""

    @abstractmethod
    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with arrays from a message, whose numbers are finite; None if nothing is."""

    def parsimonious(self, density: str) -> str:
        """Return the setting to fit where the number of parameters must be small compared with the number of rows."""
        return density

    def fewest_rows(self, parts: Parts, size: int, fewest_values: int) -> int:  # noqa: ARG002
        """Return the smallest number of rows behind any number in the parts of a density, which nobody has checked yet.

        ``size`` is the number of rows of its cluster, ``fewest_values`` the smallest number of values behind any entry of
        a centroid.
        """
        return fewest_values


def is_bounded(values: npt.NDArray[Any], largest: float) -> bool:
    """Whether an array from a message holds floating-point numbers of at most this size; NaN is too large."""
    return values.dtype.kind == "f" and bool((np.abs(values) <= largest).all())


_FAMILIES: dict[str, Family] = {}


def rows_in_words(n: int, n_rows: int) -> str:
    """Return how many rows an error is about: it may reach a coordinator, who learns of no group of fewer than five."""
    return f"{n} of {n_rows} rows" if n >= FEWEST_TOLD or not n else f"a few of {n_rows} rows"


def register(family: Family) -> None:
    """Add a family of densities; one of the same name is replaced."""
    _FAMILIES[family.name] = family


def unregister(name: str) -> None:
    """Remove a family of densities."""
    del _FAMILIES[name]


def families() -> dict[str, Family]:
    """Return all families by name."""
    return dict(_FAMILIES)


def density_names() -> tuple[str, ...]:
    """Return all values that the setting ``density`` accepts."""
    return tuple(name for family in _FAMILIES.values() for name in family.densities)


def family_of(density: str) -> Family:
    """Return the family that a value of the setting ``density`` selects."""
    for family in _FAMILIES.values():
        if density in family.densities:
            return family
    raise SettingError(f"density must be one of {density_names()}. Got {density!r} instead.")


def fit_densities(clusters: Clustered, density: str, *, shrink: bool = True) -> list[Density]:
    """Fit one density to each cluster (fitPDF); ``density`` and ``shrink`` are the values of the settings."""
    family = family_of(density)
    if clusters.categories and not family.takes_categories:
        raise DensityError(
            f"the density {density!r} does not support categories, and {len(clusters.categories)} column(s) hold "
            f"categories: {quote(clusters.categories)}. Hint: exclude these columns, or use density='gaussian'."
        )
    return family.fit(clusters, density, shrink=shrink)
