"""The algorithm of a study, on its way to the server, and release rules that forbid it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.exceptions import ProtocolError, SettingError
from intarsia.federation.algorithms import (
    algorithm_of,
    as_json,
    check_rules,
    digest_of,
    from_json,
    holders_of,
    terms_for,
    with_copies,
)
from intarsia.federation.study_file import Study
from intarsia.privacy.policy import ReleasePolicy


@pytest.mark.parametrize(
    "algorithm",
    [
        FederatedAlgorithm(n_clusters=None, seed=3),
        OneShotAlgorithm(n_clusters=2),
        OneShotAlgorithm(n_proxies=(30, 100)),
        FederatedAlgorithm(n_clusters=2, feature_weights={"age": 2.0}, participant_weights="equal"),
        OneShotAlgorithm(n_clusters=2, participant_weights={"a": 0.5, "b": 3.0}),
    ],
)
def test_an_algorithm_survives_the_way_to_the_server(algorithm):
    sent = json.loads(json.dumps(as_json(algorithm)))
    assert from_json(sent) == algorithm
    assert digest_of(sent, ("a", "b")) == digest_of(as_json(algorithm), ("b", "a"))


@pytest.mark.parametrize(
    "what", [None, {}, {"method": "os", "settings": {}}, {"method": "federated", "settings": {"x": 1}}]
)
def test_a_job_that_names_no_algorithm_is_refused(what):
    with pytest.raises(ProtocolError):
        from_json(what)


@pytest.mark.parametrize(
    ("method", "settings", "why"),
    [
        ("federated", {"scale": "minmax"}, "units 'minmax' need values of single rows"),
        ("one_shot", {"density": "discrete"}, "discrete densities"),
        ("one_shot", {"bounding_boxes": True, "force": "sampled"}, "bounding boxes"),
        ("federated", {"release": {}}, "a table of its own"),
    ],
)
def test_a_study_whose_rules_forbid_its_settings_is_refused(method, settings, why):
    study = Study("s", ("a", "b"), method, 2, settings=settings)
    with pytest.raises(SettingError, match=why):
        check_rules(study)
    if "release" not in settings:
        check_rules(replace(study, release=ReleasePolicy(allow_extremes=True, allow_discrete=True)))


def test_more_rounds_than_are_allowed_are_a_warning():
    warning = check_rules(Study("s", ("a", "b"), n_clusters=2, release=ReleasePolicy(max_rounds=3)))
    assert warning.startswith("the study takes up to 5 rounds, and the release rules allow 3")


def test_the_merge_of_a_study_travels_with_its_job():
    study = Study("s", ("a", "b"), "federated", 2, settings={"merge": "robust"})
    algorithm, described = algorithm_of(study)
    assert described["merge"] == "robust"
    assert from_json(as_json(algorithm)).is_robust


def test_a_preset_of_a_study_replaces_the_defaults_of_a_federation_and_explicit_settings_win():
    study = Study("s", ("a", "b"), "federated", 2, settings={"preset": "paper", "step_size": 0.5})
    algorithm, described = algorithm_of(study)
    assert (algorithm.max_rounds, algorithm.step_size, algorithm.refinement) == (3, 0.5, "plain")
    assert "preset" not in described
    assert from_json(json.loads(json.dumps(as_json(algorithm)))).terms("a").n_local_clusters == "silhouette"
    with pytest.raises(SettingError, match="preset must be 'paper' or None"):
        check_rules(replace(study, settings={"preset": "papr"}))


def test_bounds_of_proxies_come_from_a_study_file_as_a_list():
    settings = {"n_proxies": [30, 100], "linkage": "ward", "aggregation": "greedy", "shrink": False, "fidelity": True}
    algorithm, described = algorithm_of(Study("s", ("a", "b"), "one_shot", 2, settings=settings))
    assert (algorithm.n_proxies, algorithm.linkage, described["n_proxies"]) == ((30, 100), "ward", [30, 100])
    terms = algorithm.terms("a")
    assert (terms.n_proxies, terms.shrink) == (100, False)


@pytest.mark.parametrize(
    ("method", "metric", "factor"), [("federated", "euclidean", 3.0), ("one_shot", "manhattan", 9.0)]
)
def test_weights_of_a_study_file_reach_the_coordinator_and_the_terms(method, metric, factor):
    settings = {"feature_weights": {"age": 9}, "participant_weights": {"a": 2}, "metric": metric}
    study = Study("s", ("a", "b"), method, 2, settings=settings)
    algorithm, recorded = algorithm_of(study)
    assert algorithm.row_weights({"a": 10, "b": 90}) == {"a": 2.0, "b": 1.0}
    assert algorithm.terms("a").listed()["factors"] == {"age": factor}
    assert recorded["feature_weights"] == {"age": 9}
    unweighted = algorithm_of(replace(study, settings={}))[0]
    assert unweighted.terms("a").listed()["factors"] == "none"


def test_weights_of_participants_that_a_study_does_not_have_are_refused():
    with pytest.raises(SettingError, match="'B' looks like 'b'"):
        algorithm_of(Study("s", ("a", "b"), n_clusters=2, settings={"participant_weights": {"B": 2}}))


def test_copies_of_the_model_travel_with_the_job_and_are_a_term_of_the_study():
    study = Study("s", ("a", "b", "c"), n_clusters=2)
    secure = replace(study, secure_sums=True, settings={"min_holders": 3})
    for asked, fewest in ((study, 1), (replace(study, share_min_holders=2), 2), (secure, 3)):
        assert holders_of(asked) == fewest
        shared = with_copies(asked, algorithm_of(asked)[0])
        assert shared.min_holders == fewest
        assert from_json(json.loads(json.dumps(as_json(shared)))) == shared
        assert terms_for(asked, "a").share_model
        assert terms_for(asked, "a").share_min_holders == fewest
    without = replace(study, share_model=False)
    assert with_copies(without, algorithm_of(without)[0]) == algorithm_of(study)[0]
    assert not terms_for(without, "a").share_model
    newcomer = replace(study, participants=("d",), joins=True)
    assert not terms_for(newcomer, "d").share_model
    for copies in ({}, {"min_holders": 0}, {"min_holders": "1"}, None):
        with pytest.raises(ProtocolError, match="copies of the model"):
            from_json(as_json(shared) | {"copies": copies})
