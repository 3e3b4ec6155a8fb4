"""Peers that mean harm: whatever they send is refused with a reason, or changes nothing that it should not.

INTARSIA_HOSTILE=1000000 makes a long run of it.
"""

from __future__ import annotations

import os
import re
import time
import tracemalloc
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import intarsia
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.coordinator.contract import Step
from intarsia.coordinator.feasibility import ColumnsQuestion
from intarsia.coordinator.previous import PreviousModel
from intarsia.coordinator.secure import SecureAlgorithm
from intarsia.coordinator.sharing import SharingAlgorithm
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import FeatureNameWarning, IntarsiaError, ProtocolError
from intarsia.federation import pages, site
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site import Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.participant import Participant
from intarsia.participant.copies import keep_model
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.secure import SecureParticipant
from intarsia.participant.vault import new_credentials
from intarsia.privacy.budget import Account
from intarsia.privacy.journal import Journal
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import OPEN, ReleasePolicy
from intarsia.private.algorithm import PrivateAlgorithm
from intarsia.protocol import (
    Assign,
    Centres,
    Describe,
    Failure,
    KeepModel,
    Label,
    Labelled,
    LocalSummary,
    MeasureStability,
    Refine,
    Refinement,
    Summarize,
    decode_reply,
    decode_request,
    encode,
    phase_of,
    tag_of,
)
from intarsia.protocol.catalogue import exchanges, fields_of, rows_behind
from intarsia.protocol.parts import most_centres
from intarsia.results.outcome import RunRecord
from intarsia.results.stored import stored_from
from intarsia.results.stored_checks import problems_of
from intarsia.runtime.drive import exception_of
from intarsia.runtime.recorder import Recorder
from intarsia.tables.frame import read_table
from intarsia.tables.open import open_table
from tests.hostile import Hostile

COUNT, BATCHES = int(os.environ.get("INTARSIA_HOSTILE", "10000")), 4
EVERY = 80  # replies that were let in, one run goes on to its end
FEWEST = 5
SEED = int(os.environ.get("INTARSIA_HOSTILE_SEED", "0"))
NUMBER = re.compile(
    r"\d\.\d{3}|\d{5}(?!\d* (?:centroids|local clusters|global clusters|sets))(?!\d*; this installation)"
)
LONGEST, LARGEST = (
    30.0,
    200e6,
)  # seconds of a processor and bytes that one message may take; itself it is far smaller
MOST_TEXT = 10_000  # letters of an error


def tables(shares=False):
    rng = np.random.default_rng(0)
    far = 9.0 * (np.arange(24) % 2)
    who = {"alpha": "xy", "beta": "yz", "gamma": "xyz"}
    if shares:
        return {name: dict(zip("xyz", _shares(rng, far).T, strict=True)) for name in who}
    found = {name: {c: rng.normal(size=24) + far for c in columns} for name, columns in who.items()}
    found["gamma"]["sex"] = np.where(rng.random(24) < 0.5, "f", "m").tolist()
    found["beta"]["sex"] = np.where(rng.random(24) < 0.5, "f", "d").tolist()
    found["beta"]["z"][:3] = np.nan
    return found


def _shares(rng, far):
    alpha = np.where(far[:, None] > 0, [9.0, 2.0, 1.0], [1.0, 2.0, 9.0])
    drawn = rng.gamma(alpha)
    return drawn / drawn.sum(axis=1, keepdims=True)


def previous():
    """A model of other rows, in which one cluster is gone."""
    moved = {
        name: {c: np.array(x) * 1.1 if c in "xyz" else x for c, x in table.items()} for name, table in tables().items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FeatureNameWarning)  # two participants have other levels of sex
        first = intarsia.cluster(moved, 3, scale="standard", random_state=0)
    return PreviousModel.of(first.global_model, "before")


