"""A Dirichlet density for compositions: rows of non-negative shares of one total, such as 1 or 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, polygamma, psi

from intarsia.core.densities.base import Clustered, Density, Family, Movable, Parts, is_bounded, rows_in_words
from intarsia.core.distances import LARGEST
from intarsia.core.types import FloatArray
from intarsia.exceptions import DensityError, quote

_TOLERANCE = 0.01  # of the total: rounded percentages need not add up to 100
_TINY = 1e-300  # in the place of a total of 0, which is refused later
_LARGEST_SUM = 1e6  # of alpha, which would be infinite for equal rows
_LARGEST_ALPHA = 1e9  # in a message
_STEPS = 100
_ACCURACY = 1e-10  # relative change of alpha


@dataclass(frozen=True)
class Dirichlet(Movable):
    """total · Dirichlet(alpha); a component with alpha 0 is always 0."""

    alpha: FloatArray
    total: float = 1.0

    @property
    def mean(self) -> FloatArray:
        """The mean of each feature: total · α / Σα."""
        return np.asarray(self.total * self.alpha / self.alpha.sum())

    @property
    def variances(self) -> FloatArray:
        """The variance of each feature: m (total − m) / (Σα + 1) for means m."""
        return np.asarray(self.mean * (self.total - self.mean) / (self.alpha.sum() + 1))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""
        shares = np.zeros((n, len(self.alpha)))
        occurs = self.alpha > 0
        shares[:, occurs] = rng.dirichlet(self.alpha[occurs], size=n)
        return np.asarray(self.total * shares)


@dataclass(frozen=True)
class DirichletFamily(Family):
    """Maximum-likelihood Dirichlet densities of rows that add up to the same total (within 1 %; it is their median).

    A zero has no likelihood. It becomes half of the smallest positive share of its component, and the row is divided by its
    sum again, which keeps the ratios of its other components (as in Martín-Fernández et al. 2003). A component that is
    always zero gets alpha 0. Rows that hardly differ would have infinite alpha: the sum of alpha is at most a million.
    Nothing is shrunk, with or without ``shrink``: both rules replace a maximum that does not exist.

    ``n_totals`` is the number of rows of a cluster, from the first on, whose totals the median is taken of.
    """

    name: ClassVar[str] = "dirichlet"
    densities: ClassVar[tuple[str, ...]] = ("dirichlet",)
    parts: ClassVar[dict[str, str]] = {
        "alpha": "parameters of a Dirichlet distribution for each local cluster",
        "total": "the total of the shares",
    }
    takes_categories: ClassVar[bool] = False
    exact_cells: ClassVar[bool] = True

    n_totals: int = 1 << 21  # 16 MiB for each cluster

    def fit(self, clusters: Clustered, density: str, *, shrink: bool = True) -> list[Density]:
        """Fit a Dirichlet density to each cluster in two passes: smallest shares and totals, then means of logarithms."""
        del density, shrink
        compositions = [_Composition(clusters.released_names(k), self.n_totals) for k in range(len(clusters.sizes))]
        for k, cells, observed in clusters.released_parts():
            compositions[k].add_cells(cells, observed)
        for composition in compositions:
            composition.refuse_cells()
        for k, cells, _ in clusters.released_parts():
            compositions[k].add_shares(cells)
        return [composition.density() for composition in compositions]

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return alpha and the total."""
        return {"alpha": density.alpha, "total": np.array(float(density.total))}

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density; its mean follows from alpha."""
        del mean
        return Dirichlet(parts["alpha"], float(parts["total"]))

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with alpha or the total."""
        alpha, total = parts["alpha"], parts["total"]
        if alpha.shape != (n_features,) or total.shape != ():
            return "a Dirichlet density of the wrong shape"
        if not is_bounded(alpha, _LARGEST_ALPHA) or (alpha < 0).any() or not alpha.any():
            return "a Dirichlet density with an alpha that is negative, too large or zero"
        return None if is_bounded(total, LARGEST) and total > 0 else "a Dirichlet density without a positive total"


