"""result.stability(): resampled rows of all participants are clustered anew; the result keeps the figures."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

import intarsia
from intarsia.estimators import stability as module
from intarsia.exceptions import SettingError, TooFewRowsError
from intarsia.results.stability import Stability, pooled


def _tables(seed=0, n=120, apart=8.0, unit=1.0):
    rng = np.random.default_rng(seed)
    centres = apart * np.array([[0.0, 0, 0], [1, 1, 0], [0, 2, 1]])
    rows = [centres[rng.integers(3, size=n)] + rng.normal(size=(n, 3)) for _ in range(2)]
    return {
        "a": pd.DataFrame({"x": rows[0][:, 0] * unit, "y": rows[0][:, 1]}),
        "b": pd.DataFrame({"y": rows[1][:, 1], "z": rows[1][:, 2]}),
    }


@pytest.fixture(scope="module")
def result():
    return intarsia.cluster(_tables(), 3, random_state=0, n_starts=3)


@pytest.fixture(scope="module")
def figures(result):
    return result.stability(n_resamples=6)


def test_clear_clusters_are_stable(result, figures):
    assert figures.smallest >= 0.9
    assert figures.mean >= figures.smallest
    assert figures.sizes == tuple(sum(result.sizes.values()).tolist())
    assert figures.dissolved == (0.0, 0.0, 0.0)
    assert (figures.n_resamples, figures.seed, figures.local) == (6, 0, False)
    assert figures.unstable == figures.doubtful == ()


def test_a_cloud_is_not():
    rows = np.random.default_rng(1).normal(size=(200, 2))
    tables = {"a": {"x": rows[:100, 0], "y": rows[:100, 1]}, "b": {"x": rows[100:, 0], "y": rows[100:, 1]}}
    figures = intarsia.cluster(tables, 3, random_state=0, n_starts=3).stability(n_resamples=6)
    assert figures.mean < 0.6
    assert figures.unstable


def test_the_same_seed_gives_the_same_figures_also_in_two_processes(result, figures):
    assert result.stability(n_resamples=6) == figures
    two = result.stability(n_resamples=2, random_state=1)
    assert result.stability(n_resamples=2, random_state=1, n_jobs=2) == two != result.stability(n_resamples=2)


def test_the_result_keeps_the_figures_for_report_and_file(result, figures, tmp_path):
    assert result.outcome.stability is not None
    said = result.summarise()
    assert said.stability == result.outcome.stability
    (finding,) = [f for f in said.findings if f.about == "Clusters come back when rows are resampled"]
    assert finding.state == "good"
    result.save(tmp_path / "study.intarsia")
    assert intarsia.load(tmp_path / "study.intarsia").outcome.stability == result.outcome.stability


def test_a_loaded_result_needs_the_tables(result, figures, tmp_path):
    result.save(tmp_path / "study.intarsia")
    loaded = intarsia.load(tmp_path / "study.intarsia")
    with pytest.raises(SettingError, match=r"does not have its tables.*Hint: result\.stability\(tables\)"):
        loaded.stability()
    assert loaded.stability(_tables(), n_resamples=6) == figures  # nearest centroids are the labels of the fit


def test_a_loaded_result_with_an_algorithm_of_its_own_says_that_code_is_missing(tmp_path):
    model = intarsia.FederatedClustering(3, local=KMeans(3, n_init=2), n_starts=2, random_state=0)
    result = model.fit(_tables()).result_
    assert result.stability(n_resamples=2).smallest > 0.8
    result.save(tmp_path / "study.intarsia")
    with pytest.raises(SettingError, match="contains no code"):
        intarsia.load(tmp_path / "study.intarsia").stability(_tables())


def test_tables_are_not_pickled(result):
    again = pickle.loads(pickle.dumps(result))
    with pytest.raises(SettingError, match="does not have its tables"):
        again.stability()


def test_units_do_not_matter():
    def scores(unit):
        result = intarsia.cluster(_tables(unit=unit), 3, random_state=0, n_starts=2, scale="standard")
        return np.array(result.stability(n_resamples=2).scores)

    np.testing.assert_allclose(scores(1.0), scores(1000.0), atol=1e-6)


def test_categories_missing_values_and_release_rules():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    x = np.where(rng.random(200) < 0.1, np.nan, 9.0 * truth + rng.normal(size=200))
    table = pd.DataFrame({"x": x, "y": 9.0 * truth + rng.normal(size=200), "c": np.where(truth, "u", "v")})
    tables = {"a": table[:100], "b": table[100:].drop(columns="x")}
    result = intarsia.cluster(tables, 2, random_state=0, n_starts=2, release=intarsia.ReleasePolicy())
    assert result.stability(n_resamples=2).smallest > 0.9


def test_one_matrix_and_one_cluster():
    rows = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    model = intarsia.FederatedClustering(2, random_state=0, n_starts=2).fit(rows)
    assert model.result_.stability(n_resamples=2).smallest > 0.9
    one = intarsia.cluster(rows, 1, random_state=0).stability()
    assert (one.scores, one.reference) == ((1.0,), None)


def test_one_shot_is_measured_and_densities_of_shapes_are_refused():
    result = intarsia.cluster(_tables(), 3, method="one_shot", random_state=0, n_starts=2)
    assert result.stability(n_resamples=2).smallest > 0.8
    codes = {"a": {"x": [0.0, 0, 1, 1] * 5}, "b": {"x": [0.0, 0, 1, 1] * 5}}
    discrete = intarsia.cluster(codes, 2, method="one_shot", density="discrete", random_state=0)
    with pytest.raises(SettingError, match="density='discrete' does not allow that"):
        discrete.stability()


def test_a_sample_of_large_and_of_streamed_tables_is_measured(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "1000")  # so that files are read in batches
    tables = _tables(n=8000)
    for name, table in tables.items():
        table.to_parquet(tmp_path / f"{name}.parquet")
    paths = {name: str(tmp_path / f"{name}.parquet") for name in tables}
    figures = intarsia.cluster(paths, 3, random_state=0, n_starts=2).stability(n_resamples=2)
    assert figures.smallest > 0.9
    assert sum(figures.sizes) == module.MOST_ROWS


def test_too_few_rows_are_an_error_in_words():
    result = intarsia.cluster({"a": {"x": [0.0, 5.0, 9.0]}}, 3, random_state=0)
    with pytest.raises(TooFewRowsError, match="no resample of half the rows could be clustered"):
        result.stability(n_resamples=2)
    with pytest.raises(SettingError, match="n_resamples must be"):
        result.stability(n_resamples=1)


def test_the_table_of_figures():
    figures = Stability((0.5, None, 0.9), (10, 0, 30), (0.8, None, 0.95), (0.25, None, 0.0), 0.6, 4, 7)
    assert figures.mean == pytest.approx(0.8)
    assert (figures.smallest, figures.doubtful, figures.unstable) == (0.5, (0,), (0,))
    assert str(figures).splitlines() == [
        "stability 0.80, smallest 0.50 (4 resamples)",
        "cluster  rows  stability  jaccard  dissolved",
        "      0    10       0.50     0.80       0.25",
        "      1     0          -        -          -",
        "      2    30       0.90     0.95       0.00",
    ]
    assert figures == Stability((0.5, None, 0.9), (10, 0, 30), (0.8, None, 0.95), (0.25, None, 0.0), 0.6, 4, 7)


def test_figures_of_participants_are_weighted_by_rows():
    scores = {"a": np.array([1.0, np.nan, 0.5]), "b": np.array([0.4, np.nan, np.nan])}
    figures = pooled(scores, {"a": np.array([30, 5, 10]), "b": np.array([10, 5, 90])}, 3, seed=1)
    assert figures.scores == (0.85, None, 0.5)
    assert (figures.sizes, figures.local) == ((40, 0, 10), True)
    assert "jaccard" not in figures.columns
