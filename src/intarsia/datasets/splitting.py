"""Split one table between simulated participants, in the layouts of the paper or at random.

:func:`partition` assigns the rows, :func:`mask_features` the columns, and a :class:`Split` holds the result.
Six participants of unequal size that each have a random 70 % of the columns::

    masks = mask_features(n_columns, 6, layout="random", share=0.7, random_state=0)
    owner = partition(n_rows, 6, sizes="unequal", random_state=0)
    tables = Split.of(X, classes, owner, masks).tables()
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.core.features import is_connected
from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import InputError, SettingError

LAYOUTS = ("chain", "core", "random")
UNEQUAL = "unequal"
_ATTEMPTS = 100  # random draws until the participants are connected


def mask_features(
    n_features: int,
    n_participants: int,
    *,
    layout: str = "chain",
    overlap: float = 0.3,
    core: float = 0.1,
    share: float = 0.7,
    importance: npt.ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> BoolArray:
    """Assign features to participants: return a matrix with one row per participant, True where it has the feature.

    Parameters
    ----------
    n_features, n_participants : int
    layout : {"chain", "core", "random"}
        ``"chain"``: consecutive participants share ``overlap`` of their features, others nothing (Assumption 1).
        ``"core"``: all share a ``core`` of the features, and the others are assigned without overlap (Assumption 2).
        ``"random"``: everybody has a random ``share`` of the features, rounded up. Every feature has a
        holder (two where there are enough places), and participants are connected by shared features.
    overlap, core, share : float
        Shares; see ``layout``.
    importance : array of length n_features, optional
        The importance of each feature. Every participant then gets about the same sum of it. Default: features are
        assigned at random. Not for ``layout="random"``.
    random_state : int, Generator or None

    Examples
    --------
    >>> mask_features(10, 6, layout="random", share=0.7, random_state=0).sum(axis=1)
    array([7, 7, 7, 7, 7, 7])
    >>> mask_features(10, 3, layout="core", core=0.2, random_state=0).sum(axis=1)
    array([5, 5, 4])
    >>> masks = mask_features(100, 4, layout="chain", random_state=0)
    >>> [int((masks[i] & masks[i + 1]).sum()) for i in range(3)], int((masks[0] & masks[2]).sum())
    ([9, 10, 9], 0)
    """
    if layout not in LAYOUTS:
        raise SettingError(f"layout must be one of {LAYOUTS}. Got {layout!r} instead.")
    if not 1 <= n_participants <= n_features:
        raise SettingError(
            f"n_participants must be from 1 to the number of features ({n_features}). Got {n_participants} instead."
        )
    rng = np.random.default_rng(random_state)
    if layout == "random":
        if importance is not None:
            raise SettingError('importance cannot be combined with layout="random", which ignores it.')
        return _at_random(n_features, n_participants, share, rng)
    masks = np.zeros((n_participants, n_features), dtype=np.bool_)
    if layout == "core":
        shared = _share("core", core) * n_features
        order = _dealing_order(n_features, n_participants, importance, rng)
        n_shared = round(shared)
        masks[:, order[:n_shared]] = True
        for i, part in enumerate(_deal(order[n_shared:], n_participants, balanced=importance is not None)):
            masks[i, part] = True
        return masks
    size = n_features / (n_participants - (n_participants - 1) * _share("overlap", overlap))
    order = _dealing_order(n_features, n_participants, importance, rng)
    if importance is not None:
        order = np.concatenate(_deal(order, n_participants, balanced=True))
    for i in range(n_participants):
        first = i * size * (1 - overlap)
        last = n_features if i == n_participants - 1 else round(first + size)
        masks[i, order[round(first) : last]] = True
    return masks


def _at_random(n_features: int, n: int, share: float, rng: np.random.Generator) -> BoolArray:
    """Return masks with the same number of random features in each row, every feature in some row, all rows connected."""
    if not 0 < share <= 1:
        raise SettingError(f"share must be above 0 and at most 1. Got {share!r} instead.")
    size = math.ceil(share * n_features - 1e-9)  # 0.7 of 10 are 7, not 8
    holders = min(2, n, n * size // n_features)
    for _ in range(_ATTEMPTS if holders else 0):
        masks = np.zeros((n, n_features), dtype=np.bool_)
        for mask in masks:
            mask[rng.choice(n_features, size, replace=False)] = True
        _hand_over(masks, holders, rng)
        if is_connected(masks):
            return masks
    raise SettingError(
        f"share {share:g} is too small: {n} participants with {size} of {n_features} features each do not hold all "
        "features or do not share enough of them. Hint: a share above 0.5 always works."
    )


def _hand_over(masks: BoolArray, holders: int, rng: np.random.Generator) -> None:
    """Let every feature have this number of holders: somebody gives one of the most frequent features up for it."""
    for feature in rng.permutation(masks.shape[1]):
        while (counts := masks.sum(axis=0))[feature] < holders:
            given = int(rng.choice(np.flatnonzero(counts == counts.max())))
            giver = int(rng.choice(np.flatnonzero(masks[:, given] & ~masks[:, feature])))
            masks[giver, given], masks[giver, feature] = False, True


def _share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise SettingError(f"{name} must be at least 0 and below 1. Got {value!r} instead.")
    return value


def _dealing_order(n: int, n_participants: int, importance: npt.ArrayLike | None, rng: np.random.Generator) -> IntArray:
    """Return the features in the order in which they are assigned: at random, or from the most important on."""
    shuffled = rng.permutation(n)
    if importance is None:
        return shuffled
    weight = np.asarray(importance, dtype=np.float64)
    if weight.shape != (n,):
        raise SettingError(f"importance has shape {weight.shape}; one number for each of {n} features is needed.")
    ranked = shuffled[np.argsort(-weight[shuffled], kind="stable")]
    # the order within each round is random, so that no participant always gets the most important feature
    rounds = [rng.permutation(ranked[k : k + n_participants]) for k in range(0, n, n_participants)]
    return np.concatenate(rounds)


def _deal(order: IntArray, n: int, *, balanced: bool) -> list[IntArray]:
    """Return n parts: every n-th feature, or blocks."""
    return [order[i::n] for i in range(n)] if balanced else [np.asarray(part) for part in np.array_split(order, n)]


def partition(
    n_samples: int,
    n_participants: int,
    *,
    labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    sort_by: npt.ArrayLike | None = None,
    holders: Mapping[Any, Sequence[int]] | None = None,
    sizes: str | Sequence[float] | None = None,
    random_state: int | np.random.Generator | None = None,
) -> IntArray:
    """Assign rows to participants: return the participant of every row.

    Parameters
    ----------
    n_samples, n_participants : int
    labels : array, optional
        True cluster of each row. Needed with ``holders`` and ``sort_by``.
    groups : array, optional
        Subject, writer, machine … of each row. Rows of a group stay together: with as many groups as participants each gets
        one; with more, groups are assigned at random, as evenly as their number allows.
    sort_by : array, optional
        Within each cluster, rows are assigned in blocks of ascending ``sort_by``, so that every holder has a biased part of
        the cluster. Default: at random.
    holders : mapping of labels to participants, optional
        The participants that hold each cluster (:func:`choose_holders`). Default: all hold all.
    sizes : "unequal" or a sequence of n_participants positive numbers, optional
        Rows of each participant, relative to each other. ``"unequal"``: half of the rows in equal parts, the other half in
        parts drawn from a flat Dirichlet distribution, so that nobody has less than half of an equal part. Default: equal
        parts. Not with ``groups``, ``sort_by`` or ``holders``.
    random_state : int, Generator or None

    Examples
    --------
    >>> np.bincount(partition(600, 6, sizes="unequal", random_state=0))
    array([102, 129,  51,  50,  93, 175])
    >>> partition(6, 2, labels=[0, 0, 0, 1, 1, 1], sort_by=[3, 1, 2, 9, 8, 7], random_state=0)
    array([1, 0, 0, 1, 0, 0])
    """
    rng = np.random.default_rng(random_state)
    if sizes is not None:
        if groups is not None or sort_by is not None or holders is not None:
            raise SettingError("sizes cannot be combined with groups, sort_by or holders. Hint: give only one of them.")
        return _by_size(n_samples, n_participants, sizes, rng)
    if groups is not None:
        return _by_group(np.asarray(groups), n_samples, n_participants, rng)
    if sort_by is None and holders is None:
        participant = np.empty(n_samples, dtype=np.intp)
        for i, part in enumerate(np.array_split(rng.permutation(n_samples), n_participants)):
            participant[part] = i
        return participant
    if labels is None:
        raise InputError("labels are needed to assign rows cluster by cluster (holders, sort_by).")
    truth = np.asarray(labels)
    participant = np.full(n_samples, -1, dtype=np.intp)
    for name in np.unique(truth):
        rows = rng.permutation(np.flatnonzero(truth == name))
        if sort_by is not None:
            rows = np.flatnonzero(truth == name)
            rows = rows[np.argsort(np.asarray(sort_by)[rows], kind="stable")]
        holding = list(range(n_participants)) if holders is None else list(holders[name])
        for holder, part in zip(holding, np.array_split(rows, len(holding)), strict=True):
            participant[part] = holder
    return participant


def _by_size(n_samples: int, n: int, sizes: str | Sequence[float], rng: np.random.Generator) -> IntArray:
    if isinstance(sizes, str):
        if sizes != UNEQUAL:
            raise SettingError(f"sizes must be {UNEQUAL!r} or {n} positive numbers. Got {sizes!r} instead.")
        weights = 0.5 / n + 0.5 * rng.dirichlet(np.ones(n))
    else:
        weights = np.asarray(sizes, dtype=np.float64)
        if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise SettingError(f"sizes must be {UNEQUAL!r} or {n} positive numbers. Got shape {weights.shape} instead.")
    ends = np.rint(np.cumsum(weights / weights.sum())[:-1] * n_samples).astype(np.intp)
    participant = np.empty(n_samples, dtype=np.intp)
    for i, part in enumerate(np.split(rng.permutation(n_samples), ends)):
        participant[part] = i
    return participant


def _by_group(groups: npt.NDArray[Any], n_samples: int, n: int, rng: np.random.Generator) -> IntArray:
    if len(groups) != n_samples:
        raise InputError(f"there are {len(groups)} groups for {n_samples} rows.")
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < n:
        raise InputError(f"there are {len(names)} groups for {n} participants. At least one for each is needed.")
    owner = np.arange(n) if len(names) == n else rng.permutation(np.arange(len(names)) % n)
    return np.asarray(owner[index], dtype=np.intp)


def choose_holders(
    labels: npt.ArrayLike,
    n_participants: int,
    *,
    fewest: int,
    most: int,
    consecutive: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> dict[Any, IntArray]:
    """Return for every cluster a random set of ``fewest`` to ``most`` participants, neighbours if ``consecutive``."""
    rng = np.random.default_rng(random_state)
    if not 1 <= fewest <= most <= n_participants:
        raise SettingError(
            f"fewest and most must satisfy 1 <= fewest <= most <= {n_participants}. Got {fewest} and {most} instead."
        )
    holders = {}
    for name in np.unique(np.asarray(labels)).tolist():
        n_holders = int(rng.integers(fewest, most + 1))
        if consecutive:
            first = int(rng.integers(0, n_participants - n_holders + 1))
            holders[name] = np.arange(first, first + n_holders)
        else:
            holders[name] = rng.choice(n_participants, n_holders, replace=False)
    return holders


@dataclass(frozen=True)
class Split:
    """A complete table, its true clusters, and the rows and features of each participant (p0, p1, …)."""

    X: FloatArray
    truth: npt.NDArray[Any]
    participant: IntArray
    masks: BoolArray
    feature_names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        X: npt.ArrayLike,
        truth: npt.ArrayLike,
        participant: npt.ArrayLike,
        masks: npt.ArrayLike,
        feature_names: Sequence[str] | None = None,
    ) -> Split:
        """Check the shapes, and drop rows without a participant (−1) and participants without rows."""
        rows, seen = np.asarray(X, dtype=np.float64), np.asarray(masks, dtype=np.bool_)
        owner, classes = np.asarray(participant, dtype=np.intp), np.asarray(truth)
        if rows.ndim != 2 or not len(rows) == len(owner) == len(classes) or seen.shape != (len(seen), rows.shape[1]):
            raise InputError("the shapes of rows, truth, participants and masks do not match.")
        names = feature_names or [f"f{k:0{len(str(rows.shape[1] - 1))}d}" for k in range(rows.shape[1])]
        assigned = owner >= 0
        present, position = np.unique(owner[assigned], return_inverse=True)
        return cls(rows[assigned], classes[assigned], np.asarray(position, dtype=np.intp), seen[present], tuple(names))

    @property
    def names(self) -> tuple[str, ...]:
        """The participants' names."""
        width = len(str(len(self.masks) - 1))
        return tuple(f"p{i:0{width}d}" for i in range(len(self.masks)))

    def rows_of(self, i: int) -> IntArray:
        """Return the rows of participant i."""
        return np.flatnonzero(self.participant == i)

    def tables(self) -> dict[str, dict[str, FloatArray]]:
        """Return the table of each participant."""
        return {
            name: {self.feature_names[k]: self.X[self.rows_of(i), k] for k in np.flatnonzero(self.masks[i])}
            for i, name in enumerate(self.names)
        }

    def truth_of(self) -> dict[str, npt.NDArray[Any]]:
        """Return the true clusters of each participant's rows."""
        return {name: self.truth[self.rows_of(i)] for i, name in enumerate(self.names)}

    def in_order(self, labels: Mapping[Any, npt.ArrayLike]) -> IntArray:
        """Return labels by participant as one array, in the order of the rows of X."""
        result = np.full(len(self.X), -1, dtype=np.intp)
        for i, name in enumerate(self.names):
            result[self.rows_of(i)] = np.asarray(labels[name])
        return result

    def masked(self) -> FloatArray:
        """Return all rows in one matrix, NaN where the participant lacks the feature: the pooled table."""
        return np.where(self.masks[self.participant], self.X, np.nan)
