"""The steps of a reply out of a participant, on real tables: nothing that tells of few rows leaves."""

import json
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

import intarsia
from intarsia import ReleasePolicy
from intarsia.exceptions import ReleaseError, TooFewRowsError
from intarsia.participant import Participant
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import STEPS, Context, Pipeline, check_rows, mapped
from intarsia.privacy.policy import OPEN
from intarsia.protocol import (
    Columns,
    Describe,
    Failure,
    Label,
    Labelled,
    decode_reply,
    encode,
)
from intarsia.protocol.catalogue import rows_behind
from intarsia.tables.frame import read_table
from tests.privacy.cases import blobs, check_not_subtractable, participant_with, refine, summarize


def test_covariances_have_few_parameters_unless_the_policy_allows_any():
    request = summarize(density="gaussian_full", n_local_clusters=2, n_clusters=2)
    table = blobs([12, 12], d=6)
    strict = participant_with(table).handle(request).densities[0]
    assert strict.parts["covariance"].ndim == 1
    loose = participant_with(table, ReleasePolicy(allow_any_covariance=True)).handle(request).densities[0]
    assert loose.parts["covariance"].ndim == 2


def test_each_reply_is_in_the_journal_also_after_a_line_was_cut_off(tmp_path):
    path = tmp_path / "released.jsonl"
    participant = participant_with(blobs([30, 3, 40]), None, Journal(path))
    reply = participant.handle(summarize())
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
    again = participant_with(blobs([30, 3, 40]), None, Journal(path))
    again.handle(summarize())
    assert len(list(Journal(path).entries("left"))) == 1


def test_counts_are_rounded_down():
    participant = participant_with(blobs([33, 48]), ReleasePolicy(round_counts_to=5))
    reply = participant.handle(summarize(n_local_clusters=2))
    assert (reply.n_rows, sorted(reply.sizes.tolist())) == (80, [30, 45])
    assert participant.handle(Describe(scale="standard")).moments.count.tolist() == [80, 80]


def test_rounding_does_not_make_a_cluster_too_small():
    """Seven rows are enough where five are required, also if they are told as four."""
    reply = participant_with(blobs([33, 7]), ReleasePolicy(round_counts_to=4)).handle(summarize(n_local_clusters=2))
    assert sorted(reply.sizes.tolist()) == [4, 32]


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
    table = blobs([n for n in sizes if n], seed=seed)
    rng = np.random.default_rng(seed)
    table["x1"] = np.where(rng.random(len(table["x1"])) < empty, np.nan, table["x1"])
    policy = ReleasePolicy(min_cluster_size=fewest, small=small)
    try:
        participant = participant_with(table, policy)
    except TooFewRowsError:
        return
    d = len(participant.handle(Describe()).features)
    units = Columns(np.zeros(d), np.ones(d))
    requests = [
        Describe(scale="standard"),
        summarize(n_local_clusters=None, columns=units),
        summarize(n_local_clusters=min(3, sum(sizes)), density="gaussian_full", scale="standard"),
        refine([0.0, 20.0, 40.0], d)[0],
        Label(centres=refine([0.0, 20.0, 40.0], d)[1]),
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
                check_not_subtractable(part, participant.handle(Describe(scale="standard")).moments.count, fewest)
        if hasattr(reply, "sizes"):
            assert all(n == 0 or n >= fewest for n in reply.sizes)
            left = len(table["x0"]) - int(reply.sizes.sum())
            assert left == 0 or left >= fewest or len(reply.sizes[reply.sizes > 0]) == 0


@pytest.mark.parametrize("method", ["federated", "one_shot"])
def test_a_run_under_a_policy(method, tmp_path):
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
    assert any(s.what == "something" for s in data.suppressed)
    assert "What release rules suppressed" in ruled.report(tmp_path / "r.html").read_text()
    ruled.save(tmp_path / "s.intarsia")
    assert intarsia.load(tmp_path / "s.intarsia").run == ruled.run


def test_policies_can_differ_by_participant():
    tables = {name: blobs([20, 3], seed=k) for k, name in enumerate("ab")}
    result = intarsia.cluster(tables, 2, random_state=0, n_local_clusters=2, release={"a": ReleasePolicy()}, scale=None)
    counts = {name: sum(c.participant == name for c in result.local_clusters) for name in "ab"}
    assert counts == {"a": 1, "b": 2}


def test_the_last_check_stops_what_other_steps_overlooked():
    context = Context(ReleasePolicy(), Describe())
    with pytest.raises(ReleaseError, match="reply.labelled"):
        check_rows(context, Labelled(sizes=np.array([3, 50])))


def test_units_never_tell_of_the_largest_value():
    """Bisection by the scale: whether a cell is too large for the units must not be an answer."""
    column = np.concatenate([np.arange(40.0), [77.25]])
    participant = participant_with({"x": column, "y": np.zeros(41)}, ReleasePolicy(max_rounds=None))
    for scale in (60e-100, 77e-100, 78e-100, 1e-100, 1.0):
        units = Columns(np.zeros(2), np.array([scale, 1.0]))
        reply = participant.handle(summarize(columns=units, n_clusters=2, n_local_clusters=2))
        assert not isinstance(reply, Failure)
        assert np.isfinite(reply.values).all()


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
def test_failures_contain_no_number_of_rows(local, missing, empty):
    table = blobs([40, 37])
    if empty:
        table["x0"], table["x1"] = (np.where(np.arange(77) % 2 == k, np.nan, table[f"x{k}"]) for k in (0, 1))
    request = summarize(n_clusters=99, n_local_clusters=99)
    said = participant_with(table, ReleasePolicy(round_counts_to=5), local=local, missing=missing).handle(request)
    assert isinstance(said, Failure)
    assert not re.search("77|0[.][0-9]|[0-9]%|3[789]", said.message), said.message
    if not empty or missing == "drop":
        assert "77" in participant_with(table, OPEN, local=local, missing=missing).handle(request).message


def test_noise_on_every_reply_is_one_step():
    """The step knows no message: it changes every field that is computed from rows and is not a count."""

    def noisy(_, reply):
        def change(part):
            fields = {
                name: getattr(part, name) + 1000.0
                for name, fact in part.facts().items()
                if isinstance(fact.rows, str) and not fact.is_count and isinstance(getattr(part, name), np.ndarray)
            }
            return msgspec.structs.replace(part, **fields) if fields else part

        return mapped(reply, change)

    at = STEPS.index(check_rows) + 1
    steps = [*STEPS[:at], noisy, *STEPS[at:]]
    table = read_table(blobs([30, 40]), "a")
    plain = Participant(table, pipeline=Pipeline(ReleasePolicy()))
    blurred = Participant(table, pipeline=Pipeline(ReleasePolicy(), steps=steps))
    request, sent = refine([0.0, 20.0])
    assert np.allclose(blurred.handle(request).refined[0].values, plain.handle(request).refined[0].values + 1000.0)
    described = [each.handle(Describe(scale="standard")).moments for each in (plain, blurred)]
    assert np.allclose(described[1].mean, described[0].mean + 1000.0)
    assert np.array_equal(described[1].count, described[0].count)
    labelled = [each.handle(Label(centres=sent)) for each in (plain, blurred)]
    assert np.allclose(labelled[1].squares, labelled[0].squares + 1000.0)
    assert labelled[1].sizes.tolist() == [30, 40]
