"""A Dirichlet density for rows of shares: non-negative parts of one total, such as 1 or 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, polygamma, psi

from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, quote

_STRAYS = ("an empty cell", "a cell below 0")
_TOLERANCE = 0.01  # of the total: percentages that were rounded need not add up to 100
_LARGEST = 1e6  # the sum of alpha; equal rows would have it infinite
_STEPS = 100
_ACCURATE = 1e-10  # relative change of alpha


@dataclass(frozen=True)
class Dirichlet:
    """total · Dirichlet(alpha), of which the parts ``kept`` are looked at, as (x − shift) / scale.

    A part with alpha 0 never occurs.
    """

    alpha: FloatArray
    total: float
    kept: IntArray
    shift: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, alpha: FloatArray, total: float = 1.0) -> Dirichlet:
        """All parts, in the units of the total."""
        d = len(alpha)
        return cls(np.asarray(alpha, dtype=np.float64), total, np.arange(d), np.zeros(d), np.ones(d))

    @property
    def mean(self) -> FloatArray:
        """Total · α / Σα."""
        return np.asarray((self.total * self._shares - self.shift) / self.scale)

    @property
    def variances(self) -> FloatArray:
        """Total² · m (1 − m) / (Σα + 1) for mean shares m."""
        spread = self._shares * (1 - self._shares) / (self.alpha.sum() + 1)
        return np.asarray(np.square(self.total / self.scale) * spread)

    @property
    def _shares(self) -> FloatArray:
        return np.asarray(self.alpha[self.kept] / self.alpha.sum())

    @property
    def n_parameters(self) -> int:
        """How many numbers describe it: one per part, and the total."""
        return len(self.alpha) + 1

    def on(self, features: BoolArray) -> Dirichlet:
        """The marginal over some of its features; the other parts still take their share."""
        return Dirichlet(self.alpha, self.total, self.kept[features], self.shift[features], self.scale[features])

    def placed(self, at: IntArray, width: int) -> Dirichlet:
        """The density over more features, its own at these places, the others always 0: a part that never occurs."""
        kept, shift, scale = np.full(width, len(self.alpha)), np.zeros(width), np.ones(width)
        kept[at], shift[at], scale[at] = self.kept, self.shift, self.scale
        return Dirichlet(np.append(self.alpha, 0.0), self.total, kept, shift, scale)

    def scaled(self, shift: FloatArray, scale: FloatArray) -> Dirichlet:
        """The density of (x − shift) / scale."""
        return Dirichlet(self.alpha, self.total, self.kept, self.shift + self.scale * shift, self.scale * scale)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N points from it: all parts are drawn, then some are looked at."""
        shares = np.zeros((n, len(self.alpha)))
        occurs = self.alpha > 0
        shares[:, occurs] = rng.dirichlet(self.alpha[occurs], size=n)
        return np.asarray((self.total * shares[:, self.kept] - self.shift) / self.scale)


def fit_dirichlet(rows: FloatArray, observed: BoolArray, names: Sequence[object]) -> Dirichlet:
    """The maximum-likelihood Dirichlet of rows that add up to the same total (to within 1 %; it is their median).

    A zero has no likelihood. It becomes half of the smallest positive share of its part, and the row is closed again, which
    leaves the ratios of its other parts alone (as in Martín-Fernández et al. 2003). A part that is always zero gets alpha 0.
    Rows that hardly differ would have infinite alpha: their sum ends at a million.
    """
    total = _total(rows, observed, names)
    shares = rows / rows.sum(axis=1, keepdims=True)
    occurs = (rows > 0).any(axis=0)
    alpha = np.zeros(rows.shape[1])
    filled = _without_zeros(shares[:, occurs])
    alpha[occurs] = maximum_likelihood(
        filled.mean(axis=0), np.log(filled).mean(axis=0), float(filled.var(axis=0).sum())
    )
    return Dirichlet.of(alpha, total)


def _total(rows: FloatArray, observed: BoolArray, names: Sequence[object]) -> float:
    total = float(np.median(np.where(observed, rows, 0.0).sum(axis=1)))
    found = Strays(names)
    found.look(rows, observed, total)
    found.refuse()
    return total


class Strays:
    """Rows that are no compositions: how many, of how many, and in which columns."""

    def __init__(self, names: Sequence[object]) -> None:
        self._names = names
        self._n = self._off = 0
        self._rows = dict.fromkeys(_STRAYS, 0)
        self._columns = {what: np.zeros(len(names), dtype=np.bool_) for what in _STRAYS}

    def look(self, rows: FloatArray, observed: BoolArray, total: float) -> None:
        """At some more rows."""
        self._n += len(rows)
        for what, cells in zip(_STRAYS, (~observed, observed & (rows < 0)), strict=True):
            self._rows[what] += int(cells.any(axis=1).sum())
            self._columns[what] |= cells.any(axis=0)
        sums = np.where(observed, rows, 0.0).sum(axis=1)
        self._off += int((~(np.abs(sums - total) <= _TOLERANCE * total) | (total <= 0)).sum())

    def refuse(self) -> None:
        """Say so if there are any."""
        seen = [self._where(what) for what, n in self._rows.items() if n]
        if not seen and self._off:
            seen.append(f"{self._off} of {self._n} rows do not add up to the usual total of a row, or add up to 0")
        if seen:
            raise DensityError(
                "the density 'dirichlet' needs compositions: rows without empty cells, without cells below 0, that all add "
                f"up to the same total (to within 1 %). Here, {'; '.join(seen)}. "
                "Try density='gaussian', or see that the table has all parts of the composition, divided by the row's total."
            )

    def _where(self, what: str) -> str:
        columns = np.flatnonzero(self._columns[what])
        return (
            f"{self._rows[what]} of {self._n} rows have {what} "
            f"(in {len(columns)} of {len(self._names)} columns: {quote(self._names[int(k)] for k in columns)})"
        )


def _without_zeros(shares: FloatArray) -> FloatArray:
    smallest = np.where(shares > 0, shares, np.inf).min(axis=0)
    filled = np.where(shares > 0, shares, smallest / 2)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))


def maximum_likelihood(mean: FloatArray, logs: FloatArray, spread: float) -> FloatArray:
    """Alpha from the mean shares, the means of their logarithms and the sum of their variances.

    Newton's method (Minka 2000, Estimating a Dirichlet distribution): the likelihood is concave, its Hessian a diagonal
    plus a constant. Steps are halved until they climb.
    """
    if len(mean) == 1:
        return np.ones(1)
    start = (mean * (1 - mean)).sum() / spread - 1 if spread > 0 else np.inf
    alpha = mean * np.clip(start, 1e-2, _LARGEST)
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
        done = np.abs(new - alpha).max() <= _ACCURATE * alpha.max()
        alpha, height = new, new_height
        if alpha.sum() >= _LARGEST:
            return np.asarray(alpha * (_LARGEST / alpha.sum()))
        if done:
            break
    return np.asarray(alpha)


def _likelihood(alpha: FloatArray, logs: FloatArray) -> float:
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + ((alpha - 1) * logs).sum())
