"""A discrete density for coded columns: independent categorical draws, one per column or per one-hot coded group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import DensityError, SettingError, quote

MOST_CODES = 50


@dataclass(frozen=True)
class Block:
    """Columns that are drawn together: outcome k (a row of ``outcomes``, one value per column) with probability k."""

    columns: IntArray
    outcomes: FloatArray
    probabilities: FloatArray

    @property
    def n_parameters(self) -> int:
        """One probability per level of a group; of a coded column its codes, and their probabilities but for the last."""
        return len(self.columns) if len(self.columns) > 1 else 2 * len(self.outcomes) - 1


@dataclass(frozen=True)
class Discrete:
    """A product of independent blocks, which between them have every column once."""

    blocks: tuple[Block, ...]

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return sum(len(block.columns) for block in self.blocks)

    @property
    def mean(self) -> FloatArray:
        """Σ p v of each column."""
        mean = np.empty(self.n_features)
        for block in self.blocks:
            mean[block.columns] = block.probabilities @ block.outcomes
        return mean

    @property
    def variances(self) -> FloatArray:
        """Σ p (v − mean)² of each column."""
        variances, mean = np.empty(self.n_features), self.mean
        for block in self.blocks:
            variances[block.columns] = block.probabilities @ np.square(block.outcomes - mean[block.columns])
        return variances

    @property
    def n_parameters(self) -> int:
        """How many numbers describe it."""
        return sum(block.n_parameters for block in self.blocks)

    @property
    def n_outcomes(self) -> float:
        """How many different rows it can give; infinite where that is beyond counting."""
        return math.prod(float(len(block.outcomes)) for block in self.blocks)

    def on(self, features: BoolArray) -> Discrete:
        """The marginal over some of its columns. A group that loses levels shows them as none of its levels."""
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
        """The density over more columns, its own at these places, the others always 0."""
        own = tuple(Block(at[block.columns], block.outcomes, block.probabilities) for block in self.blocks)
        rest = np.setdiff1d(np.arange(width), at)
        zeros = Block(rest, np.zeros((1, len(rest))), np.ones(1))
        return Discrete((*own, zeros) if len(rest) else own)

    def scaled(self, shift: FloatArray, scale: FloatArray) -> Discrete:
        """The density of (x − shift) / scale."""
        return Discrete(
            tuple(
                Block(b.columns, (b.outcomes - shift[b.columns]) / scale[b.columns], b.probabilities)
                for b in self.blocks
            )
        )

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """N points from it."""
        points = np.empty((n, self.n_features))
        for block in self.blocks:
            drawn = rng.choice(len(block.outcomes), size=n, p=block.probabilities)
            points[:, block.columns] = block.outcomes[drawn]
        return points


def fit_discrete(
    rows: FloatArray, observed: BoolArray, groups: Sequence[IntArray], names: Sequence[object]
) -> Discrete:
    """The observed frequencies of every code, and of every level of a group (none of its levels is one more).

    Nothing is smoothed: a proxy with a code that no row has would stand for nobody, and forces, unlike likelihoods, need no
    probability to be positive. Empty cells are left out, column by column, or group by group.
    """
    groups = [np.asarray(group, dtype=np.intp) for group in groups if len(group)]
    grouped = np.concatenate([np.zeros(0, dtype=np.intp), *groups])
    if not (np.unique(grouped).size == grouped.size and ((grouped >= 0) & (grouped < rows.shape[1])).all()):
        raise SettingError(
            f"groups must be lists of column numbers from 0 to {rows.shape[1] - 1}, no number twice. "
            f"Got {grouped.size} numbers, {np.unique(grouped).size} different."
        )
    single = np.setdiff1d(np.arange(rows.shape[1]), grouped)
    blocks = [
        _block(rows, observed, columns) for columns in (*(single[k : k + 1] for k in range(len(single))), *groups)
    ]
    check_codes(blocks, rows.shape[1], names)
    for k, block in enumerate(blocks[len(single) :]):
        seen = rows[np.ix_(observed[:, block.columns].all(axis=1), block.columns)]
        check_group(k, block, names, seen, np.ones(len(seen), dtype=np.intp))
    return Discrete(tuple(blocks))


def check_codes(blocks: Sequence[Block], n_columns: int, names: Sequence[object]) -> None:
    """Refuse columns with so many values that they are no codes."""
    many = {int(b.columns[0]): len(b.outcomes) for b in blocks if len(b.columns) == 1 and len(b.outcomes) > MOST_CODES}
    if many:
        raise DensityError(
            f"the density 'discrete' needs codes: columns with at most {MOST_CODES} different values. Here, {len(many)} of "
            f"{n_columns} columns have up to {max(many.values())}: {quote(names[k] for k in many)}. "
            "Try density='gaussian', or put such columns into a few classes."
        )


def _block(rows: FloatArray, observed: BoolArray, columns: IntArray) -> Block:
    seen = rows[np.ix_(observed[:, columns].all(axis=1), columns)]
    outcomes, counts = np.unique(seen, axis=0, return_counts=True)
    return Block(columns, outcomes, counts / max(len(seen), 1))


def check_group(k: int, block: Block, names: Sequence[object], rows: FloatArray, times: IntArray) -> None:
    """Refuse columns that are not one-hot coded; ``rows`` are those that are filled, each so many ``times``."""
    strange = ((rows != 0) & (rows != 1)).any(axis=0)
    several = int(times[(rows == 1).sum(axis=1) > 1].sum())
    if len(rows) and not strange.any() and not several:
        return
    seen = (
        f"no row has all {len(block.columns)} columns filled"
        if not len(rows)
        else f"{strange.sum()} of its {len(block.columns)} columns have other values ("
        f"{quote(names[m] for m in block.columns[strange])})"
        if strange.any()
        else f"{several} of {int(times.sum())} rows have more than one 1"
    )
    raise DensityError(
        f"group {k} is not one-hot coded, which needs cells of 0 and 1 and at most one 1 per row: {seen}. "
        "Try to leave it out of groups, so that its columns are codes of their own."
    )
