"""Rows that are like no cluster: outliers are found, ordinary rows keep their cluster."""

import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia import ReleasePolicy
from intarsia.core.tails import LEVELS, is_none, thresholds
from intarsia.exceptions import SettingError
from intarsia.results.label_file import rename_labels

SETTINGS = [
    {},
    {"release": ReleasePolicy()},
    {"method": "one_shot"},
    {"method": "one_shot", "release": ReleasePolicy()},
]


def study(seed, n_rows=240, d=8, k=3):
    """Four participants in a chain: their rows, as many new ones of the same kind, and outliers in all columns."""
    rng = np.random.default_rng([seed, 21])
    centres = rng.normal(size=(k, d)) * 6
    parts = [np.arange(i, i + 5) for i in range(4)]

    def rows(n, far=0.0):
        away = rng.choice([-1.0, 1.0], size=(n, d)) * far
        return centres[rng.integers(0, k, n)] + rng.normal(size=(n, d)) + away

    tables = [
        {f"p{i}": {f"x{j}": part[:, j] for j in index} for i, (part, index) in enumerate(zip(made, parts, strict=True))}
        for made in ([rows(n_rows) for _ in parts], [rows(n_rows) for _ in parts], [rows(50, 25.0) for _ in parts])
    ]
    return tables


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
def test_outliers_are_none_of_these_and_ordinary_rows_are_not(settings, seed):
    train, new, outliers = study(seed)
    result = intarsia.cluster(train, 3, random_state=0, **settings)
    share = {
        name: np.mean(np.concatenate(list(result.predict(tables, none_beyond=0.99).values())) < 0)
        for name, tables in (("train", train), ("new", new), ("outliers", outliers))
    }
    assert share["outliers"] >= 0.95
    assert max(share["train"], share["new"]) <= 0.015


