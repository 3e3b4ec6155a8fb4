"""A discrete density for coded columns: independent categorical draws, one per column or per one-hot coded column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from intarsia.core.densities.base import Clustered, Density, Family, Parts, is_bounded
from intarsia.core.distances import LARGEST
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, SettingError, quote

MOST_CODES = 50  # different values of a coded column
MOST_OUTCOMES = 10_000  # of a block in a message


@dataclass(frozen=True)
class Block:
    """Features that are drawn together: outcome k (row k of ``outcomes``, a value per feature) with probability k."""

    columns: IntArray
    outcomes: FloatArray
    probabilities: FloatArray

    @property
    def n_parameters(self) -> int:
        """The number of parameters: a probability per level, or the codes of a column and all but one probability."""
        return len(self.columns) if len(self.columns) > 1 else 2 * len(self.outcomes) - 1


@dataclass(frozen=True)
class Discrete:
    """A product of independent blocks; each feature is in one block."""

    blocks: tuple[Block, ...]

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(len(block.columns) for block in self.blocks)

    @property
    def mean(self) -> FloatArray:
        """The mean of each feature: Σ p v."""
        mean = np.empty(self.n_features)
        for block in self.blocks:
            mean[block.columns] = block.probabilities @ block.outcomes
        return mean

    @property
    def variances(self) -> FloatArray:
        """The variance of each feature: Σ p (v − mean)²."""
        variances, mean = np.empty(self.n_features), self.mean
        for block in self.blocks:
            variances[block.columns] = block.probabilities @ np.square(block.outcomes - mean[block.columns])
        return variances

    @property
    def n_parameters(self) -> int:
        """The number of parameters."""
        return sum(block.n_parameters for block in self.blocks)

    @property
    def n_outcomes(self) -> float:
        """The number of different rows that can be drawn; inf if too many to count."""
        return math.prod(float(len(block.outcomes)) for block in self.blocks)

    def marginal(self, features: BoolArray) -> Discrete:
        """Return the density of the features selected by a mask; a level whose feature is not selected becomes no level."""
        new = np.cumsum(features) - 1
        blocks = []
        for block in self.blocks:
            kept = features[block.columns]
            if kept.any():
                outcomes, which = np.unique(block.outcomes[:, kept], axis=0, return_inverse=True)
                probabilities = np.zeros(len(outcomes))
                np.add.at(probabilities, which.reshape(-1), block.probabilities)
                blocks.append(Block(new[block.columns[kept]], outcomes, probabilities))
        return Discrete(tuple(blocks))

    def placed(self, at: IntArray, width: int) -> Discrete:
        """Return the density over ``width`` features: its features at positions ``at``, the others constant at 0."""
        moved = tuple(Block(at[block.columns], block.outcomes, block.probabilities) for block in self.blocks)
        rest = np.setdiff1d(np.arange(width), at)
        zeros = Block(rest, np.zeros((1, len(rest))), np.ones(1))
        return Discrete((*moved, zeros) if len(rest) else moved)

    def in_units(self, shift: FloatArray, scale: FloatArray) -> Discrete:
        """Return the density of (x − shift) / scale."""
        return Discrete(
            tuple(
                Block(b.columns, (b.outcomes - shift[b.columns]) / scale[b.columns], b.probabilities)
                for b in self.blocks
            )
        )

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points."""
        points = np.empty((n, self.n_features))
        for block in self.blocks:
            drawn = rng.choice(len(block.outcomes), size=n, p=block.probabilities)
            points[:, block.columns] = block.outcomes[drawn]
        return points


