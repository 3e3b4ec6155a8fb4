"""Densities in a summary, and their fidelity, as the request asks for them, wherever the rows are stored."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.participant import Participant
from intarsia.protocol import Assign, Summarize
from intarsia.tables import open_stream, scan_parquet
from intarsia.tables.frame import read_table
from intarsia.tables.missing import settle_missing
from intarsia.tables.sample import Limits
from tests.participant.test_participant import frame_of

LIMITS = Limits(piece_values=1, piece_rows=60)


@pytest.fixture(params=["in memory", "streamed"])
def table(request, tmp_path):
    frame = frame_of(n=300)
    if request.param == "in memory":
        return frame, settle_missing(read_table(frame, "a"), "observed")
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    return frame, open_stream(scan_parquet(tmp_path / "a.parquet", batch_rows=64), "a", limits=LIMITS)


@pytest.mark.parametrize("n_local", [3, 60])
def test_without_shrinkage_covariances_are_those_of_numpy(table, n_local):
    frame, rows = table
    asked = {"seed": 0, "n_clusters": None, "n_local_clusters": n_local, "max_local_clusters": n_local}
    for density in ("gaussian_full", "gaussian_diagonal"):
        participant = Participant(rows)
        reply = participant.handle(Summarize(density=density, shrink=False, **asked))
        participant.handle(Assign(groups=np.arange(n_local), n_groups=n_local))
        values = frame.to_numpy()
        for k, sent in enumerate(reply.densities):
            expected = np.cov(values[participant.labels == k].T, bias=True)
            expected = np.diagonal(expected) if density == "gaussian_diagonal" else expected
            np.testing.assert_allclose(sent.parts["covariance"], expected, rtol=1e-9, atol=1e-9)
    assert reply.sizes.min() <= (100 if n_local == 3 else 2)  # singular covariances are among them


def test_fidelity_is_measured_inside_the_boxes_that_proxies_are_drawn_in():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(50.0, 0.01, size=(6, 2)), rng.normal(size=(300, 2))])
    table = settle_missing(read_table({"x": rows[:, 0], "y": rows[:, 1]}, "a"), "observed")
    asked = {"seed": 0, "n_clusters": 2, "n_local_clusters": 2, "max_local_clusters": 2, "density": "gaussian_full"}
    replies = [
        Participant(table).handle(Summarize(n_proxies=200, bounding_boxes=boxes, **asked)) for boxes in (False, True)
    ]
    small = int(replies[0].sizes.argmin())  # its density is shrunk to one much wider than its box
    free, boxed = (float(reply.fidelity[small, 0]) for reply in replies)
    assert free > 10
    assert boxed < 3
