"""A participant measures the stability of its part of each cluster, on its own rows, and tells two digits of each."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ReleasePolicy
from intarsia.participant import Participant, stability
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Pipeline
from intarsia.protocol import Centres, Label, MeasureStability
from intarsia.tables.frame import read_table

PLACES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def _table(sizes, places=PLACES, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.repeat(places[: len(sizes)], sizes, axis=0) + rng.normal(size=(sum(sizes), 2))
    return {"x": rows[:, 0], "y": rows[:, 1]}


def _centres(places=PLACES):
    return Centres(places, np.ones(places.shape, dtype=bool), np.full(2, -5.0), np.full(2, 15.0))


def _measured(table, policy=None, places=PLACES, journal=None, **more):
    held = Participant(read_table(table, "a"), pipeline=Pipeline(policy or ReleasePolicy(), journal), **more)
    return held.handle(MeasureStability(seed=0, centres=_centres(places)))


def test_clear_clusters_are_stable_and_parts_of_a_cloud_are_not():
    clear = _measured(_table([60, 60, 60]))
    assert clear.scores.min() >= 0.9
    cloud = _measured(_table([180]), places=0.1 * PLACES)
    assert cloud.scores.mean() < 0.6


def test_scores_have_two_digits_and_say_which_minimum_is_behind_them(tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    reply = _measured(_table([60, 60, 60]), ReleasePolicy(7), journal=journal)
    np.testing.assert_array_equal(reply.scores, reply.scores.round(2))
    assert reply.fewest == 7
    left = [entry for entry in journal.entries() if entry.get("reply") == "reply.stability"]
    assert next((field["field"], field["fewest_rows"]) for field in left[0]["fields"]) == ("scores", 7)


def test_clusters_with_too_few_rows_have_no_score():
    scores = _measured(_table([60, 60, 4])).scores
    assert np.isnan(scores).tolist() == [False, False, True]
    everything = _measured(_table([60, 60, 4]), ReleasePolicy(min_cluster_size=1)).scores
    assert not np.isnan(everything).any()


def test_one_cluster_has_no_score():
    assert np.isnan(_measured(_table([60])).scores).all()


def test_what_has_a_score_follows_from_the_sizes_that_were_told():
    """A single row more or less must not be seen by whether there is a score."""
    for extra in (3, 4, 5, 6):
        held = Participant(read_table(_table([60, 60, extra]), "a"), pipeline=Pipeline(ReleasePolicy()))
        sizes = held.handle(Label(centres=_centres())).sizes
        scores = held.handle(MeasureStability(seed=0, centres=_centres())).scores
        assert (np.isnan(scores) == (sizes < 5)).all()


def test_the_order_of_the_rows_and_other_columns_of_the_file_do_not_matter():
    table = _table([40, 40, 40])
    order = np.random.default_rng(1).permutation(120)
    shuffled = {"y": table["y"][order], "x": table["x"][order]}
    np.testing.assert_array_equal(_measured(table).scores, _measured(shuffled).scores)


def test_missing_values_are_left_out():
    places = np.array([[0.0, 0.0], [9.0, 5.0], [0.0, 9.0]])
    table = _table([60, 60, 60], places)
    table["x"][::10] = np.nan
    assert _measured(table, ReleasePolicy(min_cluster_size=1), places=places).scores.min() > 0.8


def test_of_many_rows_a_sample_is_measured(monkeypatch):
    seen = []
    plain = stability.observed_kmeans

    def watched(values, *arguments, **more):
        seen.append(len(values))
        return plain(values, *arguments, **more)

    monkeypatch.setattr(stability, "observed_kmeans", watched)
    assert _measured(_table([3000, 3000])).scores[:2].min() > 0.9
    assert max(seen) == stability.MOST_ROWS


@pytest.mark.parametrize("n", [2, 5, 11])
def test_small_tables_are_answered(n):
    scores = _measured(_table([n, n]), ReleasePolicy(min_cluster_size=1)).scores
    assert scores.shape == (3,)
