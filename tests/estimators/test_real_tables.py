"""Tables as institutions have them: units, gaps, categories, and clusterers that somebody prefers."""

from __future__ import annotations

import unicodedata

import kmedoids
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import (
    DBSCAN,
    HDBSCAN,
    AgglomerativeClustering,
    Birch,
    BisectingKMeans,
    KMeans,
    MiniBatchKMeans,
    SpectralClustering,
)
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.pipeline import make_pipeline

import intarsia
from intarsia.exceptions import LocalAlgorithmError, MissingCellsError, MixedKindsError, TooFewRowsError
from tests.laws.test_invariance import studies

METHODS = ["federated", "one_shot"]
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.AssumptionWarning")


def clinics(seed=0, n=60, k=3, gap=7.0):
    """Three parties, five columns of numbers, chain-like; truth by party."""
    rng = np.random.default_rng(seed)
    centres = np.array([rng.permutation(k) for _ in range(5)]).T * gap
    tables, truth = {}, {}
    for name, columns in {"a": "vwx", "b": "wxy", "c": "xyz"}.items():
        truth[name] = rng.permutation(np.arange(n) % k)
        rows = centres[truth[name]] + rng.normal(size=(n, 5))
        tables[name] = pd.DataFrame(rows, columns=list("vwxyz"))[list(columns)]
    return tables, truth


def agreement(truth, labels):
    kept = {name: labels[name] >= 0 for name in truth}
    return adjusted_rand_score(*(np.concatenate([p[n][kept[n]] for n in truth]) for p in (truth, labels)))


