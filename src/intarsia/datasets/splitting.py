"""Pretend that several parties hold parts of one table: the paper's layouts, for any table.

Rows are dealt out by :func:`partition`, columns by :func:`mask_features`, and a :class:`Split` holds the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.core.types import BoolArray, FloatArray, IntArray
from intarsia.exceptions import InputError, SettingError

LAYOUTS = ("chain", "core")


def mask_features(
    n_features: int,
    n_participants: int,
    *,
    layout: str = "chain",
    overlap: float = 0.3,
    core: float = 0.1,
    importance: npt.ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> BoolArray:
    """Deal features to participants: one row per participant, True where it sees the feature.

    Parameters
    ----------
    n_features, n_participants : int
    layout : {"chain", "core"}
        ``"chain"``: consecutive participants share ``overlap`` of their features, others nothing (Assumption 1).
        ``"core"``: all share a ``core`` of the features, and the rest is dealt out without overlap (Assumption 2).
    overlap, core : float
        Shares; see ``layout``.
    importance : array of length n_features, optional
        How much each feature matters. Features are then dealt so that everybody gets about as much; without it they are
        dealt at random.
    random_state : int, Generator or None

    Examples
    --------
    >>> mask_features(10, 3, layout="core", core=0.2, random_state=0).sum(axis=1)
    array([5, 5, 4])
    >>> masks = mask_features(100, 4, layout="chain", random_state=0)
    >>> [int((masks[i] & masks[i + 1]).sum()) for i in range(3)], int((masks[0] & masks[2]).sum())
    ([9, 10, 9], 0)
    """
    if layout not in LAYOUTS:
        raise SettingError(f"layout must be one of {LAYOUTS}. Got {layout!r} instead.")
    if not 1 <= n_participants <= n_features:
        raise SettingError(f"{n_participants} participants cannot each get a feature of their own out of {n_features}.")
    rng = np.random.default_rng(random_state)
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


def _share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise SettingError(f"{name} must be a share from 0 up to, but not, 1. Got {value!r} instead.")
    return value


def _dealing_order(n: int, n_participants: int, importance: npt.ArrayLike | None, rng: np.random.Generator) -> IntArray:
    """Features in the order in which they are dealt: at random, or from the most to the least important."""
    shuffled = rng.permutation(n)
    if importance is None:
        return shuffled
    weight = np.asarray(importance, dtype=np.float64)
    if weight.shape != (n,):
        raise SettingError(f"importance has shape {weight.shape}; one number for each of {n} features is needed.")
    ranked = shuffled[np.argsort(-weight[shuffled], kind="stable")]
    # within each round of dealing the order is random, so that nobody always gets the best card
    rounds = [rng.permutation(ranked[k : k + n_participants]) for k in range(0, n, n_participants)]
    return np.concatenate(rounds)


def _deal(order: IntArray, n: int, *, balanced: bool) -> list[IntArray]:
    """Into n parts: like cards, one by one, or in blocks."""
    return [order[i::n] for i in range(n)] if balanced else [np.asarray(part) for part in np.array_split(order, n)]


def partition(
    n_samples: int,
    n_participants: int,
    *,
    labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    sort_by: npt.ArrayLike | None = None,
    holders: Mapping[Any, Sequence[int]] | None = None,
    random_state: int | np.random.Generator | None = None,
) -> IntArray:
    """Deal rows to participants: the participant of every row.

    Parameters
    ----------
    n_samples, n_participants : int
    labels : array, optional
        True cluster of each row. Needed with ``holders`` and ``sort_by``.
    groups : array, optional
        Subject, writer, machine … of each row. Rows of a group stay together: with as many groups as participants each gets
        one; with more, groups are dealt out at random, as evenly as their number allows.
    sort_by : array, optional
        Within each cluster, rows are dealt in blocks of ascending ``sort_by``, so that every holder's version of the cluster
        is biased; without it they are dealt at random.
    holders : mapping of labels to participants, optional
        Who holds each cluster (:func:`choose_holders`); default: everybody holds all.
    random_state : int, Generator or None

    Examples
    --------
    >>> partition(6, 2, labels=[0, 0, 0, 1, 1, 1], sort_by=[3, 1, 2, 9, 8, 7], random_state=0)
    array([1, 0, 0, 1, 0, 0])
    """
    rng = np.random.default_rng(random_state)
    if groups is not None:
        return _by_group(np.asarray(groups), n_samples, n_participants, rng)
    if sort_by is None and holders is None:
        participant = np.empty(n_samples, dtype=np.intp)
        for i, part in enumerate(np.array_split(rng.permutation(n_samples), n_participants)):
            participant[part] = i
        return participant
    if labels is None:
        raise InputError("labels are needed to deal rows cluster by cluster (holders, sort_by).")
    truth = np.asarray(labels)
    participant = np.full(n_samples, -1, dtype=np.intp)
    for name in np.unique(truth):
        rows = rng.permutation(np.flatnonzero(truth == name))
        if sort_by is not None:
            rows = np.flatnonzero(truth == name)
            rows = rows[np.argsort(np.asarray(sort_by)[rows], kind="stable")]
        mine = list(range(n_participants)) if holders is None else list(holders[name])
        for holder, part in zip(mine, np.array_split(rows, len(mine)), strict=True):
            participant[part] = holder
    return participant


def _by_group(groups: npt.NDArray[Any], n_samples: int, n: int, rng: np.random.Generator) -> IntArray:
    if len(groups) != n_samples:
        raise InputError(f"there are {len(groups)} groups for {n_samples} rows.")
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < n:
        raise InputError(f"{len(names)} groups are too few for {n} participants.")
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
    """For every cluster a random set of ``fewest`` to ``most`` participants who hold it, neighbours if ``consecutive``."""
    rng = np.random.default_rng(random_state)
    if not 1 <= fewest <= most <= n_participants:
        raise SettingError(f"from {fewest} to {most} holders cannot be chosen among {n_participants} participants.")
    holders = {}
    for name in np.unique(np.asarray(labels)).tolist():
        how_many = int(rng.integers(fewest, most + 1))
        if consecutive:
            first = int(rng.integers(0, n_participants - how_many + 1))
            holders[name] = np.arange(first, first + how_many)
        else:
            holders[name] = rng.choice(n_participants, how_many, replace=False)
    return holders


@dataclass(frozen=True)
class Split:
    """A complete table, the truth, and who holds which rows and sees which features. Participants are p0, p1, …"""

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
        """Check that everything fits, and leave out rows that nobody holds and participants without rows."""
        rows, seen = np.asarray(X, dtype=np.float64), np.asarray(masks, dtype=np.bool_)
        owner, classes = np.asarray(participant, dtype=np.intp), np.asarray(truth)
        if rows.ndim != 2 or not len(rows) == len(owner) == len(classes) or seen.shape != (len(seen), rows.shape[1]):
            raise InputError("rows, truth, participants and masks do not fit each other.")
        names = feature_names or [f"f{k:0{len(str(rows.shape[1] - 1))}d}" for k in range(rows.shape[1])]
        held = owner >= 0
        present, position = np.unique(owner[held], return_inverse=True)
        return cls(rows[held], classes[held], np.asarray(position, dtype=np.intp), seen[present], tuple(names))

    @property
    def names(self) -> tuple[str, ...]:
        """The participants' names."""
        width = len(str(len(self.masks) - 1))
        return tuple(f"p{i:0{width}d}" for i in range(len(self.masks)))

    def rows_of(self, i: int) -> IntArray:
        """Which rows participant i holds."""
        return np.flatnonzero(self.participant == i)

    def tables(self) -> dict[str, dict[str, FloatArray]]:
        """What each participant has: its rows, its columns."""
        return {
            name: {self.feature_names[k]: self.X[self.rows_of(i), k] for k in np.flatnonzero(self.masks[i])}
            for i, name in enumerate(self.names)
        }

    def truth_of(self) -> dict[str, npt.NDArray[Any]]:
        """The true cluster of each participant's rows."""
        return {name: self.truth[self.rows_of(i)] for i, name in enumerate(self.names)}

    def in_order(self, labels: Mapping[Any, npt.ArrayLike]) -> IntArray:
        """Labels by participant as one array, in the order of the rows of X."""
        result = np.full(len(self.X), -1, dtype=np.intp)
        for i, name in enumerate(self.names):
            result[self.rows_of(i)] = np.asarray(labels[name])
        return result

    def masked(self) -> FloatArray:
        """All rows in one matrix, NaN where the holder does not see the feature: what pooling would give."""
        return np.where(self.masks[self.participant], self.X, np.nan)
