"""Tables, participants and requests that the tests of privacy share."""

import numpy as np

from intarsia import ReleasePolicy
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import (
    Centres,
    Refine,
    Summarize,
)
from intarsia.tables.frame import read_table


def participant_with(table, policy=None, journal=None, **more):
    return Participant(read_table(table, "a"), pipeline=Pipeline(policy or ReleasePolicy(), journal), **more)


def summarize(**more):
    asked = {"seed": 0, "n_clusters": 3, "n_local_clusters": 3, "max_local_clusters": 3, "columns": None} | more
    return Summarize(**asked)


def blobs(sizes, d=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.concatenate([20.0 * k + rng.normal(size=(n, d)) for k, n in enumerate(sizes)])
    return {f"x{m}": rows[:, m] for m in range(d)}


def refine(centres, d=2, round_=1):
    values = np.array(centres, dtype=float).repeat(d).reshape(-1, d)
    sent = Centres(values, np.ones_like(values, dtype=bool), np.zeros(d), np.full(d, 60.0))
    return Refine(seed=0, round=round_, rivals=(sent,), min_points=1, max_iter=1), sent


def rivals(*sets, d=2, round_=1):
    """One question about several sets of centroids."""
    sent = tuple(refine(centres, d)[1] for centres in sets)
    return Refine(seed=0, round=round_, rivals=sent, min_points=1, max_iter=1)


def check_not_subtractable(reply, all_cells, fewest=5):
    for column, cells in enumerate(all_cells):
        left = cells - reply.counts[:, column].sum()
        assert left == 0 or left >= fewest, (column, left)
