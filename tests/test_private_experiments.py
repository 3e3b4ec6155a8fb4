"""Measurements of differential privacy: rivals, cases and the page, on small tables and hand-made results."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import private, private_page, store
from experiments.measuring import COLUMNS, FEDERATED, ONE_SHOT
from experiments.private import COMPLETE, HOSPITALS, PRIVATE, QMNIST, WIDE, way_of
from experiments.private_rivals import DP_LLOYD, GOOGLE, RIVALS, UNCLIPPED, Table, clipped, dp_lloyd
from experiments.studies import ALL_LAYOUTS, STUDIES
from sklearn.metrics import adjusted_rand_score

from intarsia.datasets import load_heart_disease


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_RESULTS", str(tmp_path))
    return tmp_path


def append(name, layout, way, found, key="adjusted_rand"):
    rows = [
        {"study": name, "layout": layout, "split": k, "way": way, **dict.fromkeys(COLUMNS, 1.0), key: value}
        for k, value in enumerate(found)
    ]
    store.append(name, rows)


def read():
    return {name: store.read(name) for name in PRIVATE}


def test_rows_are_clipped_to_a_length_and_shorter_ones_stay():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(clipped(rows, 1.0), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


def test_dp_lloyd_finds_clear_clusters_with_a_large_epsilon_and_nothing_with_a_tiny_one():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=2000)
    table = Table(np.where(truth[:, None] == 0, 2.0, 4.0) + 0.1 * rng.normal(size=(2000, 3)), -2, 8)
    assert adjusted_rand_score(truth, dp_lloyd(table, 2, 100.0, 0)) > 0.99
    found = [adjusted_rand_score(truth, dp_lloyd(table, 2, 1e-4, seed)) for seed in range(20)]
    assert np.mean(found) < 0.5


def test_values_outside_their_bounds_are_moved_to_them():
    assert Table(np.array([[-9.0, 1.0, 9.0]]), -1, 3).centred().tolist() == [[-2.0, 0.0, 2.0]]


def test_no_row_within_the_bounds_is_longer_than_half_of_the_diagonal():
    table = Table(np.array([[3.0, 3.0, -1.0, 3.0]]), -1, 3)
    assert table.half_diagonal == np.linalg.norm(table.centred()) == 4.0


def test_ours_with_a_large_epsilon_is_close_to_no_privacy():
    case = private.grid_case("core", 1000, rows=300)
    ways = [way_of(FEDERATED, None), "federated, epsilon 100"]
    plain, protected = (row for _, row in private.measure_private(case, 4, 1000, ways))
    assert set(protected) == set(COLUMNS)
    assert plain["adjusted_rand"] > 0.8
    assert protected["adjusted_rand"] > 0.6  # at ε = 8 it is 0.88


def test_every_column_of_the_hospitals_has_bounds_and_narrow_ones_are_within_wide_ones():
    columns = {column for table in load_heart_disease().tables.values() for column in table}
    assert set(private.BOUNDS_OF_HOSPITALS) == columns
    for wide, narrow, reason in private.BOUNDS_OF_HOSPITALS.values():
        assert wide[0] <= narrow[0] < narrow[1] <= wide[1]
        assert reason


def test_rivals_that_are_not_installed_are_not_tried(monkeypatch):
    monkeypatch.setattr("experiments.studies.find_spec", lambda _: None)
    tried = STUDIES["Private pooled 1200"].ways(COMPLETE, 0)
    assert {way.split(", ")[0] for way in tried} == {"k-means", FEDERATED, ONE_SHOT, DP_LLOYD, UNCLIPPED}
    assert all(layout in ALL_LAYOUTS for data in PRIVATE.values() for layout in data.layouts)


def test_what_was_asked_and_not_reached_comes_first(results):
    append("Private Gaussian 3000", "chain", way_of(FEDERATED, 1.0), [0.95, 0.76])
    append("Private Gaussian 3000", "core", way_of(FEDERATED, 1.0), [0.9, 0.9])
    append(HOSPITALS, WIDE, way_of(FEDERATED, 2.0), [0.8, 0.75, 0.85], "accuracy")
    for way, found in ((way_of(FEDERATED, None), [0.8, 0.7]), (way_of(FEDERATED, 1.0), [0.79, 0.68])):
        append(QMNIST, "chain", way, found)
    said = private_page.behind(read())
    assert "mean at least 0.84" not in said
    assert "| the same, chain: worst at least 0.80 (prototype: 0.49 to 0.73) | 0.760 | **no** |" in said
    assert "worst at least 76 % | 80.0 (75.0) | **no** |" in said
    assert len(said.splitlines()) == 4
    everything = private_page.bars(read())
    assert "QMNIST 0/3/7, chain, ε = 1: within 0.02 of no privacy | lost 0.0150 on average, 0.0200 at most | yes" in (
        everything
    )
    assert "1,200 rows: ahead of DPLloyd at every ε ≥ 1 |  | not measured |" in everything


def test_what_the_one_shot_method_does_not_reach_is_said_too(results):
    for method, found in ((FEDERATED, [0.8, 0.8]), (ONE_SHOT, [0.8, 0.78])):
        append(HOSPITALS, WIDE, way_of(method, 2.0), found, "accuracy")
    assert private_page.behind(read()) == "All that was asked of the federated method holds."
    append(QMNIST, "core", way_of(ONE_SHOT, None), [0.8])
    append(QMNIST, "core", way_of(ONE_SHOT, 1.0), [0.7])
    first, second, *_, last = private_page.behind(read()).split("\n\n")
    assert first == "All that was asked of the federated method holds."
    assert second.startswith("The one-shot method")
    assert last.splitlines()[2:] == [
        "| QMNIST 0/3/7, core, ε = 1: within 0.02 of no privacy | lost 0.1000 on average, 0.1000 at most | **no** |"
    ]


def test_a_rival_that_is_ahead_is_named(results):
    name = "Private pooled 12000"
    for way, found in ((FEDERATED, [0.9, 0.9]), ("DPLloyd", [0.91, 0.9]), (GOOGLE, [0.5, 0.5])):
        append(name, COMPLETE, way_of(way, 2.0), found)
    said = private_page.rivals_ahead(read())
    assert said.splitlines()[2:] == ["| 12,000 | 2 | federated | DPLloyd | 0.9050 | 0.9000 | no |"]
    assert "12,000 rows: ahead of DPLloyd at every ε ≥ 1 | -0.0050 to -0.0050 | **no** |" in private_page.bars(read())


def test_where_privacy_costs_much_is_said_split_by_split(results):
    name = "Private Gaussian 300"
    append(name, "chain", way_of(ONE_SHOT, None), [0.9, 0.5])
    append(name, "chain", way_of(ONE_SHOT, 4.0), [0.7, 0.55])
    said = private_page.costly(read())
    assert said.splitlines()[2:] == ["| Gaussian 300 | chain | one-shot | 4 | 0.075 | 0.200 | 1 of 2 |"]


def test_the_page_is_rendered_without_any_results(results, tmp_path):
    page = private_page.write(read(), tmp_path / "page").read_text()
    assert "{" not in page
    assert all(name in page for name in RIVALS)
    assert (tmp_path / "page/images/privacy.svg").stat().st_size > 1000
