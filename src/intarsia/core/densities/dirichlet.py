"""A Dirichlet density for compositions: rows of non-negative shares of one total, such as 1 or 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, polygamma, psi

from intarsia.core.densities.base import Clustered, Density, Family, Parts, is_bounded
from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, quote

_TOLERANCE = 0.01  # of the total: rounded percentages need not add up to 100
_LARGEST_SUM = 1e6  # of alpha, which would be infinite for equal rows
_LARGEST_ALPHA = 1e9  # in a message
_STEPS = 100
_ACCURACY = 1e-10  # relative change of alpha


@dataclass(frozen=True)
class Dirichlet:
    """total · Dirichlet(alpha), restricted to the components ``kept``, as (x − shift) / scale.

    A component with alpha 0 is always 0.
    """

    alpha: FloatArray
    total: float
    kept: IntArray
    shift: FloatArray
    scale: FloatArray

    n_outcomes = None

    @classmethod
    def of(cls, alpha: FloatArray, total: float = 1.0) -> Dirichlet:
        """Return the density of all components, in the units of the total."""
        d = len(alpha)
        return cls(np.asarray(alpha, dtype=np.float64), total, np.arange(d), np.zeros(d), np.ones(d))

    @property
    def mean(self) -> FloatArray:
        """The mean of each feature: total · α / Σα."""
        return np.asarray((self.total * self._shares - self.shift) / self.scale)

    @property
    def variances(self) -> FloatArray:
        """The variance of each feature: total² · m (1 − m) / (Σα + 1) for mean shares m."""
        spread = self._shares * (1 - self._shares) / (self.alpha.sum() + 1)
        return np.asarray(np.square(self.total / self.scale) * spread)

    @property
    def _shares(self) -> FloatArray:
        return np.asarray(self.alpha[self.kept] / self.alpha.sum())

    @property
    def n_parameters(self) -> int:
        """The number of parameters: one per component, and the total."""
        return len(self.alpha) + 1

    def marginal(self, features: BoolArray) -> Dirichlet:
        """Return the density of the features selected by a mask; the other components still take their share."""
        return Dirichlet(self.alpha, self.total, self.kept[features], self.shift[features], self.scale[features])

    def placed(self, at: IntArray, width: int) -> Dirichlet:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        kept, shift, scale = np.full(width, len(self.alpha)), np.zeros(width), np.ones(width)
        kept[at], shift[at], scale[at] = self.kept, self.shift, self.scale
        return Dirichlet(np.append(self.alpha, 0.0), self.total, kept, shift, scale)

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Dirichlet:
        """Return the density of (x − shift) / scale."""
        return Dirichlet(self.alpha, self.total, self.kept, self.shift + self.scale * shift, self.scale * scale)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points: all components are drawn, then the kept ones returned."""
        shares = np.zeros((n, len(self.alpha)))
        occurs = self.alpha > 0
        shares[:, occurs] = rng.dirichlet(self.alpha[occurs], size=n)
        return np.asarray((self.total * shares[:, self.kept] - self.shift) / self.scale)