ALGORITHMS = {
    "federated": FederatedAlgorithm(n_clusters=2, scale="standard", n_starts=2, max_rounds=3, stability=True),
    "auto": FederatedAlgorithm(n_clusters=None, scale="robust", n_starts=2, max_rounds=2, model="mixture"),
    "one_shot": OneShotAlgorithm(
        n_clusters=2, scale="minmax", n_starts=2, bounding_boxes=True, fidelity=True, labels="local"
    ),
    "one_shot_auto": OneShotAlgorithm(n_clusters=None, scale="standard", n_starts=2, n_proxies=10, force="sampled"),
    "discrete": OneShotAlgorithm(n_clusters=2, n_starts=2, density="discrete", n_proxies=10, labels="local"),
    "likeliest": OneShotAlgorithm(n_clusters=2, scale="standard", n_starts=2, model="mixture"),
    "dirichlet": OneShotAlgorithm(n_clusters=2, n_starts=2, density="dirichlet", n_proxies=10),
    "private": PrivateAlgorithm(
        FederatedAlgorithm(n_clusters=2, scale="standard", n_starts=2, max_rounds=2),
        DifferentialPrivacy(4, bounds=dict.fromkeys("xyz", (-4, 13)), levels={"sex": ["d", "f", "m"]}),
    ),
    "secure": SecureAlgorithm(FederatedAlgorithm(n_clusters=2, scale="standard", n_starts=2, max_rounds=2)),
}
ALGORITHMS["sharing"] = SharingAlgorithm(OneShotAlgorithm(n_clusters=2, scale="standard", n_starts=2))
ALGORITHMS["repeat"] = FederatedAlgorithm(
    n_clusters=None, scale="standard", n_starts=2, max_rounds=2, model="mixture", previous=previous()
)


class AfterColumns:
    """A run before which participants are asked for their columns; here, the first refusal ends it."""

    def __init__(self, inner):
        self._inner = inner

    def start(self, participants):
        return Step(participants, ColumnsQuestion().requests(participants))

    def advance(self, state, replies):
        if not isinstance(state, tuple):
            return self._inner.advance(state, replies)
        for why in ColumnsQuestion().told(replies, {}).refused.values():
            raise ProtocolError(why)
        return self._inner.start(state)


ALGORITHMS["federated"] = AfterColumns(ALGORITHMS["federated"])
CREDENTIALS = new_credentials(("alpha", "beta", "gamma"))


@dataclass
class Moment:
    """A point in a run: what was asked, and what honest participants answered."""

    algorithm: Any
    phase: str
    state: Any
    requests: dict[str, bytes]
    replies: dict[str, bytes]
    answering: dict[str, Participant]


class Repeatable:
    """Noise that is the same whenever the test runs."""

    def __init__(self):
        self._rng = np.random.default_rng(SEED)

    def draw(self, n, sensitivity, rho):
        return np.rint(self._rng.normal(size=n) * sensitivity / np.sqrt(2 * rho)).astype(np.int64)


def participant(table, algorithm):
    if isinstance(algorithm, PrivateAlgorithm):
        account = Account.of(algorithm.privacy, algorithm.rounds)
        account.noise = Repeatable()
        return PrivateParticipant(table.hold(declared=algorithm.privacy), algorithm.privacy, account)
    plain = Participant(table.hold(), pipeline=Pipeline(OPEN))
    if not isinstance(algorithm, SecureAlgorithm):
        return plain
    return SecureParticipant(plain, CREDENTIALS[table.owner], algorithm.terms(table.owner))


def answer(who, request):
    return keep_model(who, request, None, len) if isinstance(request, KeepModel) else who.handle(request)


@pytest.fixture(scope="module")
def moments():
    found = []
    for name, algorithm in ALGORITHMS.items():
        answering = {
            who: participant(open_table(columns, who), algorithm)
            for who, columns in tables(shares=name == "dirichlet").items()
        }
        step = algorithm.start(tuple(answering))
        while step.result is None:
            replies = {who: encode(answer(answering[who], request)) for who, request in step.requests.items()}
            phase = phase_of(next(iter(step.requests.values())))
            asked = {who: encode(request) for who, request in step.requests.items()}
            found.append(Moment(algorithm, phase, step.state, asked, replies, answering))
            step = algorithm.advance(step.state, {who: decode_reply(raw) for who, raw in replies.items()})
    return found


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Participants in their kits, with the usual rules: some cluster as usual, others quickly."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)  # a disk that is asked ten thousand times to be sure takes minutes
        patch.setattr(pages, "write_site_page", lambda *_: None)  # tests/federation/test_pages.py looks at it
        patch.setattr(site, "terms_for", lambda *_: None)  # the limits that hold whatever a study says
        for who, columns in tables().items():
            for how, local in (("usual", None), ("quick", "KMeans(n_clusters=2, n_init=1)")):
                kit = tmp_path_factory.mktemp("kit")
                (kit / "local").mkdir()
                pl.DataFrame(columns).fill_nan(None).write_csv(kit / "data.csv")
                missing = "observed" if local is None else "impute"
                release = ReleasePolicy(FEWEST, max_rounds=None)
                settings = LocalSettings(str(kit / "data.csv"), local=local, missing=missing, release=release)
                write_settings(kit / "local", settings)
                write_study(kit, Study("s", ("alpha",)))
                found[who, how] = Site(who, kit, "0" * 16)
        yield found


