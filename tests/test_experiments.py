"""The experiments run, resume where they stopped, and render: a smoke on data that needs no file, and hand-made results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments import questions, random_tables, render, seeds_of_k, store
from experiments.__main__ import check_ways, missing, one_split
from experiments.baselines import BASELINES, CENTRALISED, MASKED_LLOYD
from experiments.linkages import LINKAGES, Clusters, merged_with, merges
from experiments.measuring import (
    CEILING,
    COLUMNS,
    FEDERATED,
    FROM_OUTSIDE,
    FROM_TRUTH,
    GROUPING,
    K_CHOSEN,
    ONE_SHOT,
    PAPER_1,
    PAPER_2,
    measure_ways,
)
from experiments.random_layouts import RANDOM, masked_objective, measure_random, random_cancer, random_hospitals
from experiments.rates import ALL_TRIPLETS, BY_NUMBER, RATE_WAYS, TESTED, RatesCase, measure_rates, rates_of
from experiments.splits import LAYOUTS, dim_split, gaussian_split
from experiments.studies import STUDIES

import intarsia
from intarsia.core.features import is_connected
from intarsia.core.kmeans import observed_kmeans

MEAN = "pooled, mean imputation, k-means"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_RESULTS", str(tmp_path))
    return tmp_path


def measured(layout, separation, *ways, seed=0):
    return dict(measure_ways(gaussian_split(layout, seed, separation=separation), 4, seed, list(ways)))


def made(name, layout, split, way, **figures):
    return {"study": name, "layout": layout, "split": split, "way": way, **dict.fromkeys(COLUMNS, 1.0), **figures}


def test_every_way_labels_clear_clusters_better_than_chance():
    ways = [
        *(way for way in GROUPING if way != K_CHOSEN),
        *(CEILING, FROM_TRUTH, FROM_OUTSIDE),
        *(name for name, baseline in BASELINES.items() if baseline.needs is None),
    ]
    rows = measured("core", 1.5, *ways)
    assert list(rows) == ways
    for way, row in rows.items():
        assert set(row) == set(COLUMNS), way
        assert row["accuracy"] > 0.5, way
        assert row["seconds"] > 0, way
    assert rows[FEDERATED]["aggregation"] == rows[ONE_SHOT]["aggregation"] == 1
    assert rows[FEDERATED]["objective"] == pytest.approx(rows[FEDERATED]["objective_of_truth"])
    assert rows[ONE_SHOT]["objective"] == pytest.approx(rows[ONE_SHOT]["objective_of_truth"])


def test_ours_is_ahead_of_pooled_imputation_and_sends_less_than_the_rows():
    rows = measured("chain", 1.0, FEDERATED, CEILING, MEAN)
    assert rows[FEDERATED]["adjusted_rand"] > rows[MEAN]["adjusted_rand"]
    assert rows[FEDERATED]["bytes_out"] < rows[MEAN]["bytes_out"]
    assert rows[CEILING]["accuracy"] >= rows[FEDERATED]["accuracy"] - 0.01


def test_a_stopped_run_goes_on_where_it_stopped(results):
    name = "Gaussian 1.5"
    left = lambda: list(missing([name], ("chain",), 1, quick=True))
    [(_, layout, seed, ways)] = left()
    rows = one_split(name, layout, seed, ways)
    store.append(name, rows[:3])
    path = store.path_of(name)
    with path.open("a") as file:
        file.write('Gaussian 1.5,chain,0,"one-sh')  # killed in the middle of a line
    assert len(store.read(name)) == 3
    [(_, _, _, rest)] = left()
    assert rest == ways[3:]
    store.append(name, one_split(name, layout, seed, rest))
    assert [row["way"] for row in store.read(name)] == ways
    assert left() == []
    np.testing.assert_allclose(store.read(name)[0]["accuracy"], rows[0]["accuracy"], rtol=1e-5)


def test_a_line_cut_off_in_its_last_figure_is_not_a_result(results):
    store.append("HAR", [made("HAR", "chain", k, FEDERATED, bytes_out=576800.0) for k in range(2)])
    path = store.path_of("HAR")
    path.write_text(path.read_text()[:-4])
    assert [row["bytes_out"] for row in store.read("HAR")] == [576800.0]


def test_a_way_is_forgotten_and_measured_anew_and_other_lines_keep_their_bytes(results):
    name = "Gaussian 1.5"
    ways = [FEDERATED, ONE_SHOT, "one-shot, K chosen", MEAN]
    store.append(name, [made(name, "chain", k, way) for k in range(2) for way in ways])
    lines = store.path_of(name).read_bytes().split(b"\r\n")
    assert store.forget(name, ["one-shot*"]) == 4
    kept = [line for line in lines if b"one-shot" not in line]
    assert store.path_of(name).read_bytes() == b"\r\n".join(kept)
    assert store.forget(name, ["one-shot*"]) == store.forget("HAR", [FEDERATED]) == 0
    [task] = missing([name], ("chain",), 1, quick=True, only=["one-shot"])
    assert task == (name, "chain", 0, [ONE_SHOT])


def test_a_line_cut_off_is_removed_and_line_ends_stay(results):
    rows = [made("HAR", "chain", k, FEDERATED) for k in range(3)]
    store.append("HAR", rows[:2])
    path = store.path_of("HAR")
    whole = path.read_bytes()
    path.write_bytes(whole + b'HAR,chain,2,"one-sh')
    store.append("HAR", rows[2:])
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n") == 4


def test_a_way_that_no_study_has_is_named():
    with pytest.raises(SystemExit, match="no study has the way 'one_shot'"):
        check_ways(["HAR"], ["one_shot"])


def test_results_of_other_columns_are_not_mixed_in(results):
    store.path_of("HAR").write_text("study,layout,split,way,old\nHAR,chain,0,federated,1\n")
    with pytest.raises(intarsia.IntarsiaError, match="move it away"):
        store.read("HAR")


def test_a_baseline_that_gave_too_few_clusters_is_named(results):
    store.append("HAR", [made("HAR", "core", 0, "pooled, OPIMC", n_clusters=1.0)])
    rows = {study: store.read(study) for study in STUDIES}
    assert "| HAR | core | pooled, OPIMC | fewer clusters than asked for on 1 of 1 splits |" in render.never_tried(rows)
    assert "| HAR | core | pooled, StepMix | not tried" in render.never_tried(rows)


def test_slow_ways_are_tried_on_the_first_splits_only_and_never_when_quick():
    study = STUDIES["QMNIST 0/3/7"]
    assert K_CHOSEN in study.ways("chain", 2)
    assert K_CHOSEN not in study.ways("chain", 3)
    assert K_CHOSEN not in study.ways("chain", 0, quick=True)
    assert FEDERATED in study.ways("core", 99, quick=True)
    assert study.ways("core", 100) == []


def test_tables_show_mean_spread_and_worst(results):
    name = "HAR"
    store.append(name, [made(name, "chain", k, FEDERATED, accuracy=a) for k, a in enumerate([0.9, 1.0])])
    line = "| chain | **federated** | 2 | 1.000 ± 0.000 | 1.000 | 95.00 ± 5.00 | 90.00 |"
    assert line in render.paper_table(name, store.read(name))


def test_who_is_ahead_is_said_on_the_splits_that_both_saw(results):
    name = "QMNIST 0/3/7"
    figures = {
        FEDERATED: [0.8, 0.2],
        "pooled, OPIMC": [0.9],
        CEILING: [0.95, 0.95],
        MEAN: [0.7, 0.1],
        CENTRALISED: [1, 1],
    }
    store.append(
        name, [made(name, "core", k, w, accuracy=a) for w, found in figures.items() for k, a in enumerate(found)]
    )
    rows = {study: store.read(study) for study in STUDIES}
    said = render.ahead(rows)
    assert "| federated | QMNIST 0/3/7 | core | pooled, OPIMC | accuracy | 0.9000 | 0.8000 | 1 to 0 of 1 |" in said
    assert len(said.splitlines()) == 3


def test_where_we_are_behind_is_one_line_for_each_way(results):
    for study in (*questions.PAPERS, *questions.GRID, *RANDOM):
        for layout in STUDIES[study].layouts:
            for way in (FEDERATED, ONE_SHOT, *BASELINES):
                store.append(study, [made(study, layout, k, way, adjusted_rand=0.5 + 0.01 * k) for k in range(2)])
    for k, rand in enumerate([0.9, 0.8, 0.9, 0.8, 0.9]):
        store.append(
            "HAR", [made("HAR", "core", 10 + k, w, adjusted_rand=rand - d) for w, d in ((FEDERATED, 0.2), (MEAN, 0))]
        )
    rows = {study: store.read(study) for study in STUDIES}
    said = questions.behind(rows)
    assert f"| {MEAN} | 1 of 20 cases, 1 beyond chance; most: HAR (core), 0.759 to 0.616 |  |" in said
    assert len(said.splitlines()) == 3
    assert "Another way is ahead of federated in 1 of 140 comparisons, in 1 beyond chance" in questions.where_behind(
        rows
    )
    assert len(questions.behind({study: store.read(study) for study in STUDIES}).splitlines()) <= 2 + 10


def test_the_first_screen_answers_five_questions_from_the_results(results):
    rows = {study: store.read(study) for study in STUDIES}
    assert questions.first_screen(rows).count("Not measured yet.") == 5
    for name in RANDOM:
        for way, rand, objective, sent in (
            (FEDERATED, 0.6, 1.004, 8.0),
            (ONE_SHOT, 0.5, 1.1, 2.0),
            (MASKED_LLOYD, 0.65, 1.0, 99.0),
            (CENTRALISED, 0.7, 1.0, 99.0),
        ):
            store.append(
                name, [made(name, "random", 1000, way, adjusted_rand=rand, objective=objective, bytes_out=sent)]
            )
    name = "K of one cloud"
    store.append(name, [made(name, "core", k, w, n_clusters=1.0 + k) for w in (FEDERATED, ONE_SHOT) for k in range(2)])
    rows = {study: store.read(study) for study in STUDIES}
    page = questions.first_screen(rows)
    assert "hospitals 0.600 and 0.650. The objective is within 0.5% of theirs on 4 of 4 splits." in page
    assert "hospitals -0.100." in page
    assert "Of 4 cases, federated is better by more than 0.005 in 4" in page
    assert "sends 4.0 times fewer bytes" in page
    assert "Another way is ahead of federated in 4 of 4 comparisons, in 0 beyond chance" in page
    assert "The chosen K is the true one (one-shot and federated): one cloud 50% and 50%." in page


def test_how_often_the_chosen_k_is_the_same_is_said(results):
    name = "Seeds of K: wine"
    figures = {"federated, one split": (3, 3, 4), "federated, other splits": (3, 2, 4)}
    for way, numbers in figures.items():
        store.append(name, [made(name, "random", 1000 + s, way, n_clusters=k) for s, k in enumerate(numbers)])
    rows = {study: store.read(study) for study in STUDIES}
    assert "| wine | 3 | federated, one split | 3 (2 times), 4 (1 times) | 2 of 3 |" in seeds_of_k.seeds_table(rows)
    assert questions.how_sure(rows) == "Over seeds, federated: wine K = 3 with 2 of 3."


def test_seeds_of_k_take_one_split_or_another():
    maker = seeds_of_k.MAKERS["wine"]
    assert (maker(None).participant == maker(1000).participant).all()
    assert (maker(1000).participant != maker(1001).participant).any()
    hospitals = seeds_of_k.MAKERS["hospitals"]
    assert hospitals(None).masks.sum() == 43
    assert hospitals(1).masks.sum() == 31
    rows = dict(seeds_of_k.measure_seeds(maker, 0, 1000, ["one-shot, one split"]))
    assert rows["one-shot, one split"]["n_clusters"] >= 1


def test_promises_about_random_columns_are_checked(results):
    name = "Random columns: hospitals"
    figures = {FEDERATED: (0.5, 1.004, 1.0), MASKED_LLOYD: (0.5, 1.0, 3.0), MEAN: (0.6, 1.2, 0.5)}
    for way, (rand, objective, seconds) in figures.items():
        row = {"adjusted_rand": rand, "objective": objective, "seconds": seconds, "n_clusters": 2.0}
        store.append(name, [made(name, "random", 1000 + k, way, **row) for k in range(9)])
    store.append(
        name, [made(name, "random", 1009, way, objective=o) for way, o in ((FEDERATED, 1.1), (MASKED_LLOYD, 1))]
    )
    rows = {study: store.read(study) for study in STUDIES}
    said = random_tables.random_bars(rows)
    assert (
        "| hospitals | objective of federated within 0.5% of masked Lloyd's on 90% of the splits | 9 of 10 | yes |"
        in said
    )
    assert "not below masked Lloyd on average | 0.550 to 0.550 (difference +0.0000 ± 0.0000) | yes |" in said
    assert "above mean imputation on average | 0.500 to 0.600 (difference -0.1000 ± 0.0000) | **no** |" in said
    assert (
        "| breast cancer | adjusted Rand index of federated not below masked Lloyd on average |  | not measured |"
        in said
    )
    section = random_tables.random_section(name, rows[name])
    assert "| pooled, mean imputation, k-means | 9 | 0.600 ± 0.000 | 0.600 | +20.00 | 20.00 | 0.0 | 0.5 |" in section
    assert "Not tried: it takes too long, or is not installed: one-shot," in section


def test_seeds_for_choosing_and_for_reporting_are_named():
    said = questions.seeds({})
    assert "| random columns, QMNIST 0/3/7, choice of K by seed | 1000 to 1099 | below 1000 |" in said


def test_promises_that_do_not_hold_are_said_not_to(results):
    name = "QMNIST 0/3/7"
    grouped = [(1.0, 1.0)] * 98 + [(0.9, 1.0)] * 2 + [(0.5, 0.0)]  # two misses on clear splits, one on an ambiguous one
    for layout in LAYOUTS:
        rows = [made(name, layout, k, FEDERATED, aggregation=a, clear=c) for k, (a, c) in enumerate(grouped)]
        store.append(name, [*rows, made(name, layout, 0, FROM_TRUTH, accuracy=0.99)])
    page = render.bars({study: store.read(study) for study in STUDIES})
    assert "QMNIST, chain: E1 of the default perfect on 99% of the clear splits | 98 of 100 | **no**" in page
    assert "QMNIST, core: E1 of the default perfect on 97% of the clear splits | 98 of 100 | yes" in page
    assert "+1.00 on average, worst +1.00 | yes" in page
    assert "ahead of every pooled baseline at every separation | ahead everywhere | not measured" in page


def test_a_miss_names_the_grouping_that_the_objective_prefers(results):
    name = "QMNIST 0/3/7"
    miss = {"aggregation": 0.5, "objective": 2.0, "overruled": 0.0}
    rows = [
        made(name, "core", 0, FEDERATED, **miss, objective_of_truth=1.0),
        made(name, "core", 1, FEDERATED, **miss, objective_of_truth=3.0),
        made(name, "core", 2, ONE_SHOT),
        made(name, "core", 3, FEDERATED, **{**miss, "overruled": 1.0}, clear=0.0, objective_of_truth=1.0),
    ]
    page = render.misses(dict.fromkeys(STUDIES, ()) | {name: rows})
    assert "| 0 | clear | 0.500 | 2 | 1 | the truth: stopped short |" in page
    assert "| 3 | ambiguous | 0.500 | 2 | 1 | the truth, which may not be allowed; the rows decided |" in page
    assert "| 1 | clear | 0.500 | 2 | 3 | the one found |" in page
    assert "one-shot" not in page


def test_random_columns_have_one_objective_for_all_ways():
    rows = dict(measure_random(random_hospitals("random", 0), 2, 0, [FEDERATED, ONE_SHOT, CENTRALISED, MASKED_LLOYD]))
    assert all(set(row) == set(COLUMNS) for row in rows.values())
    best = rows[MASKED_LLOYD]["objective"]
    assert best < rows[FEDERATED]["objective_of_truth"]
    assert best * 0.999 < rows[FEDERATED]["objective"] < best * 1.05
    assert rows[FEDERATED]["bytes_out"] < rows[MASKED_LLOYD]["bytes_out"] < rows[CENTRALISED]["bytes_out"]


def test_the_masked_objective_is_that_of_masked_lloyd():
    split = random_cancer("random", 0).split
    rows = split.masked()
    fit = observed_kmeans(rows, ~np.isnan(rows), 2, np.random.default_rng(0), n_init=3)
    assert masked_objective(split, fit.labels) == pytest.approx(fit.loss / (~np.isnan(rows)).sum())
    one = np.zeros(len(rows), dtype=int)
    assert masked_objective(split, one) == pytest.approx(1.0)  # in standard units


def test_random_splits_have_unequal_participants_and_seventy_percent_of_the_columns():
    six, four = random_cancer("random", 3).split, random_hospitals("random", 3).split
    assert six.masks.sum(axis=1).tolist() == [21] * 6
    assert np.bincount(six.participant).min() >= len(six.X) // 12 - 1
    assert sorted(four.masks.sum(axis=1).tolist()) == [7, 7, 7, 10]
    assert np.bincount(four.participant).tolist() == [303, 294, 123, 200]
    for split in (six, four):
        assert split.masks.any(axis=0).all()
        assert is_connected(split.masks)


def test_rates_are_measured_beside_table_1(results):
    split = gaussian_split("chain", 0, separation=1.5).split
    case = RatesCase(split, "chain", lambda *_, **__: gaussian_split("chain", 1, separation=1.5))
    rates = {way: row["order_preservation"] for way, row in measure_rates(case, 4, 0, list(RATE_WAYS))}
    assert list(rates) == list(RATE_WAYS)
    assert all(0.5 < rate <= 1 for rate in rates.values())
    assert rates[TESTED] <= rates[ALL_TRIPLETS]
    in_core = dict(measure_rates(case._replace(layout="core"), 4, 0, list(BY_NUMBER)))
    assert all(np.isnan(row["order_preservation"]) for row in in_core.values())
    name = rates_of("HAR")
    store.append(name, [made(name, "chain", k, TESTED, order_preservation=rate) for k, rate in enumerate((0.9, 1.0))])
    rows = {study: store.read(study) for study in STUDIES}
    assert "| HAR | chain | 2 | 0.999 | 0.950 (worst 0.900) |" in render.order_table(rows)
    assert "as often as in the paper's Table 1 (0.999) | 0.950 | **no** |" in render.bars(rows)


def test_times_of_both_algorithms_are_compared_split_by_split(results):
    seconds = {PAPER_1: (1.0, 2.0, 4.0), PAPER_2: (3.0, 4.0, 4.0)}
    store.append(
        "HAR", [made("HAR", "chain", k, w, seconds=s) for w, all_ in seconds.items() for k, s in enumerate(all_)]
    )
    rows = {study: store.read(study) for study in STUDIES}
    assert "| HAR | chain | 2.00 (1.00 to 3.00) |  |" in render.times_table(rows)


@pytest.mark.data
def test_nobody_has_all_clusters_where_that_is_asked_for():
    for layout in LAYOUTS:
        for seed in range(4):
            split = dim_split(layout, seed, nobody_has_all=True).split
            assert max(len(np.unique(truth)) for truth in split.truth_of().values()) < 16


def test_each_linkage_merges_what_the_paper_says():
    assert {linkage: merged_with(linkage) for linkage in LINKAGES} == {
        "smallest distance": ("dots",),  # the outlier
        "smallest average": ("triangles", "diamonds"),
        "average": ("triangles", "diamonds"),
        "force": ("stars",),
        "increase of variance": ("stars",),
        "Ward": ("triangles", "diamonds"),
        "centroids": ("triangles", "diamonds"),
    }
    assert merged_with("force", 12.0) == ("dots",)  # too large an exponent listens to the outlier alone


def test_incomparable_clusters_are_never_merged():
    rng = np.random.default_rng(0)
    clusters = Clusters([rng.normal(size=(5, 1)) for _ in range(2)], np.array([[True, False], [False, True]]))
    for linkage in LINKAGES:
        assert merges(clusters, linkage, 1)[-1].tolist() == [0, 1]


def test_the_page_is_rendered_from_what_is_there(results, tmp_path):
    name = "Gaussian 1.5"
    for layout in LAYOUTS:
        store.append(name, one_split(name, layout, 0, [FEDERATED, MEAN]))
    page = render.write(tmp_path / "page").read_text()
    assert "{" not in page.replace("{:", "")
    assert (tmp_path / "page/images/linkages.svg").stat().st_size > 1000


def test_the_command_line_names_the_studies():
    out = subprocess.run(
        [sys.executable, "-m", "experiments", "list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    ).stdout
    assert out.split("\n")[: len(STUDIES)] == list(STUDIES)
