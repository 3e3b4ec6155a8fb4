"""After the fit: memberships, margins, score, imputation, explanations and the profile as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import intarsia
from intarsia.core.centroids import MaskedCentroids
from intarsia.core.mixture import PRIOR, RIDGE, expected, log_memberships, pooled_squares
from intarsia.exceptions import SettingError, UnknownColumnsWarning, UnknownFeaturesError, UnknownLevelsWarning
from tests.mixtures import mixture_of

NAN = np.nan


def planted(seed=0, n=240):
    """Three clusters; u and v separate them, w does not; a lacks w and b lacks u."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=(2, n))
    centres = np.array([[0.0, 0.0, 5.0, 1.0], [8.0, 8.0, 5.0, 3.0], [0.0, 16.0, 5.0, 2.0]])
    rows = centres[truth] + rng.normal(size=(2, n, 4)) * [1.0, 1.0, 1.0, 0.1]
    a = pd.DataFrame(rows[0][:, [0, 1, 3]], columns=["u", "v", "t"])
    b = pd.DataFrame(rows[1][:, [1, 2, 3]], columns=["v", "w", "t"])
    return {"a": a, "b": b}, rows, truth


@pytest.fixture(scope="module", params=["federated", "one_shot"])
def fitted(request):
    tables, rows, truth = planted()
    return intarsia.cluster(tables, 3, method=request.param, scale="standard", random_state=0), tables, rows, truth


def test_memberships_of_two_gaussians_are_bayes_rule():
    centroids = MaskedCentroids.of(np.array([[0.0], [4.0]]), np.full((2, 1), 1e9))
    mixture = mixture_of(centroids, np.array([[1.0], [4.0]]), centroids.counts, np.array([3.0, 1.0]), ridge=0.0)
    x = np.array([[-1.0], [2.0], [5.0]])
    left, right = 0.75 * norm.pdf(x[:, 0], 0, 1), 0.25 * norm.pdf(x[:, 0], 4, 2)
    np.testing.assert_allclose(
        np.exp(log_memberships(mixture, x, np.ones((3, 1), dtype=bool)))[:, 0], left / (left + right)
    )


def test_a_feature_that_a_cluster_never_saw_says_nothing_for_or_against_it():
    # the third cluster knows u alone; forty features that it never saw do not outweigh it
    values = np.column_stack([[0.0, 10.0, 20.0], np.tile([[0.0], [10.0], [0.0]], 40)])
    counts = np.column_stack([np.full(3, 50.0), np.tile([[50.0], [50.0], [0.0]], 40)])
    mixture = mixture_of(MaskedCentroids.of(values, counts), np.ones((3, 41)), counts, np.ones(3))
    row = np.column_stack([[20.0], np.full((1, 40), 10.0)])
    assert np.exp(log_memberships(mixture, row, np.ones((1, 41), dtype=bool)))[0].argmax() == 2


def test_small_clusters_are_drawn_towards_the_common_variance():
    counts = np.array([[1.0], [999.0]])
    centroids = MaskedCentroids.of(np.zeros((2, 1)), counts)
    mixture = mixture_of(centroids, np.array([[0.0], [1.0]]), counts, np.ones(2))
    variances = mixture.squares * mixture.width**2
    np.testing.assert_allclose(mixture.variances * mixture.width**2 - variances, RIDGE * 0.999)
    assert variances[0, 0] == pytest.approx(PRIOR * 0.999 / (1 + PRIOR))
    assert variances[1, 0] == pytest.approx(1.0, abs=1e-3)


