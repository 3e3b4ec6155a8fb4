"""A discrete density for coded columns: independent categorical draws, one per column or per one-hot coded column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.core.densities.base import Clustered, Density, Family, Movable, Parts, is_bounded, rows_in_words
from intarsia.core.distances import LARGEST
from intarsia.core.types import FloatArray, IntArray
from intarsia.exceptions import DensityError, quote

MOST_CODES = 50  # different values of a coded column
_MOST_OUTCOMES = 10_000  # of a block in a message


class Block(NamedTuple):
    """Features that are drawn together: outcome k (row k of ``outcomes``, a value per feature) with probability k."""

    columns: IntArray
    outcomes: FloatArray
    probabilities: FloatArray


@dataclass(frozen=True)
class Discrete(Movable):
    """A product of independent blocks; each feature is in one block."""

    blocks: tuple[Block, ...]

    @property
    def mean(self) -> FloatArray:
        """The mean of each feature: Σ p v."""
        mean = np.empty(sum(len(block.columns) for block in self.blocks))
        for columns, outcomes, probabilities in self.blocks:
            mean[columns] = probabilities @ outcomes
        return mean

    @property
    def variances(self) -> FloatArray:
        """The variance of each feature: Σ p (v − mean)²."""
        mean = self.mean
        variances = np.empty(len(mean))
        for columns, outcomes, probabilities in self.blocks:
            variances[columns] = probabilities @ np.square(outcomes - mean[columns])
        return variances

    @property
    def n_outcomes(self) -> float:  # type: ignore[override]
        """The number of different rows that can be drawn; inf if too many to count."""
        return math.prod(float(len(block.outcomes)) for block in self.blocks)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""
        points = np.empty((n, len(self.mean)))
        for columns, outcomes, probabilities in self.blocks:
            points[:, columns] = outcomes[rng.choice(len(outcomes), size=n, p=probabilities)]
        return points


@dataclass(frozen=True)
class DiscreteFamily(Family):
    """Frequencies of every code, and of every level of a one-hot coded column ("no level" is one more).

    Frequencies are of maximum likelihood, with or without ``shrink``. Nothing is smoothed: a proxy with a code that no row
    has would represent nobody, and forces, unlike likelihoods, need no positive probability. Missing values are ignored,
    column by column.
    """

    name: ClassVar[str] = "discrete"
    densities: ClassVar[tuple[str, ...]] = ("discrete",)
    parts: ClassVar[dict[str, str]] = {
        "columns": "features that are drawn together, block after block",
        "widths": "the number of features of each block",
        "lengths": "the number of outcomes of each block",
        "outcomes": "values that occur in a local cluster, or levels",
        "probabilities": "how often each outcome occurs in a local cluster",
    }
    exact_cells: ClassVar[bool] = True
    tells_of_single_rows: ClassVar[bool] = True

    def fit(self, clusters: Clustered, density: str, *, shrink: bool = True) -> list[Density]:
        """Count the outcomes of each cluster in one pass."""
        del density, shrink
        counters: list[list[_Codes | _Levels]] = []
        for k in range(len(clusters.sizes)):
            names, categories = clusters.released_names(k), clusters.released_categories(k)
            single = set(range(len(names))) - {int(m) for at in categories.values() for m in at}
            of_levels = [_Levels(column, at) for column, at in categories.items()]
            counters.append([*(_Codes(names[m], m) for m in sorted(single)), *of_levels])
        for k, cells, observed in clusters.released_parts():
            for counter in counters[k]:
                at = counter.columns
                counter.add(cells[at] if observed is None else cells[at][:, (observed[at] > 0).all(axis=0)])
        for of_cluster in counters:
            _refuse_values(of_cluster)
        return [Discrete(tuple(counter.block() for counter in of_cluster)) for of_cluster in counters]

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the blocks one after the other, each array flat."""
        columns, outcomes, probabilities = zip(*density.blocks, strict=True) if density.blocks else ((), (), ())
        return {
            "columns": np.concatenate([np.zeros(0, dtype=np.intp), *columns]),
            "widths": np.array([len(block) for block in columns], dtype=np.intp),
            "lengths": np.array([len(block) for block in outcomes], dtype=np.intp),
            "outcomes": np.concatenate([np.zeros(0), *(block.ravel() for block in outcomes)]),
            "probabilities": np.concatenate([np.zeros(0), *probabilities]),
        }

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density; its mean follows from the outcomes."""
        del mean
        widths, lengths = parts["widths"], parts["lengths"]
        columns = _split(parts["columns"], widths)
        outcomes = [
            block.reshape(-1, w) for block, w in zip(_split(parts["outcomes"], widths * lengths), widths, strict=True)
        ]
        return Discrete(tuple(map(Block, columns, outcomes, _split(parts["probabilities"], lengths))))

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with the blocks."""
        columns, widths, lengths, outcomes, probabilities = (parts[name] for name in self.parts)
        flat = all(part.ndim == 1 for part in parts.values()) and len(widths) == len(lengths)
        if not flat or any(part.dtype.kind != "i" for part in (columns, widths, lengths)):
            return "a discrete density of the wrong shape"
        if ((widths < 1) | (widths > n_features) | (lengths < 1) | (lengths > _MOST_OUTCOMES)).any():
            return "a discrete density with an empty block, or with too many outcomes"
        sizes = [int(n.sum()) for n in (widths, widths * lengths, lengths)]
        if sizes != [len(columns), len(outcomes), len(probabilities)]:
            return "a discrete density of the wrong shape"
        if not np.array_equal(np.sort(columns), np.arange(n_features)):
            return "a discrete density of other columns"
        valid = is_bounded(outcomes, LARGEST) and is_bounded(probabilities, 1.0) and (probabilities >= 0).all()
        totals = np.array([share.sum() for share in _split(probabilities, lengths)])
        fits = valid and (np.abs(totals - 1.0) <= 1e-9).all()
        return (
            None
            if fits
            else "a discrete density with values that are too large, or probabilities that do not add up to 1"
        )

    def fewest_rows(self, parts: Parts, size: int, fewest_values: int) -> int:
        """Return the number of rows with the rarest outcome."""
        del fewest_values
        shares = parts["probabilities"]
        shares = shares[(shares > 0) & (shares <= 1)] if shares.dtype.kind == "f" else np.ones(0)
        return max(1, round(float(shares.min(initial=1.0)) * size))