@dataclass(frozen=True)
class DirichletFamily(Family):
    """Maximum-likelihood Dirichlet densities of rows that add up to the same total (within 1 %; it is their median).

    A zero has no likelihood. It becomes half of the smallest positive share of its component, and the row is divided by its
    sum again, which keeps the ratios of its other components (as in Martín-Fernández et al. 2003). A component that is
    always zero gets alpha 0. Rows that hardly differ would have infinite alpha: the sum of alpha is at most a million.

    ``n_totals`` bounds the totals that are held in memory for the median of a cluster; beyond it, every second is dropped.
    """

    name: ClassVar[str] = "dirichlet"
    parts: ClassVar[dict[str, str]] = {
        "alpha": "parameters of a Dirichlet distribution for each local cluster",
        "total": "the total of the shares",
    }
    takes_categories: ClassVar[bool] = False
    exact_cells: ClassVar[bool] = True

    n_totals: int = 1 << 21  # 16 MiB for each cluster

    def fit(self, clusters: Clustered, density: str) -> list[Density]:
        """Fit a Dirichlet density to each cluster in two passes: smallest shares and totals, then means of logarithms."""
        del density
        compositions = _compositions(clusters, self.n_totals)
        for composition in compositions:
            composition.refuse_cells()
        shares = _share_sums(clusters, compositions)
        for composition in compositions:
            composition.refuse_totals()
        return [
            composition.density(sums, int(n))
            for composition, sums, n in zip(compositions, shares, clusters.sizes, strict=True)
        ]

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return alpha and the total."""
        return {"alpha": density.alpha, "total": np.array(float(density.total))}

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density; its mean follows from alpha."""
        del mean
        return Dirichlet.of(parts["alpha"], float(parts["total"]))

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with alpha or the total."""
        alpha, total = parts["alpha"], parts["total"]
        if alpha.shape != (n_features,) or total.shape != ():
            return "a Dirichlet density of the wrong shape"
        if not is_bounded(alpha, _LARGEST_ALPHA) or (alpha < 0).any() or not alpha.any():
            return "a Dirichlet density with an alpha that is negative, too large or zero"
        return None if is_bounded(total, LARGEST) and total > 0 else "a Dirichlet density without a positive total"


class _ShareSums(NamedTuple):
    """Sums over the rows of a cluster, for each component that occurs: shares and their squares around a point near the
    mean, and logarithms of shares.
    """

    origin: FloatArray
    shares: FloatArray
    squares: FloatArray
    logs: FloatArray


class _Composition:
    """The rows of one cluster as a composition: their usual total, the smallest share of each component, and problems."""

    def __init__(self, names: Sequence[str], n_totals: int) -> None:
        self._names, self._n_totals = names, n_totals
        self._n_rows = self._n_off = 0
        self._stride, self._totals = 1, list[FloatArray]()
        self._rows = {"a missing value": 0, "a value below 0": 0}
        self._columns = {problem: np.zeros(len(names), dtype=np.bool_) for problem in self._rows}
        self.smallest = np.full(len(names), np.inf)

    def add(self, cells: FloatArray, observed: FloatArray | None) -> None:
        """Look at more rows: totals, smallest shares, missing and negative values."""
        n, totals = cells.shape[1], cells.sum(axis=0)
        missing = np.zeros(cells.shape, dtype=np.bool_) if observed is None else observed == 0
        for problem, wrong in zip(self._rows, (missing, (cells < 0) & ~missing), strict=True):
            self._rows[problem] += int(wrong.any(axis=0).sum())
            self._columns[problem] |= wrong.any(axis=1)
        self._totals.append(totals[-self._n_rows % self._stride :: self._stride])
        self._n_rows += n
        while self._n_rows // self._stride > self._n_totals:
            self._totals, self._stride = [np.concatenate(self._totals)[::2]], 2 * self._stride
        shares = np.where(cells > 0, cells / np.maximum(totals, 1e-300), np.inf)
        self.smallest = np.minimum(self.smallest, shares.min(axis=1, initial=np.inf))

    @cached_property
    def total(self) -> float:
        """The median of the totals, after all rows were added."""
        return float(np.median(np.concatenate(self._totals)))

    def add_totals(self, totals: FloatArray) -> None:
        """Count totals that differ from the median."""
        usual = self.total
        self._n_off += int((~(np.abs(totals - usual) <= _TOLERANCE * usual) | (usual <= 0)).sum())

    def refuse_cells(self) -> None:
        """Raise a DensityError if a value is missing or negative."""
        problems = [self._where(problem) for problem, n in self._rows.items() if n]
        if problems:
            raise _no_composition("; ".join(problems))

    def refuse_totals(self) -> None:
        """Raise a DensityError if rows have different totals."""
        if self._n_off:
            raise _no_composition(
                f"{self._n_off} of {self._n_rows} rows do not add up to the usual total of a row, or add up to 0"
            )

    def density(self, sums: _ShareSums, n: int) -> Dirichlet:
        """Return the density of maximum likelihood."""
        n = max(n, 1)
        near = sums.shares / n
        spread = float(np.maximum(sums.squares / n - np.square(near), 0.0).sum())
        alpha = np.zeros(len(self._names))
        alpha[np.isfinite(self.smallest)] = maximum_likelihood(sums.origin + near, sums.logs / n, spread)
        return Dirichlet.of(alpha, self.total)

    def _where(self, problem: str) -> str:
        columns = np.flatnonzero(self._columns[problem])
        return (
            f"{self._rows[problem]} of {self._n_rows} rows have {problem} "
            f"(in {len(columns)} of {len(self._names)} columns: {quote(self._names[int(k)] for k in columns)})"
        )


def _no_composition(seen: str) -> DensityError:
    return DensityError(
        "the density 'dirichlet' needs compositions: rows without missing values and without values below 0 that all add "
        f"up to the same total (within 1 %). Here, {seen}. Hint: use density='gaussian', or check that the table holds all "
        "components of the composition, divided by the total of the row."
    )


def _compositions(clusters: Clustered, n_totals: int) -> list[_Composition]:
    compositions = [_Composition(clusters.released_names(k), n_totals) for k in range(len(clusters.sizes))]
    for k, cells, observed in clusters.released_parts():
        compositions[k].add(cells, observed)
    return compositions


def _share_sums(clusters: Clustered, compositions: Sequence[_Composition]) -> list[_ShareSums]:
    """Sum shares, their squares and logarithms over the rows of each cluster, and count unusual totals."""
    sums = []
    for k, composition in enumerate(compositions):
        occurs = np.isfinite(composition.smallest)
        centroid = clusters.released.values[k, clusters.released.seen[k]][occurs]
        sums.append(_ShareSums(centroid / max(centroid.sum(), 1e-300), *np.zeros((3, len(centroid)))))
    for k, cells, _ in clusters.released_parts():
        totals, smallest = cells.sum(axis=0), compositions[k].smallest
        compositions[k].add_totals(totals)
        occurs = np.isfinite(smallest)
        shares = (cells / np.maximum(totals, 1e-300))[occurs]
        shares = np.where(shares > 0, shares, smallest[occurs][:, None] / 2)
        shares /= shares.sum(axis=0)
        origin, total, squares, logs = sums[k]
        logs += np.log(shares).sum(axis=1)
        shares -= origin[:, None]
        total += shares.sum(axis=1)
        squares += np.square(shares).sum(axis=1)
    return sums


def maximum_likelihood(mean: FloatArray, logs: FloatArray, spread: float) -> FloatArray:
    """Return alpha from the mean shares, the means of their logarithms and the sum of their variances.

    Newton's method (Minka 2000, Estimating a Dirichlet distribution): the likelihood is concave, its Hessian a diagonal
    plus a constant. Steps are halved until the likelihood grows.
    """
    if len(mean) == 1:
        return np.ones(1)
    start = (mean * (1 - mean)).sum() / spread - 1 if spread > 0 else np.inf
    alpha = mean * np.clip(start, 1e-2, _LARGEST_SUM)
    height = _likelihood(alpha, logs)
    for _ in range(_STEPS):
        step = _newton_step(alpha, logs)
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
        if alpha.sum() >= _LARGEST_SUM:
            return np.asarray(alpha * (_LARGEST_SUM / alpha.sum()))
        if converged:
            break
    return np.asarray(alpha)


def _newton_step(alpha: FloatArray, logs: FloatArray) -> FloatArray:
    slope = psi(alpha.sum()) - psi(alpha) + logs
    q, z = -polygamma(1, alpha), polygamma(1, alpha.sum())
    return np.asarray(-(slope - (slope / q).sum() / (1 / z + (1 / q).sum())) / q)


def _likelihood(alpha: FloatArray, logs: FloatArray) -> float:
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + ((alpha - 1) * logs).sum())