def test_squares_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    rows, part, whole = rng.normal(size=(30, 2)), rng.integers(4, size=30), np.array([0, 0, 1, 1])
    means = np.array([rows[part == k].mean(axis=0) for k in range(4)])
    counts = np.array([[np.sum(part == k)] * 2 for k in range(4)], dtype=float)
    squares = np.array([np.square(rows[part == k] - means[k]).sum(axis=0) for k in range(4)])
    centres = np.array([rows[whole[part] == g].mean(axis=0) for g in range(2)])
    found = pooled_squares(
        MaskedCentroids.of(means, counts), squares, whole, MaskedCentroids.of(centres, np.ones((2, 2)))
    )
    np.testing.assert_allclose(found, [np.square(rows[whole[part] == g] - centres[g]).sum(axis=0) for g in range(2)])


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_expected_values_lie_between_the_means_and_are_never_surer_than_a_cluster(row, there):
    means = np.array([[0.0, 1.0, -5.0], [3.0, 1.0, 8.0]])
    counts = np.full((2, 3), 50.0)
    mixture = mixture_of(MaskedCentroids.of(means, counts), np.ones((2, 3)), counts, np.ones(2))
    weights = np.exp(log_memberships(mixture, np.array([row]), np.array([there])))
    assert weights.sum() == pytest.approx(1.0)
    mean, spread = expected(mixture, weights)
    assert (means.min(axis=0) - 1e-9 <= mean).all()
    assert (mean <= means.max(axis=0) + 1e-9).all()
    assert (spread >= np.sqrt(mixture.squares.min(axis=0)) * mixture.width - 1e-9).all()


def test_the_likeliest_is_the_nearest_where_clusters_are_clear(fitted):
    result, tables, _, _ = fitted
    proba, labels, margin = result.predict_proba(tables), result.predict(tables), result.predict_margin(tables)
    for key in tables:
        assert proba[key].shape == (240, 3)
        np.testing.assert_allclose(proba[key].sum(axis=1), 1.0)
        assert np.mean(proba[key].argmax(axis=1) == labels[key]) > 0.99
        two = np.sort(proba[key], axis=1)
        np.testing.assert_allclose(margin[key], two[:, 2] - two[:, 1])
    alone = result.predict_proba(tables["a"][["t"]])
    assert alone.shape == (240, 3)
    empty = result.predict_proba({"u": [NAN, 0.0], "v": [NAN, NAN]})
    np.testing.assert_allclose(empty[0], sum(result.sizes.values()) / 480)


def test_one_cluster_has_no_rival():
    result = intarsia.cluster({"a": {"x": [0.0, 1.0, 2.0]}}, 1, random_state=0)
    assert result.predict_margin({"x": [5.0]}).tolist() == [1.0]


def test_deviations_are_those_of_the_rows(fitted):
    result, tables, _, _ = fitted
    for k in range(3):
        for m, name in enumerate(result.feature_names):
            cells = np.concatenate([t[name].to_numpy()[result.labels[p] == k] for p, t in tables.items() if name in t])
            around = np.sqrt(np.mean(np.square(cells - result.centroids[k, m])))
            assert result.deviations[k, m] == pytest.approx(around, rel=0.03)


def test_score_is_the_share_of_variance_explained(fitted):
    result, tables, _, _ = fitted
    assert 0.5 < result.score(tables) < 1
    assert result.score(tables["a"]) < 1
    scrambled = {key: table.sample(frac=1, random_state=1).reset_index(drop=True) for key, table in tables.items()}
    assert result.score(scrambled) == pytest.approx(result.score(tables))
    far = tables["a"].assign(u=tables["a"]["v"] * -50)
    assert result.score(far) < result.score(tables["a"])


def test_imputed_cells_are_what_the_clusters_lead_one_to_expect(fitted):
    result, tables, rows, _ = fitted
    found = result.impute(tables["a"])
    assert set(found.values) == set(result.feature_names)
    for name in tables["a"]:
        assert (found.values[name] == tables["a"][name].to_numpy()).all()
        assert (found.spread[name] == 0).all()
    missing = result.impute(tables["b"])
    error = missing.values["u"] - rows[1][:, 0]
    assert np.sqrt(np.mean(error**2)) < 1.2
    assert np.std(rows[1][:, 0]) > 3
    within = np.abs(error) < 2 * missing.spread["u"]
    assert 0.85 < within.mean() <= 1
    gaps = tables["b"].copy()
    gaps.loc[::3, "v"] = NAN
    filled = result.impute(gaps)
    assert not np.isnan(filled.values["v"]).any()
    assert (filled.spread["v"][::3] > 0).all()
    assert (filled.spread["v"][1::3] == 0).all()