class _Composition:
    """Sums over the rows of one cluster: totals and problems in a first pass, shares in a second."""

    def __init__(self, names: Sequence[str], n_totals: int) -> None:
        d = len(names)
        self._names, self._n_totals, self._totals = names, n_totals, list[FloatArray]()
        self._n_rows = self._n_unusual = 0
        self._wrong_rows = {"a missing value": 0, "a value below 0": 0}
        self._wrong_columns = {problem: np.zeros(d, dtype=np.bool_) for problem in self._wrong_rows}
        self._smallest = np.full(d, np.inf)
        self._shares, self._squares, self._logs = np.zeros((3, d))

    def add_cells(self, cells: FloatArray, observed: FloatArray | None) -> None:
        """Look at more rows: totals, smallest shares, missing and negative values."""
        totals = cells.sum(axis=0)
        missing = np.zeros(cells.shape, dtype=np.bool_) if observed is None else observed == 0
        for problem, wrong in zip(self._wrong_rows, (missing, (cells < 0) & ~missing), strict=True):
            self._wrong_rows[problem] += int(wrong.any(axis=0).sum())
            self._wrong_columns[problem] |= wrong.any(axis=1)
        if self._n_rows < self._n_totals:
            self._totals.append(totals)
        self._n_rows += len(totals)
        shares = np.where(cells > 0, cells / np.maximum(totals, _TINY), np.inf)
        self._smallest = np.minimum(self._smallest, shares.min(axis=1, initial=np.inf))

    @cached_property
    def _total(self) -> float:
        return float(np.median(np.concatenate(self._totals)))

    def add_shares(self, cells: FloatArray) -> None:
        """Sum shares, their squares and their logarithms, and count unusual totals."""
        totals, occurs = cells.sum(axis=0), np.isfinite(self._smallest)
        usual = (np.abs(totals - self._total) <= _TOLERANCE * self._total) & (self._total > 0)
        self._n_unusual += int((~usual).sum())
        shares = (cells / np.maximum(totals, _TINY))[occurs]
        shares = np.where(shares > 0, shares, self._smallest[occurs][:, None] / 2)
        shares /= shares.sum(axis=0)
        self._logs[occurs] += np.log(shares).sum(axis=1)
        self._shares[occurs] += shares.sum(axis=1)
        self._squares[occurs] += np.square(shares).sum(axis=1)

    def density(self) -> Dirichlet:
        """Return the density of maximum likelihood, or raise a DensityError if rows have different totals."""
        if self._n_unusual:
            who = rows_in_words(self._n_unusual, self._n_rows)
            raise _no_composition(f"{who} do not add up to the usual total of a row, or add up to 0")
        occurs, n = np.isfinite(self._smallest), self._n_rows
        mean, alpha = self._shares[occurs] / n, np.zeros(len(occurs))
        spread = float((self._squares[occurs] / n - np.square(mean)).sum())
        alpha[occurs] = maximum_likelihood(mean, self._logs[occurs] / n, spread)
        return Dirichlet(alpha, self._total)

    def refuse_cells(self) -> None:
        """Raise a DensityError if a value is missing or negative."""
        problems = []
        for problem, n in self._wrong_rows.items():
            columns = np.flatnonzero(self._wrong_columns[problem])
            names = f"in {len(columns)} of {len(self._names)} columns: {quote(self._names[int(k)] for k in columns)}"
            problems += [f"{rows_in_words(n, self._n_rows)} have {problem} ({names})"] if n else []
        if problems:
            raise _no_composition("; ".join(problems))


def _no_composition(problem: str) -> DensityError:
    return DensityError(
        "the density 'dirichlet' needs compositions: rows without missing values and without values below 0 that all add "
        f"up to the same total (within 1 %). Here, {problem}. Hint: use density='gaussian', or check that the table holds "
        "all components of the composition, divided by the total of the row."
    )


def maximum_likelihood(mean: FloatArray, logs: FloatArray, spread: float) -> FloatArray:
    """Return alpha from the mean shares, the means of their logarithms and, for a start, the sum of their variances.

    Newton's method (Minka 2000, Estimating a Dirichlet distribution): the likelihood is concave, its Hessian a diagonal
    plus a constant. Steps are halved until the likelihood grows.
    """
    if len(mean) == 1:
        return np.ones(1)
    start = (mean * (1 - mean)).sum() / spread - 1 if spread > 0 else np.inf
    alpha = mean * np.clip(start, 1e-2, _LARGEST_SUM)
    height = _likelihood(alpha, logs)
    for _ in range(_STEPS):
        slope = psi(alpha.sum()) - psi(alpha) + logs
        q, z = -polygamma(1, alpha), polygamma(1, alpha.sum())
        step = -(slope - (slope / q).sum() / (1 / z + (1 / q).sum())) / q
        size = 1.0
        while size > 1e-6:
            new = alpha + size * step
            new_height = _likelihood(new, logs) if (new > 0).all() else -np.inf
            if new_height >= height:
                break
            size /= 2
        else:
            break
        converged = np.abs(new - alpha).max() <= _ACCURACY * alpha.max()
        alpha, height = new, new_height
        if converged or alpha.sum() >= _LARGEST_SUM:
            break
    return np.asarray(alpha * min(1.0, _LARGEST_SUM / alpha.sum()))


def _likelihood(alpha: FloatArray, logs: FloatArray) -> float:
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + ((alpha - 1) * logs).sum())
