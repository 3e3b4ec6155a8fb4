"""A participant gives the same replies wherever its rows are stored, and nothing else but replies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from intarsia.exceptions import LocalAlgorithmError, MissingCellsError
from intarsia.participant import Participant
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Assign, Centres, Columns, Describe, Failure, Label, Refine, Summarize
from intarsia.tables import open_stream, scan_parquet
from intarsia.tables.frame import read_table
from intarsia.tables.missing import settle_missing
from intarsia.tables.sample import Limits

K, D = 3, 5
PIECES = {"piece_values": 1, "piece_rows": 60}
LIMITS = {"all rows": Limits(**PIECES), "a sample": Limits(sample_rows=400, **PIECES)}
POLICIES = {
    "open": None,
    "usual": ReleasePolicy(),
    "withhold": ReleasePolicy(min_cluster_size=8, small="withhold"),
}


def frame_of(n=900, missing=0.0, seed=0, words=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    x = 6.0 * rng.normal(size=(K, D))[labels] + rng.normal(size=(n, D)) + 100.0
    x[rng.random(x.shape) < missing] = np.nan
    x[:, 0] = np.where(np.isnan(x).all(axis=1), 0.0, x[:, 0])
    frame = pd.DataFrame(x, columns=[f"f{k}" for k in range(D)])
    if words:
        frame["kind"] = np.array(["left", "right", None], dtype=object)[np.minimum(labels, rng.integers(3, size=n))]
        frame["yes"] = labels > 0
    return frame


def both(frame, folder, policy=None, limits=LIMITS["a sample"]):
    """The participant with its rows in memory, and with the same rows in a Parquet file."""
    frame.to_parquet(folder / "a.parquet", index=False)
    streamed = open_stream(scan_parquet(folder / "a.parquet", batch_rows=256), "a", limits=limits)
    tables = settle_missing(read_table(frame, "a"), "observed"), streamed
    pipelines = [None if policy is None else Pipeline(policy) for _ in tables]
    return [
        Participant(table, pipeline=pipeline, limits=limits) for table, pipeline in zip(tables, pipelines, strict=True)
    ]


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif hasattr(one, "__struct_fields__"):
        for name in one.__struct_fields__:
            assert_same(getattr(one, name), getattr(other, name))
    elif isinstance(one, np.ndarray | float):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    else:
        assert one == other


TABLES = pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing values"])
SIZES = pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
RULES = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@TABLES
@SIZES
@RULES
def test_descriptions_and_summaries_are_the_same(tmp_path, missing, limits, policy):
    participants = both(frame_of(missing=missing, words=missing > 0), tmp_path, policy, limits)
    for scale in (None, "auto", "standard", *(() if policy else ("minmax", "robust"))):
        assert_same(*(each.handle(Describe(scale=scale)) for each in participants))
    request = Summarize(
        seed=0,
        n_clusters=K,
        n_local_clusters=K + 2,
        max_local_clusters=9,
        scale="auto",
        density="gaussian",
        n_proxies=20,
        bounding_boxes=policy is None,
    )
    replies = [each.handle(request) for each in participants]
    assert not isinstance(replies[0], Failure)
    assert_same(*replies)
    assert (participants[0].local_labels == participants[1].local_labels).all()
    groups = np.arange(len(replies[0].sizes)) % 2
    assert_same(*(each.handle(Assign(groups=groups, n_groups=2)) for each in participants))
    assert (participants[0].labels == participants[1].labels).all()


@TABLES
@RULES
def test_rounds_and_labels_are_the_same(tmp_path, missing, policy):
    participants = both(frame_of(missing=missing, words=missing > 0), tmp_path, policy)
    described = participants[0].handle(Describe(scale="standard"))
    moments, levels = described.moments, described.levels
    names = sorted([*described.features, *(f"{name}={level}" for name in levels for level in levels[name])])
    d, rng = len(names), np.random.default_rng(5)
    place = [names.index(name) for name in described.features]
    shift, scale = np.zeros(d), np.full(d, 0.5)
    shift[place], scale[place] = moments.mean, np.sqrt(moments.m2 / moments.count)
    columns = Columns(levels=dict(levels), shift=shift, scale=scale)
    rivals = []
    for n in range(2):
        values, known = rng.normal(size=(5, d)), np.ones((5, d), dtype=bool)
        values[4], known[0, 1] = 50.0 + n, n == 0  # no row is near the last centroid
        rivals.append(Centres(values=values, known=known, low=np.full(d, -4.0), high=np.full(d, 4.0)))
    for sets in (rivals[:1], rivals):
        request = Refine(columns=columns, rivals=tuple(sets), seed=1, round=0, min_points=2, max_iter=2)
        replies = [each.handle(request) for each in participants]
        assert not isinstance(replies[0], Failure)
        assert_same(*replies)
    label = Label(columns=columns, centres=rivals[0])
    assert_same(*(each.handle(label) for each in participants))
    assert (participants[0].labels == participants[1].labels).all()


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000), n=st.integers(30, 300), missing=st.sampled_from([0.0, 0.3]), fewest=st.integers(1, 9)
)
def test_any_rows_are_summarized_alike(tmp_path_factory, seed, n, missing, fewest):
    frame, policy = frame_of(n, missing, seed), ReleasePolicy(min_cluster_size=fewest)
    participants = both(frame, tmp_path_factory.mktemp("rows"), policy, LIMITS["all rows"])
    request = Summarize(seed=seed, n_clusters=K, n_local_clusters=None, max_local_clusters=6, scale="standard")
    assert_same(*(each.handle(request) for each in participants))


@pytest.mark.parametrize("small", ["merge", "withhold"])
def test_small_clusters_are_merged_or_suppressed_alike(tmp_path, small):
    frame = frame_of()
    request = Summarize(seed=0, n_clusters=K, n_local_clusters=K, max_local_clusters=K, scale="auto")
    sizes = both(frame, tmp_path)[0].handle(request).sizes
    participants = both(frame, tmp_path, ReleasePolicy(min_cluster_size=int(sizes.min()) + 1, small=small))
    replies = [each.handle(request) for each in participants]
    assert len(replies[0].sizes) < K
    assert_same(*replies)
    groups = np.arange(len(replies[0].sizes))
    assert_same(*(each.handle(Assign(groups=groups, n_groups=len(groups))) for each in participants))
    assert (participants[0].labels == participants[1].labels).all()


def test_a_large_table_in_memory_is_clustered_as_all_its_rows_are():
    frame = frame_of(n=3000)
    request = Summarize(seed=0, n_clusters=K, n_local_clusters=K, max_local_clusters=K, scale="standard")
    whole, sampled = (Participant(read_table(frame, "a"), limits=limits) for limits in LIMITS.values())
    replies = [each.handle(request) for each in (whole, sampled)]
    assert sorted(replies[0].sizes) == sorted(replies[1].sizes)
    assert adjusted_rand_score(whole.local_labels, sampled.local_labels) == 1.0


def test_a_row_without_comparable_values_hides_no_other_row(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": np.full(500, 3.0), "x": rng.normal(size=500)})
    frame.loc[0, "x"], frame.loc[100:129, "x"] = 1000.0, np.nan
    centres = Centres(
        values=np.array([[3.0, 990.0], [3.0, 0.0]]),
        known=np.ones((2, 2), dtype=bool),
        low=np.array([3.0, -4.0]),
        high=np.array([3.0, 1000.0]),
    )
    columns = Columns(levels={}, shift=np.zeros(2), scale=np.ones(2))
    request = Refine(columns=columns, rivals=(centres,), seed=0, round=0, min_points=1, max_iter=1)
    participants = both(frame, tmp_path, ReleasePolicy(min_cluster_size=5))
    one, other = (each.handle(request) for each in participants)
    assert_same(one, other)
    assert one.refined[0].misfit == pytest.approx(float(np.square(frame["x"]).sum()))  # all rows at the second centroid


def test_fidelity_of_a_few_sampled_rows_is_suppressed(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["x", "y"])
    frame.loc[:39] += 50.0
    request = Summarize(
        seed=0, n_clusters=2, n_local_clusters=2, max_local_clusters=2, density="gaussian", n_proxies=50
    )
    for participant in both(frame, tmp_path, ReleasePolicy(min_cluster_size=10), Limits(sample_rows=100)):
        reply = participant.handle(request)
        small = int(reply.sizes.argmin())
        assert reply.sizes[small] == 40
        assert np.isnan(reply.fidelity[small]).all()
        assert np.isfinite(reply.fidelity[1 - small, :2]).all()


def test_equally_near_centroids_are_chosen_alike(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(4, size=(2000, 3)), columns=list("abc"))
    values = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [3.0, 3.0, 0.0]])
    centres = Centres(values=values, known=np.ones((3, 3), dtype=bool), low=np.zeros(3), high=np.full(3, 3.0))
    label = Label(columns=Columns(levels={}, shift=np.zeros(3), scale=np.ones(3)), centres=centres)
    participants = both(frame, tmp_path)
    assert_same(*(each.handle(label) for each in participants))
    assert (participants[0].labels == participants[1].labels).all()


def test_where_neither_centroid_nor_rows_know_a_category_the_mean_of_all_rows_counts(tmp_path):
    rng = np.random.default_rng(0)
    x = 1.5 * rng.normal(size=2000)
    words = np.where(x < -1, None, np.where(rng.random(2000) < 0.3, "u", "v"))
    participants = both(pd.DataFrame({"x": x, "c": words}), tmp_path)
    known = np.array([[False, False, True], [False, False, True]])
    values = np.array([[0.0, 0.0, -3.0], [0.0, 0.0, 1.0]])
    centres = Centres(values=values, known=known, low=np.full(3, -5.0), high=np.full(3, 5.0))
    columns = Columns(levels={"c": ("u", "v")}, shift=np.zeros(3), scale=np.array([2**0.5, 2**0.5, 1.0]))
    for n_iter in (1, 2, 3):
        request = Refine(columns=columns, rivals=(centres,), seed=0, round=n_iter, min_points=1, max_iter=n_iter)
        assert_same(*(each.handle(request) for each in participants))


def test_the_answer_is_computed_before_its_counts_are_used(tmp_path):
    """Counts belong to the layout of the request that is answered, not to that of an earlier one."""
    frame = pd.DataFrame({"x": np.r_[np.arange(20.0), np.full(20, np.nan)], "c": ["u", "v"] * 20})
    participant, _ = both(frame, tmp_path, ReleasePolicy(min_cluster_size=5))
    participant.handle(Describe())
    columns = Columns(levels={"c": ("t", "u", "v")}, shift=np.zeros(4), scale=np.ones(4))
    centres = Centres(
        values=np.zeros((1, 4)), known=np.ones((1, 4), dtype=bool), low=np.zeros(4), high=np.full(4, 20.0)
    )
    reply = participant.handle(Label(columns=columns, centres=centres))
    assert reply.counts.tolist() == [[40, 40, 40, 20]]  # by name: c=t, c=u, c=v, x


def test_clusterers_that_need_all_rows_are_refused_for_tables_in_batches(tmp_path):
    frame_of(n=50).to_parquet(tmp_path / "a.parquet", index=False)
    table = open_stream(scan_parquet(tmp_path / "a.parquet"), "a")
    with pytest.raises(LocalAlgorithmError, match="KMeans needs all rows of 'a' in memory, but .* read in batches"):
        Participant(table, KMeans(2))
    with pytest.raises(MissingCellsError, match="missing='drop' needs all rows of 'a' in memory"):
        Participant(table, missing="drop")


def test_an_error_of_another_library_is_reported_without_its_text(monkeypatch):
    participant = Participant(read_table(frame_of(n=50), "a"))

    def fail(*_):
        raise ValueError("a secret value: 17")

    monkeypatch.setitem(participant.handlers, Describe, fail)  # any step may fail; the text must stay here
    reply = participant.handle(Describe())
    assert isinstance(reply, Failure)
    assert "17" not in reply.message
    assert reply.message == "participant 'a' failed with a ValueError while answering Describe"
    assert isinstance(participant.last_error, ValueError)
