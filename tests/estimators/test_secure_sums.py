"""Secure sums in one process: the result is that of plain rounds, and only totals are learned."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.datasets import Split, load_heart_disease, mask_features, partition
from intarsia.exceptions import IntarsiaWarning, SettingError

pytestmark = pytest.mark.filterwarnings(f"ignore::{IntarsiaWarning.__module__}.{IntarsiaWarning.__name__}")
pytest.importorskip("Crypto")


def study(seed, layout, n_participants, *, rows=240, features=20, clusters=3):
    rng = np.random.default_rng([seed, 20])
    truth = rng.integers(clusters, size=rows)
    X = 1.3 * rng.normal(size=(clusters, features))[truth] + rng.normal(size=(rows, features))
    share = {"share": 0.7} if layout == "random" else {}
    masks = mask_features(features, n_participants, layout=layout, random_state=rng, **share)
    return Split.of(X, truth, partition(rows, n_participants, random_state=rng), masks).tables()


def both(tables, k, **settings):
    plain = intarsia.cluster(tables, k, **settings)
    return plain, intarsia.cluster(tables, k, secure_sums=True, **settings)


def shared_features(result):
    at_home = {column for columns in result.outcome.secure.at_home.values() for column in columns}
    return [m for m, name in enumerate(result.feature_names) if name.partition("=")[0] not in at_home]


def assert_same(plain, secure):
    for key, labels in plain.labels.items():
        np.testing.assert_array_equal(secure.labels[key], labels)
    shared = shared_features(secure)
    index = plain.outcome.model.space.index([plain.feature_names[m] for m in shared])
    scale = plain.outcome.model.scale[index]
    apart = np.abs(plain.centroids[:, shared] - secure.centroids[:, shared]) / scale
    assert np.nanmax(apart, initial=0.0) < 2.0**-16
    np.testing.assert_array_equal(np.isnan(plain.centroids[:, shared]), np.isnan(secure.centroids[:, shared]))
    np.testing.assert_array_equal(secure.outcome.total_sizes, plain.outcome.total_sizes)
    spread, expected = (result.outcome.model.deviations[:, index] / scale for result in (secure, plain))
    np.testing.assert_allclose(spread, expected, atol=1e-3)


@pytest.mark.parametrize("layout", ["chain", "core", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_the_result_is_that_of_plain_rounds(layout, seed):
    tables = study(seed, layout, 3 + seed)
    release = intarsia.ReleasePolicy() if seed % 2 else None
    # without home columns both rest after the same round; with them, when what all can see rests
    tol = 1e-3 if layout == "random" else 0.0
    plain, secure = both(tables, 3, random_state=seed, tol=tol, max_rounds=4, release=release)
    assert_same(plain, secure)
    if not secure.outcome.secure.at_home:
        assert len(secure.outcome.rounds) == len(plain.outcome.rounds)


def test_hospitals_with_missing_values_and_one_column_of_a_single_holder():
    tables = load_heart_disease("pandas").tables
    plain, secure = both(tables, 2, random_state=0)
    assert_same(plain, secure)
    totals = secure.outcome.secure
    assert totals.at_home == {"cleveland": ("ca",)}
    assert (totals.n_participants, totals.n_sums) == (4, len(secure.outcome.rounds) + 2)
    assert "In no total, because fewer than 2 have them: ca." in str(totals)
    assert {key: sizes.tolist() for key, sizes in secure.sizes.items()} == {
        key: sizes.tolist() for key, sizes in plain.sizes.items()
    }


def test_categories_a_chosen_k_and_several_processes():
    rng = np.random.default_rng(0)
    tables = {}
    for name, other in (("a", "u"), ("b", "v"), ("c", "u")):
        ill = rng.integers(2, size=120)
        tables[name] = {
            "age": 40 + 25 * ill + 4 * rng.normal(size=120),
            "pain": np.where(ill == 1, "yes", "no"),
            other: 1000.0 * ill + 50 * rng.normal(size=120),
        }
    plain, secure = both(tables, "auto", random_state=0)
    assert secure.n_clusters == plain.n_clusters == 2
    assert_same(plain, secure)
    parallel = intarsia.cluster(tables, "auto", random_state=0, secure_sums=True, n_jobs=2)
    np.testing.assert_array_equal(parallel.centroids, secure.centroids)  # masks and keys differ, totals do not


def test_strict_sums_need_three_holders():
    tables = study(0, "core", 4)
    secure = intarsia.cluster(tables, 3, random_state=0, secure_sums=True, min_holders=3)
    two = {
        column
        for column in secure.feature_names
        if sum(column in getattr(table, "columns", table) for table in tables.values()) < 3
    }
    assert {column for columns in secure.outcome.secure.at_home.values() for column in columns} == two


def test_units_of_any_size_are_pooled_exactly():
    rng = np.random.default_rng(1)
    tables = {}
    for name in "abc":
        ill = rng.integers(2, size=90)
        tables[name] = {
            "tiny": 1e-30 * (5 * ill + rng.normal(size=90)),
            "huge": 1e30 * (1e3 + 5 * ill + rng.normal(size=90)),  # far from 0: sums of squares would lose digits
            "plain": 5.0 * ill + rng.normal(size=90),
        }
    assert_same(*both(tables, 2, scale="standard", random_state=0))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"merge": "robust"}, "medians need the part of each participant"),
        ({"model": "mixture"}, "spread of columns that only one participant has"),
        ({"stability": True}, "told by each participant on its own"),
        ({"scale": "minmax"}, "needs values of single rows, not sums"),
        ({"method": "one_shot"}, "compared, not added up"),
        ({"min_holders": 1}, "min_holders must be a whole number from 2"),
    ],
)
def test_what_is_not_a_sum_is_refused_by_name(settings, why):
    with pytest.raises(SettingError, match=why):
        intarsia.cluster(study(0, "core", 3), 2, secure_sums=True, **settings)


def test_two_participants_are_too_few():
    tables = study(0, "core", 3)
    with pytest.raises(SettingError, match="at least 3 participants: of two, each could subtract"):
        intarsia.cluster(dict(list(tables.items())[:2]), 2, secure_sums=True)


def test_a_saved_study_says_what_was_summed(tmp_path):
    secure = intarsia.cluster(study(3, "core", 3), 3, random_state=0, secure_sums=True)
    secure.save(tmp_path / "model.intarsia", labels=True)
    again = intarsia.load(tmp_path / "model.intarsia")
    assert again.outcome.secure == secure.outcome.secure
    assert again.outcome.total_sizes.tolist() == secure.outcome.total_sizes.tolist()


def test_with_noise_no_exact_number_of_rows_is_told(tmp_path):
    pytest.importorskip("opendp")
    tables = load_heart_disease("pandas").tables
    declared = intarsia.DifferentialPrivacy(4, bounds={"age": (20, 90), "thalach": (60, 220), "exang": (0, 1)})
    tables = {name: table[["age", "thalach", "exang"]] for name, table in tables.items()}
    result = intarsia.cluster(tables, 2, random_state=0, privacy=declared, secure_sums=True)
    for key in tables:
        np.testing.assert_array_equal(
            result.sizes[key], result.outcome.sizes[key]
        )  # from noisy sketches, not from labels
    assert result.privacy.if_all_collude == result.outcome.secure.epsilon_if_all_collude > result.privacy.most
    assert "if all others collude with the coordinator, epsilon is 4.83" in str(result.privacy)
    result.save(tmp_path / "model.intarsia")
    assert intarsia.load(tmp_path / "model.intarsia").privacy == result.privacy


def test_sums_that_have_no_columns_or_no_rounds_are_refused():
    tables = study(0, "core", 3)
    with pytest.raises(SettingError, match="min_holders=4 holders, and the most common column has 3"):
        intarsia.cluster(tables, 2, secure_sums=True, min_holders=4)
    declared = intarsia.DifferentialPrivacy(1, bounds={"f00": (0, 1)}, rounds=0)
    with pytest.raises(SettingError, match="rounds=0 has no sums"):
        intarsia.cluster(tables, 2, secure_sums=True, privacy=declared)


def test_the_report_has_no_sizes_by_participant_and_no_spread_of_columns_at_home(tmp_path):
    secure = intarsia.cluster(load_heart_disease("pandas").tables, 2, random_state=0, secure_sums=True)
    page = secure.report(tmp_path / "study.html").read_text()
    assert "no participant told how many of its rows are in which cluster" in page
    assert "secure aggregation [5]" in page
    assert 'id="chart-sizes"' not in page
    assert all(entry.feature != "ca" for entry in secure.explain())
    assert secure.to_frame()["missing"].isna().all()
    seen = next(light.seen for light in secure.findings if light.about == "What the coordinator saw")
    assert "Of units, rounds, sizes and spreads: totals over 4 of 4 participants" in seen
    assert "These columns stayed at home in the rounds" in seen