def test_explain_puts_first_what_separates(fitted):
    result, _, _, _ = fitted
    found = result.explain()
    assert found[0].feature in {"v", "t"}
    assert abs(found[0].difference) > 5
    assert all(abs(s.difference) < 1 for s in found if s.feature == "w")
    assert {s.feature: s.participants for s in found} == {
        "u": ("a",),
        "v": ("a", "b"),
        "w": ("b",),
        "t": ("a", "b"),
    }
    sizes = [abs(s.difference) for s in found]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_profile_as_a_table(fitted, backend):
    result, _, _, _ = fitted
    frame = result.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    plain = frame if backend == "pandas" else frame.to_pandas()
    assert len(plain) == 12
    line = plain[(plain.cluster == 1) & (plain.feature == "v")].iloc[0]
    assert line["mean"] == pytest.approx(result.centroids[1, result.feature_names.index("v")])
    assert line.participants == 2
    with pytest.raises(SettingError, match="backend"):
        result.to_frame("excel")


def test_units_do_not_change_memberships(fitted):
    _, tables, _, _ = fitted
    other = {key: table.assign(v=table["v"] * 1000.0) for key, table in tables.items()}
    for method in ("federated", "one_shot"):
        one, two = (intarsia.cluster(t, 3, method=method, scale="standard", random_state=0) for t in (tables, other))
        for key in tables:
            np.testing.assert_allclose(one.predict_proba(tables)[key], two.predict_proba(other)[key], atol=1e-6)


def test_a_table_without_a_known_column_is_refused_everywhere(fitted):
    result, _, _, _ = fitted
    for ask in (
        result.predict,
        result.transform,
        result.predict_proba,
        result.predict_margin,
        result.score,
        result.impute,
    ):
        with pytest.raises(UnknownFeaturesError, match="1 of 1 columns.*zzz"):
            ask({"zzz": [1.0]})


def test_unknown_columns_are_ignored_and_named_once_everywhere(fitted):
    result, tables, _, _ = fitted
    known = next(iter(tables.values())).head(5)
    more = known.assign(zzz=1.0, ward="a")
    for ask in (
        result.predict,
        result.transform,
        result.predict_proba,
        result.predict_margin,
        result.score,
        result.impute,
    ):
        with pytest.warns(UnknownColumnsWarning, match=r"2 of \d+ columns .*'zzz'.*ignored") as seen:
            answer = ask(more)
        assert len(seen) == 1
        assert seen[0].filename == __file__
        np.testing.assert_equal(answer, ask(known))


def test_the_name_of_a_column_that_is_nearly_known_is_a_hint(fitted):
    result, tables, _, _ = fitted
    table = next(iter(tables.values())).head(3).assign(V=1.0)
    with pytest.warns(UnknownColumnsWarning, match="Hint: 'V' looks like 'v'"):
        result.predict(table)


CATEGORIES = {
    name: {"x": [0.0, 0.1, 0.2, 9.0, 9.1, 9.2] * 3, "sex": (["f"] * 3 + ["m"] * 3) * 3} for name in ("a", "b")
}


def test_unknown_levels_are_counted_by_column_once_everywhere(tmp_path, monkeypatch):
    result = intarsia.cluster(CATEGORIES, 2, random_state=0)
    new = {"x": [0.0] * 40, "sex": ["f", "other", "weiblich", "other"] * 10}
    path = tmp_path / "new.parquet"
    pl.DataFrame(new).write_parquet(path, row_group_size=10)
    asked = (result.predict, result.transform, result.predict_proba, result.predict_margin, result.score, result.impute)
    for table in (new, pl.DataFrame(new), path):
        if table is path:
            monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "0")  # read in batches
        for ask in asked:
            with pytest.warns(UnknownLevelsWarning) as seen:
                ask(table)
            (warning,) = seen
            assert "1 column(s) of 'new rows'" in str(warning.message)
            assert "'sex' (2 in 30 rows; known are 'f', 'm')" in str(warning.message)
            assert "weiblich" not in str(warning.message)  # a cell
            assert warning.filename == __file__


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.UnknownLevelsWarning")
@pytest.mark.parametrize("settings", [{}, {"model": "mixture"}, {"method": "one_shot"}])
def test_a_row_with_nothing_but_an_unknown_category_is_in_no_cluster(settings):
    result = intarsia.cluster(CATEGORIES, 2, random_state=0, **settings)
    new = {"x": [np.nan, 9.0, np.nan, np.nan], "sex": ["other", "other", "m", None]}
    labels = result.predict(new)
    assert (labels == -1).tolist() == [True, False, False, True]
    assert labels[1] == result.predict({"x": [9.0], "sex": ["m"]})[0] == labels[2]
    proba = result.predict_proba(new)
    np.testing.assert_allclose(proba[0], proba[3])  # the clusters' shares, as for an empty row
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isnan(result.transform(new)[[0, 3]]).all()
    assert result.predict({"sex": ["other"]}).tolist() == [-1]