class _Codes:
    """How often each value of a coded column occurs."""

    def __init__(self, column: int) -> None:
        self.columns = np.array([column], dtype=np.intp)
        self._counts: Counter[float] = Counter()

    @property
    def is_coded(self) -> bool:
        return len(self._counts) <= MOST_CODES

    def add(self, cells: FloatArray, observed: FloatArray | None) -> None:
        if self.is_coded:  # otherwise the column is refused, however often its values occur
            values = cells[0] if observed is None else cells[0, observed[0] > 0]
            codes, times = np.unique(values, return_counts=True)
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
        self._not_binary = np.zeros(len(columns), dtype=np.bool_)
        self._n_rows = self._n_several = 0

    def add(self, cells: FloatArray, observed: FloatArray | None) -> None:
        cells = cells if observed is None else cells[:, (observed > 0).all(axis=0)]
        ones = cells == 1
        self._n_rows += cells.shape[1]
        self._n_several += int((ones.sum(axis=0) > 1).sum())
        self._times += ones.sum(axis=1)
        self._not_binary |= ((cells != 0) & ~ones).any(axis=1)

    def block(self) -> Block:
        """Return the block: no level first, then the levels from the last to the first, without those that never occur."""
        outcomes = np.vstack([np.zeros(len(self.columns)), np.eye(len(self.columns))[::-1]])
        times = np.append(self._n_rows - self._times.sum(), self._times[::-1])
        return Block(self.columns, outcomes[times > 0], times[times > 0] / self._n_rows)

    def refuse(self, names: Sequence[str]) -> None:
        """Raise a DensityError if the column is not one-hot coded."""
        if self._n_rows and not self._not_binary.any() and not self._n_several:
            return
        if not self._n_rows:
            seen = f"no row has a value in all {len(self.columns)} features"
        elif self._not_binary.any():
            strange = quote(names[m] for m in self.columns[self._not_binary])
            seen = f"{self._not_binary.sum()} of its {len(self.columns)} features have other values ({strange})"
        else:
            seen = f"{self._n_several} of {self._n_rows} rows have more than one 1"
        raise DensityError(
            f"the column {self.name!r} is not one-hot coded, which needs values of 0 and 1 and at most one 1 per row: "
            f"{seen}. Hint: pass its features as columns of codes."
        )


