from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import intarsia
from intarsia import FederatedClustering, OneShotClustering
from intarsia.exceptions import EmptyTableError, LocalAlgorithmError, SettingError

BOTH = [FederatedClustering, OneShotClustering]

# Every check of scikit-learn that we fail on purpose, with the reason.
EXPECTED = {
    "check_dataframe_column_names_consistency": (
        "it wants an error when columns are reordered or missing at predict; ours are matched by name, in any order, any "
        "subset of the known columns is enough"
    ),
}


@parametrize_with_checks(
    [FederatedClustering(2), FederatedClustering(), OneShotClustering(2), OneShotClustering()],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_one_matrix_makes_an_ordinary_clusterer(estimator, check):
    check(estimator)


def blobs(seed=0, n=60, k=3, d=6, gap=8.0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    return rng.normal(size=(k, d))[truth] * gap + rng.normal(size=(n, d)), truth


def three_tables(seed=0, make=pd.DataFrame):
    """Three participants with different rows and columns 0-2, 2-4, 4-5 and 0."""
    X, truth = blobs(seed + 3, n=180, gap=12.0)
    rows, columns = [slice(0, 50), slice(50, 110), slice(110, 180)], [[0, 1, 2], [2, 3, 4], [4, 5, 0]]
    names = [f"f{k}" for k in range(6)]
    tables = {name: make({names[c]: X[r, c] for c in cs}) for name, r, cs in zip("abc", rows, columns, strict=True)}
    return tables, {name: truth[r] for name, r in zip("abc", rows, strict=True)}, X, truth


@pytest.mark.parametrize("estimator", BOTH)
def test_one_participant_who_sees_everything_is_plain_kmeans(estimator):
    X, _ = blobs(gap=1.5)
    ours = estimator(3, random_state=0).fit(X)
    # the same k-means, restarted often enough to be the same optimum
    theirs = KMeans(3, n_init=50, random_state=1).fit(X)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1.0
    order = [int(np.argmin(np.linalg.norm(theirs.cluster_centers_ - c, axis=1))) for c in ours.centroids_]
    np.testing.assert_allclose(ours.centroids_, theirs.cluster_centers_[order])
    np.testing.assert_array_equal(ours.predict(X), ours.labels_)
    assert (ours.counts_ == np.bincount(ours.labels_)[:, None]).all()


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "pyarrow", "dict"]
)
def test_every_kind_of_table_gives_the_pooled_clusters(estimator, make):
    tables, truth, _, _ = three_tables(make=make)
    model = estimator(3, random_state=0).fit(tables)
    assert list(model.labels_) == ["a", "b", "c"]
    labels = np.concatenate([model.labels_[k] for k in "abc"])
    assert adjusted_rand_score(np.concatenate([truth[k] for k in "abc"]), labels) == 1.0
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3", "f4", "f5"]
    assert model.centroids_.shape == model.counts_.shape == (3, 6)
    assert model.n_features_in_ == 6


@pytest.mark.parametrize("estimator", BOTH)
def test_a_sequence_of_tables_has_labels_by_position(estimator):
    tables, truth, _, _ = three_tables()
    model = estimator(3, random_state=0).fit(list(tables.values()))
    assert list(model.labels_) == [0, 1, 2]
    assert adjusted_rand_score(truth["b"], model.labels_[1]) == 1.0


@pytest.mark.parametrize("estimator", BOTH)
def test_predict_takes_any_subset_of_columns_in_any_order(estimator):
    tables, truth, X, all_truth = three_tables()
    model = estimator(3, random_state=0).fit(tables)
    pooled = np.concatenate([model.labels_[k] for k in "abc"])
    everything = pd.DataFrame(X, columns=[f"f{k}" for k in range(6)])
    np.testing.assert_array_equal(model.predict(everything), pooled)
    np.testing.assert_array_equal(model.predict(everything[["f5", "f1", "f3"]]), pooled)
    np.testing.assert_array_equal(model.result_.predict(everything[["f4", "f2", "f0"]]), pooled)
    by_participant = model.predict(tables)
    np.testing.assert_array_equal(by_participant["b"], model.labels_["b"])


