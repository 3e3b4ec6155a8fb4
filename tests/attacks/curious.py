"""A curious participant of two, which subtracts its own part, and the view of secure sums over all participants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from intarsia.protocol import Refinement
from tests.attacks.listening import Heard, Rows, Told, different

STEP = 0.8  # how far centroids move in a round
FEW = 4  # rows that may change between two rounds


class Merged(NamedTuple):
    """The means over all rows of all participants after a round, and the own counts and sums in them."""

    means: np.ndarray
    counts: np.ndarray
    sums: np.ndarray


def merged_rounds(own: Heard, step: float = STEP) -> list[Merged]:
    """Return what a participant knows of each plain round: the mean of all, by the next centroids, and its own part."""
    rounds = [(request, reply) for request, reply in own.messages if isinstance(reply, Refinement)]
    found = []
    for (request, reply), (following, _) in pairwise(rounds):
        if len(request.rivals) > 1 or len(following.rivals) > 1:
            continue
        before, after, part = request.rivals[0].values, following.rivals[0].values, reply.refined[0]
        found.append(Merged(before + (after - before) / step, part.counts, part.values * part.counts))
    return found


def counts_of_other(first: Merged, second: Merged, k: int, shared: Sequence[int], most: int) -> int | None:
    """Return how many rows the other has in cluster k, if none of them changed between two rounds.

    Its sum is ``(n + own) mean − own sum``; where it stays the same, n solves one equation per column.
    """
    j = list(shared)
    moved = second.means[k, j] - first.means[k, j]
    if np.abs(moved).max() < 1e-9:
        return None
    rest = first.means[k, j] * first.counts[k, j] - first.sums[k, j]
    rest -= second.means[k, j] * second.counts[k, j] - second.sums[k, j]
    n = float(moved @ rest / (moved @ moved))
    fits = abs(n - round(n)) < 1e-4 and np.abs(moved * round(n) - rest).max() < 1e-7 * (1 + np.abs(rest).max())
    return round(n) if fits and 0 < round(n) <= most else None


def sums_of_other(own: Heard, shared: Sequence[int], most: int) -> list[Told]:
    """Return the other's counts and sums in all rounds that they can be followed through."""
    rounds, told = merged_rounds(own), []
    for k in range(len(rounds[0].means) if rounds else 0):
        for t in range(len(rounds) - 1):
            n = counts_of_other(rounds[t], rounds[t + 1], k, shared, most)
            if n is not None:
                told += _followed(rounds, k, t, n, shared)
    return different(told)


def _followed(rounds: Sequence[Merged], k: int, t: int, n: int, shared: Sequence[int]) -> list[Told]:
    """Return the sums around a round with a known count, with all counts that a few moved rows allow."""
    j, found = list(shared), []
    for s in (t - 1, t, t + 1, t + 2):
        if not 0 <= s < len(rounds):
            continue
        one = rounds[s]
        for size in [n] if s in {t, t + 1} else range(max(1, n - FEW), n + FEW + 1):
            sums = one.means[k, j] * (one.counts[k, j] + size) - one.sums[k, j]
            found.append(Told(size, np.full(len(j), float(size)), sums, f"round {s} cluster {k}"))
    return found


def restricted(rows: Rows, names: Sequence[str]) -> Rows:
    at = [rows.names.index(name) for name in names]
    return Rows(rows.values[:, at], rows.observed[:, at], tuple(names))


def sums_over_all(heard: Mapping[str, Heard]) -> tuple[list[Told], Rows]:
    """Return the sums over all participants of every round, on the features that all have, and all rows."""
    names = sorted(set.intersection(*(set(one.rows.names) for one in heard.values())))
    if not names:
        return [], Rows(np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), ())
    parts = {who: restricted(one.rows, names) for who, one in heard.items()}
    rows = Rows(
        *(np.concatenate([getattr(part, f) for part in parts.values()]) for f in ("values", "observed")), tuple(names)
    )
    n_messages = min(len(one.messages) for one in heard.values())
    told: list[Told] = []
    for n in range(n_messages):
        replies = {who: one.messages[n][1] for who, one in heard.items()}
        if all(isinstance(reply, Refinement) for reply in replies.values()):
            told += _summed(replies, {who: [heard[who].rows.names.index(name) for name in names] for who in heard}, n)
    return different(told), rows


def _summed(replies: Mapping[str, Any], at: Mapping[str, list[int]], n: int) -> list[Told]:
    told = []
    for s in range(len(next(iter(replies.values())).refined)):
        parts = {who: reply.refined[s] for who, reply in replies.items()}
        sizes = sum(part.sizes for part in parts.values())
        counts = sum(part.counts[:, at[who]] for who, part in parts.items())
        sums = sum((part.values * part.counts)[:, at[who]] for who, part in parts.items())
        told += [Told(int(sizes[k]), counts[k], sums[k], f"{n} set {s} {k}") for k in range(len(sizes)) if sizes[k] > 0]
    return told