def _split(values: npt.NDArray[Any], lengths: IntArray) -> list[npt.NDArray[Any]]:
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


class _Codes:
    """How often each value of a coded column occurs."""

    def __init__(self, name: str, column: int) -> None:
        self.name, self.columns = name, np.array([column])
        self._counts: Counter[float] = Counter()

    @property
    def is_coded(self) -> bool:
        return len(self._counts) <= MOST_CODES

    def add(self, cells: FloatArray) -> None:
        if self.is_coded:  # otherwise the column is refused, however often its values occur
            codes, times = np.unique(cells, return_counts=True)
            self._counts.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))

    def block(self) -> Block:
        codes = sorted(self._counts)
        times = np.array([self._counts[code] for code in codes], dtype=np.float64)
        return Block(self.columns, np.array(codes).reshape(-1, 1), times / max(times.sum(), 1.0))


class _Levels:
    """How often each level of a one-hot coded column occurs, in rows where all of its features are observed."""

    def __init__(self, name: str, columns: IntArray) -> None:
        self.name, self.columns = name, columns
        self._times = np.zeros(len(columns), dtype=np.intp)
        self._n_rows = self._n_wrong = 0

    def add(self, cells: FloatArray) -> None:
        ones = cells == 1
        self._times += ones.sum(axis=1)
        self._n_rows += cells.shape[1]
        self._n_wrong += int((((cells != 0) & ~ones).any(axis=0) | (ones.sum(axis=0) > 1)).sum())

    def block(self) -> Block:
        """Return the block: no level first, then the levels from the last to the first, without those that never occur."""
        if self._n_wrong or not self._n_rows:
            who = rows_in_words(self._n_wrong, self._n_rows)
            raise DensityError(
                f"the column {self.name!r} is not one-hot coded, which needs values of 0 and 1 and at most one 1 per row: "
                f"{who} without missing values are different. Hint: pass its features as "
                "columns of codes."
            )
        outcomes = np.vstack([np.zeros(len(self.columns)), np.eye(len(self.columns))[::-1]])
        times = np.append(self._n_rows - self._times.sum(), self._times[::-1])
        return Block(self.columns, outcomes[times > 0], times[times > 0] / self._n_rows)


def _refuse_values(counters: Sequence[_Codes | _Levels]) -> None:
    """Raise a DensityError if columns have too many different values."""
    many = [counter.name for counter in counters if isinstance(counter, _Codes) and not counter.is_coded]
    if many:
        n_columns = sum(len(counter.columns) for counter in counters)
        raise DensityError(
            f"the density 'discrete' needs codes: columns with at most {MOST_CODES} different values. Here, {len(many)} of "
            f"{n_columns} columns have more: {quote(many)}. Hint: use density='gaussian', or group the values of such "
            "columns into a few classes."
        )