def test_predict_leaves_empty_cells_out_and_says_minus_one_for_blank_rows():
    tables, _, X, _ = three_tables()
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(6)])
    frame.iloc[::2, 0] = np.nan
    frame.iloc[7] = np.nan
    model = FederatedClustering(3, random_state=0).fit(tables)
    expected = np.concatenate([model.labels_[k] for k in "abc"])
    expected[7] = -1
    np.testing.assert_array_equal(model.predict(frame), expected)
    np.testing.assert_array_equal(model.result_.predict(frame), expected)


def test_predict_ignores_columns_that_the_model_never_saw():
    tables, *_ = three_tables()
    model = FederatedClustering(3, random_state=0).fit(tables)
    new = pd.DataFrame({"f0": [1.0], "F1": [2.0]})
    with pytest.warns(intarsia.exceptions.UnknownColumnsWarning, match="1 of 2 columns.*'F1'.*'F1' looks like 'f1'"):
        assert model.predict(new) == model.predict(new[["f0"]])
    with pytest.raises(intarsia.exceptions.UnknownFeaturesError, match="'F1' looks like 'f1'"):
        model.predict(new[["F1"]])
    with pytest.raises(intarsia.exceptions.TableTypeError, match="named columns"):
        model.predict(np.ones((2, 6)))


def test_max_rounds_0_returns_the_initialisation():
    tables, *_ = three_tables()
    start = FederatedClustering(3, max_rounds=0, random_state=0).fit_result(tables)
    assert start.rounds == ()
    # the merged local centroids, feature by feature
    local, groups = start.outcome.local_centroids, start.outcome.groups
    by_hand = np.array(
        [
            (local.counts[groups == g] * local.values[groups == g]).sum(0) / local.counts[groups == g].sum(0)
            for g in range(3)
        ]
    )
    np.testing.assert_allclose(start.centroids, by_hand)


def test_rounds_tell_how_far_centroids_moved_and_end_when_they_stop():
    rng = np.random.default_rng(3)
    tables = {k: {"x": rng.normal(size=80), "y": rng.normal(size=80)} for k in "ab"}
    result = intarsia.cluster(tables, 3, random_state=0, tol=1e-3, max_rounds=100)
    assert [r.number for r in result.rounds] == list(range(1, len(result.rounds) + 1))
    assert result.rounds[-1].movement <= 1e-3 < result.rounds[0].movement
    assert result.outcome.converged
    assert not intarsia.cluster(tables, 3, random_state=0, tol=0.0, max_rounds=2).outcome.converged


