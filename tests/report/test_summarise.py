"""What a report says, before it is drawn."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.core.distances import extent_of, rescaled_distances
from intarsia.protocol import tag_of
from intarsia.protocol.catalogue import meaning_of, paths_of, replies, requests, words_of
from intarsia.report.data import State
from intarsia.report.layout import flat_layout, quick_distances, rough_layout
from intarsia.report.summarise import most_shared
from tests.report.studies import blobs, hospitals, large_study


@pytest.fixture(scope="module")
def result():
    return hospitals()


@pytest.mark.parametrize("kind", requests() + replies())
def test_every_field_of_every_message_has_a_meaning(kind):
    assert words_of(tag_of(kind))
    assert set(kind.__struct_fields__) - {"protocol"} == set(kind.facts())
    assert all(fact.meaning for fact in paths_of(kind).values())


def test_nothing_that_was_sent_is_without_a_meaning():
    for settings_ in ({}, {"method": "one_shot"}, {"model": "mixture"}, {"scale": "minmax"}, {"scale": "robust"}):
        run = hospitals(**settings_).run
        assert all(meaning_of(s.message, s.field) for s in run.sent)


def test_a_study_worked_by_hand():
    a = {"age": [30.0, 32.0, 70.0, 72.0, 71.0, 31.0], "chol": [180.0, 182.0, 280.0, 282.0, 281.0, 181.0]}
    b = {"age": [29.0, 33.0, 69.0, 73.0], "pulse": [80.0, np.nan, 60.0, 62.0]}
    data = intarsia.cluster({"a": a, "b": b}, 2, random_state=0).summarise()
    assert [(p.name, p.rows, p.labelled, p.columns) for p in data.participants] == [("a", 6, 6, 2), ("b", 4, 4, 2)]
    assert [p.filled for p in data.participants] == [1.0, 7 / 8]
    assert {c.name: (c.owners, c.filled) for c in data.columns} == {
        "age": (2, (1.0, 1.0)),
        "chol": (1, (1.0, None)),
        "pulse": (1, (None, 0.75)),
    }
    assert [(s.left, s.right, s.columns) for s in data.shared] == [(0, 1, 1)]
    assert [(c.rows, c.rows_of) for c in data.clusters] == [(5, (3, 2)), (5, (3, 2))]
    profile = data.profiles
    at = profile.features.index("age")
    assert sorted(row[at] for row in profile.means) == pytest.approx([31.0, 71.0])
    # the overall mean is 51, the deviation of all ten ages √(20² + within)
    within = np.mean([(x - m) ** 2 for m, xs in ((31, (30, 32, 31, 29, 33)), (71, (70, 72, 71, 69, 73))) for x in xs])
    assert sorted(row[at] for row in profile.standardised) == pytest.approx(
        [-20 / np.sqrt(400 + within), 20 / np.sqrt(400 + within)]
    )
    assert [row[profile.features.index("chol")] for row in profile.participants] == [1, 1]
    assert data.headline[0].startswith("The 10 rows of 2 participants, described by 3 columns, 1 of them common to all")
    assert "2 clusters of 5 and 5 rows" in data.headline[0]


def test_the_summary_is_json_without_rows_or_labels(result):
    data = json.loads(result.summarise("hospitals").to_json())
    assert data["title"] == "hospitals"
    assert data["clusters"][0]["rows"] + data["clusters"][1]["rows"] == 920
    assert max(len(v) for v in _lists(data)) < 123  # the smallest hospital has so many rows

    json.loads(result.summarise().to_json(), parse_constant=pytest.fail)


def _lists(thing):
    if isinstance(thing, dict):
        yield [] if not thing else list(thing)
        for value in thing.values():
            yield from _lists(value)
    elif isinstance(thing, list):
        if not isinstance(thing[0] if thing else None, dict):
            yield thing
        for value in thing:
            yield from _lists(value)


def test_a_loaded_study_says_the_same(result, tmp_path):
    result.save(tmp_path / "s.intarsia")
    assert intarsia.load(tmp_path / "s.intarsia").summarise() == result.summarise()


def test_a_file_from_before_runs_were_kept_can_be_reported(tmp_path):
    old = sorted((__import__("pathlib").Path(__file__).parents[1] / "results/files").glob("*.intarsia"))
    assert old
    for path in old:
        study = intarsia.load(path)
        data = study.summarise()
        assert data.releases == () or study.run is not None
        assert study.report(tmp_path / "r.html").stat().st_size > 100_000


def test_sent_figures_are_those_of_the_run(result):
    data = result.summarise()
    sizes = [r for r in data.releases if (r.message, r.field) == ("reply.summary", "sizes")]
    assert [(r.participants, r.times, r.entries) for r in sizes] == [(4, 4, 16)]  # halves of two local clusters
    assert sum(p.bytes_out for p in data.participants) == sum(sum(e.bytes_out.values()) for e in result.run.exchanges)


def _findings(result):
    return {finding.about: finding for finding in result.summarise().findings}


def test_all_findings_are_green_where_all_is_well():
    fine = _findings(intarsia.cluster(blobs("abc", ["x", "y", "z"], 3, 60), 3, random_state=0))
    assert {finding.state for finding in fine.values()} == {State.GOOD}
    assert not any(finding.advice for finding in fine.values())


def test_a_bridge_is_pointed_out():
    rng = np.random.default_rng(0)
    rows = 8.0 * (np.arange(60) % 2)[:, None] + rng.normal(size=(60, 4))
    a, b, c = (
        {"p": rows[:, 0], "q": rows[:, 1]},
        {"q": rows[:, 1], "r": rows[:, 2]},
        {"r": rows[:, 2], "s": rows[:, 3]},
    )
    result = intarsia.cluster({"a": a, "b": b, "c": c}, 2, random_state=0)
    finding = _findings(result)["Participants share columns"]
    assert finding.state is State.CAUTION
    assert "'b'" in finding.seen
    assert finding.advice
    assert result.summarise().bridges == ("b",)


def test_many_empty_cells_and_few_rows_are_pointed_out():
    findings = _findings(intarsia.cluster(blobs("ab", ["x", "y", "z"], 2, 60, missing=0.6), 2, random_state=0))
    assert findings["Few values are missing in columns that a participant has"].state is State.BAD
    findings = _findings(intarsia.cluster(blobs("ab", ["x", "y", "z"], 2, 6), 2, random_state=0))
    finding = findings["Every number that left stands for several rows"]
    assert (finding.state, "centroid of each local cluster" in finding.seen) == (State.CAUTION, True)
    assert "reply." not in finding.seen  # technical names are in the table of what left, not in findings
    findings = _findings(intarsia.cluster(blobs("ab", ["x", "y", "z"], 2, 2), 2, random_state=0))
    finding = findings["Every number that left stands for several rows"]
    assert (finding.state, "that row itself" in finding.seen) == (State.BAD, True)
    findings = _findings(intarsia.cluster(blobs("ab", ["x", "y"], 2, 60), 2, scale="minmax", random_state=0))
    assert "smallest value of each column" in findings["Every number that left stands for several rows"].seen


def test_versions_of_a_cluster_that_disagree_are_pointed_out():
    rng = np.random.default_rng(0)
    x = 4.0 * (np.arange(80) % 2) + rng.normal(size=80) / 4
    shifted = {"x": x + 1.7}
    findings = _findings(intarsia.cluster({"a": {"x": x}, "b": shifted}, 2, random_state=0, max_rounds=0))
    assert findings["Participants' versions of a cluster agree"].state is State.GOOD
    findings = _findings(intarsia.cluster({"a": {"x": x}, "b": {"x": x + 4.1}}, 2, random_state=0, max_rounds=0))
    assert findings["Participants' versions of a cluster agree"].state is not State.GOOD


def test_rounds_that_do_not_end_are_pointed_out():
    findings = _findings(hospitals(max_rounds=1))
    assert findings["Rounds converged"].state is State.BAD
    assert "One round only" in _findings(hospitals(method="one_shot"))


def test_one_participant_and_one_cluster_have_their_own_words():
    alone = intarsia.cluster({"a": blobs("a", ["x", "y"], 2, 40)["a"]}, 2, random_state=0).summarise()
    assert "ordinary clustering" in alone.headline[2]
    one = intarsia.cluster(blobs("ab", ["x", "y"], 1, 40), 1, random_state=0).summarise()
    assert "1 cluster." in one.headline[0]
    assert one.title == "One clustering of a and b"


def test_categories_are_one_column():
    tables = {
        "a": {"x": [1.0, 2, 8, 9] * 5, "sex": ["f", "m", "f", "m"] * 5},
        "b": {"x": [1.0, 2, 8, 9] * 5, "sex": ["f", "m"] * 10},
    }
    data = intarsia.cluster(tables, 2, random_state=0).summarise()
    assert [(c.name, c.levels) for c in data.columns] == [("x", ()), ("sex", ("f", "m"))]
    assert data.shared[0].columns == 2
    assert "sex" in data.methods
    finding = {finding.about: finding for finding in data.findings}["Every number that left stands for several rows"]
    assert "Names of levels of categories left" in finding.seen


def test_rows_without_clusters_are_pointed_out():
    rng = np.random.default_rng(0)
    tables = {name: {c: rng.normal(size=80) for c in "xyz"} for name in "abc"}
    finding = _findings(intarsia.cluster(tables, 2, random_state=0))["Participants' rows fall into clusters"]
    assert finding.state is State.BAD


@pytest.mark.parametrize("seed", range(6))
def test_shared_columns_that_tell_nothing_are_pointed_out(seed):
    rng = np.random.default_rng(seed)
    tables = {}
    for name in "abc":
        truth = np.arange(80) % 2
        own = {f"{name}{k}": 6 * truth + rng.normal(size=80) for k in range(2)}
        tables[name] = {"shared": rng.normal(size=80), **own}
    finding = _findings(intarsia.cluster(tables, 2, random_state=0))["Shared columns separate local clusters"]
    assert finding.state is not State.GOOD


@pytest.mark.parametrize("other", [lambda x: 1000 * x, lambda x: x + 300, lambda x: 1.8 * x + 32, lambda x: x / 40])
def test_a_column_in_other_units_is_pointed_out(other):
    tables = {n: {c: v + 40 for c, v in t.items()} for n, t in blobs("abc", ["f", "g", "h"], 3, 90).items()}
    finding = _findings(intarsia.cluster(tables, 3, random_state=0))["Columns mean the same everywhere"]
    assert finding.state is State.GOOD
    tables["b"]["f"] = other(tables["b"]["f"])
    with pytest.warns(intarsia.exceptions.UnitsWarning, match="'f' at 'b'"):
        finding = _findings(intarsia.cluster(tables, 3, random_state=0))["Columns mean the same everywhere"]
    assert (finding.state, "'f'" in finding.seen, "'b'" in finding.seen) == (State.BAD, True, True)


def test_cholesterol_in_other_units_is_pointed_out_and_real_hospitals_are_not():
    tables = {name: table.copy() for name, table in intarsia.datasets.load_heart_disease("pandas").tables.items()}
    about = "Columns mean the same everywhere"
    assert _findings(intarsia.cluster(tables, 2, random_state=0))[about].state is State.GOOD
    tables["hungary"]["chol"] /= 38.67
    with pytest.warns(intarsia.exceptions.UnitsWarning, match="'chol' at 'hungary'.*multiply by 38.67 there"):
        finding = _findings(intarsia.cluster(tables, 2, random_state=0))[about]
    assert (finding.state, "'chol' averages 6.49 at 'hungary'" in finding.seen) == (State.BAD, True)
    assert "(cholesterol in mmol/l and mg/dl, multiply by 38.67 there)" in finding.seen


def test_rounds_that_can_be_subtracted_are_pointed_out():
    result = hospitals()
    assert min(result.run.differences.values()) == 1
    assert _findings(result)["What sums of one participant can be subtracted to"].state is State.CAUTION


def test_a_cluster_that_is_one_participant_s_in_the_end_is_pointed_out():
    rng = np.random.default_rng(0)
    tables = {name: {c: 50.0 * k + rng.normal(size=60) for c in "xy"} for k, name in enumerate("abc")}
    finding = _findings(intarsia.cluster(tables, 3, random_state=0))["Each cluster's participants are connected"]
    assert finding.state is State.CAUTION


def test_what_few_cells_stand_behind_is_not_shown():
    a = {"x": [0.0, 0.1, 0.2, 0.1, 0.0, 0.2, 9.0, 9.1, 9.2], "y": [1.0] * 6 + [7.123, np.nan, np.nan]}
    result = intarsia.cluster({"a": a, "b": {"x": a["x"]}}, 2, random_state=0, scale=None)
    data = result.summarise()
    at = data.profiles.features.index("y")
    assert [row[at] is None for row in data.profiles.means] == [False, True]
    assert "7.123" not in data.to_json()
    assert "7.123" in result.summarise(fewest=1).to_json()
    assert not any(entry.feature == "y" for cluster in data.clusters for entry in cluster.separating)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"max_rounds": 0}, "without federated rounds"),
        ({"model": "mixture"}, "likeliest of Gaussians"),
        ({"missing": "impute"}, "saw column means"),
        ({"metric": "manhattan"}, "Distances were manhattan"),
        ({"aggregation": "method_a"}, "by Method A"),
        ({"aggregation": "paper"}, "by Method B, because neither Assumption 1 nor Assumptions 2 and 3 held"),
        ({"scale": "minmax"}, "divided by their range"),
        (
            {"method": "one_shot", "density": "gaussian_diagonal"},
            "density (gaussian, diagonal; variances and correlations shrunk)",
        ),
        (
            {"method": "one_shot", "density": "gaussian_low_rank"},
            "density (gaussian, low rank where rows and release rules allow it; variances",
        ),
        ({"method": "one_shot", "shrink": False}, "variances and correlations of maximum likelihood, not shrunk)"),
        ({"method": "one_shot"}, "(exact between Gaussians; exponent 2, softening 0.01)"),
        (
            {"method": "one_shot", "preset": "paper", "exponent": 3.5},
            "(sampled with 30 to 100 points of each density; exponent 3.5, softening 0)",
        ),
        (
            {"method": "one_shot", "aggregation": "greedy", "linkage": "mean"},
            "joined by the mean distance between their points, 100 drawn from each density, over the features",
        ),
        (
            {"method": "one_shot", "aggregation": "greedy", "linkage": "ward"},
            "joined by the smallest increase of the sum of squares (Ward), over the features",
        ),
    ],
)
def test_the_methods_paragraph_says_what_was_done(settings_, words):
    assert words in hospitals(**settings_).summarise().methods


def test_the_methods_paragraph_names_a_local_algorithm():
    from sklearn.cluster import AgglomerativeClustering

    told = hospitals(method="one_shot", local=AgglomerativeClustering(2), missing="impute").summarise()
    assert "with AgglomerativeClustering()" in told.methods
    assert "by their densities" in told.headline[2]


def test_noise_is_told():
    from sklearn.cluster import DBSCAN

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 0.2, 30), rng.normal(9, 0.2, 30), [50.0]])
    settings = {"method": "one_shot", "local": DBSCAN(eps=1.0), "random_state": 0, "scale": None}
    tables = {"a": {"x": x}, "b": {"x": x}}
    data = intarsia.cluster(tables, 2, labels="local", **settings).summarise()
    assert data.participants[0].rows - data.participants[0].labelled == 1
    assert "2 are noise" in data.headline[0]
    data = intarsia.cluster(tables, 2, **settings).summarise()
    assert data.participants[0].rows == data.participants[0].labelled
    assert "noise" not in data.headline[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "nearest global centroid"),
        ({"labels": "local"}, "cluster that their local cluster was joined to"),
        ({"model": "mixture"}, "likeliest of Gaussians"),
    ],
)
def test_the_report_says_how_the_one_shot_method_labelled_rows(settings, words):
    rng = np.random.default_rng(0)
    tables = {name: {"x": rng.normal(size=40) + 9 * (np.arange(40) % 2)} for name in "ab"}
    data = intarsia.cluster(tables, 2, method="one_shot", random_state=0, **settings).summarise()
    assert words in data.methods
    assert words in next(finding.seen for finding in data.findings if finding.about == "One round only")


# -- the map ------------------------------------------------------------------------------------------------------


@given(st.integers(2, 12), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_points_in_the_plane_are_found_again(n, seed):
    points = np.random.default_rng(seed).normal(size=(n, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    layout = flat_layout(apart)
    assert np.allclose(np.linalg.norm(layout.points[:, None] - layout.points[None], axis=-1), apart, atol=1e-6)
    assert layout.kept == pytest.approx(1.0)


@given(st.integers(12, 40), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_points_in_the_plane_are_found_again_by_landmarks(n, seed):
    points = np.random.default_rng(seed).normal(size=(n, 2))
    seen = np.ones(points.shape, dtype=bool)
    extent = extent_of(points, seen)
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) / np.linalg.norm(extent.width)
    layout = rough_layout(points, seen, extent, 6)
    assert np.allclose(np.linalg.norm(layout.points[:, None] - layout.points[None], axis=-1), apart, atol=1e-5)
    assert layout.kept == pytest.approx(1.0)


def test_whoever_no_landmark_sees_has_a_place_too():
    rng = np.random.default_rng(0)
    values, seen = rng.normal(size=(50, 6)), np.zeros((50, 6), dtype=bool)
    seen[np.arange(50), np.arange(50) % 5] = True  # every landmark sees one feature, and so does everybody
    seen[::2, 1] = True
    seen[49] = [False] * 5 + [True]
    values = np.where(seen, values, 0.0)
    assert np.isfinite(rough_layout(values, seen, extent_of(values, seen), 10).points).all()


def test_of_many_pairs_those_are_kept_that_share_most():
    outcome = large_study(n=150, k=2, d=12).outcome
    every = most_shared(outcome, most=150**2)
    has = outcome.masks.astype(int)
    expected = [(i, j, int(has[i] @ has[j])) for i in range(150) for j in range(i + 1, 150) if has[i] @ has[j]]
    expected.sort(key=lambda pair: -pair[2])
    assert [(pair.left, pair.right, pair.columns) for pair in every] == expected
    assert most_shared(outcome, most=100, piece_values=0) == every[:100]


def test_what_cannot_be_compared_is_reached_over_others():
    nan = np.nan
    chain = np.array([[0, 1, nan], [1, 0, 2], [nan, 2, 0]])
    points = flat_layout(chain).points
    assert np.linalg.norm(points[0] - points[2]) == pytest.approx(3.0)
    apart = flat_layout(np.array([[0, 1, nan], [1, 0, nan], [nan, nan, 0.0]])).points
    assert np.linalg.norm(apart[0] - apart[2]) > 1.0
    assert flat_layout(np.zeros((1, 1))).points.tolist() == [[0.0, 0.0]]
    assert np.isfinite(flat_layout(np.full((3, 3), nan)).points).all()


@given(st.integers(1, 10), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_quick_distances_are_the_exact_ones(n, d, seed):
    rng = np.random.default_rng(seed)
    values, seen = rng.normal(size=(n, d)) * 10, rng.random((n, d)) < 0.7
    values = np.where(seen, values, 0.0)
    extent = extent_of(values, seen)
    exact = rescaled_distances(values, seen, values, seen, extent)
    quick = quick_distances(values, seen, extent)
    off = ~np.eye(n, dtype=bool)
    assert np.array_equal(np.isnan(quick)[off], np.isnan(exact)[off])
    assert np.allclose(quick[off], exact[off], atol=1e-6, equal_nan=True)


def test_a_participant_that_left_early_has_no_missing_values_and_is_not_counted(tmp_path):
    """It described its table, and answered nothing after that."""
    from intarsia.estimators import load_result
    from intarsia.results import model_file
    from intarsia.runtime.drive import drive
    from intarsia.runtime.recorder import Recorder
    from tests.runtime.test_quorum import ALGORITHMS, Some, people

    runtime, recorder = Some(people(), lambda n, name: name == "d" and n > 0), Recorder()
    outcome = drive(ALGORITHMS["federated"], runtime, recorder, None, 3)
    record = recorder.record("federated", {}, 0, {}, outcome.remarks, outcome.participants)
    model_file.save(tmp_path / "model.intarsia", outcome, outcome.model.space.names, record)
    result = load_result(tmp_path / "model.intarsia")
    assert "120 rows from 3 of 4 participants" in str(result)
    seen = {finding.about: finding for finding in result.findings}
    assert seen["Few values are missing in columns that a participant has"].seen == "No value is missing."
    assert "runs/" in seen["Everybody answered every request"].advice
