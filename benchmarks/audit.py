"""What the audit of a participant adds to its rounds, with the record on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from intarsia import ReleasePolicy
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import OPEN
from intarsia.privacy.record import Record
from intarsia.protocol import Centres, Columns, Refine, Refinement, Summarize
from intarsia.tables.frame import read_table

K, D, ROUNDS = 10, 10, 20


def rounds(table: dict[str, np.ndarray], start: np.ndarray, pipeline: Pipeline) -> tuple[float, int]:
    """Return the seconds of a processor that the rounds take after a summary, and the fewest rows of a told cluster."""
    participant = Participant(read_table(table, "a"), pipeline=pipeline)
    low, high = (np.array([side(column) for column in table.values()]) for side in (np.min, np.max))
    units = Columns(np.zeros(D), np.ones(D))
    participant.handle(Summarize(seed=0, n_clusters=K, n_local_clusters=K, max_local_clusters=K, columns=units))
    centres, fewest, started = start, 1 << 60, time.process_time()
    for number in range(ROUNDS):
        sent = Centres(values=centres, known=np.ones(centres.shape, dtype=bool), low=low, high=high)
        request = Refine(seed=0, round=number, rivals=(sent,), min_points=1, max_iter=1, columns=units)
        reply = participant.handle(request)
        assert isinstance(reply, Refinement), reply
        told = reply.refined[0]
        fewest = min(fewest, int(told.sizes[told.sizes > 0].min()))
        centres = np.where(told.counts > 0, 0.2 * centres + 0.8 * told.values, centres)
    return time.process_time() - started, fewest


def compared(n_rows: int) -> tuple[float, float, bool]:
    """Return the seconds of rounds with and without the audit, and whether every told cluster has enough rows."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(K, D))
    values = centres[rng.integers(K, size=n_rows)] + 1.5 * rng.normal(size=(n_rows, D))
    table, start = {f"x{m:02}": values[:, m] for m in range(D)}, centres + rng.normal(size=centres.shape)
    with tempfile.TemporaryDirectory() as folder:
        policy = ReleasePolicy(max_rounds=None)
        pairs = [
            (
                rounds(table, start, Pipeline(policy, record=Record(Path(folder) / f"{k}.told"))),
                rounds(table, start, Pipeline(OPEN)),
            )
            for k in range(2)
        ]
    (audited, fewest), (plain, _) = min(pairs, key=lambda pair: pair[0][0] / pair[1][0])
    return audited, plain, fewest >= policy.min_cluster_size