def test_a_full_step_with_complete_overlap_is_lloyd_on_the_pooled_rows():
    """α = 1, everybody sees everything: the federated phase is Lloyd's iteration, and ends where it ends."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3))
    tables = {k: pd.DataFrame(X[i::3], columns=list("xyz")) for i, k in enumerate("abc")}
    start = intarsia.cluster(tables, 4, max_rounds=0, random_state=0).centroids
    for rounds in (1, 3):
        settings = {"step_size": 1.0, "tol": 0.0, "random_state": 0}
        ours = intarsia.cluster(tables, 4, max_rounds=rounds, **settings).centroids
        theirs = start
        for _ in range(rounds):
            nearest = np.linalg.norm(X[:, None] - theirs[None], axis=2).argmin(axis=1)
            theirs = np.array([X[nearest == k].mean(axis=0) for k in range(4)])
        np.testing.assert_allclose(ours, theirs)


def test_the_step_size_is_how_far_centroids_move():
    rng = np.random.default_rng(5)
    tables = {k: {"x": rng.normal(size=60), "y": rng.normal(size=60)} for k in "ab"}
    run = lambda **settings: intarsia.cluster(tables, 4, random_state=0, tol=0.0, **settings).centroids
    start, whole, half = run(max_rounds=0), run(max_rounds=1, step_size=1.0), run(max_rounds=1, step_size=0.5)
    assert not np.allclose(start, whole)
    np.testing.assert_allclose(half, (start + whole) / 2)


def test_tol_ends_the_rounds_sooner_or_later():
    rng = np.random.default_rng(3)
    tables = {k: {"x": rng.normal(size=80), "y": rng.normal(size=80)} for k in "ab"}
    rounds = [
        len(intarsia.cluster(tables, 3, random_state=0, tol=tol, max_rounds=100, n_rivals=0).rounds)
        for tol in (0.5, 1e-2, 1e-6)
    ]
    assert rounds[0] == 1
    assert rounds[0] < rounds[1] < rounds[2]


def test_the_force_s_settings_reach_the_force():
    X, _ = blobs(n=120)
    tables = {"a": pd.DataFrame(X[:60, :4], columns=list("pqrs")), "b": pd.DataFrame(X[60:, 1:5], columns=list("qrst"))}
    loss = lambda **s: OneShotClustering(3, random_state=0, **s).fit_result(tables).outcome.aggregation.loss
    plain = loss()
    for other in ({"exponent": 3.0}, {"softening": 0.2}, {"density": "gaussian_full"}, {"force": "sampled"}):
        assert loss(**other) != pytest.approx(plain, rel=1e-6), other
    sampled = loss(force="sampled", n_proxies=40)
    assert loss(force="sampled", n_proxies=41) != sampled
    assert loss(force="sampled", n_proxies=40, bounding_boxes=True) != sampled


def test_without_softening_equal_clusters_attract_beyond_measure_and_nothing_breaks():
    same = {"x": [0.0, 0, 0, 5, 5, 5], "y": [1.0, 1, 1, 7, 7, 7]}
    tables = {k: dict(same) for k in "abc"}
    for settings in ({}, {"aggregation": "greedy"}, {"force": "sampled"}, {"exponent": 60.0}, {"n_clusters": "auto"}):
        settings = {"n_clusters": 2, "softening": 0.0, **settings}
        result = OneShotClustering(random_state=0, **settings).fit_result(tables)
        assert result.n_clusters == 2
        assert len({tuple(labels) for labels in result.labels.values()}) == 1


def test_a_shared_column_that_is_constant_but_for_rounding_connects_nobody():
    for constant in (0.1, 1 / 3, 36.6, 123.456):
        a = {"k": [constant] * 6, "x": [0, 0, 0, 9, 9, 9.0]}
        b = {"k": [constant] * 10, "y": [0.0] * 7 + [9.0] * 3}
        for settings in ({"method": "one_shot"}, {"method": "one_shot", "scale": "standard"}, {}):
            with pytest.raises(intarsia.exceptions.DisjointFeaturesError, match="share only features"):
                intarsia.cluster({"a": a, "b": b}, 2, random_state=0, **settings)


def test_a_pipeline_without_seeds_is_seeded_throughout():
    rng = np.random.default_rng(0)
    tables = {k: {"x": rng.normal(size=60), "y": rng.normal(size=60)} for k in "ab"}
    local = make_pipeline(StandardScaler(), KMeans(4, n_init=1, init="random"))
    runs = [intarsia.cluster(tables, 4, method="one_shot", local=local, random_state=0) for _ in range(4)]
    assert all((run.labels["a"] == runs[0].labels["a"]).all() for run in runs)


def test_predict_on_a_training_table_with_an_empty_column():
    nan = np.nan
    tables = {"a": {"x": [1, 2, 9, 10.0], "w": [nan] * 4}, "b": {"x": [1, 2, 9, 10.0]}}
    result = intarsia.cluster(tables, 2, missing="observed", random_state=0)
    np.testing.assert_array_equal(result.predict(tables["a"]), result.labels["a"])
    with pytest.raises(intarsia.exceptions.MissingCellsError, match="1 of 2 columns have no values"):
        FederatedClustering(2, missing="observed").fit(np.array([[nan, 0.0], [nan, 1.0], [nan, 9.0]]))


@pytest.mark.parametrize("power", [90, -90])
def test_units_do_not_matter_up_to_absurd_ones(power):
    tables, *_ = three_tables()
    scaled = {k: t * 10.0**power for k, t in tables.items()}
    for settings in ({}, {"method": "one_shot"}, {"metric": "cosine"}, {"method": "one_shot", "scale": "standard"}):
        plain, other = (intarsia.cluster(t, 3, random_state=0, **settings) for t in (tables, scaled))
        for k in tables:
            np.testing.assert_array_equal(plain.labels[k], other.labels[k])


@pytest.mark.parametrize("aggregation", ["search", "paper", "method_a", "method_b"])
def test_all_aggregations_agree_on_clear_clusters(aggregation):
    tables, truth, _, _ = three_tables()
    result = intarsia.cluster(tables, 3, aggregation=aggregation, random_state=0)
    assert adjusted_rand_score(truth["c"], result.labels["c"]) == 1.0
    assert np.isnan(result.confidence) == (aggregation != "search")


@pytest.mark.parametrize(
    "settings",
    [
        {"aggregation": "greedy"},
        {"force": "sampled", "n_proxies": 30},
        {"force": "sampled", "bounding_boxes": True},
        {"force": "sampled", "metric": "manhattan"},
        {"density": "gaussian_full"},
        {"density": "gaussian_diagonal", "exponent": 3.0, "softening": 0.05},
        {"n_clusters": "auto"},
    ],
)
def test_every_way_of_one_shot_finds_clear_clusters(settings):
    tables, truth, _, _ = three_tables()
    settings = {"n_clusters": 3, **settings}
    result = OneShotClustering(random_state=0, **settings).fit_result(tables)
    assert result.n_clusters == 3
    for name in "abc":
        assert adjusted_rand_score(truth[name], result.labels[name]) == 1.0


@pytest.mark.parametrize("metric", ["manhattan", "cosine", lambda u, v: float(np.abs(u - v).max())])
def test_federated_takes_any_metric(metric):
    tables, truth, _, _ = three_tables(seed=1)
    result = intarsia.cluster(tables, 3, metric=metric, random_state=0)
    assert adjusted_rand_score(truth["a"], result.labels["a"]) == 1.0


def test_k_chosen_keeps_the_curve_and_every_cut():
    tables, *_ = three_tables()
    outcome = intarsia.cluster(tables, "auto", method="one_shot", random_state=0).outcome
    assert max(outcome.silhouettes, key=outcome.silhouettes.get) == 3
    tree = outcome.merge_tree
    assert [len(np.unique(tree.cut(k))) for k in range(1, tree.n_leaves + 1)] == list(range(1, tree.n_leaves + 1))
    assert tree.to_linkage(exponent=2.0).shape == (tree.n_leaves - 1, 4)


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_the_same_seed_gives_the_same_answer(method):
    rng = np.random.default_rng(0)
    tables = {k: {"x": rng.normal(size=40), "y": rng.normal(size=40)} for k in "ab"}
    first, second = (intarsia.cluster(tables, 3, method=method, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(first.labels["a"], second.labels["a"])
    np.testing.assert_array_equal(first.centroids, second.centroids)
    assert intarsia.cluster(tables, 3, method=method, random_state=np.random.RandomState(7)).n_clusters == 3


def test_standard_units_make_scales_irrelevant_and_come_back_in_original_ones():
    tables, truth, _, _ = three_tables()
    stretched = {k: t.assign(**{c: t[c] * 1000 + 5 for c in t.columns if c in ("f0", "f4")}) for k, t in tables.items()}
    for method in ("federated", "one_shot"):
        plain = intarsia.cluster(tables, 3, method=method, scale="standard", random_state=0)
        other = intarsia.cluster(stretched, 3, method=method, scale="standard", random_state=0)
        for k in tables:
            np.testing.assert_array_equal(plain.labels[k], other.labels[k])
        columns = [plain.feature_names.index(c) for c in ("f0", "f4")]
        np.testing.assert_allclose(other.centroids[:, columns], plain.centroids[:, columns] * 1000 + 5)


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_standard_units_find_clusters_that_original_units_hide(method):
    tables, truth, _, _ = three_tables()
    rng = np.random.default_rng(0)
    noisy = {k: t.assign(grams=1e5 * rng.normal(size=len(t))) for k, t in tables.items()}
    with pytest.warns(intarsia.exceptions.UnitsWarning, match="'grams'.*scale='standard'"):
        plain = intarsia.cluster(noisy, 3, method=method, scale=None, n_local_clusters=3, random_state=0)
    scaled = intarsia.cluster(noisy, 3, method=method, n_local_clusters=3, random_state=0)
    hidden, found = (adjusted_rand_score(truth["a"], result.labels["a"]) for result in (plain, scaled))
    assert hidden < 0.1
    assert found > hidden + 0.3
    assert (plain.units, scaled.units) == (None, "standard")  # units differ, so that the default scales


def test_pooled_units_are_those_of_the_pooled_table():
    tables, *_ = three_tables()
    model = intarsia.cluster(tables, 3, scale="standard", random_state=0).outcome.model
    f0 = np.concatenate([tables["a"]["f0"], tables["c"]["f0"]])
    at = model.space.index(["f0"])[0]
    assert model.shift[at] == pytest.approx(f0.mean())
    assert model.scale[at] == pytest.approx(f0.std())


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_gaps_do_not_hide_clear_clusters(method):
    tables, truth, _, _ = three_tables()
    rng = np.random.default_rng(0)
    gappy = {k: t.mask(rng.random(t.shape) < 0.15).dropna(how="all") for k, t in tables.items()}
    result = intarsia.cluster(gappy, 3, method=method, missing="observed", random_state=0)
    for k in tables:
        assert adjusted_rand_score(truth[k][gappy[k].index], result.labels[k]) > 0.8


def test_a_local_algorithm_is_used_exactly_as_given():
    tables, *_ = three_tables()
    local = KMeans(n_clusters=4, random_state=3, n_init=2, init="random")
    result = intarsia.cluster(tables, 3, method="one_shot", local=local, random_state=0)
    for name, table in tables.items():
        expected = clone(local).fit_predict(table[sorted(table.columns)].to_numpy())
        assert adjusted_rand_score(expected, result.local_labels[name]) == 1.0
    assert not hasattr(local, "labels_")


def test_each_participant_may_have_its_own_local_algorithm():
    tables, truth, _, _ = three_tables()
    local = {"a": AgglomerativeClustering(3), "b": GaussianMixture(3, random_state=0)}
    result = intarsia.cluster(tables, 3, method="one_shot", local=local, random_state=0)
    for name in "abc":
        assert adjusted_rand_score(truth[name], result.labels[name]) == 1.0


def test_a_local_algorithm_left_without_a_seed_gets_one_from_ours():
    rng = np.random.default_rng(0)
    tables = {k: {"x": rng.normal(size=60), "y": rng.normal(size=60)} for k in "ab"}
    runs = [intarsia.cluster(tables, 4, local=KMeans(4, n_init=1, init="random"), random_state=5) for _ in range(3)]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.labels["a"], runs[0].labels["a"])


def test_a_local_algorithm_that_cannot_start_from_centres_is_refused_for_rounds_but_not_for_none():
    tables, *_ = three_tables()
    with pytest.raises(LocalAlgorithmError, match="AgglomerativeClustering cannot start from given centres.*one_shot"):
        intarsia.cluster(tables, 3, local=AgglomerativeClustering(3), random_state=0)
    assert intarsia.cluster(tables, 3, local=AgglomerativeClustering(3), max_rounds=0, random_state=0).n_clusters == 3


def test_local_noise_stays_noise_in_one_shot():
    class Halves:
        def get_params(self, deep=True):
            return {}

        def fit_predict(self, X):
            labels = (X[:, 0] > X[:, 0].mean()).astype(int)
            labels[0] = -1
            return labels

        def __sklearn_clone__(self):
            return self

    tables, *_ = three_tables()
    result = intarsia.cluster(tables, 2, method="one_shot", local=Halves(), labels="local", random_state=0)
    assert result.labels["a"][0] == -1
    assert (result.labels["a"][1:] >= 0).all()


def test_the_participant_finds_how_many_of_the_clusters_it_has():
    X, truth = blobs(seed=4, n=120, k=4, gap=10)
    some = truth < 2
    tables = {
        "all": pd.DataFrame(X[:60, :4], columns=list("pqrs")),
        "some": pd.DataFrame(X[60:][some[60:]][:, 2:], columns=list("rstu")),
    }
    with pytest.warns(intarsia.AssumptionWarning):
        result = intarsia.cluster(tables, 4, random_state=0)
    assert [c.participant for c in result.local_clusters].count("some") == 2
    assert adjusted_rand_score(truth[60:][some[60:]], result.labels["some"]) == 1.0


def test_a_disconnected_study_can_be_answered_in_part_if_asked():
    tables = {"a": {"x": [0.0, 0.1, 9.0, 9.1]}, "b": {"y": [0.0, 0.1, 9.0, 9.1]}}
    with pytest.raises(intarsia.exceptions.DisjointFeaturesError):
        intarsia.cluster(tables, 2, method="one_shot", random_state=0)
    with pytest.warns(intarsia.AssumptionWarning):
        result = intarsia.cluster(tables, 1, method="one_shot", n_local_clusters=2, allow_partial=True, random_state=0)
    assert result.n_clusters == 2
    assert len(set(result.labels["a"])) == len(set(result.labels["b"])) == 1


def test_results_speak_for_themselves():
    tables, *_ = three_tables()
    result = intarsia.cluster(tables, 3, random_state=0)
    assert str(result).startswith("3 clusters of 180 rows from 3 participants over 6 features (sizes ")
    assert list(result.sizes) == list(result.labels)
    assert {k: int(v.sum()) for k, v in result.sizes.items()} == {"a": 50, "b": 60, "c": 70}
    assert sum(c.size for c in result.local_clusters) == 180
    totals = sum(result.sizes.values())
    assert (np.diff(totals) <= 0).all()


def test_a_result_is_short_to_look_at_and_can_be_compared_and_hashed():
    tables, *_ = three_tables()
    result = intarsia.cluster(tables, 3, random_state=0)
    assert len(repr(result)) < 200
    assert result != intarsia.cluster(tables, 3, random_state=0)
    assert isinstance(hash(result), int)


def test_rounds_count_every_row_even_without_a_common_column():
    tables, *_ = three_tables()
    result = intarsia.cluster(tables, 3, random_state=0)
    assert [sum(r.sizes) for r in result.rounds] == [180] * len(result.rounds)


def test_names_that_look_alike_are_reported_even_where_the_study_is_connected():
    tables, *_ = three_tables()
    tables["b"] = tables["b"].rename(columns={"f3": "F 5"})
    with pytest.warns(intarsia.exceptions.FeatureNameWarning, match=r"'F 5' \(b\) and 'f5' \(c\)"):
        intarsia.cluster(tables, 3, random_state=0)


def test_a_party_too_small_to_look_for_clusters_is_marked():
    tables, _, X, truth = three_tables()
    tables["tiny"] = pd.DataFrame(X[:3, :3], columns=["f0", "f1", "f2"])
    result = intarsia.cluster(tables, 3, method="one_shot", random_state=0)
    assert ("tiny", 0) in result.assumptions.doubtful


@pytest.mark.parametrize("kind", ["values", "generator", "tuple"])
def test_other_collections_of_tables_are_sequences(kind):
    tables, *_ = three_tables()
    collection = {"values": tables.values(), "generator": (t for t in tables.values()), "tuple": tuple(tables.values())}
    assert list(intarsia.cluster(collection[kind], 3, random_state=0).labels) == [0, 1, 2]


def test_numpy_generators_seed_a_run():
    tables, *_ = three_tables()
    first, second = (intarsia.cluster(tables, 3, random_state=np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.centroids, second.centroids)


@pytest.mark.parametrize("estimator", BOTH)
def test_one_participant_has_as_many_clusters_as_are_wanted_whatever_its_silhouettes_say(estimator):
    X, _ = blobs(k=2, gap=20.0)
    table = pd.DataFrame(X, columns=list("pqrstu"))
    model = estimator(3, random_state=0).fit({"only": table})
    assert len(np.unique(model.labels_["only"])) == 3
    np.testing.assert_array_equal(
        model.labels_["only"], estimator(3, random_state=0).fit({"only": table}).labels_["only"]
    )


def test_a_model_of_a_matrix_without_names_goes_by_position():
    X, _ = blobs()
    model = FederatedClustering(3, random_state=0).fit(X)
    with pytest.raises(intarsia.exceptions.UnknownFeaturesError, match="name") as error:
        model.predict(pd.DataFrame(X).rename(columns=str).assign(name="Mrs Secret"))
    assert "Secret" not in str(error.value)
    named = pd.DataFrame(X, columns=list("fedcba"))  # not in the order of the alphabet
    np.testing.assert_array_equal(model.predict(named), model.labels_)


def test_one_cluster_is_everybody():
    tables, *_ = three_tables()
    for method in ("federated", "one_shot"):
        result = intarsia.cluster(tables, 1, method=method, random_state=0)
        assert all((labels == 0).all() for labels in result.labels.values())


def chain_with_a_poor_link(seed, n=150):
    """a and c are clear, and only b overlaps with both; but b's own k-means follows a column that means nothing."""
    rng = np.random.default_rng(seed)
    truth = {name: rng.integers(2, size=n) for name in "abc"}
    noisy = lambda name: 2.0 * truth[name] + 0.3 * rng.normal(size=n)
    tables = {
        "a": {"u": noisy("a"), "p": noisy("a")},
        "b": {"p": noisy("b"), "q": noisy("b"), "other": 3.0 * rng.integers(2, size=n) + 0.3 * rng.normal(size=n)},
        "c": {"q": noisy("c"), "v": noisy("c")},
    }
    return tables, truth


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
def test_rows_decide_what_local_centroids_cannot():
    right = {0: 0, 3: 0}
    for seed in range(10):
        tables, truth = chain_with_a_poor_link(seed)
        everyone = np.concatenate([truth[name] for name in "abc"])
        for n_rivals in right:
            result = intarsia.cluster(tables, 2, n_rivals=n_rivals, max_rounds=20, random_state=seed)
            labels = np.concatenate([result.labels[name] for name in "abc"])
            right[n_rivals] += intarsia.results.metrics.clustering_accuracy(everyone, labels) > 0.95
            assert result.outcome.aggregation.overruled <= (n_rivals > 0)
            assert result.outcome.aggregation.n_compared <= 1 + n_rivals
            tried = any(r.kind == "trial" for r in result.rounds)
            assert tried == (result.outcome.aggregation.n_compared > 1)
            if result.outcome.aggregation.overruled:
                assert result.confidence == 0.0
                assert "decided on the rows" in str(result)
    assert right[3] == 10
    assert right[0] < 10


@pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")
def test_trials_come_first_and_plain_rounds_last():
    tables, _ = chain_with_a_poor_link(0)
    result = intarsia.cluster(tables, 2, tol=0.0, max_rounds=12, random_state=0)
    printed = intarsia.cluster(tables, 2, tol=0.0, max_rounds=3, n_rivals=0, refinement="plain", random_state=0)
    kinds = [r.kind for r in result.rounds]
    assert kinds == sorted(kinds, key=["trial", "crosswise", "plain"].index)
    assert set(kinds) >= {"trial", "crosswise"}
    assert {r.kind for r in printed.rounds} == {"plain"}
    misfits = [r.misfit for r in printed.rounds]
    assert misfits == sorted(misfits, reverse=True)


@pytest.mark.parametrize("kind", [FederatedClustering, OneShotClustering])
def test_an_estimator_has_what_its_result_has(kind):
    tables, *_ = three_tables()
    model = kind(3, random_state=0).fit(tables)
    result = model.result_
    for name in ("predict_proba", "transform"):
        own, expected = getattr(model, name)(tables), getattr(result, name)(tables)
        for key in tables:
            np.testing.assert_array_equal(own[key], expected[key])
    assert model.score(tables) == result.score(tables)
    outlier = {key: pd.DataFrame(table).head(2) * 1e4 for key, table in tables.items()}
    for key, labels in model.predict(outlier, none_beyond=0.99).items():
        assert (labels == -1).all(), key


