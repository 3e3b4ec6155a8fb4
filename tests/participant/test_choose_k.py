"""``n_local_clusters="silhouette"``: the number of local clusters with the highest mean silhouette, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

import intarsia
from intarsia.coordinator import FederatedAlgorithm
from intarsia.core.randomness import stream
from intarsia.participant import Participant, choose_k
from intarsia.participant.clusterers import BuiltInKMeans
from intarsia.participant.samples import Sample
from intarsia.protocol import Describe, Failure, Summarize
from intarsia.tables import open_stream
from intarsia.tables.frame import read_table
from tests.participant.test_bounded_work import Counting


def blobs(centres, n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(centre, 1.0, size=(n, d)) for centre in centres])


def sample_of(values):
    return Sample(values, np.ones(values.shape, dtype=bool), {})


def participant(values):
    return Participant(read_table({f"x{m:02}": column for m, column in enumerate(values.T)}, "a"))


def described(values):
    return participant(values).handle(Describe())


def summary(values, k, n_local="silhouette"):
    asked = Summarize(seed=0, n_clusters=k, n_local_clusters=n_local, max_local_clusters=k)
    return participant(values).handle(asked)


def test_two_clusters_that_are_closer_to_each_other_than_to_a_third_become_one():
    """This is why it is not our default: see "How many local clusters" in the errata."""
    rows = blobs([0.0, 5.0, 60.0])
    assert len(summary(rows, 3).sizes) == 2
    assert len(summary(rows, 3, n_local=None).sizes) == 3


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_the_number_is_that_of_the_highest_mean_silhouette(seed, most):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(int(rng.integers(3, 40)), 2)) + rng.choice([0.0, 4.0, 9.0], size=(1, 2))
    rows[:: int(rng.integers(2, 4))] += rng.normal(size=2) * 5
    chosen = choose_k.highest_silhouette(BuiltInKMeans(), sample_of(rows), most, stream(seed, "a"))
    again, scores = stream(seed, "a"), {}
    for k in range(2, min(most, len(rows) - 1) + 1):
        labels = BuiltInKMeans().cluster(sample_of(rows), k, again)
        scores[k] = silhouette_score(rows, labels)
    n_clusters = len(np.unique(chosen.labels))
    assert scores[n_clusters] == pytest.approx(max(scores.values()), abs=1e-12)
    assert n_clusters == min(k for k, score in scores.items() if score >= max(scores.values()) - 1e-12)


@pytest.mark.parametrize(
    ("rows", "k"),
    [(blobs([0.0, 50.0]), 1), (np.ones((9, 2)), 4), (np.arange(4.0).reshape(2, 2), 2), (np.ones((1, 2)), 3)],
)
def test_there_is_one_cluster_where_no_silhouette_is_defined(rows, k):
    reply = summary(rows, k)
    assert (len(reply.sizes), reply.clarity) == (1, None)


def test_the_largest_number_is_k_or_twenty_while_k_is_unknown():
    rows = blobs(40.0 * np.eye(24), n=4, d=24)  # all clusters are as far from each other: more are always clearer
    assert len(summary(rows, 4).sizes) == 4
    asked = FederatedAlgorithm(None, n_local_clusters="silhouette")
    request = next(iter(asked.advance(asked.start(["a"]).state, {"a": described(rows)}).requests.values()))
    assert (request.n_clusters, request.max_local_clusters) == (None, 20)
    assert len(participant(rows).handle(request).sizes) == 20


def test_it_is_tried_on_a_part_of_a_large_table_and_in_bounded_steps():
    rng = np.random.default_rng(0)
    clusterer = Counting()
    chosen = choose_k.highest_silhouette(clusterer, sample_of(rng.normal(size=(40_000, 2))), 200, rng)
    *tried, last = clusterer.calls
    assert {size for size, *_ in tried} == {choose_k.PART_ROWS}
    assert sum(size * k * 2 for size, k, _ in tried) <= choose_k.MOST_STEPS
    assert (len(chosen.labels), last[0]) == (40_000, 40_000)


def test_a_request_with_another_word_is_refused():
    reply = summary(blobs([0.0, 9.0]), 2, n_local="elbow")
    assert isinstance(reply, Failure)
    assert "n_local_clusters must be a number or 'silhouette'" in reply.message


def test_one_participant_can_choose_by_the_silhouette():
    a, b = (pd.DataFrame(blobs([0.0, 5.0, 60.0], seed=seed), columns=list("xyz")) for seed in (0, 1))
    by_one = intarsia.cluster({"a": a, "b": b}, 3, n_local_clusters={"b": "silhouette"}, random_state=0)
    assert [len(np.unique(labels)) for labels in by_one.local_labels.values()] == [3, 2]


def test_a_table_that_is_read_in_batches_chooses_as_one_in_memory(tmp_path):
    frame = pd.DataFrame(blobs([0.0, 5.0, 60.0]), columns=list("xyz"))
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    streamed = Participant(open_stream(intarsia.scan_parquet(tmp_path / "a.parquet"), "a"))
    asked = Summarize(seed=0, n_clusters=3, n_local_clusters="silhouette", max_local_clusters=3)
    replies = [one.handle(asked) for one in (streamed, Participant(read_table(frame, "a")))]
    assert [len(reply.sizes) for reply in replies] == [2, 2]
    assert replies[0].clarity == replies[1].clarity


def test_with_one_table_the_clusters_are_as_many_as_were_asked_for():
    result = intarsia.cluster(pd.DataFrame(blobs([0.0, 5.0, 60.0])), 3, preset="paper", random_state=0)
    assert result.n_clusters == 3