def study_with_missing_values(seed, d, missing, n_rows=240):
    """Four participants with three fifths of the columns each: their rows, new ones, outliers; some values are missing."""
    rng = np.random.default_rng([seed, 77])
    centres = rng.normal(size=(3, d)) * 5
    columns = [np.union1d(rng.choice(d, 3 * d // 5 + 1, replace=False), [0]) for _ in range(4)]

    def rows(n, far=0.0):
        tables = {}
        for i, index in enumerate(columns):
            away = rng.choice([-1.0, 1.0], size=(n, d)) * far
            values = (centres[rng.integers(0, 3, n)] + rng.normal(size=(n, d)) + away)[:, index]
            values[rng.random(values.shape) < missing] = np.nan
            values = values[~np.isnan(values).all(axis=1)]
            tables[f"p{i}"] = {f"x{j}": column for j, column in zip(index, values.T, strict=True)}
        return tables

    return rows(n_rows), rows(n_rows), rows(60, 25.0)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.AssumptionWarning")
@pytest.mark.parametrize("d", [4, 8, 20])
@pytest.mark.parametrize("missing", [0.2, 0.4])
def test_ordinary_rows_with_few_values_are_not_none_of_these_and_outliers_are(d, missing, tmp_path):
    for seed in range(4):
        train, new, outliers = study_with_missing_values(seed, d, missing)
        result = intarsia.cluster(train, 3, random_state=seed)
        result.save(tmp_path / "p.intarsia", public=True)
        public = intarsia.load(tmp_path / "p.intarsia")
        none = {}
        for name, tables in (("train", train), ("new", new), ("outliers", outliers)):
            labels = result.predict(tables, none_beyond=0.99)
            for key, shared in public.predict(tables, none_beyond=0.99).items():
                np.testing.assert_array_equal(shared, labels[key])
            none[name] = np.mean(np.concatenate(list(labels.values())) < 0)
        assert none["outliers"] >= 0.95
        assert max(none["train"], none["new"]) <= 0.015


def test_a_row_with_one_column_that_tells_clusters_badly_apart_is_no_outlier():
    rng = np.random.default_rng(0)
    cluster = np.arange(300) % 3
    tables = {
        name: {"x": cluster * 20.0 + rng.normal(size=300), "y": cluster * 20.0 + rng.normal(size=300), "z": noise}
        for name, noise in (("a", rng.normal(size=300)), ("b", rng.normal(size=300)))
    }
    result = intarsia.cluster(tables, 3, random_state=0)
    alone = result.predict({"z": rng.normal(size=300)}, none_beyond=0.99)
    assert np.mean(alone < 0) <= 0.015
    assert (result.predict({"z": [50.0, -50.0]}, none_beyond=0.99) == -1).all()


@pytest.mark.parametrize("draw", ["normal", "uniform", "laplace"])
def test_the_limits_of_rows_with_all_columns_are_those_that_were_counted(draw):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3, 5)) * 6
    tables = {
        name: centres[np.arange(300) % 3] + getattr(rng, draw)(size=(300, 5)) * [1, 1, 1, 2, 3] for name in ("a", "b")
    }
    named = {name: {f"x{j}": column for j, column in enumerate(rows.T)} for name, rows in tables.items()}
    result = intarsia.cluster(named, 3, random_state=0)
    for share in (0.5, 0.9, 0.99):
        limits = thresholds(result.global_model.tails, share)
        for name, table in named.items():
            labels = result.predict(table, none_beyond=share)
            np.testing.assert_array_equal(labels < 0, is_none(result.transform(table), limits), err_msg=name)


def test_rows_that_are_not_none_of_these_keep_their_cluster():
    train, new, outliers = study(5)
    result = intarsia.cluster(train, 3, random_state=0)
    for tables in (new, outliers):
        plain = result.predict(tables)
        for share in (0.5, 0.9, 0.999):
            for name, labels in result.predict(tables, none_beyond=share).items():
                assert ((labels == plain[name]) | (labels == -1)).all()


def test_a_larger_share_leaves_fewer_rows_out():
    train, new, _ = study(6)
    result = intarsia.cluster(train, 3, random_state=0)
    left = [np.sum(result.predict(new["p0"], none_beyond=share) < 0) for share in (0.5, 0.75, 0.9, 0.99, 0.999)]
    assert left == sorted(left, reverse=True)
    assert left[0] > 20 > left[-1]


@pytest.mark.parametrize("settings", [{"secure_sums": True}, {"method": "one_shot", "labels": "local"}])
def test_where_nothing_is_counted_the_quantiles_are_those_of_gaussians(settings):
    train, new, outliers = study(7)
    result = intarsia.cluster(train, 3, random_state=0, **settings)
    assert "tails" not in {sent.field for sent in result.run.sent if sent.times and sent.message.startswith("reply.")}
    assert result.global_model.tails.shape == (3, len(LEVELS))
    for name in train:
        assert np.mean(result.predict(outliers[name], none_beyond=0.99) < 0) >= 0.95
        assert np.mean(result.predict(new[name], none_beyond=0.99) < 0) <= 0.03


def test_a_private_study_asks_for_no_counts():
    train, _, outliers = study(8, n_rows=600)
    bounds = {f"x{j}": (-30.0, 30.0) for j in range(8)}
    privacy = intarsia.DifferentialPrivacy(epsilon=20, bounds=bounds)
    result = intarsia.cluster(train, 3, random_state=0, privacy=privacy)
    assert "tails" not in {sent.field for sent in result.run.sent if sent.times and sent.message.startswith("reply.")}
    assert np.mean(result.predict(outliers["p0"], none_beyond=0.99) < 0) >= 0.9


@pytest.mark.parametrize("metric", ["manhattan", "cosine"])
def test_other_metrics(metric):
    train, new, _ = study(9)
    result = intarsia.cluster(train, 3, random_state=0, metric=metric)
    assert np.mean(result.predict(new["p0"], none_beyond=0.99) < 0) <= 0.03
    ruled = intarsia.cluster(train, 3, random_state=0, metric=metric, release=ReleasePolicy())
    with pytest.raises(SettingError, match="not known how far"):
        ruled.predict(new["p0"], none_beyond=0.99)


@pytest.mark.parametrize("share", [0.3, 1.0, "most", True, float("nan")])
def test_a_share_that_cannot_be_is_refused(share):
    train, _, _ = study(0, n_rows=40)
    with pytest.raises(SettingError, match="none_beyond"):
        intarsia.cluster(train, 3, random_state=0).predict(train, none_beyond=share)


def test_a_saved_model_says_the_same(tmp_path):
    train, new, outliers = study(3, n_rows=60)
    result = intarsia.cluster(train, 3, random_state=0)
    result.save(tmp_path / "m.intarsia")
    loaded = intarsia.load(tmp_path / "m.intarsia")
    for tables in (new, outliers):
        for name, labels in loaded.predict(tables, none_beyond=0.95).items():
            assert (labels == result.predict(tables, none_beyond=0.95)[name]).all()


def test_a_row_that_has_only_constant_columns_is_like_all_others():
    tables = {name: {"x": [0.0, 0.1, 9.0, 9.1] * 5, "unit": [1.0] * 20} for name in "ab"}
    result = intarsia.cluster(tables, 2, random_state=0)
    assert result.predict({"unit": [1.0]}, none_beyond=0.99).tolist() == result.predict({"unit": [1.0]}).tolist()
    assert result.predict({"x": [np.nan], "unit": [np.nan]}, none_beyond=0.99).tolist() == [-1]


def test_names_of_clusters_are_shown_saved_and_removed(tmp_path):
    tables = {name: {"x": [0.0, 0.1, 9.0, 9.1] * 5} for name in "ab"}
    result = intarsia.cluster(tables, 2, random_state=0)
    named = result.rename({0: "mild"}).rename({1: " severe "})
    assert result.cluster_names == {}
    assert named.cluster_names == {0: "mild", 1: "severe"}
    named.save(tmp_path / "m.intarsia")
    loaded = intarsia.load(tmp_path / "m.intarsia")
    frame = loaded.predict({"x": [0.0, 9.0, np.nan]}, as_frame=True)
    assert frame["cluster"].tolist() == named.predict({"x": [0.0, 9.0, np.nan]}).tolist()
    assert [loaded.cluster_names.get(k) for k in frame["cluster"]] == [
        name if isinstance(name, str) else None for name in frame["name"]
    ]
    assert loaded.rename({0: "", 1: ""}).cluster_names == {}
    for wrong in ({2: "x"}, {-1: "x"}, {True: "x"}, {0: "two\nlines"}, {0: 3}, {0: "severe"}, {0: "x" * 61}):
        with pytest.raises(SettingError):
            named.rename(wrong)


def test_names_go_with_tables_explanations_public_models_repeats_and_newcomers(tmp_path):
    tables, new, _ = study(3, n_rows=60)
    result = intarsia.cluster(tables, 3, random_state=0)
    assert "name" not in result.to_frame("polars").columns
    named = result.rename({1: "mild"})
    frame = named.to_frame("polars")
    assert dict(zip(frame["cluster"], frame["name"], strict=True)) == {0: None, 1: "mild", 2: None}
    assert {entry.cluster: entry.name for entry in named.explain()} == {0: None, 1: "mild", 2: None}
    named.save(tmp_path / "p.intarsia", public=True)
    public = intarsia.load(tmp_path / "p.intarsia")
    assert public.cluster_names == {1: "mild"}
    assert public.rename({0: "severe", 1: ""}).cluster_names == {0: "severe"}
    assert intarsia.cluster(tables, previous=named, random_state=0).cluster_names == {1: "mild"}
    assert intarsia.cluster(tables, previous=public, random_state=0).cluster_names == {1: "mild"}
    assert named.join({"late": next(iter(new.values()))}).cluster_names == {1: "mild"}


def test_a_file_of_labels_keeps_all_but_names(tmp_path):
    ids = ["007", "=1+2", "", 'a "b", c']
    plain = pl.DataFrame({"id": ids, "cluster": [0, 1, -1, 0], "margin": [0.1, 0.25, 0.0, 1 / 3]})
    for kind, write, read in (
        ("csv", pl.DataFrame.write_csv, pl.read_csv),
        ("parquet", pl.DataFrame.write_parquet, None),
    ):
        path = tmp_path / f"labels.{kind}"
        write(plain, path)
        before = path.read_bytes()
        rename_labels(path, {0: "=cmd()", 1: "mild"})
        renamed = pl.read_parquet(path) if read is None else read(path)
        assert renamed.columns == ["id", "cluster", "name", "margin"]
        first = "=cmd()" if kind == "parquet" else "'=cmd()"
        assert renamed["name"].to_list() == [first, "mild", "", first]
        assert path.stat().st_mode & 0o077 == 0
        rename_labels(path, {})
        assert kind == "parquet" or path.read_bytes() == before
        assert kind == "csv" or pl.read_parquet(path).equals(plain)