def test_the_nearest_centroid_of_transform_is_the_cluster(fitted):
    result, tables, _, _ = fitted
    distances, labels = result.transform(tables), result.predict(tables)
    for key, each in distances.items():
        known = labels[key] >= 0
        assert each.shape == (len(tables[key]), result.n_clusters)
        assert (np.nanargmin(each[known], axis=1) == labels[key][known]).all()
    centroids = pd.DataFrame(result.centroids, columns=result.feature_names)
    np.testing.assert_allclose(np.diag(result.transform(centroids)), 0.0, atol=1e-6)


def test_frames_are_of_the_library_of_the_table_and_keep_its_index(fitted):
    result, tables, _, _ = fitted
    key, table = next(iter(tables.items()))
    table = table.head(7).set_axis([f"row {k}" for k in range(7)])
    frame = result.predict(table, as_frame=True)
    assert frame.index.tolist() == table.index.tolist()
    assert frame["cluster"].tolist() == result.predict(table).tolist()
    for native in (pl.from_pandas(table), pa.table({name: table[name].to_numpy() for name in table})):
        other = result.predict(native, as_frame=True)
        assert type(other) is type(native)
        assert list(other["cluster"].to_numpy()) == frame["cluster"].tolist()
    several = result.predict({key: table, "new": table}, as_frame=True, none_beyond=0.9)
    assert several["new"].index.tolist() == table.index.tolist()
    assert result.predict({name: table[name].tolist() for name in table}, as_frame=True).shape == (7, 1)


def test_a_saved_study_still_knows_its_spread(fitted, tmp_path):
    result, tables, _, _ = fitted
    result.save(tmp_path / "s.intarsia")
    again = intarsia.load(tmp_path / "s.intarsia")
    np.testing.assert_array_equal(again.predict_proba(tables)["a"], result.predict_proba(tables)["a"])
    np.testing.assert_array_equal(again.deviations, result.deviations)


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
def test_cells_missing_and_absent_add_up_to_the_rows_of_a_cluster():
    rng = np.random.default_rng(0)
    tables = {
        "a": pd.DataFrame(
            {"x": np.r_[rng.normal(size=20), 9 + rng.normal(size=20)], "y": np.r_[np.zeros(20), np.ones(20)]}
        ),
        "b": pd.DataFrame({"x": np.r_[rng.normal(size=5), 9 + rng.normal(size=5)]}),
    }
    tables["a"].loc[:3, "y"] = np.nan
    for method in ("federated", "one_shot"):
        frame = intarsia.cluster(tables, 2, method=method, random_state=0).to_frame()
        assert (frame.cells + frame.missing + frame.absent == 25).all()
        low = frame[frame.feature == "y"].sort_values("mean").iloc[0]
        assert (low.cells, low.missing, low.absent) == (16, 4, 5)


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
def test_an_entry_that_nobody_is_labelled_with_has_no_spread():
    rng = np.random.default_rng(0)
    near = lambda m: rng.normal(m, 0.1, size=20)
    tables = {"a": {"x": np.r_[near(0), near(9)], "v": rng.normal(size=40)}, "b": {"x": np.r_[near(9), near(30)]}}
    result = intarsia.cluster(tables, 3, scale=None, random_state=0)
    frame = result.to_frame()
    line = frame[frame["cells"] == 0]
    assert set(line.feature) == {"v"}
    assert np.isnan(line.deviation).all()
    assert 0.7 < result.impute({"x": [30.0]}).spread["v"][0] < 1.5
    x = frame[frame.feature == "x"].set_index("cluster")
    assert sorted(x.participants) == [1, 1, 2]


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_rounding_decides_nothing(method):
    g = np.repeat([0, 1], 20)
    rng = np.random.default_rng(0)
    make = lambda: {"x": 9.0 * g + 0.1 * rng.normal(size=40), "k": np.where(g > 0, 0.1 + 0.2, 0.3)}
    for scale in (None, "auto", "standard", "minmax", "robust"):
        result = intarsia.cluster({"a": make(), "b": make()}, 2, method=method, scale=scale, random_state=0)
        new = {"x": [0.0, 9.0], "k": [0.1 + 0.2, 0.3]}
        assert result.predict_proba(new).argmax(axis=1).tolist() == result.predict(new).tolist()
        assert result.explain()[0].feature == "x"


