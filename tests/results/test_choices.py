"""The table of numbers of clusters that were considered: from a run, in a file, in the report, in words."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.report.choices import advice_on_number
from intarsia.results.choices import Choices, ConsideredNumber


def tables(seed=0, n=60):
    rng = np.random.default_rng(seed)
    centres = {"a": (0.0, 9.0, 18.0), "b": (0.0, 9.0, 18.0)}
    return {
        name: {column: np.repeat(middle, n) + rng.normal(size=n * len(middle)) for column in columns}
        for (name, middle), columns in zip(centres.items(), ("xyz", "yzw"), strict=True)
    }


@pytest.fixture(scope="module", params=["federated", "one_shot"])
def result(request):
    return intarsia.cluster(tables(), method=request.param, random_state=0)


def test_every_number_from_one_on_has_a_row(result, tmp_path):
    choices = result.choices
    assert result.n_clusters == choices.chosen == 3
    assert [row.n_clusters for row in choices] == list(range(1, len(choices) + 1))
    assert choices[0].objective == 1.0
    shares = [row.objective for row in choices if not np.isnan(row.objective)]
    assert shares == sorted(shares, reverse=True)
    three = choices[2]
    assert (three.silhouette, three.stability) == (
        max(row.silhouette for row in choices[1:6]),
        pytest.approx(1.0, abs=0.02),
    )
    assert 0 <= three.confidence <= 1
    assert choices.to_dicts()[2]["n_clusters"] == 3
    assert (choices.candidates, choices.verdict) == ((3,), "3 clusters: no other number is a candidate.")
    result.save(tmp_path / "study.intarsia")
    loaded = intarsia.load(tmp_path / "study.intarsia").choices
    np.testing.assert_array_equal(np.array(loaded), np.array(choices))


def test_the_seed_does_not_matter():
    numbers = {intarsia.cluster(tables(seed=1), method="one_shot", random_state=seed).n_clusters for seed in range(4)}
    assert numbers == {3}


def test_a_given_number_has_no_table():
    given = intarsia.cluster(tables(), 3, method="one_shot", random_state=0)
    assert (len(given.choices), bool(given.choices)) == (0, False)
    assert "K was given" in str(given.choices)
    assert advice_on_number(given.outcome) == ""


def test_the_report_says_whether_scores_agree_and_has_the_table(result):
    data = result.summarise()
    finding = next(each for each in data.findings if each.about == "One number of clusters stands out")
    assert finding.state == "good"
    assert data.tree.choices == result.outcome.choices
    assert not any("Let the number be chosen" in each.advice for each in data.findings)


def row(k, silhouette, stability):
    return ConsideredNumber(k, 0.5, silhouette, stability, 1 / k)


def test_where_scores_disagree_candidates_are_named():
    choices = Choices((row(1, np.nan, np.nan), row(2, 0.6, 0.7), row(3, 0.4, 0.9), row(4, 0.4, 0.8)), 4)
    assert choices.candidates == (2, 3, 4)
    assert choices.verdict == ("2 or 3 or 4 clusters: the silhouette prefers 2, the stability prefers 3; 4 was chosen.")
    assert str(choices).splitlines()[4].endswith("*")
    assert Choices((row(1, np.nan, np.nan), row(2, 0.6, 0.7)), 1).candidates == (1,)


def test_the_rows_around_the_chosen_number_are_shown():
    rows = tuple(row(k, 0.1, 0.1) for k in range(1, 31))
    assert [each.n_clusters for each in Choices(rows, 20).around()] == list(range(15, 25))
    assert [each.n_clusters for each in Choices(rows, 2).around()] == list(range(1, 11))
    assert len(Choices(rows[:4], 2).around()) == 4