def taken(moment, who, raw):
    """What the coordinator does with a reply: decode, write down, decide."""
    recorder = Recorder()
    recorder.asking(moment.phase, {}, None)
    try:
        reply = decode_reply(raw)
    except ProtocolError as error:
        raise ProtocolError(f"participant {who!r}: {error}") from None  # the runtime knows who sent it
    recorder.answered(moment.phase, who, reply, 0.1)
    encode(reply)
    if isinstance(reply, Failure):
        raise exception_of(reply)
    replies = {name: decode_reply(genuine) for name, genuine in moment.replies.items()} | {who: reply}
    return moment.algorithm.advance(moment.state, replies)


def whole(moment, step, sizes=()):
    """The run to its end, everybody honest from here on; a model that can be saved."""
    while step.result is None:
        asked = {name: decode_request(encode(request)) for name, request in step.requests.items()}
        replies = {name: answer(moment.answering[name], request) for name, request in asked.items()}
        for name, reply in replies.items():
            if isinstance(reply, Failure):
                raise exception_of(reply) from moment.answering[name].last_error
        step = moment.algorithm.advance(step.state, replies)
    model = step.result.model
    assert np.isfinite(model.centroids.values).all()
    record = RunRecord("federated", {}, 0, {}, "", 0.0)
    assert list(problems_of(stored_from(step.result, model.space.names, record, None, None, numbered=False))) == []


def bounded(function, *arguments):
    """Call, within the time that one message may take."""
    started = time.process_time()  # of a machine that also does something else
    try:
        return function(*arguments)
    finally:
        assert time.process_time() - started < LONGEST


def says_who_and_no_value(who, error):
    text = str(error)
    assert len(text) <= MOST_TEXT
    assert not NUMBER.search(text), text
    assert all(c.isprintable() for c in text)
    if isinstance(error, ProtocolError) and "of all participants together" not in text:  # masks hide whose it is
        assert who in text, text


@contextmanager
def little_memory():
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LARGEST
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", range(BATCHES))
def test_hostile_replies_are_refused_by_name_or_harmless(moments, seed):
    hostile, accepted, refused = Hostile([seed, 1]), Counter(), Counter()
    others = [raw for moment in moments for raw in moment.replies.values()]
    others += [encode(Failure(error="InputError", message="no")), encode(Failure(error="SystemExit", message=""))]
    for _ in range(COUNT // BATCHES):
        moment = hostile.pick(moments)
        who = hostile.pick(list(moment.replies))
        raw = hostile.message(moment.replies[who], others)
        try:
            step = bounded(taken, moment, who, raw)
            accepted[moment.phase] += 1
            if sum(accepted.values()) % EVERY == 0:
                bounded(whole, moment, step)
        except IntarsiaError as error:
            refused[moment.phase] += 1
            says_who_and_no_value(who, error)
    assert min(refused[exchange.phase] for exchange in exchanges()) > 0
    assert sum(accepted.values()) > COUNT // BATCHES // 50  # a test in which nothing gets in shows little


@pytest.mark.parametrize("seed", range(BATCHES))
def test_hostile_requests_are_refused_with_a_reason_or_answered_by_the_rules(moments, sites, seed):
    hostile, answered = Hostile([seed, 2]), Counter()
    others = [raw for moment in moments for raw in moment.requests.values()]
    for _ in range(COUNT // BATCHES):
        moment = hostile.pick(moments)
        who, how = hostile.pick(list(moment.requests)), hostile.pick(["quick"] * 15 + ["usual"])
        site = sites[who, how]
        sent = hostile.message(moment.requests[who], others)
        reply = bounded(site.answer, sent)
        assert decode_reply(encode(reply)) is not None
        if isinstance(reply, Failure):
            assert reply.message
            assert "failed with a" not in reply.message, site._participant.last_error  # nothing that nobody thought of
            says_who_and_no_value(who, exception_of(reply))
            continue
        answered[tag_of(decode_request(sent))] += 1
        there = {held.path for held in fields_of(reply) if held.entries}
        assert all(rows >= FEWEST for path, rows in rows_behind(reply).items() if path in there)
        for part in getattr(reply, "refined", (reply,)):
            told = [getattr(part, name, None) for name in ("values", "counts", "squares", "misfit")]
            assert all(np.isfinite(numbers).all() for numbers in told if numbers is not None)
    assert set(answered) - {tag_of(KeepModel)} == {tag_of(kind) for kind in Participant.handlers}


def test_messages_that_claim_a_gigabyte_take_little_memory(moments, sites):
    hostile = Hostile(3)
    with little_memory():
        for moment in moments:
            who = hostile.pick(list(moment.replies))
            for _ in range(5):
                with suppress(IntarsiaError):
                    bounded(taken, moment, who, hostile.bomb(moment.replies[who]))
                assert isinstance(bounded(sites[who, "quick"].answer, hostile.bomb(moment.requests[who])), Failure)


def changed(message, **fields):
    return msgspec.structs.replace(message, **fields)


def asked_of(moments, who, kind):
    """Some honest request of a kind."""
    return next(r for m in moments for r in [decode_request(m.requests[who])] if isinstance(r, kind))


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (Summarize, {"n_local_clusters": 2**60}, "between 1 and 1000"),
        (Summarize, {"n_local_clusters": -1}, "between 1 and 1000"),
        (Summarize, {"n_local_clusters": None, "n_clusters": None, "max_local_clusters": 2**40}, "between 1 and 1000"),
        (Summarize, {"n_local_clusters": None, "n_clusters": 2**62}, "between 1 and 1000"),
        (Summarize, {"seed": -1}, "seed"),
        (Summarize, {"density": "row"}, "density"),
        (Summarize, {"scale": "rows"}, "scale"),
        (Describe, {"scale": "rows"}, "scale"),
        (Refine, {"min_points": -5}, "min_points"),
        (Refine, {"max_iter": 0}, "max_iter"),
        (Refine, {"round": -1}, "round"),
        (Refine, {"seed": -(2**63)}, "seed"),
        (Refine, {"rivals": ()}, "sets"),
        (MeasureStability, {"seed": -1}, "seed"),
        (Assign, {"groups": np.array([0, 1]), "n_groups": 2**62}, "below n_groups"),
    ],
)
def test_what_no_coordinator_asks_for_is_refused_in_words(moments, sites, kind, fields, why):
    site = sites["gamma", "usual"]
    site.answer(encode(changed(asked_of(moments, "gamma", Summarize), n_local_clusters=2)))  # two clusters to speak of
    reply = site.answer(encode(changed(asked_of(moments, "gamma", kind), **fields)))
    assert isinstance(reply, Failure)
    assert reply.error == "ProtocolError"
    assert why in reply.message
    assert "gamma" in reply.message


