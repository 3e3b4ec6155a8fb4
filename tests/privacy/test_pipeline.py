"""What may leave a participant: rules at work on real tables, and a last look that nothing small gets out."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import DBSCAN, KMeans

import intarsia
from intarsia import ReleasePolicy
from intarsia.core.disclosure import hidden_sizes
from intarsia.exceptions import ReleaseError, SettingError, TooFewRowsError
from intarsia.participant import Participant
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Context, Pipeline, check_rows
from intarsia.privacy.policy import OPEN
from intarsia.privacy.suppression import Cells
from intarsia.protocol import (
    Assign,
    Centres,
    Columns,
    Describe,
    Failure,
    Label,
    Labelled,
    Refine,
    Summarize,
    decode_reply,
    encode,
)
from intarsia.protocol.catalogue import rows_behind
from intarsia.tables.frame import read_table


def _participant(table, policy=None, journal=None, **more):
    return Participant(read_table(table, "a"), pipeline=Pipeline(policy or ReleasePolicy(), journal), **more)


def _summarize(**more):
    asked = {"seed": 0, "n_clusters": 3, "n_local_clusters": 3, "max_local_clusters": 3, "columns": None} | more
    return Summarize(**asked)


def _blobs(sizes, d=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.concatenate([20.0 * k + rng.normal(size=(n, d)) for k, n in enumerate(sizes)])
    return {f"x{m}": rows[:, m] for m in range(d)}


def _refine(centres, d=2, round_=1):
    values = np.array(centres, dtype=float).repeat(d).reshape(-1, d)
    sent = Centres(values, np.ones_like(values, dtype=bool), np.zeros(d), np.full(d, 60.0))
    return Refine(seed=0, round=round_, rivals=(sent,), min_points=1, max_iter=1), sent


def test_a_small_cluster_joins_the_nearest():
    reply = _participant(_blobs([30, 3, 40])).handle(_summarize())
    assert sorted(reply.sizes.tolist()) == [33, 40]
    assert reply.suppressed == {"clusters": 1}


def test_or_is_kept_back_with_the_next_so_that_nobody_can_subtract():
    policy = ReleasePolicy(small="withhold")
    participant = _participant(_blobs([30, 3, 40, 6]), policy)
    reply = participant.handle(_summarize(n_local_clusters=4, max_local_clusters=4))
    assert sorted(reply.sizes.tolist()) == [30, 40]
    assert reply.n_rows - reply.sizes.sum() == 9
    assert reply.suppressed == {"clusters": 2}
    assert isinstance(participant.handle(Assign(groups=np.array([0, 1]), n_groups=2)), Labelled)
    assert (participant.labels >= 0).all()  # rows that were kept back have a label all the same


def test_everything_passes_where_the_rules_are_open():
    reply = _participant(_blobs([30, 1, 40]), OPEN).handle(_summarize())
    assert sorted(reply.sizes.tolist()) == [1, 30, 40]
    assert reply.suppressed == {}


def test_entries_with_few_cells_are_hidden():
    table = _blobs([20, 20])
    table["x1"] = table["x1"].copy()
    table["x1"][4:20] = np.nan  # four cells are left in the first cluster
    reply = _participant(table).handle(_summarize(n_clusters=2, n_local_clusters=2, density="gaussian"))
    assert (reply.counts[:, 1] == 0).all()  # 24 − 20 cells: the other could be subtracted
    assert reply.suppressed == {"entries": 2}
    assert [len(density.parts["covariance"]) for density in reply.densities] == [1, 1]


def test_columns_and_levels_with_few_rows_stay_at_home():
    table = _blobs([20, 20])
    table["rare"] = np.where(np.arange(40) < 4, 1.0, np.nan)
    table["ward"] = ["x"] * 20 + ["y"] * 17 + ["secret"] * 3
    reply = _participant(table).handle(Describe(scale="standard"))
    assert reply.features == ("x0", "x1")
    assert reply.levels == {"ward": ("x", "y")}
    assert reply.suppressed == {"columns": 1, "levels": 1}
    assert b"secret" not in encode(reply)
    assert b"rare" not in encode(reply)


def test_too_few_rows_take_no_part():
    with pytest.raises(TooFewRowsError, match="fewer than the 5 rows"):
        _participant({"x": [1.0, 2, 3, 4]})
    with pytest.raises(TooFewRowsError, match="every column"):
        _participant({"x": [1.0, 2, 3, np.nan, np.nan, 3], "y": [np.nan] * 3 + [1.0, 2.0, np.nan]})


def test_single_cells_are_asked_for_in_vain():
    participant = _participant(_blobs([20, 20]))
    for request in (
        Describe(scale="minmax"),
        Describe(scale="robust"),
        _summarize(scale="minmax"),
        _summarize(bounding_boxes=True),
        _summarize(density="discrete"),
    ):
        reply = participant.handle(request)
        assert isinstance(reply, Failure)
        assert reply.error == "ReleaseError"
    allowed = _participant(_blobs([20, 20]), ReleasePolicy(allow_extremes=True, allow_discrete=True))
    assert allowed.handle(Describe(scale="minmax")).moments.low is not None
    assert allowed.handle(_summarize(density="discrete", n_local_clusters=2)).densities


def test_covariances_are_as_rich_as_points_allow():
    request = _summarize(density="gaussian_full", n_local_clusters=2, n_clusters=2)
    table = _blobs([12, 12], d=6)
    strict = _participant(table).handle(request).densities[0]
    assert strict.parts["covariance"].ndim == 1
    loose = _participant(table, ReleasePolicy(allow_any_covariance=True)).handle(request).densities[0]
    assert loose.parts["covariance"].ndim == 2


def test_small_groups_are_hidden_in_rounds_and_at_the_end():
    participant = _participant(_blobs([30, 3, 40, 9]))
    request, sent = _refine([0.0, 20.0, 40.0, 60.0])
    refined = participant.handle(request).refined[0]
    assert refined.sizes.tolist() == [30, 0, 40, 0]  # the third smallest is hidden too: 82 − 70 would tell of three
    assert (refined.counts[[1, 3]] == 0).all()
    assert (refined.values[[1, 3]] == 0).all()
    labelled = participant.handle(Label(centres=sent))
    assert labelled.sizes.tolist() == [30, 0, 40, 0]
    assert (labelled.squares[[1, 3]] == 0).all()
    assert np.bincount(participant.labels).tolist() == [30, 3, 40, 9]  # the owner knows all the same


def test_hidden_sizes_worked_by_hand():
    assert hidden_sizes(np.array([10, 10]), 5).tolist() == [False, False]
    assert hidden_sizes(np.array([2, 3, 10]), 5).tolist() == [True, True, False]
    assert hidden_sizes(np.array([4, 10, 9]), 5).tolist() == [True, False, True]
    assert hidden_sizes(np.array([3, 0]), 5).tolist() == [True, False]


def test_rounds_are_counted_and_the_same_question_is_one(tmp_path):
    policy, journal = ReleasePolicy(max_rounds=2), tmp_path / "released.jsonl"
    participant = _participant(_blobs([30, 40]), policy, Journal(journal))
    for round_ in (1, 1, 2):
        assert not isinstance(participant.handle(_refine([0.0, 20.0], round_=round_)[0]), Failure)
    assert participant.handle(_refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    again = _participant(_blobs([30, 40]), policy, Journal(journal))  # after a restart
    assert again.handle(_refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    assert not isinstance(again.handle(_refine([0.0, 20.0], round_=2)[0]), Failure)


def test_the_journal_tells_what_left_and_survives_a_cut(tmp_path):
    path = tmp_path / "released.jsonl"
    participant = _participant(_blobs([30, 3, 40]), None, Journal(path))
    reply = participant.handle(_summarize())
    asked, entry = (json.loads(line) for line in path.read_text().splitlines())
    assert (asked["event"], asked["digest"], entry["event"]) == ("asked", entry["digest"], "left")
    assert (entry["request"], entry["reply"], entry["bytes"]) == (
        "query.summarize",
        "reply.summary",
        len(encode(reply)),
    )
    assert {f["field"]: f["fewest_rows"] for f in entry["fields"]}["sizes"] == 33
    assert entry["suppressed"] == {"clusters": 1}
    path.write_bytes(path.read_bytes()[:-20])
    again = _participant(_blobs([30, 3, 40]), None, Journal(path))
    again.handle(_summarize())
    assert len(list(Journal(path).entries("left"))) == 1


def test_counts_are_rounded_down():
    participant = _participant(_blobs([33, 48]), ReleasePolicy(round_counts_to=5))
    reply = participant.handle(_summarize(n_local_clusters=2))
    assert (reply.n_rows, sorted(reply.sizes.tolist())) == (80, [30, 45])
    assert participant.handle(Describe(scale="standard")).moments.count.tolist() == [80, 80]


def test_rounding_does_not_make_a_cluster_too_small():
    """Seven rows are enough where five are required, also if they are told as four."""
    reply = _participant(_blobs([33, 7]), ReleasePolicy(round_counts_to=4)).handle(_summarize(n_local_clusters=2))
    assert sorted(reply.sizes.tolist()) == [4, 32]


def test_bad_rules_are_refused():
    for wrong in ({"min_cluster_size": 0}, {"small": "hide"}, {"max_rounds": -1}, {"round_counts_to": 2.5}):
        with pytest.raises(SettingError):
            ReleasePolicy(**wrong)
    with pytest.raises(SettingError, match="round_counts_to"):
        ReleasePolicy(min_cluster_size=5, round_counts_to=10)
    with pytest.raises(SettingError, match="release"):
        intarsia.cluster({"a": {"x": [1.0, 2.0]}}, 1, release=5)


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(lambda s: sum(s) >= 5),
    st.integers(1, 7),
    st.sampled_from(["merge", "withhold"]),
    st.floats(0, 0.6),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_nothing_small_ever_leaves(sizes, fewest, small, empty, seed):
    """The law: whatever the table, no number in any reply stands for fewer rows than the rules say."""
    table = _blobs([n for n in sizes if n], seed=seed)
    rng = np.random.default_rng(seed)
    table["x1"] = np.where(rng.random(len(table["x1"])) < empty, np.nan, table["x1"])
    policy = ReleasePolicy(min_cluster_size=fewest, small=small)
    try:
        participant = _participant(table, policy)
    except TooFewRowsError:
        return
    d = len(participant.handle(Describe()).features)
    units = Columns(np.zeros(d), np.ones(d))
    requests = [
        Describe(scale="standard"),
        _summarize(n_local_clusters=None, columns=units),
        _summarize(n_local_clusters=min(3, sum(sizes)), density="gaussian_full", scale="standard"),
        _refine([0.0, 20.0, 40.0], d)[0],
        Label(centres=_refine([0.0, 20.0, 40.0], d)[1]),
    ]
    for request in requests:
        reply = participant.handle(request)
        if isinstance(reply, Failure):
            assert reply.error in {"TooFewRowsError", "ReleaseError"}, reply.message
            continue
        assert decode_reply(encode(reply))
        assert all(
            rows == 0 or rows >= fewest
            for path, rows in rows_behind(reply).items()
            if "low" not in path and "high" not in path and "quantiles" not in path
        )
        for part in getattr(reply, "refined", (reply,)):
            if hasattr(part, "counts"):
                _cannot_be_subtracted(part, participant.handle(Describe(scale="standard")).moments.count, fewest)
        if hasattr(reply, "sizes"):
            assert all(n == 0 or n >= fewest for n in reply.sizes)
            left = len(table["x0"]) - int(reply.sizes.sum())
            assert left == 0 or left >= fewest or len(reply.sizes[reply.sizes > 0]) == 0


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_a_whole_study_under_rules(method, tmp_path):
    rng = np.random.default_rng(0)
    tables = {}
    for name in "abc":
        truth = np.arange(60) % 2
        rows = 9.0 * truth[:, None] + rng.normal(size=(60, 3))
        rows[0] = 500.0  # a single row far off, which would be a cluster of its own
        tables[name] = {"x": rows[:, 0], "y": rows[:, 1], "z": rows[:, 2]}
    open_ = intarsia.cluster(tables, 3, method=method, random_state=0)
    assert min(s.fewest_rows for s in open_.run.sent if s.field == "sizes" and s.message == "reply.summary") == 1
    ruled = intarsia.cluster(tables, 3, method=method, random_state=0, release=ReleasePolicy())
    told = [s.fewest_rows for s in ruled.run.sent if s.message.startswith("reply.") and s.fewest_rows is not None]
    assert min(n for n in told if n) >= 5
    assert ruled.run.suppressed
    data = ruled.summarise()
    assert any(s.what == "clusters" for s in data.suppressed)
    assert "What release rules suppressed" in ruled.report(tmp_path / "r.html").read_text()
    ruled.save(tmp_path / "s.intarsia")
    assert intarsia.load(tmp_path / "s.intarsia").run == ruled.run


def test_rules_can_differ_by_participant():
    tables = {name: _blobs([20, 3], seed=k) for k, name in enumerate("ab")}
    result = intarsia.cluster(tables, 2, random_state=0, n_local_clusters=2, release={"a": ReleasePolicy()}, scale=None)
    counts = {name: sum(c.participant == name for c in result.local_clusters) for name in "ab"}
    assert counts == {"a": 1, "b": 2}


def test_the_last_look_stops_what_slipped_through():
    context = Context(ReleasePolicy(), Describe(), Cells(53, np.zeros(0, dtype=int)))
    with pytest.raises(ReleaseError, match="reply.labelled"):
        check_rows(context, Labelled(sizes=np.array([3, 50])))


def test_units_never_tell_of_the_largest_cell():
    """Bisection by the scale: whether a cell is too large for the units must not be an answer."""
    column = np.concatenate([np.arange(40.0), [77.25]])
    participant = _participant({"x": column, "y": np.zeros(41)}, ReleasePolicy(max_rounds=None))
    for scale in (60e-100, 77e-100, 78e-100, 1e-100, 1.0):
        units = Columns(np.zeros(2), np.array([scale, 1.0]))
        reply = participant.handle(_summarize(columns=units, n_clusters=2, n_local_clusters=2))
        assert not isinstance(reply, Failure)
        assert np.isfinite(reply.values).all()


def test_questions_that_end_in_a_failure_count_too(tmp_path):
    policy, journal = ReleasePolicy(max_rounds=2), Journal(tmp_path / "released.jsonl")
    participant = _participant(_blobs([30, 40]), policy, journal)
    for round_ in (1, 2):  # three features, where there are two
        assert participant.handle(_refine([0.0, 20.0], d=3, round_=round_)[0]).error == "ProtocolError"
    assert participant.handle(_refine([0.0, 20.0], round_=3)[0]).error == "ReleaseError"
    again = _participant(_blobs([30, 40]), policy, journal)
    assert again.handle(_refine([0.0, 20.0], round_=4)[0]).error == "ReleaseError"
    assert {entry["reply"] for entry in journal.entries("left")} == {"reply.failure"}


def test_jobs_at_the_same_time_are_counted_together(tmp_path):
    policy = ReleasePolicy(max_rounds=3)
    jobs = [_participant(_blobs([30, 40]), policy, Journal(tmp_path / "released.jsonl")) for _ in range(3)]

    def ask(job):
        return [jobs[job].handle(_refine([0.0, 20.0], round_=10 * job + n)[0]) for n in range(4)]

    with ThreadPoolExecutor(3) as pool:
        replies = [reply for some in pool.map(ask, range(3)) for reply in some]
    assert sum(not isinstance(reply, Failure) for reply in replies) == 3
    assert {reply.error for reply in replies if isinstance(reply, Failure)} == {"ReleaseError"}


def _few_cells_in_one_of_three():
    table = _blobs([20, 30, 40])
    table["x1"] = table["x1"].copy()
    table["x1"][2:20] = np.nan  # two cells are left in the first cluster
    return table


def _cannot_be_subtracted(reply, all_cells, fewest=5):
    for column, cells in enumerate(all_cells):
        left = cells - reply.counts[:, column].sum()
        assert left == 0 or left >= fewest, (column, left)


def test_hidden_entries_cannot_be_subtracted_from_their_column():
    participant = _participant(_few_cells_in_one_of_three())
    cells = participant.handle(Describe(scale="standard")).moments.count
    assert cells.tolist() == [90, 72]
    reply = participant.handle(_summarize())
    assert sorted(reply.counts[:, 1].tolist()) == [0, 0, 40]
    _cannot_be_subtracted(reply, cells)
    request, sent = _refine([0.0, 20.0, 40.0])
    _cannot_be_subtracted(participant.handle(request).refined[0], cells)
    _cannot_be_subtracted(participant.handle(Label(centres=sent)), cells)
    assert sorted(participant.handle(request).refined[0].counts[:, 0].tolist()) == [20, 30, 40]


@pytest.mark.parametrize("small", ["merge", "withhold"])
@pytest.mark.parametrize("kind", ["noise", "dropped"])
def test_a_row_of_noise_cannot_be_had_as_all_rows_less_those_in_clusters(small, kind):
    """All rows less those of the clusters: one row of noise, or one that took no part, cell by cell."""
    table = {name: np.concatenate([column, [9.5]]) for name, column in _blobs([30, 20, 40]).items()}
    table["x2"] = np.concatenate([np.zeros(90), [np.nan if kind == "dropped" else 0.0]])
    local = DBSCAN(eps=4.0) if kind == "noise" else None
    participant = _participant(
        table, ReleasePolicy(small=small), local=local, missing="drop" if local is None else "observed"
    )
    total = participant.handle(Describe(scale="standard")).moments
    reply = participant.handle(_summarize(columns=Columns(np.zeros(3), np.ones(3))))
    secret = total.mean[0] * total.count[0] - (reply.values[:, 0] * reply.counts[:, 0]).sum()
    assert not np.isclose(secret, 9.5)
    _cannot_be_subtracted(reply, total.count)
    assert sorted(reply.sizes.tolist()) in ([[20, 31, 40], [21, 30, 40]] if small == "merge" else [[30, 40]])
    labelled = participant.handle(Assign(groups=np.arange(len(reply.sizes)), n_groups=len(reply.sizes)))
    assert labelled.sizes.sum() == 91
    assert (participant.labels[-1] == -1) == (kind == "noise")  # the owner is told what its algorithm found
    assert (participant.local_labels[-1] == -1) == (kind == "noise" or small == "withhold")
    assert (participant.labels[:90] >= 0).all()
    if kind == "dropped":  # DBSCAN does not start from given centres
        _cannot_be_subtracted(participant.handle(_refine([0.0, 20.0, 40.0], d=3)[0]).refined[0], total.count)


def test_noise_stays_noise_where_the_rules_are_open():
    table = {name: np.concatenate([column, [9.5]]) for name, column in _blobs([30, 20, 40]).items()}
    participant = _participant(table, OPEN, local=DBSCAN(eps=4.0))
    assert sorted(participant.handle(_summarize()).sizes.tolist()) == [20, 30, 40]
    assert participant.handle(Assign(groups=np.arange(3), n_groups=3)).sizes.sum() == 90


def _rivals(*sets, d=2, round_=1):
    """One question about several sets of centroids."""
    sent = tuple(_refine(centres, d)[1] for centres in sets)
    return Refine(seed=0, round=round_, rivals=sent, min_points=1, max_iter=1)


def test_sets_of_centroids_in_one_question_cannot_be_subtracted():
    """Two cuts with a single row between them: the sums of the same side differ by that row."""
    column = np.arange(80.0)
    request = _rivals([21.0, 60.0], [21.6, 61.2], [21.0, 60.0], [5.0, 60.0])
    open_ = [part.sizes.tolist() for part in _participant({"x": column, "y": column}, OPEN).handle(request).refined]
    assert 0 < abs(open_[0][0] - open_[1][0]) < 5  # so it would have told
    first, close, same, other = _participant({"x": column, "y": column}).handle(request).refined
    assert first.sizes.tolist() == same.sizes.tolist() == open_[0]
    for told in ("values", "counts", "sizes"):  # of the close one nothing new is told
        assert np.array_equal(getattr(close, told), getattr(first, told))
    assert other.sizes.tolist() == open_[3]


@pytest.mark.parametrize("gaps", [False, True])
def test_no_two_clusters_of_a_question_differ_by_a_few_cells(gaps):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=120), "y": rng.normal(size=120), "z": rng.normal(size=120)}
    if gaps:
        table["z"] = np.where(rng.random(120) < 0.7, np.nan, table["z"])
    for seed in range(20):
        places = np.random.default_rng(seed).normal(size=3)
        request = _rivals(*(places + 0.2 * k for k in range(4)), d=3)
        refined = _participant(table).handle(request).refined
        for n, later in enumerate(refined):
            for earlier in refined[:n]:
                apart = np.abs(later.counts[:, None] - earlier.counts[None])
                both = (later.counts[:, None] > 0) & (earlier.counts[None] > 0)
                shift = np.abs(later.values[:, None] - earlier.values[None])
                moved = both & (shift > 1e-9) & (apart > 0)
                sums = later.values[:, None] * later.counts[:, None] - earlier.values[None] * earlier.counts[None]
                for k, j, m in np.argwhere(moved & (apart < 5)):  # then many were exchanged, or they are others
                    few = sums[k, j, m] / apart[k, j, m]
                    assert not np.isclose(few, table["xyz"[m]]).any()


def test_rounds_with_several_sets_are_half_of_all():
    participant = _participant(_blobs([30, 40]), ReleasePolicy(max_rounds=12))
    for n in range(6):
        assert not isinstance(participant.handle(_rivals([0.0, 20.0], [5.0, 9.0], round_=n)), Failure)
    refused = participant.handle(_rivals([0.0, 20.0], [5.0, 9.0], round_=6))
    assert "several sets" in refused.message
    for n in range(6, 12):
        assert not isinstance(participant.handle(_refine([0.0, 20.0], round_=n)[0]), Failure)
    assert participant.handle(_refine([0.0, 20.0], round_=12)[0]).error == "ReleaseError"


class _Broken(KMeans):
    def fit_predict(self, X, y=None, sample_weight=None):
        raise ValueError(f"{len(X)} rows")


@pytest.mark.parametrize(
    ("local", "missing", "empty"),
    [
        (None, "observed", False),  # more clusters than rows
        (_Broken(2), "observed", False),
        (KMeans(99), "observed", False),
        (KMeans(2), "observed", True),  # it needs every cell
        (None, "drop", True),  # no row is left
    ],
)
def test_failures_tell_no_number_of_rows(local, missing, empty):
    table = _blobs([40, 37])
    if empty:
        table["x0"], table["x1"] = (np.where(np.arange(77) % 2 == k, np.nan, table[f"x{k}"]) for k in (0, 1))
    request = _summarize(n_clusters=99, n_local_clusters=99)
    said = _participant(table, ReleasePolicy(round_counts_to=5), local=local, missing=missing).handle(request)
    assert isinstance(said, Failure)
    assert not re.search("77|0[.][0-9]|[0-9]%|3[789]", said.message), said.message
    if not empty or missing == "drop":
        assert "77" in _participant(table, OPEN, local=local, missing=missing).handle(request).message
