"""Warnings about the paper's methods say which condition does not hold, with counts, and what to use instead."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import intarsia
from intarsia.exceptions import AssumptionWarning


def tables(bias=0.0, columns=("xy", "yz", "zw")):
    """Two clear clusters, in participants that form a chain; ``bias`` moves those of the first and the last apart."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    return {
        name: {column: 10.0 * truth + bias * (k - 1) + 0.2 * rng.normal(size=60) for column in own}
        for k, (name, own) in enumerate(zip("abc", columns, strict=True))
    }


def warned(data, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = intarsia.cluster(data, 2, scale=None, random_state=0, **settings)
    return result, [str(entry.message) for entry in caught if entry.category is AssumptionWarning]


def test_the_branch_of_a_chain_with_equal_distributions_is_method_a_without_a_warning():
    result, texts = warned(tables(), aggregation="paper")
    assert (result.outcome.aggregation.branch, texts) == ("method_a", [])
    assert str(result).endswith("; grouped by Method A, because Assumption 1 held)")
    assert "by Method A, because Assumption 1 held," in result.summarise().methods


def test_the_branch_of_biased_participants_that_all_share_a_feature_is_method_b_without_a_warning():
    result, texts = warned(tables(2.6, ("xy", "xz", "xyz")), aggregation="paper")
    aggregation = result.outcome.aggregation
    assert aggregation.branch == "method_b"
    assert set(aggregation.unmet) == {"1.3"}
    assert texts == []
    assert "by Method B, because Assumptions 2 and 3 held and Assumption 1 did not," in result.summarise().methods


def test_where_no_case_holds_the_paper_takes_method_b_and_warns():
    data = {**tables(), "d": {"w": np.linspace(-0.1, 0.1, 40), "v": np.linspace(0.0, 1.0, 40)}}
    result, texts = warned(data, aggregation="paper", n_local_clusters={"d": 1})
    assert result.outcome.aggregation.branch == "method_b"
    (text,) = texts
    assert text.startswith(
        "neither Assumption 1 nor Assumptions 2 and 3 of the paper hold, so that aggregation='paper'"
    )
    assert "the participants of 1 of 2 clusters do not have all features together" in text
    assert "Hint: aggregation='search'" in text


@pytest.mark.parametrize(
    ("aggregation", "data", "expected"),
    [
        (
            "method_a",
            tables(2.6, ("xy", "xz", "xyz")),
            "Assumption 1 of the paper holds, and it does not: 2 of 6 local",
        ),
        ("method_b", tables(), "Assumptions 2 and 3 of the paper hold, and they do not: 2 of 2 clusters have"),
    ],
)
def test_a_method_by_name_warns_where_its_case_does_not_hold(aggregation, data, expected):
    _, texts = warned(data, aggregation=aggregation)
    assert len(texts) == 1
    assert texts[0].startswith(f"aggregation='{aggregation}' is for tables for which {expected}")
    assert "Hint: aggregation='search' compares many groupings instead" in texts[0]


@pytest.mark.parametrize(
    ("aggregation", "data"), [("method_a", tables()), ("method_b", tables(0.5, ("xy", "xz", "xyz")))]
)
def test_a_method_by_name_is_silent_where_its_case_holds(aggregation, data):
    assert warned(data, aggregation=aggregation)[1] == []


def test_a_saved_study_keeps_the_branch_and_makes_the_same_warning(tmp_path):
    result, texts = warned(tables(), aggregation="method_b")
    result.save(tmp_path / "study.intarsia")
    loaded = intarsia.load(tmp_path / "study.intarsia")
    assert loaded.outcome.aggregation.unmet == result.outcome.aggregation.unmet
    assert loaded.run.notes == tuple(texts)
