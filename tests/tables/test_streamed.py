"""Tables that are read in batches: the first pass, their rows as numbers, and studies with them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import intarsia
from intarsia.cli.app import app
from intarsia.exceptions import (
    EmptyTableError,
    InputError,
    LocalAlgorithmError,
    MissingCellsError,
    NonFiniteError,
    NonNumericError,
)
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site import Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.participant import Participant
from intarsia.protocol import Assign, Failure, Summarize, encode
from intarsia.results.label_file import label_lines, write_labels
from intarsia.tables import kinds_in, open_stream, open_table, scan_parquet
from intarsia.tables.frame import read_table
from intarsia.tables.missing import settle_missing
from intarsia.tables.open import Ids
from intarsia.tables.sample import Limits

K, D = 3, 5


SMALL = Limits(sample_rows=400, piece_values=1, piece_rows=60)


@pytest.fixture(autouse=True)
def read_in_batches(monkeypatch):
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "0")


def frame_of(n=900, gaps=0.0, seed=0, spread=6.0, words=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    x = spread * rng.normal(size=(K, D))[labels] + rng.normal(size=(n, D)) + 100.0
    x[rng.random(x.shape) < gaps] = np.nan
    x[:, 0] = np.where(np.isnan(x).all(axis=1), 0.0, x[:, 0])
    frame = pd.DataFrame(x, columns=[f"f{k}" for k in range(D)])
    if words:
        frame["kind"] = np.array(["left", "right", None], dtype=object)[np.minimum(labels, rng.integers(3, size=n))]
        frame["yes"] = labels > 0
    return frame, labels


def stored(frame, path, batch_rows=256):
    frame.to_parquet(path, index=False)
    return scan_parquet(path, batch_rows=batch_rows)


def in_memory(frame, owner="a"):
    return settle_missing(read_table(frame, owner), "observed")


@pytest.fixture(params=[0.0, 0.2], ids=["complete", "gaps"])
def both(request, tmp_path):
    frame, _ = frame_of(gaps=request.param, words=request.param > 0)
    return in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a", limits=SMALL)


def test_a_first_pass_knows_the_columns(both):
    memory, streamed = both
    assert (streamed.names, streamed.given_names, streamed.levels) == (memory.names, memory.given_names, memory.levels)
    assert streamed.filled == {name: int(there.sum()) for name, there in memory.filled.items()}
    assert len(streamed) == len(memory)
    assert streamed.is_complete == memory.is_complete
    assert len(streamed.sample) == 400
    np.testing.assert_array_equal(streamed.sample.values, memory.values[streamed.drawn])
    for name, category in streamed.sample.categories.items():
        assert category.tolist() == memory.categories[name].of_rows(streamed.drawn).tolist()


def test_pieces_are_the_rows_in_common_units(both):
    memory, streamed = both
    whole = memory.in_numbers()
    rng = np.random.default_rng(1)
    units = rng.normal(size=len(whole.names)), 0.5 + rng.random(len(whole.names))
    pieces = streamed.rows(units=units)
    assert pieces.names == whole.names
    seen = 0
    for piece in pieces:
        expected = (whole.values[piece.at] - units[0]) / units[1]
        found = piece.cells.T + pieces.offset
        assert (piece.observed == whole.observed[piece.at]).all()
        np.testing.assert_allclose(found[piece.observed], expected[piece.observed], rtol=1e-12, atol=1e-12)
        seen += piece.cells.shape[1]
    assert seen == len(whole)


def two_tables(folder, gaps, seed):
    frame, labels = frame_of(n=700, gaps=gaps, seed=seed, words=True)
    parts = {"a": frame[["f0", "f1", "f2", "kind"]][:400], "b": frame[["f2", "f3", "f4", "kind", "yes"]][400:]}
    parts["a"].loc[parts["a"].isna().all(axis=1), "f0"] = 0.0
    for name, part in parts.items():
        part.to_parquet(folder / f"{name}.parquet", index=False)
    return parts, {name: folder / f"{name}.parquet" for name in parts}, labels


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["federated", "one_shot"])
@pytest.mark.parametrize("gaps", [0.0, 0.15])
def test_studies_are_the_same(tmp_path, method, gaps):
    parts, paths, _ = two_tables(tmp_path, gaps, seed=0)
    memory = intarsia.cluster(parts, K, method=method, random_state=0)
    streamed = intarsia.cluster(paths, K, method=method, random_state=0)
    for name in parts:
        assert adjusted_rand_score(memory.labels[name], streamed.labels[name]) > 0.99
    assert streamed.feature_names == memory.feature_names
    assert streamed.run.settings == memory.run.settings
    new = {name: part.head(100) for name, part in parts.items()}
    for name, path in paths.items():
        assert (streamed.predict(path)[:100] == streamed.predict(new)[name]).all()
        np.testing.assert_allclose(streamed.predict_proba(path), streamed.predict_proba(parts[name]))
    assert streamed.score(paths) == pytest.approx(streamed.score(parts))
    mixed = intarsia.cluster({"a": parts["a"], "b": str(paths["b"])}, K, method=method, random_state=0)
    assert adjusted_rand_score(mixed.labels["b"], streamed.labels["b"]) > 0.99


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000), n=st.integers(2, 400), gaps=st.sampled_from([0.0, 0.3, 0.6]), parts=st.integers(1, 4)
)
def test_any_cut_into_files_and_row_groups_is_the_same_table(tmp_path_factory, seed, n, gaps, parts):
    folder = tmp_path_factory.mktemp("cut")
    frame, _ = frame_of(n=n, gaps=gaps, seed=seed)
    one = open_stream(stored(frame, folder / "whole.parquet"), "a")
    edges = np.sort(np.random.default_rng(seed).integers(0, n + 1, size=parts - 1))
    (folder / "parts").mkdir()
    for k, part in enumerate(np.split(np.arange(n), edges)):
        frame.iloc[part].to_parquet(folder / "parts" / f"{k}.parquet", index=False, row_group_size=7)
    other = open_stream(scan_parquet(folder / "parts"), "a")
    assert one.filled == other.filled
    for name in ("count", "mean", "m2", "low", "high"):
        np.testing.assert_allclose(getattr(one.statistics, name), getattr(other.statistics, name), rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(one.sample.values, other.sample.values)
    cells = [np.concatenate([p.cells.copy() for p in each.rows(centred=False)], axis=1) for each in (one, other)]
    np.testing.assert_array_equal(*cells)


def test_folders_are_columns_and_files_may_lack_some(tmp_path):
    frame, _ = frame_of(n=60)
    for year, part in (("2023", frame[:20]), ("2024", frame[20:].drop(columns="f1"))):
        folder = tmp_path / "all" / f"year={year}"
        folder.mkdir(parents=True)
        part.to_parquet(folder / "rows.parquet", index=False)
    (tmp_path / "all" / "_metadata.parquet").write_bytes(b"not a table")
    streamed = open_stream(scan_parquet(tmp_path / "all"), "a")
    assert streamed.given_names == ("f0", "f1", "f2", "f3", "f4", "year")
    assert streamed.filled == {"f0": 60, "f1": 20, "f2": 60, "f3": 60, "f4": 60, "year": 60}
    assert streamed.statistics.mean[-1] == pytest.approx((20 * 2023 + 40 * 2024) / 60)


def test_all_kinds_of_numbers_and_words_are_read(tmp_path):
    n = 300
    rng = np.random.default_rng(0)
    whole = pa.table({
        "int": pa.array([None if k % 7 == 0 else k for k in range(n)], pa.int32()),
        "small": pa.array(rng.integers(5, size=n), pa.uint8()),
        "float": pa.array(rng.normal(size=n).astype(np.float32)),
        "decimal": pa.array([k % 5 for k in range(n)], pa.decimal128(6, 2)),
        "text": pa.array([["x", "y", " ", None][k % 4] for k in range(n)]),
        "category": pa.array([["p", "q"][k % 2] for k in range(n)]).dictionary_encode(),
        "truth": pa.array([k % 3 == 0 for k in range(n)]),
    })  # fmt: skip
    pq.write_table(whole, tmp_path / "kinds.parquet")
    memory = in_memory(whole)
    streamed = open_stream(scan_parquet(tmp_path / "kinds.parquet"), "a")
    assert (streamed.names, streamed.levels, streamed.given_names) == (memory.names, memory.levels, memory.given_names)
    laid, pieces = memory.in_numbers(), streamed.rows(centred=False)
    cells = np.concatenate([np.where(p.observed, p.cells.T, np.nan) for p in pieces])
    np.testing.assert_array_equal(cells, laid.values)


def test_what_stands_in_the_way_is_named(tmp_path):
    frame, _ = frame_of(n=50)
    path = tmp_path / "t.parquet"

    def refused(error, match, frame=frame, missing="observed", columns=None):
        frame.to_parquet(path, index=False)
        with pytest.raises(error, match=match):
            open_stream(scan_parquet(path, columns), "a", missing)

    refused(NonNumericError, "note .50 different texts in 50 rows", frame.assign(note=[f"text {k}" for k in range(50)]))
    refused(NonNumericError, "code .numbers stored as text", frame.assign(code=[str(k % 4) for k in range(50)]))
    refused(NonNumericError, "day", frame.assign(day=pd.Timestamp("2024-01-01")))
    refused(NonFiniteError, "infinite", frame.assign(f1=np.inf))
    refused(NonFiniteError, "too little", frame.assign(f1=np.linspace(0, 1e-150, 50)))
    refused(EmptyTableError, "0 rows", frame[:0])
    holes = frame.copy()
    holes.loc[3, "f1"] = np.nan
    refused(MissingCellsError, r"f1 \(2.0%\)", holes, "error")
    holes.loc[3] = np.nan
    refused(MissingCellsError, r"1 of 50 rows of 'a' have no observed value.*\(counted from 0: 3\)", holes)
    holes.loc[10:40] = np.nan
    refused(MissingCellsError, r"32 of 50 rows of 'a'.*\(counted from 0: 3, 10, 11, 12, 13, …\)", holes)
    refused(InputError, "has no column 'nope'", columns=["f0", "nope"])
    with pytest.raises(InputError, match="not found"):
        scan_parquet(tmp_path / "gone.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="broken.parquet cannot be read as parquet"):
        scan_parquet(tmp_path / "broken.parquet")
    with pytest.raises(LocalAlgorithmError, match="needs all rows"):
        intarsia.cluster({"a": stored(frame, path)}, 2, local=KMeans(2))
    with pytest.raises(MissingCellsError, match="read in batches"):
        intarsia.cluster({"a": stored(frame, path)}, 2, missing="drop")


def test_kinds_of_columns_are_told_for_all_at_once(tmp_path):
    frame, _ = frame_of(n=50, words=True)
    source = stored(frame.assign(note=[f"text {k}" for k in range(50)]), tmp_path / "a.parquet")
    assert kinds_in(source, "a") == {
        **dict.fromkeys(["f0", "f1", "f2", "f3", "f4"], "numbers"),
        "kind": "categories",
        "yes": "categories",
        "note": "50 different texts in 50 rows",
    }


def test_rows_by_level_are_those_of_all_batches(tmp_path):
    frame, _ = frame_of(n=50, words=True)
    (tmp_path / "b").mkdir()
    frame.to_parquet(tmp_path / "b" / "b.parquet")
    counted = [
        open_table(table, "a", memory_limit=limit).level_counts(["kind", "yes"])
        for table, limit in ((frame, None), (str(tmp_path / "b" / "b.parquet"), 0))
    ]
    expected = {name: frame[name].dropna().astype(str).value_counts().to_dict() for name in ("kind", "yes")}
    assert counted == [expected, expected]


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    frame, _ = frame_of()
    participant = Participant(open_stream(stored(frame, tmp_path / "a.parquet"), "a"))
    frame.head(800).to_parquet(tmp_path / "a.parquet", index=False)
    reply = participant.handle(Summarize(seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=2))
    assert isinstance(reply, Failure)
    assert "was changed while it was read" in reply.message


def test_a_small_file_is_read_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", str(1 << 20))
    parts, paths, _ = two_tables(tmp_path, 0.0, seed=1)
    memory = intarsia.cluster(parts, K, random_state=0)
    read = intarsia.cluster(paths, K, random_state=0)
    for name in parts:
        assert (memory.labels[name] == read.labels[name]).all()
    assert (memory.centroids == read.centroids).all()


def test_the_command_line_takes_folders_and_keeps_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _ = frame_of(n=300, words=True)
    frame["patient"] = [f"p{k}" for k in range(300)]
    (tmp_path / "a").mkdir()
    frame[:100].drop(columns="f4").to_parquet("a/1.parquet", index=False)
    frame[100:200].drop(columns="f4").to_parquet("a/2.parquet", index=False)
    frame[200:].drop(columns="f0").to_parquet("b.parquet", index=False)

    def run(*arguments, rc=0):
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == rc, (done.output, done.exception)
        return done.output

    assert "Yes" in run("check", "a", "b.parquet", "-x", "patient")
    assert "b: 100 different" in run("check", "a", "b.parquet").replace("\n", " ")
    run("fit", "a", "b.parquet", "-k", "3", "--id", "patient", "-o", "study", "--quiet")
    labels = pd.read_csv("study/labels/a.csv")
    assert labels["id"].tolist() == frame["patient"][:200].tolist()
    run("predict", "study", "a", "--id", "patient", "--margin", "-o", "again.csv")
    again = pd.read_csv("again.csv")
    assert again["id"].tolist() == labels["id"].tolist()
    assert (again["cluster"] == labels["cluster"]).all()
    assert again["margin"].between(0, 1).all()
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, ["fit", "empty", "-k", "2"])
    assert "no Parquet files" in str(done.exception)


def test_a_site_serves_a_stored_table(tmp_path):
    frame, _ = frame_of(n=300)
    frame["patient"] = [f"p{k}" for k in range(300)]
    frame.to_parquet(tmp_path / "data.parquet", index=False)
    (tmp_path / "local").mkdir()
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.parquet"), id_column="patient"))
    agreed = {"scale": "standard", "n_local_clusters": K, "density": "gaussian_diagonal", "labels": "local"}
    write_study(tmp_path, Study("s", ("a", "b"), "one_shot", K, settings=agreed))
    site = Site("a", tmp_path, "0123456789abcdef")
    request = Summarize(
        seed=0,
        n_clusters=K,
        n_local_clusters=K,
        max_local_clusters=K,
        scale="standard",
        density="gaussian_diagonal",
    )
    reply = site.answer(encode(request))
    assert reply.sizes.sum() == 300
    site = Site("a", tmp_path, "0123456789abcdef")  # another process, which clusters again as before
    again = site.answer(encode(Assign(groups=np.arange(K), n_groups=K)))
    assert (again.sizes == reply.sizes).all()
    kept = pd.read_csv(tmp_path / "labels.csv")
    assert kept["id"].tolist() == frame["patient"].tolist()
    assert np.bincount(kept["cluster"]).tolist() == reply.sizes.tolist()


def test_levels_that_nobody_has_are_none_and_strange_kinds_are_refused(tmp_path):
    frame, _ = frame_of(n=60)
    words = pd.Categorical(["p", "q"] * 30, categories=["p", "q", *(f"unused {k}" for k in range(60))])
    streamed = open_stream(stored(frame.assign(w=words), tmp_path / "a.parquet"), "a")
    assert streamed.levels == {"w": ("p", "q")}
    odd = pa.table({"x": np.arange(4.0), "d": pa.array([b"1", b"2", b"3", b"4"])})
    pq.write_table(odd, tmp_path / "odd.parquet")
    with pytest.raises(NonNumericError, match="d .[bB]inary"):
        open_stream(scan_parquet(tmp_path / "odd.parquet"), "a")


def test_files_of_a_folder_may_differ_in_kinds_of_numbers_and_texts(tmp_path):
    (tmp_path / "all").mkdir()
    pq.write_table(pa.table({"n": pa.array([2**60 + 1, 2]), "t": pa.array(["a", "b"])}), tmp_path / "all/1.parquet")
    other = pa.table({"n": pa.array([0.5, 0.25]), "t": pa.array(["a", "c"]).dictionary_encode()})
    pq.write_table(other, tmp_path / "all/2.parquet")
    table = scan_parquet(tmp_path / "all").read()
    assert table["n"].to_pylist() == [float(2**60 + 1), 2.0, 0.5, 0.25]
    assert table["t"].to_pylist() == ["a", "b", "a", "c"]
    pq.write_table(pa.table({"n": pa.array(["one"])}), tmp_path / "all/3.parquet")
    with pytest.raises(InputError, match="different types in different files: 'n'"):
        scan_parquet(tmp_path / "all")


def test_ids_of_a_table_that_was_changed_are_not_written(tmp_path):
    frame = pd.DataFrame({"id": np.arange(50), "x": np.arange(50.0)})
    source = stored(frame, tmp_path / "a.parquet")
    ids = Ids(source.only(["id"]))
    assert b"".join(label_lines({"cluster": np.zeros(50, dtype=int)}, ids)).count(b"\n") == 51
    for n in (49, 51):
        with pytest.raises(InputError, match="has changed meanwhile"):
            list(label_lines({"cluster": np.zeros(n, dtype=int)}, ids))
    frame[::-1].to_parquet(tmp_path / "a.parquet", index=False)
    with pytest.raises(InputError, match="was changed while"):
        write_labels(tmp_path / "labels.csv", {"cluster": np.zeros(50, dtype=int)}, ids)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]  # not half of the labels either


def test_columns_must_be_a_list():
    with pytest.raises(intarsia.IntarsiaError, match="list of names"):
        scan_parquet("a.parquet", columns="age")


def test_columns_that_are_lacking_are_imputed_label_lines(tmp_path):
    parts, paths, _ = two_tables(tmp_path, 0.0, seed=0)
    result = intarsia.cluster(parts, K, random_state=0)
    one, other = result.impute(parts["a"]), result.impute(paths["a"])
    for name in one.values:
        np.testing.assert_allclose(one.values[name], other.values[name])
        np.testing.assert_allclose(one.spread[name], other.spread[name])


def test_many_centres_make_small_pieces(tmp_path):
    frame, _ = frame_of()
    limits = Limits(piece_values=1 << 12)
    rows = open_stream(stored(frame, tmp_path / "a.parquet", 1 << 16), "a", limits=limits).rows()
    assert max(piece.cells.shape[1] for piece in rows) == 819
    assert max(piece.cells.shape[1] for piece in rows.pieces(4096)) == 64