@pytest.mark.parametrize("fields", [{"seed": 2**63 - 1}, {"n_proxies": 2**40}, {"max_local_clusters": 1000}])
def test_what_is_merely_large_is_answered_in_bounds(moments, sites, fields):
    with little_memory():
        reply = bounded(
            sites["gamma", "usual"].answer, encode(changed(asked_of(moments, "gamma", Summarize), **fields))
        )
    assert isinstance(reply, LocalSummary)
    refine = changed(asked_of(moments, "gamma", Refine), max_iter=2**62, round=2**40, seed=2**62)
    assert isinstance(bounded(sites["gamma", "usual"].answer, encode(refine)), Refinement)


def test_more_centroids_than_rows_can_be_compared_with_are_refused_before_anything_is_computed(moments, sites):
    label = asked_of(moments, "gamma", Label)
    d = label.centres.values.shape[1]
    many = np.zeros((20_000, d))
    centres = changed(label.centres, values=many, known=many == 0)
    with little_memory():
        reply = sites["gamma", "usual"].answer(encode(changed(label, centres=centres, gaussians=None)))
    assert reply.error == "ProtocolError"
    assert "at most 1000 centroids" in reply.message
    assert most_centres(10**7) == 107


def test_replies_of_strangers_of_nobody_and_under_another_name_are_refused(moments):
    for moment in moments:
        if moment.phase == "columns":
            continue  # no algorithm gets these: the controller reads the replies of those that it asked
        honest = {name: decode_reply(raw) for name, raw in moment.replies.items()}
        for wrong in (
            *([] if moment.phase == "keep_model" else [{}]),  # a result does not wait for copies
            honest | {"mallory": honest["beta"]},
            {"mallory" if name == "beta" else name: reply for name, reply in honest.items()},
        ):
            with pytest.raises(ProtocolError, match="expected from"):
                moment.algorithm.advance(moment.state, wrong)


def lies_about(moments, phase, who, change):
    moment = next(m for m in moments if m.phase == phase)
    honest = {name: decode_reply(raw) for name, raw in moment.replies.items()}
    return moment.algorithm.advance(moment.state, honest | {who: change(honest[who])})


