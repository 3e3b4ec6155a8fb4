"""Bottom-up merging of local clusters, and the tree with every grouping Q_k (Algorithm 2, loop)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MergeTree:
    """All groupings from one group per local cluster down to as few as could be reached.

    ``merges[t]`` are the two groups joined in step t; leaves are 0 … n_leaves − 1 and step t makes group
    n_leaves + t, as in scipy's linkage matrices. ``strengths[t]`` is the affinity that joined them.
    """

    n_leaves: int
    merges: IntArray
    strengths: FloatArray

    @property
    def fewest_groups(self) -> int:
        """The smallest number of groups reached: 1, unless incomparable or forbidden pairs prevent that."""
        return self.n_leaves - len(self.merges)

    def cut(self, n_groups: int) -> IntArray:
        """Return Q_k: the group of every local cluster when ``n_groups`` are left, numbered by their first member.

        >>> agglomerate(np.array([[0, 9, 1], [9, 0, 2], [1, 2, 0.0]])).cut(2)
        array([0, 0, 1])
        """
        if not self.fewest_groups <= n_groups <= self.n_leaves:
            raise ValueError(f"n_groups must be between {self.fewest_groups} and {self.n_leaves}, got {n_groups}")
        group = np.arange(self.n_leaves)
        for step, (left, right) in enumerate(self.merges[: self.n_leaves - n_groups]):
            group[(group == left) | (group == right)] = self.n_leaves + step
        return renumber(group)

    def to_linkage(self, exponent: float = 1.0) -> FloatArray:
        """Return a scipy linkage matrix, where the height of a merge is its affinity to the power −1/exponent.

        With ``exponent`` = w a force becomes a distance again. It exists only for a tree that ends in one group.
        """
        if self.fewest_groups > 1:
            raise ValueError(
                f"a linkage matrix needs a tree that ends in one group; this one ends in {self.fewest_groups}, "
                "because some local clusters are incomparable or may not be joined. Hint: use cut(k)."
            )
        if (self.strengths <= 0).any():
            raise ValueError("heights need positive affinities, such as forces")
        size = np.ones(self.n_leaves + len(self.merges))
        for step, (left, right) in enumerate(self.merges):
            size[self.n_leaves + step] = size[left] + size[right]
        # averages of averages cannot grow, but rounding can make a later merge stronger by one last digit
        heights = np.maximum.accumulate(self.strengths ** (-1.0 / exponent))
        pairs = np.sort(self.merges, axis=1).astype(np.float64)
        return np.column_stack([pairs, heights, size[self.n_leaves :]])


def renumber(groups: IntArray) -> IntArray:
    """Return the same partition, with groups numbered by their first member."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def same_owner(owner: IntArray, n_clusters: int) -> BoolArray:
    """Return the cannot-link pairs: those of one participant, if it has no more than ``n_clusters`` clusters."""
    has_more = np.bincount(owner, minlength=owner.max(initial=0) + 1)[owner] > n_clusters
    return np.asarray((owner[:, None] == owner[None, :]) & ~has_more[:, None])


def agglomerate(
    affinity: FloatArray, forbidden: BoolArray | None = None, n_groups: int = 1, weights: FloatArray | None = None
) -> MergeTree:
    """Return the tree that joins the two groups with the highest mean affinity over comparable pairs, again and again.

    ``affinity`` is symmetric, NaN where a pair is incomparable. Such pairs count neither in the numerator nor in the
    denominator of a mean, and two groups without a comparable pair wait until a merge makes them comparable. A pair counts
    with the product of its positive ``weights``, |P|·|P'| of eq:attractive_force_sets_of_clusters; without, all count alike.
    ``forbidden`` pairs are never in one group. Of equally strong pairs the first in order is joined.

    Every group keeps its nearest other, so that m clusters take m² steps where the printed loop takes m³;
    docs/theory/agglomeration.md shows that the merges are the same.
    """
    n = len(affinity)
    table = _Means(affinity, forbidden, weights)
    merges: list[tuple[int, int]] = []
    strengths: list[float] = []
    for step in range(n - n_groups):
        r, s, strength = table.strongest()
        if strength == -np.inf:
            break
        merges.append((int(table.name[r]), int(table.name[s])))
        strengths.append(strength)
        table.join(r, s, n + step)
    return MergeTree(n, np.array(merges, dtype=np.intp).reshape(-1, 2), np.array(strengths, dtype=np.float64))


@dataclass(frozen=True)
class LocalForces:
    """The force between every two local clusters, NaN where a pair is incomparable, and the owner of each.

    ``weights`` are the numbers of points of proxy clusters; without, all clusters count alike. ``other`` is the merge tree
    of a linkage other than force.
    """

    forces: FloatArray
    owner: IntArray
    weights: FloatArray | None = None
    other: MergeTree | None = None

    @cached_property
    def tree(self) -> MergeTree:
        """The merge tree: the paper's, by forces, unless another was given."""
        return agglomerate(self.forces, weights=self.weights) if self.other is None else self.other

    def __len__(self) -> int:
        return len(self.owner)