@dataclass(frozen=True)
class DiscreteFamily(Family):
    """Frequencies of every code, and of every level of a one-hot coded column ("no level" is one more).

    Nothing is smoothed: a proxy with a code that no row has would represent nobody, and forces, unlike likelihoods, need no
    positive probability. Missing values are ignored, column by column.
    """

    name: ClassVar[str] = "discrete"
    parts: ClassVar[dict[str, str]] = {
        "columns": "features that are drawn together, block after block",
        "widths": "the number of features of each block",
        "lengths": "the number of outcomes of each block",
        "outcomes": "values that occur in a local cluster, or levels",
        "probabilities": "how often each outcome occurs in a local cluster",
    }
    exact_cells: ClassVar[bool] = True
    tells_of_single_rows: ClassVar[bool] = True

    def fit(self, clusters: Clustered, density: str) -> list[Density]:
        """Count the outcomes of each cluster in one pass."""
        del density
        _check_categories(clusters)
        counters: list[list[_Codes | _Levels]] = []
        for k in range(len(clusters.sizes)):
            categories = clusters.released_categories(k)
            grouped = np.concatenate([np.zeros(0, dtype=np.intp), *categories.values()])
            single = np.setdiff1d(np.arange(len(clusters.released_names(k))), grouped).tolist()
            counters.append([*(_Codes(m) for m in single), *(_Levels(*item) for item in categories.items())])
        for k, cells, observed in clusters.released_parts():
            for counter in counters[k]:
                at = counter.columns
                counter.add(cells[at], None if observed is None else observed[at])
        for k, of_cluster in enumerate(counters):
            _refuse(of_cluster, clusters.released_names(k))
        return [Discrete(tuple(counter.block() for counter in of_cluster)) for of_cluster in counters]

    def to_parts(self, density: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the blocks one after the other, each array flat."""
        blocks = density.blocks
        return {
            "columns": _flat([block.columns for block in blocks], np.intp),
            "widths": np.array([len(block.columns) for block in blocks], dtype=np.intp),
            "lengths": np.array([len(block.outcomes) for block in blocks], dtype=np.intp),
            "outcomes": _flat([block.outcomes for block in blocks], np.float64),
            "probabilities": _flat([block.probabilities for block in blocks], np.float64),
        }

    def from_parts(self, parts: Parts, mean: FloatArray) -> Density:
        """Return the density; its mean follows from the outcomes."""
        del mean
        widths, lengths = parts["widths"], parts["lengths"]
        split = zip(
            widths.tolist(),
            _split(parts["columns"], widths),
            _split(parts["outcomes"], widths * lengths),
            _split(parts["probabilities"], lengths),
            strict=True,
        )
        return Discrete(tuple(Block(columns, outcomes.reshape(-1, w), share) for w, columns, outcomes, share in split))

    def problem(self, parts: Parts, n_features: int) -> str | None:
        """Return what is wrong with the blocks."""
        if problem := _shape_problem(parts, n_features):
            return problem
        if not np.array_equal(np.sort(parts["columns"]), np.arange(n_features)):
            return "a discrete density of other columns"
        outcomes, probabilities = parts["outcomes"], parts["probabilities"]
        if not is_bounded(outcomes, LARGEST) or not is_bounded(probabilities, 1.0) or (probabilities < 0).any():
            return "a discrete density with outcomes that are too large or probabilities outside 0 to 1"
        totals = np.array([share.sum() for share in _split(probabilities, parts["lengths"])])
        return "probabilities that do not add up to 1" if (np.abs(totals - 1.0) > 1e-9).any() else None

    def fewest_rows(self, parts: Parts, size: int, fewest_values: int) -> int:
        """Return the number of rows with the rarest outcome."""
        del fewest_values
        shares = parts["probabilities"]
        shares = shares[(shares > 0) & (shares <= 1)] if shares.dtype.kind == "f" else np.ones(0)
        return max(1, round(float(shares.min(initial=1.0)) * size))


def _shape_problem(parts: Parts, n_features: int) -> str | None:
    """Return what is wrong with the lengths of the arrays in a message."""
    wrong = "a discrete density of the wrong shape"
    columns, widths, lengths = parts["columns"], parts["widths"], parts["lengths"]
    if any(part.ndim != 1 for part in parts.values()) or len(widths) != len(lengths):
        return wrong
    if any(part.dtype.kind != "i" for part in (columns, widths, lengths)):
        return wrong
    if ((widths < 1) | (widths > n_features)).any() or ((lengths < 1) | (lengths > MOST_OUTCOMES)).any():
        return "a discrete density with an empty block, or with too many outcomes"
    sizes = (int(widths.sum()), int((widths * lengths).sum()), int(lengths.sum()))
    return None if (len(columns), len(parts["outcomes"]), len(parts["probabilities"])) == sizes else wrong


def _check_categories(clusters: Clustered) -> None:
    """Refuse features of categories that do not exist, or that belong to two of them."""
    n_features = len(clusters.names)
    grouped = np.concatenate([np.zeros(0, dtype=np.intp), *clusters.categories.values()])
    if np.unique(grouped).size < grouped.size or not ((grouped >= 0) & (grouped < n_features)).all():
        raise SettingError(
            f"categories must be lists of feature numbers from 0 to {n_features - 1}, each number at most once. "
            f"Got {grouped.size} numbers, {np.unique(grouped).size} of them different."
        )


def _refuse(counters: Sequence[_Codes | _Levels], names: Sequence[str]) -> None:
    """Raise a DensityError if a column is neither coded nor one-hot coded."""
    many = [int(counter.columns[0]) for counter in counters if isinstance(counter, _Codes) and not counter.is_coded]
    if many:
        raise DensityError(
            f"the density 'discrete' needs codes: columns with at most {MOST_CODES} different values. Here, {len(many)} of "
            f"{len(names)} columns have more: {quote(names[k] for k in many)}. "
            "Hint: use density='gaussian', or group the values of such columns into a few classes."
        )
    for counter in counters:
        if isinstance(counter, _Levels):
            counter.refuse(names)


def _flat(arrays: Sequence[npt.NDArray[Any]], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=dtype), *(array.ravel() for array in arrays)])


def _split(values: npt.NDArray[Any], lengths: IntArray) -> list[npt.NDArray[Any]]:
    ends = np.cumsum(lengths)
    return [values[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