# -- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust"])
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8)
@given(case=studies(), factors=st.lists(st.sampled_from([1e-4, 0.37, 8.0, 1e5]), min_size=7, max_size=7))
def test_any_factor_for_any_feature_changes_no_label(method, scale, case, factors):
    tables, k, _ = case
    by = pd.Series({f"f{j}": factor for j, factor in enumerate(factors)})
    other = {n: t.mul(by[t.columns], axis=1) for n, t in tables.items()}
    before, after = (
        intarsia.cluster(t, k, method=method, scale=scale, random_state=0, n_starts=5) for t in (tables, other)
    )
    for name in tables:
        np.testing.assert_array_equal(before.labels[name], after.labels[name])
    factor = by[list(before.feature_names)].to_numpy()
    np.testing.assert_allclose(after.centroids, before.centroids * factor, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_default_scales_where_units_differ_and_leaves_alone_where_not(method):
    tables, truth = clinics()
    plain = intarsia.cluster(tables, 3, method=method, random_state=0)
    grams = {name: table.assign(x=table["x"] * 1e4) for name, table in tables.items()}
    scaled = intarsia.cluster(grams, 3, method=method, random_state=0)
    assert (plain.units, scaled.units) == (None, "standard")
    assert agreement(truth, plain.labels) == agreement(truth, scaled.labels) == 1.0
    column = scaled.feature_names.index("x")
    np.testing.assert_allclose(scaled.centroids[:, column], plain.centroids[:, column] * 1e4, rtol=1e-6)


# -- gaps -----------------------------------------------------------------------------------------------------------


def with_gaps(tables, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    gappy = {}
    for name, table in tables.items():
        empty = rng.random(table.shape) < share
        empty[empty.all(axis=1), 0] = False
        gappy[name] = table.mask(empty)
    return gappy


@pytest.mark.parametrize("missing", ["observed", "impute", "drop"])
@pytest.mark.parametrize("local", [None, KMeans(3)], ids=["built-in", "KMeans"])
@pytest.mark.parametrize("method", METHODS)
def test_every_row_gets_its_label_whatever_is_done_about_gaps(method, local, missing):
    tables, truth = clinics(n=90)
    gappy = with_gaps(tables)
    if local is not None and missing == "observed":
        with pytest.raises(MissingCellsError, match=r"KMeans.*3 of 3 columns.*%\).*missing='impute'.*'drop'"):
            intarsia.cluster(gappy, 3, method=method, local=local, missing=missing, random_state=0)
        return
    result = intarsia.cluster(gappy, 3, method=method, local=local, missing=missing, random_state=0)
    assert all((labels >= 0).all() for labels in result.labels.values())
    assert agreement(truth, result.labels) > 0.8
    # summaries are of the cells that are there, filled in for nobody but the local algorithm
    cells = {
        column: sum(int(table[column].notna().sum()) for table in gappy.values() if column in table)
        for column in "vwxyz"
    }
    counted = dict(zip(result.feature_names, result.counts.sum(axis=0).astype(int).tolist(), strict=True))
    if missing != "drop":
        assert counted == cells


def test_absent_and_missing_are_two_things():
    tables, _ = clinics(n=50)
    tables["b"].loc[:9, "y"] = np.nan
    tables["c"]["w"] = np.nan  # all gaps: a column that c does not have
    result = intarsia.cluster(tables, 3, random_state=0)
    found = {(entry.participant, entry.column): entry for entry in result.coverage}
    assert len(found) == 15
    assert found["a", "y"].absent
    assert np.isnan(found["a", "y"].missing)
    assert found["c", "w"].absent
    assert not found["b", "y"].absent
    assert (found["b", "y"].rows, found["b", "y"].filled, found["b", "y"].missing) == (50, 40, pytest.approx(0.2))
    assert found["c", "z"].missing == 0.0


def test_each_participant_may_treat_gaps_its_own_way():
    tables, truth = clinics(n=90)
    gappy = with_gaps(tables)
    settings = {"local": {"a": KMeans(3)}, "missing": {"a": "impute"}}
    assert agreement(truth, intarsia.cluster(gappy, 3, random_state=0, **settings).labels) > 0.8


def test_a_clusterer_that_can_do_with_gaps_gets_them():
    tables, truth = clinics(n=90)
    gappy = with_gaps(tables)
    local = make_pipeline(SimpleImputer(), KMeans(3))
    result = intarsia.cluster(gappy, 3, method="one_shot", local=local, random_state=0)
    assert agreement(truth, result.labels) > 0.8


def test_dropping_every_row_is_refused():
    tables, _ = clinics(n=20)
    tables["a"].loc[::2, "v"] = np.nan
    tables["a"].loc[1::2, "w"] = np.nan
    with pytest.raises(MissingCellsError, match=r"'a': missing='drop' leaves none of 20 rows.*v \(50.0%\)"):
        intarsia.cluster(tables, 3, missing="drop", random_state=0)
    tables["a"].loc[0, ["v", "w"]] = 1.0
    with pytest.raises(TooFewRowsError, match="'a' was asked for 3 clusters of 1 row"):
        intarsia.cluster(tables, 3, missing="drop", n_local_clusters=3, random_state=0)


# -- categories -----------------------------------------------------------------------------------------------------


def wards(seed=0, n=80, column=None):
    """Two groups of patients; some hospitals know the ward, some a measurement, one both, and one has never had a level."""
    rng = np.random.default_rng(seed)
    tables, truth = {}, {}
    for name in "abc":
        truth[name] = rng.permutation(np.arange(n) % 2)
        there = truth[name].astype(bool)
        ward = np.where(rng.random(n) < 0.9, np.where(there, "heart", "lung"), "other")
        smoker = np.where(rng.random(n) < 0.05, ~there, there)
        x = there * 4.0 + rng.normal(size=n)
        tables[name] = {
            "a": {"ward": np.where(ward == "other", "lung", ward).astype(object), "x": x},
            "b": {"ward": ward.astype(object), "smoker": smoker},
            "c": {"smoker": smoker, "x": x * 1.0},
        }[name]
    return {name: pd.DataFrame(table) for name, table in tables.items()}, truth


@pytest.mark.parametrize("method", METHODS)
def test_categories_are_clustered_with_numbers(method):
    tables, truth = wards()
    result = intarsia.cluster(tables, 2, method=method, random_state=0)
    assert agreement(truth, result.labels) > 0.6
    assert result.feature_names == ("ward=heart", "ward=lung", "ward=other", "x", "smoker=False", "smoker=True")
    assert result.levels == {"smoker": ("False", "True"), "ward": ("heart", "lung", "other")}
    assert result.units == "standard"
    wards_of, smoking = result.centroids[:, :3], result.centroids[:, 4:]
    np.testing.assert_allclose(wards_of.sum(axis=1), 1.0)  # shares of the levels
    np.testing.assert_allclose(smoking.sum(axis=1), 1.0)
    assert abs(wards_of[0, 0] - wards_of[1, 0]) > 0.6
    # a has no row of "other": 80 observed zeros, not hidden cells
    assert result.counts[:, 2].sum() == 160
    absent = {(entry.participant, entry.column) for entry in result.coverage if entry.absent}
    assert absent == {("a", "smoker"), ("b", "x"), ("c", "ward")}


@pytest.mark.parametrize("method", METHODS)
def test_a_level_that_somebody_never_had_says_as_much_as_if_all_rows_were_pooled(method):
    """The centroid of a level is its share among everybody who has the column, whoever has seen the level."""
    tables, _ = wards()
    result = intarsia.cluster(tables, 2, method=method, random_state=0, n_starts=5)
    labels = np.concatenate([result.labels[name] for name in "ab"])
    ward = pd.concat([tables["a"]["ward"], tables["b"]["ward"]]).to_numpy()
    for k in range(2):
        share = np.mean(ward[labels == k] == "other")
        assert result.centroids[k, 2] == pytest.approx(share, abs=0.05 if method == "federated" else 1e-9)


def test_new_rows_with_categories_are_labelled_completed_and_survive_a_file(tmp_path):
    tables, _ = wards()
    result = intarsia.cluster(tables, 2, random_state=0)
    np.testing.assert_array_equal(result.predict(tables["b"]), result.labels["b"])
    strange = pd.DataFrame({"ward": ["heart", "morgue", None], "x": [4.0, 4.0, 4.0]})
    with pytest.warns(intarsia.exceptions.UnknownLevelsWarning, match=r"'ward' \(1 in 1 rows"):
        assert (result.predict(strange) == result.predict({"x": [4.0]})[0]).all()
    filled = result.impute(pd.DataFrame({"x": [0.0, 4.0]}))
    assert abs(filled.values["smoker=True"][0] - filled.values["smoker=True"][1]) > 0.7
    result.save(tmp_path / "s.intarsia")
    again = intarsia.load(tmp_path / "s.intarsia")
    np.testing.assert_array_equal(again.predict(tables["b"]), result.labels["b"])
    assert again.levels == result.levels
    assert again.units == "standard"
    assert again.coverage == result.coverage
    with pytest.raises(MixedKindsError, match=r"'ward \(numbers\)'"):
        result.predict({"ward": [1.0, 2.0]})
    with pytest.raises(MixedKindsError, match=r"'x \(categories\)'"):
        result.predict(pd.DataFrame({"x": pd.Categorical(["4", "3"])}))


@pytest.mark.parametrize("method", METHODS)
def test_tables_of_nothing_but_categories(method):
    tables, truth = wards(n=120)
    only = {"b": tables["b"], "d": wards(seed=9)[0]["b"]}
    result = intarsia.cluster(only, 2, method=method, random_state=0)
    assert agreement({"b": truth["b"]}, result.labels) > 0.6
    assert result.units is None


@pytest.mark.filterwarnings("ignore:levels may be other words")
def test_levels_that_look_alike_are_reported_and_never_joined():
    tables, _ = wards()
    tables["b"].loc[1:, "ward"] = tables["b"]["ward"][1:].str.title()
    with pytest.warns(intarsia.exceptions.FeatureNameWarning, match=r"'ward=heart' \(a\) and 'ward=Heart' \(b\)"):
        result = intarsia.cluster(tables, 2, random_state=0)
    assert len(result.levels["ward"]) > 3


def test_parties_without_a_common_level_are_pointed_out():
    tables, _ = wards()
    tables["b"]["ward"] = tables["b"]["ward"].map({"heart": "cardiology", "lung": "pneumology", "other": "rest"})
    with pytest.warns(intarsia.exceptions.FeatureNameWarning, match=r"'a' and 'b' have no level of 'ward' in common"):
        intarsia.cluster(tables, 2, random_state=0)


def test_other_words_for_some_levels_are_pointed_out_and_turn_the_light_yellow(tmp_path):
    about = "Columns mean the same everywhere"
    tables, _ = wards()
    tables["b"]["ward"] = tables["b"]["ward"].replace({"heart": "cardiology"})
    text = r"other words for the same thing: 'ward' \('a' has 'heart' and not 'cardiology', 'other', 'b' the reverse\)"
    with pytest.warns(intarsia.exceptions.FeatureNameWarning, match=text):
        result = intarsia.cluster(tables, 2, random_state=0)
    (light,) = [finding for finding in result.findings if finding.about == about]
    assert (light.state, "'cardiology'" in light.seen, "recode" in light.advice) == ("caution", True, True)
    result.save(tmp_path / "s.intarsia")
    assert intarsia.load(tmp_path / "s.intarsia").findings == result.findings
    usual = intarsia.cluster(wards()[0], 2, random_state=0)  # only b has patients in other wards
    assert [finding.state for finding in usual.findings if finding.about == about] == ["good"]


def test_a_pooled_table_with_categories_is_split_into_blocks():
    tables, truth = wards()
    pooled = pd.concat([table.assign(site=name) for name, table in tables.items()], ignore_index=True)
    blocks = intarsia.participants_from_blocks(pooled, by="site")
    result = intarsia.cluster(blocks, 2, random_state=0)
    labels = blocks.in_order(result.labels)
    assert adjusted_rand_score(np.concatenate([truth[name] for name in "abc"]), labels) > 0.6


# -- any local algorithm --------------------------------------------------------------------------------------------

CLUSTERERS = {
    "KMeans": KMeans(3),
    "MiniBatchKMeans": MiniBatchKMeans(3, n_init=3),
    "BisectingKMeans": BisectingKMeans(3),
    "Agglomerative": AgglomerativeClustering(3),
    "Birch": Birch(n_clusters=3),
    "Spectral": SpectralClustering(3, affinity="nearest_neighbors"),
    "DBSCAN": DBSCAN(eps=2.0),
    "HDBSCAN": HDBSCAN(min_cluster_size=8, copy=True),
    "GaussianMixture": GaussianMixture(3, n_init=3),
    "BayesianGaussianMixture": BayesianGaussianMixture(n_components=3),
    "KMedoids": kmedoids.KMedoids(3, metric="euclidean"),
}
CAN_START = {"KMeans", "MiniBatchKMeans", "GaussianMixture", "KMedoids"}


@pytest.mark.filterwarnings("ignore:Graph is not fully connected", "ignore:Number of distinct clusters")
@pytest.mark.parametrize("name", CLUSTERERS)
def test_one_shot_takes_any_clusterer(name):
    tables, truth = clinics(n=90)
    result = intarsia.cluster(tables, 3, method="one_shot", local=CLUSTERERS[name], random_state=0)
    assert agreement(truth, result.labels) > 0.95
    noise = {key: int((labels == -1).sum()) for key, labels in result.labels.items()}
    assert all(labels.min() >= -1 for labels in result.labels.values())
    assert sum(noise.values()) == 0 or name in {"DBSCAN", "HDBSCAN"}
    assert {key: int(size.sum()) + noise[key] for key, size in result.sizes.items()} == dict.fromkeys("abc", 90)


@pytest.mark.filterwarnings("ignore:Graph is not fully connected", "ignore:Number of distinct clusters")
@pytest.mark.parametrize("name", CLUSTERERS)
def test_federated_rounds_take_those_that_can_start_from_centres_and_refuse_the_others_at_once(name):
    tables, truth = clinics(n=90)
    if name in CAN_START:
        result = intarsia.cluster(tables, 3, local=CLUSTERERS[name], random_state=0)
        assert len(result.rounds) >= 1
    else:
        with pytest.raises(LocalAlgorithmError, match=rf"{type(CLUSTERERS[name]).__name__} cannot start.*one_shot"):
            intarsia.cluster(tables, 3, local=CLUSTERERS[name], random_state=0)
        result = intarsia.cluster(tables, 3, local=CLUSTERERS[name], max_rounds=0, random_state=0)
    assert agreement(truth, result.labels) > 0.95
    assert all((labels >= 0).all() for labels in result.labels.values())  # noise, too, has a nearest centroid


def test_medoids_start_from_the_rows_nearest_to_the_centres():
    from intarsia.participant.warm_start import WarmStarted

    rows = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    started = WarmStarted(kmedoids.KMedoids(2, metric="euclidean"), np.array([[11.2], [0.9]]), 1)
    assert started.fit_predict(rows).tolist() == [1, 1, 1, 0, 0, 0]


def test_a_mapping_gives_each_participant_its_own_clusterer():
    tables, truth = clinics(n=90)
    local = {"a": AgglomerativeClustering(3), "b": GaussianMixture(3), "c": HDBSCAN(min_cluster_size=8, copy=True)}
    result = intarsia.cluster(tables, 3, method="one_shot", local=local, random_state=0)
    assert agreement(truth, result.labels) > 0.95


def test_clusterers_of_distances_instead_of_rows_are_refused():
    tables, _ = clinics()
    for local in (kmedoids.KMedoids(3), SpectralClustering(3, affinity="precomputed")):
        with pytest.raises(intarsia.exceptions.SettingError, match="precomputed"):
            intarsia.cluster(tables, 3, method="one_shot", local=local)


# -- densities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", ["gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal"])
@pytest.mark.parametrize("force", ["auto", "exact", "sampled"])
def test_every_gaussian_finds_clear_clusters_by_every_force(density, force):
    tables, truth = clinics(n=90)
    result = intarsia.cluster(tables, 3, method="one_shot", density=density, force=force, random_state=0)
    assert agreement(truth, result.labels) == 1.0


def test_a_dirichlet_for_rows_of_shares():
    rng = np.random.default_rng(0)
    alpha = np.array([[20.0, 3.0, 3.0, 3.0], [3.0, 3.0, 20.0, 6.0]])
    truth = {name: np.arange(80) % 2 for name in "abc"}
    tables = {
        name: pd.DataFrame(100 * np.array([rng.dirichlet(alpha[k]) for k in truth[name]]), columns=["c", "h", "n", "o"])
        for name in "abc"
    }
    settings = {"method": "one_shot", "density": "dirichlet", "fidelity": True, "random_state": 0}
    result = intarsia.cluster(tables, 2, **settings)
    assert agreement(truth, result.labels) > 0.9
    assert all(entry.wasserstein < 1.5 * entry.chance for entry in result.fidelity)
    with pytest.raises(intarsia.exceptions.DensityError, match="'a': .*dirichlet.*rows do not add up"):
        intarsia.cluster({**tables, "a": tables["a"][["c", "h"]]}, 2, **settings)
    with pytest.raises(intarsia.exceptions.DensityError, match="'b': .*hold categories: 'sex'"):
        intarsia.cluster({**tables, "b": tables["b"].assign(sex=["f", "m"] * 40)}, 2, **settings)
    with pytest.raises(intarsia.exceptions.SettingError, match="force='exact' needs a Gaussian density"):
        intarsia.cluster(tables, 2, method="one_shot", density="dirichlet", force="exact")


def test_a_discrete_density_for_codes_and_categories():
    tables, truth = wards(n=120)
    coded = {
        name: table.assign(x=table["x"].round().clip(-1, 5)) if "x" in table else table
        for name, table in tables.items()
    }
    result = intarsia.cluster(coded, 2, method="one_shot", density="discrete", fidelity=True, random_state=0)
    assert agreement(truth, result.labels) > 0.6
    assert len(result.fidelity) == len(result.local_clusters)
    assert all(0 <= entry.total_variation <= 1 for entry in result.fidelity)
    with pytest.raises(intarsia.exceptions.DensityError, match=r"'a': .*1 of 3 columns have more: 'x'"):
        intarsia.cluster(tables, 2, method="one_shot", density="discrete", random_state=0)


def test_fidelity_tells_a_density_that_fits_from_one_that_does_not(tmp_path):
    rng = np.random.default_rng(0)
    ring = rng.normal(size=(200, 2))
    ring *= 5.0 / np.linalg.norm(ring, axis=1, keepdims=True)
    tables = {
        "ring": {"x": ring[:, 0], "y": ring[:, 1]},
        "blob": {"x": rng.normal(size=200), "y": rng.normal(size=200)},
    }
    result = intarsia.cluster(tables, 1, method="one_shot", n_local_clusters=1, fidelity=True, random_state=0)
    by_name = {entry.participant: entry for entry in result.fidelity}
    assert by_name["blob"].wasserstein < 1.3 * by_name["blob"].chance
    assert by_name["ring"].wasserstein > 1.6 * by_name["ring"].chance
    assert np.isnan(by_name["ring"].total_variation)
    result.save(tmp_path / "s.intarsia")
    assert str(intarsia.load(tmp_path / "s.intarsia").fidelity) == str(result.fidelity)
    assert intarsia.cluster(tables, 1, method="one_shot", random_state=0).fidelity == ()


# -- K --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_k_is_chosen_and_the_choice_can_be_looked_at(method, tmp_path):
    tables, truth = clinics(n=90, gap=9.0)
    result = intarsia.cluster(tables, method=method, random_state=0)
    assert result.n_clusters == result.outcome.found == 3
    assert agreement(truth, result.labels) == 1.0
    assert set(range(2, 9)) <= set(result.outcome.silhouettes)
    for k in (1, 2, 3, 9):
        assert {leaf.group for leaf in result.cut(k)} == set(range(k))
    with pytest.raises(intarsia.exceptions.SettingError, match="n_clusters must be a whole number from 1 to 9"):
        result.cut(10)
    figure = result.plot_n_clusters()
    assert [line.get_label() for line in figure.axes[0].lines][1:] == ["chosen: 3", "found by participants: 3"]
    assert len(figure.axes[1].get_xticklabels()) == 9
    result.save(tmp_path / "s.intarsia")
    again = intarsia.load(tmp_path / "s.intarsia")
    assert str(again.cut(4)) == str(result.cut(4))
    again.plot_n_clusters().savefig(tmp_path / "k.svg")
    given = intarsia.cluster(tables, 3, method=method, random_state=0)
    with pytest.raises(intarsia.exceptions.SettingError, match="n_clusters was given"):
        given.plot_n_clusters()


def test_choosing_k_and_then_giving_it_is_the_same_to_the_federated_method():
    tables, _ = clinics(n=90, gap=9.0)
    chosen, given = (intarsia.cluster(tables, k, random_state=0) for k in ("auto", 3))
    for name in tables:
        np.testing.assert_array_equal(chosen.labels[name], given.labels[name])
    np.testing.assert_array_equal(chosen.centroids, given.centroids)


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust"])
def test_the_unit_of_a_column_does_not_change_how_many_clusters_are_seen(scale):
    tables, _ = clinics(n=60)
    other = {name: table.assign(x=table["x"] * 1e4) for name, table in tables.items()}
    assert {intarsia.cluster(t, scale=scale, random_state=0).n_clusters for t in (tables, other)} == {3}


def test_codes_are_no_clusters_by_themselves():
    """0/1 columns have a gap between their values whether there are clusters or not."""
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame({f"q{k}": rng.integers(2, size=150) for k in range(6)} | {"x": rng.normal(size=150)})
        for name in "ab"
    }
    assert intarsia.cluster(tables, "auto", method="one_shot", random_state=0).n_clusters == 1


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    import sys

    tables, _ = clinics(n=30)
    result = intarsia.cluster(tables, "auto", method="one_shot", random_state=0)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(intarsia.exceptions.SettingError, match=r"pip install '\.\[plot\]'"):
        result.plot_n_clusters()


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust"])
@pytest.mark.parametrize("method", METHODS)
def test_overlapping_clusters_are_counted_alike_in_any_unit(method, scale):
    rng = np.random.default_rng(5)
    tables = {}
    for name, columns in {"a": "vwx", "b": "wxy", "c": "xyz"}.items():
        rows = rng.normal(size=(60, 3)) + 2.5 * rng.integers(3, size=(60, 1)) + (rng.random((60, 3)) < 0.2)
        tables[name] = pd.DataFrame(rows, columns=list(columns))
    by = pd.Series({"v": 1.0, "w": 1e4, "x": 1e-3, "y": 1.0, "z": 50.0})
    other = {name: table.mul(by[table.columns], axis=1) for name, table in tables.items()}
    before, after = (intarsia.cluster(t, method=method, scale=scale, random_state=0) for t in (tables, other))
    np.testing.assert_allclose(list(before.outcome.silhouettes.values()), list(after.outcome.silhouettes.values()))
    for name in tables:
        np.testing.assert_array_equal(before.labels[name], after.labels[name])


def test_one_row_alone_is_no_cluster_to_be_proud_of():
    tables = {name: {"x": [x], "y": [x]} for name, x in zip("abcd", (0.0, 0.01, 10.0, 10.01), strict=True)}
    assert intarsia.cluster(tables, method="one_shot", random_state=0).n_clusters == 2


# -- found by reviewers ---------------------------------------------------------------------------------------------


def test_a_mixture_of_one_has_everybody_in_it():
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=30), "k": np.ones(30)}
    result = intarsia.cluster({"t": rows}, 1, model="mixture", random_state=0)
    assert (result.labels["t"] == 0).all()
    assert (result.predict({"k": [1.0, 1.0]}) == 0).all()