class _Means:
    """Mean affinities between groups, with the nearest other of each.

    If ``fresh[t]``, ``best[t]`` is the highest mean of group t and ``nearest[t]`` the first group that has it; else
    ``best[t]`` is an upper bound. A group's row is that of its first member; ``name`` is its number in the tree.
    """

    def __init__(self, affinity: FloatArray, forbidden: BoolArray | None, weights: FloatArray | None) -> None:
        n = len(affinity)
        incomparable = np.isnan(affinity)
        np.fill_diagonal(incomparable, val=False)
        equal = weights is None or bool((weights == weights[:1]).all())
        self._size = np.ones(n) if weights is None or equal else weights.astype(np.float64)
        self._total = affinity.astype(np.float64)  # −∞ where two groups may not be joined, also after merges
        if not equal:
            self._total *= np.outer(self._size, self._size)
        self._pairs: FloatArray | None = None  # weights of comparable pairs; None if all are comparable
        if incomparable.any():
            self._total[incomparable] = 0.0
            self._pairs = np.where(incomparable, 0.0, np.outer(self._size, self._size))
        if forbidden is not None:
            self._total[forbidden] = -np.inf
        np.fill_diagonal(self._total, -np.inf)
        self._gone = np.zeros(n)  # −∞ for groups that were joined to another
        self.name = np.arange(n)
        self._fresh = np.ones(n, dtype=np.bool_)
        self._nearest, self._best = np.zeros(n, dtype=np.intp), np.full(n, -np.inf)
        for t in range(n):
            self._find_nearest(t)

    def strongest(self) -> tuple[int, int, float]:
        """Return the first of the pairs with the highest mean, and that mean."""
        while not self._fresh[t := int(self._best.argmax())]:
            self._find_nearest(t)
        return t, int(self._nearest[t]), float(self._best[t])

    def join(self, r: int, s: int, name: int) -> None:
        """Join two groups, in the row of the first."""
        for table in (self._total, self._pairs):
            if table is not None:
                table[r] += table[s]
                table[:, r] = table[r]
        self._size[r] += self._size[s]
        self._gone[s] = self._best[s] = -np.inf
        self.name[r] = name
        self._update_nearest(r, s)
        if 2 * np.count_nonzero(self._gone) > max(len(self._gone), 64):
            self._compress()

    def _row(self, t: int) -> FloatArray:
        if self._pairs is None:
            mean = self._total[t] / (self._size * self._size[t])
        else:
            pairs, mean = self._pairs[t], np.full(len(self._gone), -np.inf)
            np.divide(self._total[t], pairs, out=mean, where=pairs > 0)
        mean += self._gone
        return np.asarray(mean)

    def _find_nearest(self, t: int) -> None:
        row = self._row(t)
        self._nearest[t] = nearest = int(row.argmax())
        self._best[t], self._fresh[t] = row[nearest], True

    def _update_nearest(self, r: int, s: int) -> None:
        """Update the nearest others after s has joined r: a mean of two means is no higher than the higher of them."""
        row = self._row(r)
        lost = (self._nearest == r) | (self._nearest == s)
        affected = np.flatnonzero(lost | (row >= self._best))
        affected = affected[self._gone[affected] == 0.0]
        mean, best, fresh, lost = row[affected], self._best[affected], self._fresh[affected], lost[affected]
        # equals come in order; a group that is not fresh may have an equal that comes earlier
        first = fresh & (mean == best) & (lost | (r < self._nearest[affected]))
        is_nearest = (mean > best) | first
        self._nearest[affected[is_nearest]], self._best[affected[is_nearest]] = r, mean[is_nearest]
        self._fresh[affected[is_nearest]] = True
        self._fresh[affected[lost & ~is_nearest]] = False
        nearest = int(row.argmax())
        self._nearest[r], self._best[r], self._fresh[r] = nearest, row[nearest], True

    def _compress(self) -> None:
        """Remove the rows of groups that were joined to others; the others keep their order."""
        left = np.flatnonzero(self._gone == 0.0)
        new_row = np.full(len(self._gone), -1, dtype=np.intp)
        new_row[left] = np.arange(len(left))
        self._total = self._total[np.ix_(left, left)]
        if self._pairs is not None:
            self._pairs = self._pairs[np.ix_(left, left)]
        self._size, self._gone, self.name = self._size[left], self._gone[left], self.name[left]
        self._best, self._fresh = self._best[left], self._fresh[left]
        self._nearest = new_row[self._nearest[left]]  # −1 only if nothing is comparable, or not fresh