def test_huge_rows_and_tiny_features_give_numbers():
    x = 1e-95 * np.r_[np.zeros(10), np.ones(10)] + 1e-97 * np.random.default_rng(0).normal(size=20)
    for scale in (None, "standard"):
        result = intarsia.cluster({"a": {"x": x}, "b": {"x": x}}, 2, scale=scale, random_state=0)
        assert np.isfinite(result.predict_proba({"x": [1e70, -1e70, 0.0]})).all()
        assert np.isfinite(result.score({"x": [0.0, 1e90]}))


@pytest.mark.parametrize("constant", [7.0, 1e-9, 1e9])
def test_a_constant_column_is_imputed_without_doubt(constant):
    a = {"x": [0.0, 0.1, 9.0, 9.1], "c": [constant] * 4}
    result = intarsia.cluster({"a": a, "b": {"x": [0.05, 9.05]}}, 2, random_state=0)
    found = result.impute({"x": [0.0]})
    assert found.values["c"][0] == pytest.approx(constant)
    assert found.spread["c"][0] == 0.0


def test_angles_have_no_memberships():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=20), "y": rng.normal(size=20)}
    result = intarsia.cluster({"a": table, "b": table}, 2, metric="cosine", random_state=0)
    with pytest.raises(SettingError, match="not Gaussian"):
        result.predict_proba(table)


def test_a_mixture_labels_by_the_likeliest_cluster_and_predicts_as_it_labelled(tmp_path):
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    spread = np.array(
        [1.0, 6.0, 1.0, 6.0]
    )  # half of the features say little, and a centroid weighs them like the others
    tables, truth = {}, {}
    for name, columns in {"a": [0, 1, 2], "b": [1, 2, 3]}.items():
        truth[name] = np.arange(300) % 2
        rows = centres[truth[name]] + rng.normal(size=(300, 4)) * spread
        tables[name] = pd.DataFrame(rows[:, columns], columns=[f"f{k}" for k in columns])
    plain = intarsia.cluster(tables, 2, random_state=0)
    mixture = intarsia.cluster(tables, 2, model="mixture", random_state=0)
    differ = 0
    for name, table in tables.items():
        np.testing.assert_array_equal(mixture.labels[name], mixture.predict(table))
        np.testing.assert_array_equal(mixture.labels[name], mixture.predict_proba(table).argmax(axis=1))
        np.testing.assert_array_equal(mixture.labels[name], plain.predict_proba(table).argmax(axis=1))
        np.testing.assert_array_equal(mixture.sizes[name], np.bincount(mixture.labels[name], minlength=2))
        differ += int((mixture.labels[name] != plain.labels[name]).sum())
    assert differ > 0
    np.testing.assert_array_equal(mixture.centroids, plain.centroids)
    mixture.save(tmp_path / "s.intarsia")
    again = intarsia.load(tmp_path / "s.intarsia")
    np.testing.assert_array_equal(again.predict(tables["a"]), mixture.labels["a"])
    assert (mixture.predict({"f0": [np.nan, 1.0]}) == [-1, mixture.predict({"f0": [1.0]})[0]]).all()
    with pytest.raises(intarsia.exceptions.SettingError, match="model='mixture' needs metric='euclidean'"):
        intarsia.cluster(tables, 2, model="mixture", metric="cosine")