def test_gaps_in_a_list_of_texts_are_gaps():
    tables = {"a": {"x": np.arange(30.0), "w": ["u", "v", float("nan")] * 10}}
    assert intarsia.cluster(tables, 2, random_state=0).levels == {"w": ("u", "v")}


def test_few_complete_rows_are_enough_for_rounds():
    tables, _ = clinics(n=40)
    tables["b"].iloc[2:, 0] = np.nan
    result = intarsia.cluster(tables, 4, missing="drop", random_state=0)
    assert all((labels >= 0).all() for labels in result.labels.values())


def test_a_single_text_is_no_category_and_does_not_travel():
    with pytest.raises(intarsia.exceptions.NonNumericError, match="1 different texts in 1 rows"):
        intarsia.cluster({"a": {"name": ["Jane Doe"], "x": [1.0]}, "b": {"x": [1.0, 2.0]}}, 1)


def test_the_same_level_in_two_normal_forms_is_one():
    tables, _ = wards()
    for name, form in (("a", "NFC"), ("b", "NFD")):
        tables[name]["ward"] = [
            unicodedata.normalize(form, "Zürich" if w == "heart" else w) for w in tables[name]["ward"]
        ]
    assert intarsia.cluster(tables, 2, random_state=0).levels["ward"] == ("Zürich", "lung", "other")


def test_blocks_keep_that_a_column_is_categorical():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"site": ["a"] * 30 + ["b"] * 6, "x": rng.normal(size=36), "code": pd.Categorical(rng.integers(3, size=36))}
    )
    blocks = intarsia.participants_from_blocks(table, by="site")
    assert intarsia.cluster(blocks, 2, random_state=0).levels == {"code": ("0", "1", "2")}


def test_plots_of_odd_names_and_of_nothing_to_choose(tmp_path):
    tables, _ = clinics(n=30)
    odd = {"cost $x_{$": tables["a"], "b": tables["b"], "c": tables["c"]}
    intarsia.cluster(odd, method="one_shot", random_state=0).plot_n_clusters().savefig(tmp_path / "k.svg")
    alone = intarsia.cluster({"a": {"x": np.zeros(5)}}, method="one_shot", random_state=0)
    assert alone.n_clusters == 1
    alone.plot_n_clusters().savefig(tmp_path / "one.svg")