def test_nobody_has_more_rows_or_cells_than_it_said(moments):
    """Counts are weights: with huge ones a single participant would decide alone."""

    def heavier(reply):
        part = reply.refined[0]
        return changed(reply, refined=(changed(part, sizes=part.sizes * 10**6, counts=part.counts * 1e6),))

    def more_cells(reply):
        return changed(reply, refined=(changed(reply.refined[0], counts=reply.refined[0].counts * 2),))

    for phase, change in (
        ("refine", heavier),
        ("refine", more_cells),
        ("label", lambda reply: changed(reply, sizes=reply.sizes + 1000)),
        ("label", lambda reply: changed(reply, counts=reply.counts * 1e6)),
        ("assign", lambda reply: changed(reply, sizes=reply.sizes * 10**9)),
        ("stability", lambda reply: changed(reply, scores=reply.scores + 1.5)),
        ("stability", lambda reply: changed(reply, scores=np.full(3, 0.5))),
        ("stability", lambda reply: changed(reply, scores=np.full(2, np.inf))),
        ("describe", lambda reply: changed(reply, moments=changed(reply.moments, count=reply.moments.count * 1e6))),
    ):
        with pytest.raises(ProtocolError, match="'gamma'"):
            lies_about(moments, phase, "gamma", change)


def test_names_are_checked(moments):
    for change in (
        lambda reply: changed(reply, features=(" ", *reply.features[1:])),
        lambda reply: changed(reply, features=(*reply.features[:-1], "z" * 2000)),
    ):
        with pytest.raises(ProtocolError, match="'gamma'"):
            lies_about(moments, "describe", "gamma", change)


def test_a_failure_with_a_text_without_end_is_no_message():
    with pytest.raises(ProtocolError, match="longer than 10000 letters"):
        decode_reply(encode(Failure(error="InputError", message="x" * 20_000)))


def test_somebody_with_a_thousand_clusters_is_the_most_that_is_grouped(moments):
    moment = next(m for m in moments if isinstance(m.algorithm, OneShotAlgorithm) and m.phase == "summarize")
    honest = {name: decode_reply(raw) for name, raw in moment.replies.items()}
    reply, many = honest["alpha"], np.arange(2000) % 2
    wide = {name: getattr(reply, name)[many] for name in ("values", "counts", "sizes", "low", "high", "fidelity")}
    densities = tuple(reply.densities[k] for k in many)
    lie = changed(reply, n_rows=10**6, filled=reply.filled * 0 + 10**6, densities=densities, **wide)
    with pytest.raises(ProtocolError, match="'alpha'.*at most 1000"):
        moment.algorithm.advance(moment.state, honest | {"alpha": lie})


def test_no_sum_of_squares_tells_of_a_single_row():
    """A centroid beside a lone row, moved a little: the change of the misfit would say where the row is."""
    rng = np.random.default_rng(0)
    column = np.concatenate([rng.normal(size=30), [50.0]])
    asked = Participant(read_table({"x": column, "y": column}, "a"), pipeline=Pipeline(ReleasePolicy()))

    def misfit(place):
        values = np.array([[0.0, 0.0], [place, place]])
        sent = Centres(values, np.ones((2, 2), dtype=bool), np.zeros(2), np.full(2, 60.0))
        return asked.handle(Refine(seed=0, round=1, rivals=(sent,), min_points=1, max_iter=1)).refined[0].misfit

    assert misfit(45.0) == misfit(49.0) == misfit(50.0)
    asked = Participant(read_table({"x": column, "y": column}, "a"))
    assert misfit(45.0) != misfit(49.0)  # so it would have told


def test_nobody_can_ask_for_label_after_label_where_rounds_are_counted(tmp_path):
    """Sizes for any cut through the rows, as often as one likes, would place every row."""
    rng = np.random.default_rng(0)
    table = read_table({"x": rng.normal(size=60), "y": rng.normal(size=60)}, "a")

    def label(place):
        values = np.array([[-1.0, 0.0], [place, 0.0]])
        return Label(centres=Centres(values, np.ones((2, 2), dtype=bool), np.full(2, -3.0), np.full(2, 3.0)))

    journal = Journal(tmp_path / "journal")
    asked = Participant(table, pipeline=Pipeline(ReleasePolicy(max_rounds=6), journal))
    kinds = [type(asked.handle(label(k / 10))).__name__ for k in range(8)]
    assert kinds == ["Labelled"] * 6 + ["Failure"] * 2
    again = Participant(table, pipeline=Pipeline(ReleasePolicy(max_rounds=6), journal))
    assert isinstance(again.handle(label(0.3)), Labelled)  # the same question is not another one
    assert again.handle(label(0.9)).error == "ReleaseError"
