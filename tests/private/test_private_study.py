from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia import DifferentialPrivacy
from intarsia.coordinator import FederatedAlgorithm
from intarsia.exceptions import SettingError
from intarsia.privacy.noise import epsilon_of
from intarsia.private.algorithm import PrivateAlgorithm
from intarsia.protocol import NoisySums, Sketched

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")  # noise makes any of them


def three_clusters(n_rows: int = 3000, seed: int = 0):
    """Two tables with one column in common, three clear clusters, and the true labels."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-3.0, -3, 0, 3], [3, -3, 3, 0], [0, 3, -3, -3]])
    truth = {name: rng.integers(3, size=n_rows) for name in "ab"}
    columns = {"a": ["u", "v", "w"], "b": ["v", "w", "x"]}
    tables = {}
    for name, names in columns.items():
        rows = centres[truth[name]] + 0.7 * rng.normal(size=(n_rows, 4))
        tables[name] = {column: rows[:, "uvwx".index(column)] for column in names}
    return tables, truth, dict.fromkeys("uvwx", (-6.0, 6.0))


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_clear_clusters_are_found(method):
    tables, truth, bounds = three_clusters()
    result = intarsia.cluster(tables, 3, method=method, privacy=DifferentialPrivacy(1, bounds=bounds), random_state=0)
    for name in tables:
        assert adjusted_rand_score(truth[name], result.labels[name]) > 0.9
        assert (result.predict({name: tables[name]})[name] == result.labels[name]).all()
        assert abs(result.sizes[name].sum() - 3000) < 600


def test_k_is_chosen_on_sketches():
    tables, truth, bounds = three_clusters()
    result = intarsia.cluster(tables, privacy=DifferentialPrivacy(2, bounds=bounds), random_state=0)
    assert result.n_clusters == 3
    assert adjusted_rand_score(truth["a"], result.labels["a"]) > 0.9


def test_what_is_spent_is_the_budget():
    tables, _, bounds = three_clusters(300)
    for method, exchanges in (("federated", 3), ("one_shot", 1)):
        privacy = DifferentialPrivacy(1, delta=1e-5, bounds=bounds)
        account = intarsia.cluster(tables, 3, method=method, privacy=privacy, random_state=0).privacy
        assert len(account.spent) == exchanges * len(tables)
        for rho in account.rho.values():
            assert 0.999 < epsilon_of(rho, 1e-5) <= 1


def test_categories_and_missing_values():
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=4000)
    sick = np.where(rng.random(4000) < np.where(truth, 0.9, 0.1), "yes", "no").astype(object)
    sick[rng.random(4000) < 0.05] = None
    age = np.where(rng.random(4000) < 0.1, np.nan, 40 + 30 * truth + 5 * rng.normal(size=4000))
    table = {"age": age, "sick": sick, "odd": np.where(rng.random(4000) < 0.5, "p", "undeclared")}
    privacy = DifferentialPrivacy(2, bounds={"age": (0, 110)}, levels={"sick": ["no", "yes"], "odd": ["p", "q"]})
    result = intarsia.cluster({"a": table, "b": table}, 2, privacy=privacy, random_state=0)
    assert adjusted_rand_score(truth, result.labels["a"]) > 0.6
    assert "undeclared" not in str(result.feature_names) + str(result.run)


def test_noise_does_not_follow_the_seed():
    tables, _, bounds = three_clusters(300)
    both = [intarsia.cluster(tables, 3, privacy=DifferentialPrivacy(1, bounds=bounds), random_state=0) for _ in "12"]
    assert not np.array_equal(both[0].centroids, both[1].centroids)


def test_undeclared_columns_are_refused_by_name():
    tables, _, bounds = three_clusters(300)
    del bounds["w"]
    with pytest.raises(SettingError, match=r"1 column\(s\) of 'a' have neither bounds nor levels.*'w'"):
        intarsia.cluster(tables, 3, privacy=DifferentialPrivacy(1, bounds=bounds))


@pytest.mark.parametrize(
    "setting", [{"missing": "impute"}, {"scale": "robust"}, {"scale": "minmax"}, {"metric": "manhattan"}]
)
def test_settings_without_bounded_sensitivity_are_refused(setting):
    tables, _, bounds = three_clusters(300)
    with pytest.raises(SettingError, match=next(iter(setting))):
        intarsia.cluster(tables, 3, privacy=DifferentialPrivacy(1, bounds=bounds), **setting)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "bounds": {"a": (1, 1)}},
        {"epsilon": 1, "bounds": {"a": (0, float("inf"))}},
        {"epsilon": 1, "levels": {"a": "yes"}},
        {"epsilon": 1, "bounds": {"a": (0, 1)}, "levels": {"a": ["0"]}},
        {"epsilon": 1, "rounds": 9},
        {"epsilon": 1, "rows_per_person": 0},
    ],
)
def test_impossible_budgets_are_refused(wrong):
    with pytest.raises(SettingError):
        DifferentialPrivacy(**wrong)


def test_a_saved_study_keeps_what_was_spent(tmp_path):
    tables, _, bounds = three_clusters(300)
    result = intarsia.cluster(tables, 3, privacy=DifferentialPrivacy(1, bounds=bounds), random_state=0)
    result.save(tmp_path / "study.intarsia")
    assert intarsia.load(tmp_path / "study.intarsia").privacy == result.privacy


def test_processes_give_private_results_too():
    tables, truth, bounds = three_clusters()
    result = intarsia.cluster(tables, 3, privacy=DifferentialPrivacy(1, bounds=bounds), random_state=0, n_jobs=2)
    assert adjusted_rand_score(truth["a"], result.labels["a"]) > 0.9


def test_centroids_err_as_the_noise_says():
    """Centroids differ from the means of the rows by about one standard deviation of the noise of the last round."""
    rng = np.random.default_rng(3)
    rows = {name: rng.normal(size=(1000, 2)) + np.repeat([[-5.0, 5.0], [5.0, -5.0]], 500, axis=0) for name in "ab"}
    means = np.mean([each.reshape(2, 500, 2).mean(axis=1) for each in rows.values()], axis=0)
    tables = {name: {"x": each[:, 0], "y": each[:, 1]} for name, each in rows.items()}
    privacy = DifferentialPrivacy(1, bounds={"x": (-10, 10), "y": (-10, 10)})
    squares = []
    for _ in range(12):
        result = intarsia.cluster(tables, 2, privacy=privacy, random_state=0, step_size=1.0)
        errors = result.privacy.error_matrix(2, 2)
        order = np.argsort(result.centroids[:, 0])
        squares.append(np.square((result.centroids[order] - means) / errors[order]))
    # 48 squares of mean 1 are outside with a probability below 1e-6
    assert 0.3 < np.mean(squares) < 2.4
    assert {each.error for each in result.explain()} == set(errors.ravel())
    assert result.to_frame("polars")["error"].to_list() == errors.ravel().tolist()


@pytest.mark.parametrize(("away", "moved"), [(0.05, 0.01), (9.0, 0.05)])
def test_a_round_moves_centroids_beyond_those_of_synthetic_tables_but_not_far(away, moved):
    """Clusters at .45 and .55, whose rows lie ``away`` units of .25 farther out; a step takes 0.8 of the way."""
    privacy = DifferentialPrivacy(1, bounds={"x": (0, 1)}, rounds=1)
    algorithm = PrivateAlgorithm(FederatedAlgorithm(2, seed=0), privacy)
    centroids, none = np.array([[-0.2], [0.2]]), np.array([[1e-6]])
    sketch = Sketched(("x",), 1000.0, np.array([0.5, 0.5]), centroids, none, radius=1.0, rho=0.01)
    step = algorithm.advance(algorithm.start(("a", "b")).state, {"a": sketch, "b": sketch})
    outwards = np.sign(step.requests["a"].centres)
    sums = NoisySums(500 * away * outwards, np.array([500.0, 500]), deviation=1.0, deviation_of_counts=1.0, rho=0.001)
    request = algorithm.advance(step.state, {"a": sums, "b": sums}).requests["a"]
    np.testing.assert_allclose(request.centres.values, 0.5 + (0.05 + moved) * outwards, atol=0.001)