def test_distances_of_a_matrix_are_a_table_if_asked():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"], index=range(100, 140))
    model = FederatedClustering(2, random_state=0).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert out.index.tolist() == frame.index.tolist()
    assert out.columns.tolist() == ["federatedclustering0", "federatedclustering1"]
    assert (out.to_numpy().argmin(axis=1) == model.labels_).all()
    plain = FederatedClustering(2, random_state=0).fit(frame.to_numpy())
    np.testing.assert_allclose(plain.transform(frame.to_numpy()), out.to_numpy())
    assert plain.predict(frame, as_frame=True).index.tolist() == frame.index.tolist()
    assert plain.predict_proba(frame.to_numpy()).shape == (40, 2)
    assert plain.score(frame.to_numpy()) > 0


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_distances_of_several_tables_are_a_table_for_each(kind):
    library = pytest.importorskip(kind)
    values = {"x": [0.0, 0.1, 9.0, 9.1], "y": [5.0, 5.2, 7.0, 7.2]}
    tables = {name: library.DataFrame(values) for name in ("a", "b")}
    if kind == "pandas":
        tables["b"].index = [4, 5, 6, 7]
    plain = FederatedClustering(2, random_state=0).fit(tables)
    model = FederatedClustering(2, random_state=0).set_output(transform=kind)
    for framed in (model.fit(tables).transform(tables), model.fit_transform(tables)):
        for name, table in tables.items():
            assert isinstance(framed[name], library.DataFrame)
            assert list(framed[name].columns) == list(model.get_feature_names_out())
            np.testing.assert_array_equal(framed[name].to_numpy(), plain.transform(tables)[name])
            assert kind == "polars" or framed[name].index.equals(table.index)
    assert isinstance(model.fit(tables["a"]).transform(tables["a"]), library.DataFrame)


