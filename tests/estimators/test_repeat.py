"""Studies that are repeated: numbers stay, changes get their names, and rows that did not change keep their labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from experiments.repeats import repeated

import intarsia
from intarsia import FederatedClustering, ReleasePolicy
from intarsia.datasets import load_heart_disease
from intarsia.exceptions import DisjointFeaturesError, MixedKindsError, SettingError
from intarsia.results.model_file import load as load_file

CENTRES = np.random.default_rng(3).normal(0.0, 6.0, (5, 6))


def tables(clusters=(0, 1, 2), seed=0, n=90, chain=False, centres=CENTRES):
    rng, found = np.random.default_rng(seed), {}
    for i, name in enumerate("abcd"):
        rows = centres[rng.choice(clusters, n)] + rng.normal(size=(n, 6))
        found[name] = {f"c{m}": rows[:, m] for m in (range(i, i + 3) if chain else range(6))}
    return found


def with_holes(given, seed=0):
    """Missing values and a column of categories."""
    rng = np.random.default_rng(seed)
    for table in given.values():
        n = len(next(iter(table.values())))
        for column in table.values():
            column[rng.random(n) < 0.1] = np.nan
        table["sex"] = rng.choice(["f", "m"], n).tolist()
    return given


def labels_of(result):
    return np.concatenate([result.labels[key] for key in sorted(result.labels)])


HOSPITALS = load_heart_disease().tables
SAME = {
    "core": (tables(), {"n_clusters": 3}),
    "chain": (tables(chain=True), {"n_clusters": 3}),
    "automatic": (tables(chain=True), {}),
    "missing values": (with_holes(tables()), {}),
    "mixture": (with_holes(tables(chain=True)), {"n_clusters": 3, "model": "mixture"}),
    "robust": (tables(), {"n_clusters": 3, "merge": "robust"}),
    "manhattan": (tables(chain=True), {"n_clusters": 3, "metric": "manhattan"}),
    "not converged": (tables(), {"n_clusters": 3, "max_rounds": 0}),
    "one table": (tables()["a"], {"n_clusters": 3}),
    "release rules": (tables(), {"n_clusters": 3, "release": ReleasePolicy()}),
}


@pytest.mark.parametrize("name", SAME)
def test_a_repeat_on_the_same_tables_changes_no_label(name):
    given, settings = SAME[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = intarsia.cluster(given, random_state=0, **settings)
        again = intarsia.cluster(given, random_state=1, previous=before, **settings)
        chosen = intarsia.cluster(given, random_state=2, previous=again, **{**settings, "n_clusters": "auto"})
    for now in (again, chosen):
        np.testing.assert_array_equal(labels_of(now), labels_of(before))
        assert now.repeat.of("same") == tuple(range(before.n_clusters))
        assert now.repeat.n_changed == 0


@pytest.mark.parametrize("settings", [{}, {"n_clusters": 3, "model": "mixture"}])
def test_a_repeat_of_the_hospitals_changes_no_label(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = intarsia.cluster(HOSPITALS, random_state=0, **settings)
        again = intarsia.cluster(HOSPITALS, random_state=1, previous=before, **settings)
    np.testing.assert_array_equal(labels_of(again), labels_of(before))
    assert again.repeat.unchanged


@pytest.mark.parametrize("seed", range(10))
def test_a_repeat_on_the_same_tables_changes_no_label_whatever_the_rows(seed):
    given = tables(seed=seed, chain=bool(seed % 2), centres=np.random.default_rng(seed).normal(0.0, 6.0, (3, 6)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = intarsia.cluster(given, 3, random_state=seed)
        again = intarsia.cluster(given, random_state=seed + 1, previous=before)
    np.testing.assert_array_equal(labels_of(again), labels_of(before))
    assert again.repeat.unchanged


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("change", ["70 % removed", "gone", "new", "new and gone"])
def test_a_planted_change_is_called_by_its_name_and_the_other_rows_keep_their_number(change, seed):
    """Over 50 seeds: ``python -m experiments.repeats``."""
    layout, how = ("chain", "core")[seed % 2], ("auto", "given")[seed // 2 % 2]
    run = repeated(change, layout, 4.0, seed, how)
    assert run.right, run
    assert run.kept >= 0.95


def test_a_gone_cluster_keeps_its_number_and_nobody_else_gets_it():
    before = intarsia.cluster(tables(), 3, random_state=0)
    now = intarsia.cluster(tables((0, 2, 3), seed=1), previous=before, random_state=0)
    (gone,), (new,) = now.repeat.of("gone"), now.repeat.of("new")
    assert (new, now.n_clusters) == (3, 4)
    assert np.isnan(now.centroids[gone]).all()
    assert now.total_sizes[gone] == 0
    assert set(labels_of(now)) == {0, 1, 2, 3} - {gone}
    later = intarsia.cluster(tables((0, 2, 3, 4), seed=2), previous=now, random_state=0)
    assert later.repeat.of("new") == (4,)
    assert later.repeat.of("gone") == (gone,)
    np.testing.assert_array_equal(later.predict(tables((0, 2, 3), seed=1))["a"], now.labels["a"])
    assert later.summarise().repeat == later.repeat
    assert later.predict_proba(tables())["a"][:, gone].max() < 1e-6


def test_a_cluster_that_moved_says_by_how_much_and_the_others_keep_their_centroids():
    before = intarsia.cluster(tables(), 3, random_state=0)
    centres = CENTRES.copy()
    centres[1] += 1.0
    now = intarsia.cluster(tables(seed=1, centres=centres), previous=before, random_state=0)
    (moved,) = now.repeat.of("moved")
    assert now.repeat.changes[moved].moved == pytest.approx(1.0, abs=0.3)
    others = [k for k in range(3) if k != moved]
    np.testing.assert_array_equal(now.centroids[others], before.centroids[others])


def test_the_table_of_moves_counts_rows_by_old_and_new_label():
    before = intarsia.cluster(tables(), 3, random_state=0)
    given = tables((0, 1, 2, 3), seed=1)
    now = intarsia.cluster(given, previous=before, random_state=0)
    old = np.concatenate([before.predict(given)[key] for key in sorted(given)])
    expected = np.zeros((3, now.n_clusters), dtype=int)
    np.add.at(expected, (old, labels_of(now)), 1)
    np.testing.assert_array_equal(now.repeat.moves, expected)
    assert now.repeat.n_changed == (old != labels_of(now)).sum()


def test_a_number_that_is_given_limits_the_clusters_that_live():
    before = intarsia.cluster(tables((0, 1, 2, 3)), 4, random_state=0)
    now = intarsia.cluster(tables((0, 1, 2, 3), seed=1), 3, previous=before, random_state=0)
    assert len(now.repeat.of("merged")) == 1
    assert (now.total_sizes > 0).sum() == 3
    more = intarsia.cluster(tables((0, 1, 2, 3), seed=1), 5, previous=before, random_state=0)
    assert (more.total_sizes > 0).sum() == 5
    assert len(more.repeat.of("split")) == 1


def test_new_levels_and_columns_are_named_and_old_units_stay():
    given = with_holes(tables())
    before = intarsia.cluster(given, 3, random_state=0)
    later = with_holes(tables(seed=1))
    for table in later.values():
        table["sex"][:20] = ["x"] * 20
        table["weight"] = np.linspace(40, 90, 90)
        del table["c5"]
    now = intarsia.cluster(later, previous=before, random_state=0)
    assert now.repeat.new_columns == ("sex=x", "weight")
    assert now.repeat.gone_columns == ("c5",)
    old, new = before.outcome.model, now.outcome.model
    for name in ("c0", "sex=f"):
        assert new.scale[new.space.index([name])] == old.scale[old.space.index([name])]


def test_a_path_a_folder_and_a_saved_model_give_the_same_result(tmp_path):
    before = intarsia.cluster(tables(), 3, random_state=0)
    before.save(tmp_path / "model.intarsia")
    given = tables(seed=1)
    results = [
        intarsia.cluster(given, previous=one, random_state=0)
        for one in (before, tmp_path, str(tmp_path / "model.intarsia"))
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(labels_of(results[0]), labels_of(other))
        np.testing.assert_array_equal(results[0].centroids, other.centroids)
    results[0].save(tmp_path / "next.intarsia")
    assert intarsia.load(tmp_path / "next.intarsia").repeat == results[0].repeat
    assert load_file(tmp_path / "next.intarsia")[0].repeat == results[0].repeat
    assert str(tmp_path) not in str(results[1].run.settings)


def test_what_cannot_be_repeated_is_refused_with_a_reason():
    before = intarsia.cluster(tables(), 3, random_state=0)
    with pytest.raises(DisjointFeaturesError, match="no table has a column of the previous model"):
        intarsia.cluster({"a": {"other": np.arange(9.0)}}, previous=before)
    wrong = tables(seed=1)
    for table in wrong.values():
        table["c0"] = ["u", "v"] * 45
    with pytest.raises(MixedKindsError, match="c0"):
        intarsia.cluster(wrong, previous=before)
    with pytest.raises(SettingError, match="keeps its units"):
        intarsia.cluster(tables(), previous=before, scale="minmax")
    with pytest.raises(SettingError, match="metric"):
        intarsia.cluster(tables(), previous=before, metric="manhattan")
    with pytest.raises(SettingError, match="one-shot has no rounds"):
        intarsia.cluster(tables(), method="one_shot", previous=before)
    with pytest.raises(SettingError, match="secure_sums"):
        intarsia.cluster(tables(), previous=before, secure_sums=True)
    with pytest.raises(SettingError, match="previous must be"):
        FederatedClustering(previous=7).fit(tables())


def test_a_repeat_that_needs_no_round_has_a_green_light():
    rows = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5] * 5 + [9.0, 9.1, 9.2, 9.3, 9.4, 9.5] * 5
    tables = {"a": {"x": rows}, "b": {"x": rows[2:-2]}}
    before = intarsia.cluster(tables, 2, random_state=0)
    (light,) = (f for f in intarsia.cluster(tables, previous=before).findings if f.about == "Rounds converged")
    assert light.state == "good"
    assert "previous model" in light.seen
