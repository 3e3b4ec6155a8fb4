from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import intarsia
from intarsia import DifferentialPrivacy
from intarsia.estimators.privacy_forecast import Agreement, PrivacyForecast, epsilon_needed
from intarsia.exceptions import SettingError

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.IntarsiaWarning")


def two_clusters(n_rows, seed=7200):
    """Two participants with rows around −2 and 2, and what is declared about them."""
    rng, tables = np.random.default_rng(seed), {}
    for name, columns in (("a", "xy"), ("b", "yz")):
        side = 4.0 * rng.integers(2, size=n_rows) - 2.0
        tables[name] = {column: side + rng.normal(size=n_rows) for column in columns}
    return tables, dict.fromkeys("xyz", (-8.0, 8.0))


def test_the_forecast_is_what_other_runs_lose():
    tables, bounds = two_clusters(500)
    privacy = DifferentialPrivacy(1, bounds=bounds)
    forecast = intarsia.forecast_privacy(tables, 2, privacy=privacy, n_runs=6)
    plain = intarsia.cluster(tables, 2, random_state=0)
    losses = []
    for _ in range(6):
        private = intarsia.cluster(tables, 2, privacy=privacy, random_state=0)
        losses += [1 - adjusted_rand_score(*(np.concatenate([*r.labels.values()]) for r in (plain, private)))]
    assert forecast.loss == pytest.approx(np.mean(losses), abs=0.05)
    assert not forecast.is_too_little


def test_few_rows_are_too_few_and_what_would_do_is_said():
    rng = np.random.default_rng(7201)
    rows = 1.5 * rng.normal(size=(4, 8))[rng.integers(4, size=200)] + rng.normal(size=(200, 8))
    tables, bounds = {"a": dict(zip("stuvwxyz", rows.T, strict=True))}, dict.fromkeys("stuvwxyz", (-6.0, 6.0))
    forecast = intarsia.forecast_privacy(tables, 4, privacy=DifferentialPrivacy(0.02, bounds=bounds), n_runs=4)
    assert forecast.is_too_little
    assert "epsilon 0.02" in forecast.verdict
    assert forecast.needed_epsilon is None or 0.02 < forecast.needed_epsilon < 32
    assert "not to be published" in str(forecast)


def test_categories_are_read_as_declared():
    tables, bounds = two_clusters(300)
    for table in tables.values():
        table["sex"] = ["f", "m", "other"] * 100
    privacy = DifferentialPrivacy(4, bounds=bounds, levels={"sex": ["f", "m"]})
    assert intarsia.forecast_privacy(tables, 2, privacy=privacy, n_runs=2).agreement.mean > 0.5


def made_of(mean, **changes):
    one = Agreement(1.0, (mean, mean))
    others = {"without_noise": Agreement(100.0, (1.0,)), "noise_alone": Agreement(0.01, (0.2, 0.2))}
    figures = {"agreement": one, "with_half": one, "with_double": one, **others}
    return PrivacyForecast(**{"privacy": DifferentialPrivacy(1, bounds={"x": (0, 1)}), **figures} | changes)


def test_verdicts():
    assert "most rows" in made_of(0.9).verdict
    assert "many rows get another label" in made_of(0.7).verdict
    assert "every epsilon up to 32" in made_of(0.1).verdict
    assert "An epsilon of about 2 would do" in made_of(0.1, needed_epsilon=2.0, needed_rows=2.04).verdict
    assert "about 2 times as many rows" in made_of(0.1, needed_epsilon=2.0, needed_rows=2.04).verdict
    assert "about 290 times as many rows" in made_of(0.1, needed_epsilon=9.0, needed_rows=288.3).verdict
    assert "not clear enough" in made_of(0.1, without_noise=Agreement(100.0, (0.3,))).verdict


def test_what_is_left_by_hand():
    assert made_of(0.6).left == pytest.approx(0.5)
    assert made_of(0.1).left == 0.0
    assert made_of(0.6).enough == pytest.approx(0.84)
    high = Agreement(0.01, (0.5, 0.5))
    assert made_of(0.7, noise_alone=high).is_too_little  # 0.7 looks good, but noise alone gives 0.5
    assert made_of(0.7, noise_alone=Agreement(0.01, (1.0,))).left == 0.0
    assert not made_of(1.0, noise_alone=Agreement(0.01, (1.0,))).is_too_little
    assert "most rows" in made_of(0.9, noise_alone=Agreement(0.01, (0.9,))).verdict


def test_the_epsilon_that_would_do_by_hand():
    """Agreement ε / 4: 0.5 at 2 and 1 at 4, so that 0.8 is at 2 · 2^0.6."""

    def at(epsilon):
        return Agreement(epsilon, (epsilon / 4,))

    assert epsilon_needed(at, at(0.5), at(1.0), 0.8) == pytest.approx(2 * 2**0.6)
    assert epsilon_needed(at, at(2.0), at(4.0), 0.8) == pytest.approx(2 * 2**0.6)
    assert epsilon_needed(at, at(3.6), at(3.6), 0.8) == 3.6
    assert epsilon_needed(lambda epsilon: Agreement(epsilon, (0.1,)), at(0.1), at(0.2), 0.8) is None


def test_figures_as_json():
    figures = made_of(0.9).as_dict()
    assert figures["agreement"] == {"epsilon": 1.0, "mean": 0.9, "spread": 0.0, "worst": 0.9, "runs": 2}
    assert "not to be published" in figures["note"]


def test_figures_of_an_agreement_by_hand():
    agreement = Agreement(1.0, (0.5, 0.7, 0.9))
    assert agreement.mean == pytest.approx(0.7)
    assert agreement.spread == pytest.approx(0.2)
    assert str(agreement) == "0.70 ± 0.20 (worst of 3 runs: 0.50)"
    assert Agreement(1.0, (0.5,)).spread == 0.0


def test_undeclared_columns_are_refused():
    tables, bounds = two_clusters(50)
    del bounds["z"]
    with pytest.raises(SettingError, match="'z'"):
        intarsia.forecast_privacy(tables, 2, privacy=DifferentialPrivacy(1, bounds=bounds))
    with pytest.raises(SettingError, match="privacy must be a DifferentialPrivacy"):
        intarsia.forecast_privacy(tables, 2, privacy=1.0)