@pytest.mark.parametrize("method", ["predict_proba", "predict_margin"])
def test_an_error_about_the_metric_is_said_once_whatever_the_number_of_tables(method):
    tables = {name: {"x": [1.0, 2.0, 1.0, 2.0], "y": [2.0, 1.0, 2.1, 1.1]} for name in "ab"}
    model = FederatedClustering(2, metric="cosine", random_state=0).fit(tables)
    with pytest.raises(SettingError) as raised:
        getattr(model, method)(tables)
    assert str(raised.value).count("memberships need") == 1


def test_margins_are_those_of_the_result():
    tables = {name: {"x": [0.0, 0.1, 9.0, 9.1], "y": [5.0, 5.2, 7.0, 7.2]} for name in "ab"}
    model = FederatedClustering(2, random_state=0).fit(tables)
    for name, margins in model.predict_margin(tables).items():
        np.testing.assert_array_equal(margins, model.result_.predict_margin(tables)[name])
    matrix = np.column_stack([tables["a"]["x"], tables["a"]["y"]])
    assert FederatedClustering(2, random_state=0).fit(matrix).predict_margin(matrix).shape == (4,)


def test_a_table_without_rows_has_nothing_to_label():
    model = FederatedClustering(2, random_state=0).fit({name: {"x": [0.0, 0.1, 9.0, 9.1]} for name in "ab"})
    with pytest.raises(EmptyTableError, match="has no rows, so there is nothing to label"):
        model.predict(pd.DataFrame({"x": []}, dtype=float))
