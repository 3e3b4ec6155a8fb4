"""A preset sets what it names; explicit settings win; all ways in give the same settings."""

from __future__ import annotations

import re

import pytest
from sklearn.base import clone

import intarsia
from intarsia.estimators.clustering import ESTIMATORS, estimator_for
from intarsia.estimators.presets import PRESETS, with_preset
from intarsia.estimators.settings import check_settings
from intarsia.exceptions import SettingError
from tests.estimators.test_errors import table

PAIRS = [(method, preset) for method, presets in PRESETS.items() for preset in presets]


@pytest.mark.parametrize(("method", "preset"), PAIRS)
def test_every_preset_has_valid_settings_of_its_method_and_all_ways_in_agree(method, preset):
    kind = ESTIMATORS[method]
    model = kind.from_preset(preset, 3)
    parameters = model.get_params(deep=False)
    check_settings(method, parameters)
    assert parameters == {**kind(3).get_params(deep=False), **PRESETS[method][preset]}
    assert estimator_for(method, 3, {"preset": preset}).get_params(deep=False) == parameters
    assert clone(model).get_params(deep=False) == parameters


def test_the_paper_has_three_plain_rounds_and_a_greedy_agglomeration_of_sampled_forces():
    federated, one_shot = PRESETS["federated"]["paper"], PRESETS["one_shot"]["paper"]
    assert (federated["max_rounds"], federated["step_size"], federated["refinement"]) == (3, 0.8, "plain")
    assert (federated["scale"], federated["n_rivals"], federated["tol"]) == (None, 0, 0.0)
    assert (one_shot["aggregation"], one_shot["force"], one_shot["softening"]) == ("greedy", "sampled", 0.0)
    assert (one_shot["exponent"], one_shot["scale"]) == (2.0, None)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_the_docstring_gives_the_papers_value_beside_ours(method):
    entries = re.split(r"\n    (?=\w+ : )", ESTIMATORS[method].__doc__)
    described = {entry.split(" : ")[0]: " ".join(entry.split()) for entry in entries[1:]}
    for name, value in PRESETS[method]["paper"].items():
        assert "(The paper: " in described[name], name
        if isinstance(value, str):
            assert value in described[name].split("(The paper: ")[1], name


def test_explicit_settings_win_over_a_preset_and_a_preset_over_defaults():
    settings = with_preset("federated", {"preset": "paper", "max_rounds": 7}, {"scale": "auto", "missing": "drop"})
    assert (settings["max_rounds"], settings["scale"], settings["missing"]) == (7, None, "drop")
    assert "preset" not in settings
    assert intarsia.FederatedClustering.from_preset("paper", 2, step_size=1.0).step_size == 1.0


@pytest.mark.parametrize("preset", ["papr", "", 3, ["paper"]])
def test_an_unknown_preset_is_an_error_that_lists_the_known_ones(preset):
    with pytest.raises(SettingError, match=r"preset must be 'paper' or None"):
        intarsia.cluster({"a": table()}, 2, preset=preset)
    with pytest.raises(SettingError, match=r"preset must be 'paper'"):
        intarsia.OneShotClustering.from_preset(preset, 2)


def test_an_override_that_the_method_does_not_have_is_an_error():
    with pytest.raises(SettingError, match="'force' belongs to method='one_shot'"):
        intarsia.FederatedClustering.from_preset("paper", 2, force="sampled")


@pytest.mark.parametrize("method", ESTIMATORS)
def test_cluster_records_the_settings_of_the_preset(method):
    tables = {"a": table("xy"), "b": table("yz", seed=1)}
    result = intarsia.cluster(tables, 2, method=method, preset="paper", random_state=0)
    estimator = ESTIMATORS[method].from_preset("paper", 2, random_state=0).fit(tables)
    assert result.run.settings == estimator.result_.run.settings
    assert result.run.settings["scale"] is None
    assert [labels.tolist() for labels in result.labels.values()] == [x.tolist() for x in estimator.labels_.values()]
