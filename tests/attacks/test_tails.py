"""Counts of rows by distance: whether they show if a known row is there, or groups that nothing else told shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.core.tails import EDGES
from intarsia.privacy.record import ROWS
from intarsia.protocol import Centres, Failure, Label
from tests.attacks.listening import participant_of
from tests.attacks.membership import accuracy, targets

N, NEAR, D = 60, 1e-4, 3
REACH = 10.0


def around(centre: np.ndarray) -> Label:
    """All rows are nearest to this centroid: the other one is far away."""
    values = np.stack([centre, np.full(D, 1e6)])
    return Label(
        centres=Centres(values, np.ones((2, D), bool), np.zeros(D), np.full(D, REACH)), spread=False, tails=True
    )


def two_shells(participant: Any, row: np.ndarray, seed: int) -> dict[str, float] | None:
    """Let a mark pass just before and just behind the known row, and compare the two answers.

    Marks are where the last answer counts rows; where the row stands at none of them, another centroid is tried.
    """
    rng, width = np.random.default_rng(seed), REACH * np.sqrt(D)
    for edge in rng.permutation(EDGES[(EDGES * width > 1.0) & (EDGES * width < 6.0)]):
        way = row / np.linalg.norm(row) + rng.normal(size=D) / 4
        way /= np.linalg.norm(way)
        centre = row - way * edge * width
        near, far = (participant.handle(around(centre + step * way)) for step in (NEAR, -NEAR))
        if isinstance(near, Failure) or isinstance(far, Failure):
            return {"failure": 1.0}
        if np.searchsorted(EDGES, edge) + 1 in np.flatnonzero(near.tails[0]):
            return {"tails": float((near.tails != far.tails).any()), "sizes": float((near.sizes != far.sizes).any())}
    return None


def recognised(policy: ReleasePolicy | None) -> float:
    table, members, others = targets(300, D, N, 7)
    seen = [
        [two_shells(participant_of(table, "a", policy), row, n) for n, row in enumerate(rows)]
        for rows in (members, others)
    ]
    decided = [[each for each in some if each is not None] for some in seen]
    assert min(map(len, decided)) > N / 3
    return accuracy(*decided)


def test_two_shells_around_a_known_row():
    assert recognised(None) >= 0.8
    assert recognised(ReleasePolicy()) <= 0.56


@pytest.mark.parametrize("seed", range(3))
def test_every_told_number_of_rows_is_a_sum_of_groups_that_are_large_enough(seed):
    rng = np.random.default_rng(seed)
    table, *_ = targets(120, D, 1, seed)
    one = participant_of(table, "a", ReleasePolicy())
    replies: list[Any] = [one.handle(around(rng.normal(size=D) * 2)) for _ in range(20)]
    assert not any(isinstance(reply, Failure) for reply in replies)
    atoms = one._audit._atoms
    assert atoms is not None
    sizes = np.bincount(atoms.by_key[ROWS].atoms)
    assert sizes.min() >= 5
    possible = np.zeros(121, dtype=bool)
    possible[0] = True
    for size in sizes.tolist():
        possible[size:] |= possible[: len(possible) - size].copy()
    assert all(possible[np.unique(reply.tails)].all() for reply in replies)
