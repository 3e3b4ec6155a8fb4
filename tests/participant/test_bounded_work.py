"""No question that a study may ask takes much memory, or without end, whatever K, columns and sets of centroids."""

import subprocess
import sys

import numpy as np
import pytest

from intarsia.coordinator import FederatedAlgorithm
from intarsia.core.kmeans import most_iterations
from intarsia.participant import Participant, choose_k, unknown_k
from intarsia.participant.clusterers import BuiltInKMeans, affordable
from intarsia.participant.samples import Sample
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Centres, Refine
from intarsia.protocol.parts import MOST_CENTRES
from intarsia.tables.frame import read_table

QUESTION = """
import os, sys
import numpy as np
from intarsia import ReleasePolicy
from intarsia.coordinator import FederatedAlgorithm
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Centres, Failure, Gaussians, Label, Refine
from intarsia.tables.frame import read_table

kind, k, n_sets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
rows = rng.normal(size=(20_000, 20))
rows[rng.random(rows.shape) < 0.1] = np.nan
algorithm = FederatedAlgorithm(n_clusters=k, n_rivals=n_sets - 1, local_iterations=2, model="mixture")
pipeline = Pipeline(ReleasePolicy(), terms=algorithm.terms("a"))
one = Participant(read_table({f"x{m:02}": rows[:, m] for m in range(20)}, "a"), pipeline=pipeline)
del rows

def centres():
    known = rng.random((k, 20)) < 0.7  # not all alike: the slower way to the nearest
    known[:, 0] = True
    return Centres(np.where(known, rng.normal(size=(k, 20)), 0.0), known, np.full(20, -5.0), np.full(20, 5.0))

if kind == "refine":
    question = Refine(
        seed=0, round=1, rivals=tuple(centres() for _ in range(n_sets)), min_points=1, max_iter=2, crosswise=True
    )
else:
    part = np.ones((k, 20))
    gaussians = Gaussians(rng.normal(size=(k, 20)), part, part > 0, np.full(k, 1 / k), np.zeros(20), np.ones(20))
    question = Label(centres=centres(), gaussians=gaussians)
idle = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
reply = one.handle(question)
assert not isinstance(reply, Failure), reply.message
# the largest memory since this program began; getrusage also counts that of the process that started it
largest = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print((1024 * largest - idle) / 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("kind", "k", "n_sets"), [("refine", 125, 8), ("label", 1000, 1)])
def test_the_worst_admissible_question_takes_less_than_a_gigabyte(kind, k, n_sets):
    words = [sys.executable, "-c", QUESTION, kind, str(k), str(n_sets)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 256  # a fifth of 100,000 rows; most of it does not grow with them


def test_a_question_with_more_centroids_is_refused_before_any_row_is_read():
    """Two sets of 10,000 centroids are 0.36 MB; to compare the two took 6 GB."""
    values = np.zeros((10_000, 2))
    sent = Centres(values, np.ones(values.shape, dtype=bool), np.zeros(2), np.ones(2))
    participant = Participant(read_table({"x": np.arange(50.0), "y": np.arange(50.0)}, "a"), pipeline=Pipeline())
    refused = participant.handle(Refine(seed=0, round=1, rivals=(sent, sent), min_points=1, max_iter=1))
    assert (refused.error, f"at most {MOST_CENTRES} centroids in all" in refused.message) == ("ProtocolError", True)


def test_rivals_are_fewer_where_k_is_large():
    for k, n_rivals in ((10, 7), (125, 7), (250, 3), (500, 1), (1000, 0)):
        terms = FederatedAlgorithm(n_clusters=k, n_rivals=7).terms("a")
        assert (terms.n_rivals, (1 + terms.n_rivals) * k <= MOST_CENTRES) == (n_rivals, True)


def test_iterations_and_restarts_are_fewer_where_each_takes_longer():
    assert [most_iterations(k, 20) for k in (2, 50, 100, 1000, 10**6)] == [300, 300, 150, 15, 10]
    assert affordable(1000 * 10 * 5, 10) == (10, 300)  # small tables are clustered as ever
    assert affordable(65_536 * 20 * 1000, 10) == (1, 22)


class Counting(BuiltInKMeans):
    """k-means that notes how many rows it was given, and for how many clusters."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def _cluster(self, rows, n_clusters, rng, n_init):
        self.calls.append((rows.n_rows, n_clusters, n_init))
        return rng.integers(n_clusters, size=rows.n_rows)  # without any structure: every number is tried


@pytest.mark.parametrize(("n_rows", "tried"), [(2_000, 2_000), (40_000, choose_k.PART_ROWS)])
def test_numbers_of_clusters_are_tried_on_a_part_of_a_large_table(n_rows, tried):
    rng = np.random.default_rng(0)
    rows = Sample(rng.normal(size=(n_rows, 2)), np.ones((n_rows, 2), dtype=bool), {})
    clusterer = Counting()
    chosen = choose_k.choose_labels(clusterer, rows, 30, 30, rng)
    assert len(chosen.labels) == n_rows
    assert clusterer.calls[0] == (n_rows, 30, 10)
    assert {size for size, *_ in clusterer.calls[1:]} == {tried}
    steps = sum(size * k * 2 for size, k, _ in clusterer.calls[1:])
    assert steps <= choose_k.MOST_STEPS


def test_an_unknown_number_is_tried_on_a_sample_of_fixed_size_and_never_by_restarts(monkeypatch):
    rng = np.random.default_rng(0)
    sizes = []

    class Noted(unknown_k.FewRows):
        def __init__(self, values, observed):
            sizes.append(len(values))
            super().__init__(values, observed)

    monkeypatch.setattr(unknown_k, "FewRows", Noted)
    for n_rows in (2_000, 40_000):
        values = rng.normal(size=(n_rows, 2)) + 9 * rng.integers(3, size=(n_rows, 1))
        clusterer = Counting()
        chosen = choose_k.choose_labels(clusterer, Sample(values, np.ones(values.shape, dtype=bool), {}), None, 9, rng)
        assert (len(chosen.labels), chosen.labels.max() + 1, clusterer.calls) == (n_rows, 3, [])
    assert max(sizes) == unknown_k.size_of_sample(2)
