"""Tables that are read piece by piece answer as tables in memory do."""

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
from intarsia.core.centroids import MaskedCentroids, squares_of_rows
from intarsia.core.densities.base import Clustered, fit_densities
from intarsia.core.distances import nearest_centre
from intarsia.core.kmeans import lloyd
from intarsia.core.rows import Nearest, lloyd_in_passes, squares_in_a_pass
from intarsia.exceptions import (
    EmptyTableError,
    InputError,
    LocalAlgorithmError,
    MissingCellsError,
    NonFiniteError,
    NonNumericError,
)
from intarsia.federation.site import Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.participant import Gate, Participant, StreamedParticipant
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Assign, Centres, Columns, Describe, Failure, Label, Refine, Summarize, encode
from intarsia.results.label_file import label_lines, write_labels
from intarsia.tables import kinds_in, open_stream, scan_parquet, streamed, survey
from intarsia.tables.frame import read_table
from intarsia.tables.missing import settle_missing
from intarsia.tables.open import Ids

K, D = 3, 5


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Every table is streamed, in batches and pieces of a few rows, and the sample is a part of it."""
    monkeypatch.setenv("INTARSIA_MEMORY_LIMIT", "0")
    monkeypatch.setattr(streamed, "_PIECE_CELLS", 1)
    monkeypatch.setattr(streamed, "_PIECE_ROWS", 60)
    monkeypatch.setattr(survey, "_SAMPLE_ROWS", 400)


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


def stored(frame, path, **how):
    frame.to_parquet(path, index=False, **how)
    return scan_parquet(path, batch_rows=256)


def in_memory(frame, owner="a"):
    return settle_missing(read_table(frame, owner), "observed")


@pytest.fixture(params=[0.0, 0.2], ids=["complete", "gaps"])
def both(request, tmp_path):
    frame, _ = frame_of(gaps=request.param, words=request.param > 0)
    return in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a")


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
    pieces = streamed.pieces(units=units)
    assert pieces.names == whole.names
    seen = 0
    for piece in pieces:
        expected = (whole.values[piece.at] - units[0]) / units[1]
        found = piece.cells.T + pieces.offset
        assert (piece.observed == whole.observed[piece.at]).all()
        np.testing.assert_allclose(found[piece.observed], expected[piece.observed], rtol=1e-12, atol=1e-12)
        seen += piece.cells.shape[1]
    assert seen == len(whole)


def laid_out(both):
    memory, streamed = both
    whole = memory.in_numbers()
    return whole, streamed.pieces()


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("hidden", [False, True])
def test_nearest_centres_are_the_same(both, metric, hidden):
    whole, pieces = laid_out(both)
    rng = np.random.default_rng(2)
    values = pieces.offset + 5 * rng.normal(size=(4, len(whole.names)))
    known = np.ones_like(values) if not hidden else (rng.random(values.shape) < 0.7).astype(float)
    centres = MaskedCentroids.of(values, known)
    rows = np.where(whole.observed, whole.values, 0.0)
    expected = nearest_centre(rows, whole.observed, centres.values, centres.seen, pieces.extent, metric)
    near = Nearest(pieces, centres, pieces.extent, metric)
    marked = squares_in_a_pass(pieces, centres, near.labels)
    assert (marked.labels == expected).all()
    assert (np.concatenate([near.of(piece)[0] for piece in pieces]) == expected).all()
    counts, squares = squares_of_rows(rows, whole.observed, expected, centres)
    np.testing.assert_allclose(marked.counts, counts)
    np.testing.assert_allclose(marked.squares, squares, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_iter", [1, 2, 100])
def test_iterations_are_the_same(both, n_iter):
    whole, pieces = laid_out(both)
    rng = np.random.default_rng(3)
    start = pieces.offset + 3 * rng.normal(size=(4, len(whole.names)))
    centres = MaskedCentroids.of(start, np.ones_like(start))
    rows = np.where(whole.observed, whole.values, 0.0)
    expected = lloyd(rows, whole.observed, centres, n_iter, pieces.extent)
    found = lloyd_in_passes(pieces, centres, n_iter)
    assert (found.labels == expected.labels).all()
    assert (found.sizes == np.bincount(expected.labels, minlength=4)).all()
    np.testing.assert_allclose(found.centres.values, expected.centres.values, rtol=1e-9)
    np.testing.assert_allclose(found.centres.counts, expected.centres.counts)


def test_an_emptied_cluster_takes_the_row_that_fits_worst(both):
    whole, pieces = laid_out(both)
    start = np.repeat(pieces.offset[None], 3, axis=0)
    start[1:] += [[1e6], [2e6]]  # nobody is near these
    centres = MaskedCentroids.of(start, np.ones_like(start))
    rows = np.where(whole.observed, whole.values, 0.0)
    expected = lloyd(rows, whole.observed, centres, 1, pieces.extent)
    found = lloyd_in_passes(pieces, centres, 1)
    assert (found.labels == expected.labels).all()
    assert found.sizes.tolist() == [len(whole) - 2, 1, 1]
    np.testing.assert_allclose(found.centres.values, expected.centres.values, rtol=1e-9)


def clustered(pieces, plain, labels, n):
    tally = squares_in_a_pass(
        plain,
        MaskedCentroids.of(np.zeros((n, len(plain.names))), np.ones((n, len(plain.names)))),
        lambda p: labels[p.at],
    )
    start = MaskedCentroids.of(np.zeros((n, len(plain.names))), tally.counts)
    sums = np.zeros(start.values.shape)
    for piece in plain:
        np.add.at(sums, labels[piece.at], piece.cells.T + plain.offset * piece.observed)
    means = MaskedCentroids.of(sums / np.maximum(tally.counts, 1), tally.counts)
    return Clustered(pieces, labels, tally.sizes, means, means, plain.names)


@pytest.mark.parametrize("kind", ["gaussian", "gaussian_full", "gaussian_low_rank", "gaussian_diagonal"])
def test_gaussians_of_a_file_are_those_of_a_table_in_memory(tmp_path, kind):
    frame, labels = frame_of(n=200 if kind == "gaussian_low_rank" else 900)
    memory = in_memory(frame)
    pieces = open_stream(stored(frame, tmp_path / "a.parquet"), "a").pieces()
    fitted = fit_densities(clustered(pieces, pieces, labels, K), kind)
    expected = fit_densities(Clustered.of_arrays(memory.values, memory.observed, labels), kind)
    for one, other in zip(fitted, expected, strict=True):
        assert type(one) is type(other)
        np.testing.assert_allclose(one.mean, other.mean)
        np.testing.assert_allclose(one.full_covariance, other.full_covariance, rtol=1e-6, atol=1e-9)


def test_codes_and_shares_of_a_file_are_those_of_a_table_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=600)
    codes = pd.DataFrame({"a": rng.integers(3, size=600) + labels, "b": 0.1 * rng.integers(4, size=600)})
    codes["c"] = np.where(rng.random(600) < 0.3, np.nan, 7.5)
    shares = rng.dirichlet([2.0, 5.0, 1.0], size=600)
    shares[:20, 2] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    for kind, frame in (("discrete", codes), ("dirichlet", pd.DataFrame(shares, columns=["p", "q", "r"]))):
        memory = in_memory(frame)
        plain = open_stream(stored(frame, tmp_path / f"{kind}.parquet"), "a").pieces(centred=False)
        fitted = fit_densities(clustered(plain, plain, labels, 2), kind)
        expected = fit_densities(Clustered.of_arrays(memory.values, memory.observed, labels), kind)
        for one, other in zip(fitted, expected, strict=True):
            np.testing.assert_allclose(one.mean, other.mean)
            np.testing.assert_allclose(one.variances, other.variances)


def asked_of(both, policy=None):
    memory, streamed = both
    gates = [None, None] if policy is None else [Gate(policy), Gate(policy)]
    return Participant(memory, None, "euclidean", "observed", gates[0]), StreamedParticipant(
        streamed, None, "euclidean", "observed", gates[1]
    )


def same(one, other, rtol=1e-7):
    assert type(one) is type(other)
    if isinstance(one, Failure):
        assert one == other
        return
    for name in one.__struct_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=1e-7, err_msg=name)
        elif hasattr(mine, "__struct_fields__"):
            same(mine, theirs, rtol)
        elif isinstance(mine, tuple) and mine and hasattr(mine[0], "__struct_fields__"):
            for a, b in zip(mine, theirs, strict=True):
                same(a, b, rtol)
        elif isinstance(mine, dict) and any(isinstance(part, np.ndarray) for part in mine.values()):
            assert mine.keys() == theirs.keys()
            for part, value in mine.items():
                np.testing.assert_allclose(value, theirs[part], rtol=rtol, atol=1e-7, err_msg=part)
        elif isinstance(mine, float):
            assert mine == pytest.approx(theirs, rel=rtol)
        else:
            assert mine == theirs, name


@pytest.mark.parametrize("scale", [None, "auto", "standard", "minmax"])
def test_descriptions_are_the_same(both, scale):
    one, other = asked_of(both)
    same(one.handle(Describe(scale=scale)), other.handle(Describe(scale=scale)))


def test_robust_units_come_from_the_sample(both):
    one, other = (each.handle(Describe(scale="robust")).moments for each in asked_of(both))
    np.testing.assert_allclose(one.mean, other.mean)
    spread = one.quantiles[-1] - one.quantiles[0]
    assert (np.abs(one.quantiles - other.quantiles) < 0.25 * spread).all()
    assert (np.diff(other.quantiles, axis=0) >= 0).all()


POLICIES = [None, ReleasePolicy(), ReleasePolicy(min_cluster_size=8, small="withhold")]


@pytest.mark.parametrize("policy", POLICIES, ids=["open", "usual", "withhold"])
def test_rounds_and_labels_are_the_same(both, policy):
    one, other = asked_of(both, policy)
    whole = both[0].in_numbers()
    if policy is not None:  # rare levels may be gone
        said = one.handle(Describe(scale="standard"))
        same(said, other.handle(Describe(scale="standard")))
        levels = said.levels
        whole = both[0].in_numbers({name: levels[name] for name in both[0].levels})
    rng = np.random.default_rng(5)
    d = len(whole.names)
    middle = np.array([whole.values[whole.observed[:, m], m].mean() for m in range(d)])
    spread = np.array([whole.values[whole.observed[:, m], m].std() for m in range(d)])
    columns = Columns(levels=dict(both[0].levels), shift=middle, scale=np.maximum(spread, 0.1))
    rivals = []
    for n in range(2):
        values = rng.normal(size=(5, d))
        values[4] = 50.0 + n  # nobody is near
        known = np.ones((5, d), dtype=bool)
        known[0, 1] = n == 0
        rivals.append(Centres(values=values, known=known, low=np.full(d, -4.0), high=np.full(d, 4.0)))
    for sets in (rivals[:1], rivals):
        request = Refine(columns=columns, rivals=tuple(sets), seed=1, round=0, min_points=2, max_iter=2)
        same(one.handle(request), other.handle(request))
    label = Label(columns=columns, centres=rivals[0])
    same(one.handle(label), other.handle(label))
    assert (one.labels == other.labels).all()


@pytest.mark.parametrize("policy", POLICIES, ids=["open", "usual", "withhold"])
@pytest.mark.parametrize("density", [None, "gaussian"])
def test_summaries_are_the_same_where_clusters_are_clear(both, policy, density):
    one, other = asked_of(both, policy)
    request = Summarize(
        seed=0,
        n_clusters=K,
        n_local_clusters=K,
        max_local_clusters=K,
        scale="auto",
        density=density,
        bounding_boxes=policy is None and density is not None,
    )
    said, again = one.handle(request), other.handle(request)
    if policy is not None and policy.small == "withhold" and density is None:
        assert not isinstance(said, Failure)
    order = np.lexsort(said.values.T[::-1]), np.lexsort(again.values.T[::-1])
    assert (said.sizes[order[0]] == again.sizes[order[1]]).all()
    np.testing.assert_allclose(said.values[order[0]], again.values[order[1]], rtol=1e-6)
    np.testing.assert_allclose(said.counts[order[0]], again.counts[order[1]])
    assert adjusted_rand_score(one.local_labels, other.local_labels) == 1.0
    if density is not None:
        for k, j in zip(*order, strict=True):
            same(said.densities[k], again.densities[j], 1e-5)
    if request.bounding_boxes:
        np.testing.assert_allclose(said.low[order[0]], again.low[order[1]])
        np.testing.assert_allclose(said.high[order[0]], again.high[order[1]])
    groups = np.arange(len(said.sizes)) % 2
    first, second = (
        one.handle(Assign(groups=groups[np.argsort(order[0])], n_groups=2)),
        other.handle(Assign(groups=groups[np.argsort(order[1])], n_groups=2)),
    )
    same(first, second)
    assert (one.labels == other.labels).all()


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
    cells = [np.concatenate([p.cells.copy() for p in each.pieces(centred=False)], axis=1) for each in (one, other)]
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
    laid, pieces = memory.in_numbers(), streamed.pieces(centred=False)
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
    refused(MissingCellsError, "1 of 50 rows of 'a' have no observed value", holes)
    refused(InputError, "has no column 'nope'", columns=["f0", "nope"])
    with pytest.raises(InputError, match="not found"):
        scan_parquet(tmp_path / "gone.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="broken.parquet cannot be read as parquet"):
        scan_parquet(tmp_path / "broken.parquet")
    with pytest.raises(LocalAlgorithmError, match="needs all rows"):
        intarsia.cluster({"a": stored(frame, path)}, 2, local=KMeans(2))
    with pytest.raises(MissingCellsError, match="piece by piece"):
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


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    frame, _ = frame_of()
    participant = StreamedParticipant(open_stream(stored(frame, tmp_path / "a.parquet"), "a"))
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


@pytest.mark.parametrize("small", ["merge", "withhold"])
def test_small_clusters_are_merged_or_kept_back_alike(both, small):
    memory, _ = both
    request = Summarize(
        seed=0, n_clusters=K, n_local_clusters=K, max_local_clusters=K, scale="auto", density="gaussian"
    )
    sizes = Participant(memory).handle(request).sizes
    one, other = asked_of(both, ReleasePolicy(min_cluster_size=int(sizes.min()) + 1, small=small))
    said, again = one.handle(request), other.handle(request)
    assert len(said.sizes) < K
    assert sorted(said.sizes) == sorted(again.sizes)
    assert said.suppressed == again.suppressed
    order = np.lexsort(said.values.T[::-1]), np.lexsort(again.values.T[::-1])
    np.testing.assert_allclose(said.values[order[0]], again.values[order[1]], rtol=1e-6)
    groups = np.arange(len(said.sizes))
    same(
        one.handle(Assign(groups=groups[np.argsort(order[0])], n_groups=len(groups))),
        other.handle(Assign(groups=groups[np.argsort(order[1])], n_groups=len(groups))),
    )
    assert (one.labels == other.labels).all()


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
    site = Site("a", tmp_path, "0123456789abcdef")
    request = Summarize(seed=0, n_clusters=K, n_local_clusters=K, max_local_clusters=K, scale="standard")
    reply = site.answer(encode(request))
    assert reply.sizes.sum() == 300
    site = Site("a", tmp_path, "0123456789abcdef")  # another process, which clusters again as before
    again = site.answer(encode(Assign(groups=np.arange(K), n_groups=K)))
    assert (again.sizes == reply.sizes).all()
    kept = pd.read_csv(tmp_path / "labels.csv")
    assert kept["id"].tolist() == frame["patient"].tolist()
    assert np.bincount(kept["cluster"]).tolist() == reply.sizes.tolist()


def test_a_row_that_nothing_can_be_compared_of_hides_no_other_one(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": np.full(500, 3.0), "x": rng.normal(size=500)})
    frame.loc[0, "x"], frame.loc[100:129, "x"] = 1000.0, np.nan
    both = in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a")
    one, other = asked_of(both, ReleasePolicy(min_cluster_size=5))
    centres = Centres(
        values=np.array([[3.0, 990.0], [3.0, 0.0]]),
        known=np.ones((2, 2), dtype=bool),
        low=np.array([3.0, -4.0]),
        high=np.array([3.0, 1000.0]),
    )
    request = Refine(
        columns=Columns(levels={}, shift=np.zeros(2), scale=np.ones(2)),
        rivals=(centres,),
        seed=0,
        round=0,
        min_points=1,
        max_iter=1,
    )
    same(one.handle(request), other.handle(request))


def test_closeness_is_not_told_of_a_few_rows_of_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "_SAMPLE_ROWS", 100)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["x", "y"])
    frame.loc[:39] += 50.0
    streamed = open_stream(stored(frame, tmp_path / "a.parquet"), "a")
    request = Summarize(
        seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=2, density="gaussian", n_proxies=50
    )
    reply = StreamedParticipant(streamed, gate=Gate(ReleasePolicy(min_cluster_size=10))).handle(request)
    small = int(reply.sizes.argmin())
    assert reply.sizes[small] == 40
    assert np.isnan(reply.fidelity[small]).all()
    assert np.isfinite(reply.fidelity[1 - small, :2]).all()


def test_whole_numbers_tie_as_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(4, size=(2000, 3)), columns=list("abc"))
    both = in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a")
    one, other = asked_of(both)
    values = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [3.0, 3.0, 0.0]])
    centres = Centres(values=values, known=np.ones((3, 3), dtype=bool), low=np.zeros(3), high=np.full(3, 3.0))
    label = Label(columns=Columns(levels={}, shift=np.zeros(3), scale=np.ones(3)), centres=centres)
    same(one.handle(label), other.handle(label))
    assert (one.labels == other.labels).all()


def test_a_width_that_rounding_explains_is_none(tmp_path):
    frame = pd.DataFrame({"k": np.full(300, 1e6), "x": np.random.default_rng(0).normal(size=300)})
    both = in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a")
    one, other = asked_of(both)
    centres = Centres(
        values=np.array([[1e6, 0.0], [1e6, 0.0]]),
        known=np.array([[True, True], [True, False]]),
        low=np.array([1e6, -4.0]),
        high=np.array([1e6 + 1e-9, 4.0]),
    )
    label = Label(columns=Columns(levels={}, shift=np.zeros(2), scale=np.ones(2)), centres=centres)
    same(one.handle(label), other.handle(label))


def test_where_neither_centre_nor_rows_know_a_category_the_mean_of_all_counts(tmp_path):
    rng = np.random.default_rng(0)
    x = 1.5 * rng.normal(size=2000)
    words = np.where(x < -1, None, np.where(rng.random(2000) < 0.3, "u", "v"))
    frame = pd.DataFrame({"x": x, "c": words})
    both = in_memory(frame), open_stream(stored(frame, tmp_path / "a.parquet"), "a")
    one, other = asked_of(both)
    known = np.array([[False, False, True], [False, False, True]])
    centres = Centres(
        values=np.array([[0.0, 0.0, -3.0], [0.0, 0.0, 1.0]]), known=known, low=np.full(3, -5.0), high=np.full(3, 5.0)
    )
    columns = Columns(levels={"c": ("u", "v")}, shift=np.zeros(3), scale=np.array([2**0.5, 2**0.5, 1.0]))
    for n_iter in (1, 2, 3):
        request = Refine(columns=columns, rivals=(centres,), seed=0, round=n_iter, min_points=1, max_iter=n_iter)
        same(one.handle(request), other.handle(request))


def test_fewer_different_rows_than_clusters_come_to_rest(tmp_path):
    frame = pd.DataFrame({"x": np.arange(400) % 2, "y": np.arange(400) % 2})
    pieces = open_stream(stored(frame, tmp_path / "a.parquet"), "a").pieces()
    start = MaskedCentroids.of(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), np.ones((3, 2)))
    assert lloyd_in_passes(pieces, start, 50).n_passes <= 6


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


def test_many_centres_make_small_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "_PIECE_CELLS", 1 << 12)
    monkeypatch.setattr(streamed, "_PIECE_ROWS", 512)
    frame, _ = frame_of()
    pieces = open_stream(stored(frame, tmp_path / "a.parquet"), "a").pieces()
    assert max(piece.cells.shape[1] for piece in pieces) > 200
    pieces.n_centres = 4096
    assert max(piece.cells.shape[1] for piece in pieces) == 64
