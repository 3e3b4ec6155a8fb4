"""Every setting accepts what the table says, refuses the rest in one form of words, and has one default everywhere."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans

import intarsia
from intarsia.estimators.clustering import ESTIMATORS, estimator_for
from intarsia.estimators.settings import SETTINGS as TABLE
from intarsia.estimators.settings import check_settings
from intarsia.exceptions import SettingError
from intarsia.federation.study_file import Study
from tests.estimators.test_errors import table


@pytest.mark.parametrize("method", ESTIMATORS)
def test_the_table_has_exactly_the_settings_of_each_estimator_and_accepts_their_defaults(method):
    defaults = ESTIMATORS[method]().get_params(deep=False)
    assert set(TABLE[method]) == set(defaults)
    check_settings(method, defaults)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_every_setting_is_documented_with_its_default(method):
    kind = ESTIMATORS[method]
    for name, value in kind().get_params(deep=False).items():
        lines = [line for line in kind.__doc__.splitlines() if line.startswith(f"    {name} :")]
        assert len(lines) == 1, name
        default = "default=" + (f'"{value}"' if isinstance(value, str) else str(value))
        assert lines[0].endswith(default), lines[0]


def test_the_number_of_clusters_is_chosen_unless_given_whichever_way_one_comes_in():
    assert inspect.signature(intarsia.cluster).parameters["n_clusters"].default == "auto"
    assert {kind().n_clusters for kind in ESTIMATORS.values()} == {"auto"}
    assert inspect.signature(Study).parameters["n_clusters"].default == "auto"


def test_settings_are_checked_before_any_table_is_read():
    with pytest.raises(SettingError, match="tol must be a number of at least 0"):
        estimator_for("federated", 2, {"tol": -1.0})


SETTINGS = [
    ({"n_local_clusters": "elbow"}, "n_local_clusters must be a whole number of at least 1 or 'silhouette' or None"),
    ({"n_local_clusters": {"a": 0}}, "n_local_clusters must be"),
    ({"n_clusters": 0}, "n_clusters must be a whole number of at least 1"),
    ({"n_clusters": 2.5}, "n_clusters"),
    ({"n_clusters": None}, "n_clusters must be .* Got None instead. Hint: n_clusters='auto' chooses"),
    ({"n_clusters": True}, "n_clusters"),
    ({"n_clusters": "three"}, "n_clusters must be a whole number of at least 1 or 'auto'. Got 'three' instead"),
    ({"aggregation": "greedy"}, "aggregation must be one of .* Hint: aggregation='greedy' needs method='one_shot'"),
    ({"method": "one_shot", "aggregation": "paper"}, "Got 'paper' instead. Hint: aggregation='greedy' is the paper's"),
    ({"step_size": 0.0}, "step_size must be a number above 0 and at most 1"),
    ({"step_size": float("nan")}, "step_size"),
    ({"max_rounds": -1}, "max_rounds"),
    ({"tol": -1.0}, "tol"),
    ({"min_points": 0}, "min_points"),
    ({"metric": "hamming"}, "metric must be one of"),
    ({"scale": "max"}, "scale must be one of"),
    ({"missing": "guess"}, "missing must be one of"),
    ({"n_local_clusters": 0}, "n_local_clusters"),
    ({"n_local_clusters": {"z": 2}}, "n_local_clusters names 1 participant.*'z'"),
    ({"local": {"z": KMeans(2)}}, "local names 1 participant.*'z'"),
    ({"local": "kmeans"}, "local must be None or .* a scikit-learn clusterer.*Got 'kmeans' instead"),
    ({"local": KMeans}, "the class KMeans"),
    ({"random_state": "a"}, "random_state must be"),
    ({"random_state": -1}, "random_state must be"),
    ({"method": "magic"}, "method must be one of"),
    ({"method": "one_shot", "force": "weak"}, "force must be one of"),
    ({"method": "one_shot", "density": "poisson"}, "density must be one of"),
    (
        {"method": "one_shot", "exponent": 1.0},
        "exponent must be a number above 1 and at most 100. Got 1.0 instead. Hint: exponent=2.0",
    ),
    (
        {"method": "one_shot", "force": "exact", "metric": "cosine"},
        "force='exact' needs a Gaussian density and metric='euclidean'.*metric='cosine'.*force='sampled'",
    ),
    ({"method": "one_shot", "shrink": 0}, "shrink must be True or False"),
    ({"method": "one_shot", "linkage": "median"}, "linkage must be one of"),
    ({"method": "one_shot", "linkage": "ward"}, "linkage='ward' needs aggregation='greedy'.*Got aggregation='search'"),
    (
        {"method": "one_shot", "linkage": "mean", "aggregation": "greedy", "force": "exact"},
        "linkage='mean' is a distance between points.*force='sampled'",
    ),
    (
        {"method": "one_shot", "linkage": "ward", "aggregation": "greedy", "metric": "cosine"},
        "linkage='ward' needs metric='euclidean'. Got metric='cosine' instead",
    ),
    ({"method": "one_shot", "deviations": -1.0}, "deviations must be a number of at least 0"),
    ({"method": "one_shot", "n_proxies": 0}, "n_proxies"),
    (
        {"method": "one_shot", "n_proxies": (100, 30)},
        r"a pair \(least, most\) of such, the smaller one first.* Hint: n_proxies=\(30, 100\)",
    ),
    ({"method": "one_shot", "n_proxies": (0, 30)}, "n_proxies"),
    ({"method": "one_shot", "n_proxies": (1, 2, 3)}, "n_proxies"),
    ({"method": "one_shot", "n_proxies": 10**9}, "n_proxies must be a whole number from 1 to 100000"),
    ({"method": "one_shot", "softening": float("inf")}, "softening"),
    ({"method": "one_shot", "exponent": 1e3}, "exponent"),
    ({"method": "one_shot", "bounding_boxes": True}, "bounding_boxes limit proxies"),
    ({"method": []}, "method must be one of"),
    ({"method": "one_shot", "max_rounds": 3}, "no setting 'max_rounds'.*belongs to method='federated'"),
    ({"max_round": 3}, "no setting 'max_round'.*max_rounds"),
    ({"scale": np.ones(2)}, "scale must be one of.*Got an object of type ndarray"),
    ({"n_rivals": 99}, "n_rivals must be a whole number from 0 to 7"),
    ({"merge": "median"}, "merge must be one of .'mean', 'robust'.. Got 'median'"),
    ({"method": "one_shot", "merge": "robust"}, "no setting 'merge'.*belongs to method='federated'"),
    ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1, −1 for all cores or None"),
    ({"release": {"a": 5}}, "release must be a ReleasePolicy or None. Got 5 instead"),
    ({"method": "one_shot", "fidelity": "yes"}, "fidelity must be True or False"),
    ({"local": DBSCAN(metric="precomputed")}, "local has metric='precomputed', but it is given rows"),
    ({"metric": lambda u, v: float("nan")}, "metric must return a finite number"),
    ({"metric": lambda u, v: 1 / 0}, "metric failed with a ZeroDivisionError"),
]


@pytest.mark.parametrize(("settings", "text"), SETTINGS, ids=[text for _, text in SETTINGS])
def test_bad_settings(settings, text):
    settings = {"n_clusters": 2, **settings}
    with pytest.raises(SettingError, match=text):
        intarsia.cluster({"a": table(), "b": table("yz")}, **settings)
