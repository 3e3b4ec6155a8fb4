from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.cli import demo_view
from intarsia.cli.demo import demo
from intarsia.datasets import load_heart_disease


def test_the_clusters_separate_the_diagnosis_that_was_never_shown():
    hospitals = load_heart_disease()
    for seed in range(5):
        result = intarsia.cluster(hospitals.tables, 2, scale="standard", missing="observed", random_state=seed)
        low, high = sorted(demo_view.share_diseased(hospitals, result))
        assert low < 0.30
        assert high > 0.80
        assert not np.isnan(result.centroids).any()


def test_the_demo_shows_every_part_and_draws_a_picture(tmp_path, capsys):
    demo(tmp_path / "demo.svg")
    out = capsys.readouterr().out
    for part in (
        "Who sees what",
        "over all 13 columns",
        "Sizes per hospital",
        "Agreement with the diagnosis",
        "CC BY 4.0",
    ):
        assert part in out
    for way in ("Algorithm 1", "Algorithm 2", "impute by mean", "5 neighbours", "on its own"):
        assert way in out
    assert (tmp_path / "demo.svg").read_text().startswith("<svg")


def test_intarsia_beats_hospitals_on_their_own_and_is_near_to_pooling():
    hospitals = load_heart_disease()
    settings = {"scale": "standard", "missing": "observed", "random_state": 0}
    runs = [intarsia.cluster(hospitals.tables, 2, method=m, **settings) for m in ("federated", "one_shot")]
    scores = {score.method: score.accuracy for score in demo_view.scores(hospitals, *runs)}
    ours = scores["Intarsia, federated (Algorithm 1)"]
    assert ours > scores["each hospital on its own, k-means"] + 0.05
    assert ours > max(score for way, score in scores.items() if way.startswith("pool")) - 0.02


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_two_clusters_are_seen_in_the_hospitals(method):
    tables = intarsia.datasets.load_heart_disease().tables
    assert intarsia.cluster(tables, "auto", method=method, random_state=3).n_clusters == 2
