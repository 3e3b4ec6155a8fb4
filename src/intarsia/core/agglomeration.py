"""Bottom-up merging of local clusters, and the tree that keeps every grouping Q_k (Algorithm 2, loop)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MergeTree:
    """Every grouping from one group per local cluster down to as few as could be reached.

    ``merges[t]`` names the two groups joined in step t; leaves are 0 … n_leaves − 1 and step t makes group
    n_leaves + t, as in scipy's linkage matrices. ``strengths[t]`` is the affinity that joined them.
    """

    n_leaves: int
    merges: IntArray
    strengths: FloatArray

    @property
    def fewest_groups(self) -> int:
        """The smallest number of groups reached: 1, unless incomparable or forbidden pairs stood in the way."""
        return self.n_leaves - len(self.merges)

    def cut(self, n_groups: int) -> IntArray:
        """Q_k: the group of every local cluster when ``n_groups`` are left, numbered by their first member.

        >>> agglomerate(np.array([[0, 9, 1], [9, 0, 2], [1, 2, 0.0]])).cut(2)
        array([0, 0, 1])
        """
        if not self.fewest_groups <= n_groups <= self.n_leaves:
            raise ValueError(f"the tree holds {self.fewest_groups} to {self.n_leaves} groups, not {n_groups}")
        group = np.arange(self.n_leaves)
        for step, (left, right) in enumerate(self.merges[: self.n_leaves - n_groups]):
            group[(group == left) | (group == right)] = self.n_leaves + step
        return renumber(group)

    def to_linkage(self, exponent: float = 1.0) -> FloatArray:
        """A scipy linkage matrix, with the height of a merge being its affinity to the power −1/exponent.

        With ``exponent`` = w a force becomes a distance again. It exists only for a tree that ends in one group.
        """
        if self.fewest_groups > 1:
            raise ValueError(
                f"a linkage matrix needs a tree that ends in one group; this one ends in {self.fewest_groups}, "
                "because some participants share no feature or may not be joined. Use cut(k) for the groupings it has."
            )
        if (self.strengths <= 0).any():
            raise ValueError("only positive affinities, such as forces, can be turned into heights")
        size = np.ones(self.n_leaves + len(self.merges))
        for step, (left, right) in enumerate(self.merges):
            size[self.n_leaves + step] = size[left] + size[right]
        # averages of averages cannot grow, but rounding can make a later merge stronger by one last digit
        heights = np.maximum.accumulate(self.strengths ** (-1.0 / exponent))
        pairs = np.sort(self.merges, axis=1).astype(np.float64)
        return np.column_stack([pairs, heights, size[self.n_leaves :]])


def renumber(groups: IntArray) -> IntArray:
    """The same partition, with groups numbered by their first member."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def same_owner(owner: IntArray, n_clusters: int) -> BoolArray:
    """Cannot-link: pairs of one participant, as long as it has no more clusters than are wanted in all."""
    splits_on_purpose = np.bincount(owner, minlength=owner.max(initial=0) + 1)[owner] > n_clusters
    return np.asarray((owner[:, None] == owner[None, :]) & ~splits_on_purpose[:, None])


def agglomerate(affinity: FloatArray, forbidden: BoolArray | None = None, n_groups: int = 1) -> MergeTree:
    """Join the two groups with the highest mean affinity over comparable pairs, again and again.

    ``affinity`` is symmetric, NaN where a pair is incomparable. Such pairs leave both the numerator and the
    denominator of a mean, and two groups without a comparable pair wait until some merge makes them comparable.
    ``forbidden`` pairs are never in one group. Of equally strong pairs the first in order is joined.
    """
    n = len(affinity)
    comparable = ~np.isnan(affinity)
    np.fill_diagonal(comparable, val=False)
    total = np.where(comparable, affinity, 0.0)
    pairs = comparable.astype(np.float64)
    blocked = np.eye(n, dtype=np.bool_) if forbidden is None else forbidden | np.eye(n, dtype=np.bool_)
    mean = _means(total, pairs, blocked)
    name = np.arange(n)
    merges: list[tuple[int, int]] = []
    strengths: list[float] = []
    for step in range(n - n_groups):
        r, s = divmod(int(mean.argmax()), n)
        if mean[r, s] == -np.inf:
            break
        r, s = min(r, s), max(r, s)
        merges.append((int(name[r]), int(name[s])))
        strengths.append(float(mean[r, s]))
        for table in (total, pairs):
            table[r] += table[s]
            table[:, r] = table[r]
        blocked[r] |= blocked[s]
        blocked[:, r] = blocked[r]
        blocked[s], blocked[:, s] = True, True
        mean[r] = _means(total[r], pairs[r], blocked[r])
        mean[:, r] = mean[r]
        mean[s], mean[:, s] = -np.inf, -np.inf
        name[r] = n + step
    return MergeTree(n, np.array(merges, dtype=np.intp).reshape(-1, 2), np.array(strengths, dtype=np.float64))


def _means(total: FloatArray, pairs: FloatArray, blocked: BoolArray) -> FloatArray:
    possible = (pairs > 0) & ~blocked
    return np.where(possible, total / np.maximum(pairs, 1.0), -np.inf)
