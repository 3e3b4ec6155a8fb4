"""A participant answers its study and nothing else; what it refuses, it refuses before any row is read."""

from dataclasses import fields, replace

import numpy as np
import pytest
from msgspec.structs import replace as changed

from intarsia import ReleasePolicy
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.core.rows import ArrayRows
from intarsia.core.units import MISMATCH
from intarsia.participant import Participant
from intarsia.privacy.journal import ASKED, REFUSED, Journal
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.policy import OPEN
from intarsia.protocol import (
    AskColumns,
    Assign,
    Centres,
    Columns,
    Describe,
    Failure,
    Gaussians,
    Label,
    MeasureStability,
    Refine,
    Request,
    StudyTerms,
)
from intarsia.protocol.catalogue import requests
from intarsia.protocol.parts import MOST_APART
from intarsia.protocol.terms import meaning_of_term
from intarsia.runtime.drive import drive
from intarsia.runtime.in_process import InProcessRuntime, WireRuntime
from intarsia.tables.frame import read_table
from intarsia.tables.in_memory import MemoryRows, MemoryTable
from tests.privacy.cases import blobs, summarize

ROUNDS = FederatedAlgorithm(n_clusters=2, scale="standard", n_rivals=1, max_rounds=6).terms("a")
AUTO = FederatedAlgorithm(n_clusters=None, scale="standard").terms("a")
ONE_SHOT = OneShotAlgorithm(n_clusters=2, density="gaussian_diagonal").terms("a")
GROUPED = OneShotAlgorithm(n_clusters=2, density="gaussian_diagonal", labels="local").terms("a")
TABLE = blobs([40, 40])
UNITS = Columns(np.full(2, 10.0), np.full(2, 10.0))


def participant(terms=None, policy=OPEN, journal=None, table=TABLE):
    return Participant(read_table(table, "a"), pipeline=Pipeline(policy, journal, terms=terms))


def centres(k=2, at=0.0):
    values = np.linspace(-1.0 + at, 1.0 + at, 2 * k).reshape(k, 2)
    return Centres(values, np.ones((k, 2), dtype=bool), np.full(2, -2.0), np.full(2, 2.0))


def refine(*sets, round_=1, columns=UNITS, **more):
    asked = {"seed": 0, "min_points": 1, "max_iter": 1} | more
    return Refine(round=round_, rivals=sets or (centres(),), columns=columns, **asked)


def summary(**more):
    return summarize(**{"n_clusters": 2, "n_local_clusters": None, "max_local_clusters": 2, "columns": UNITS} | more)


def one_shot_summary(**more):
    return summary(**{"columns": None, "density": "gaussian_diagonal"} | more)


def gaussians():
    part = np.ones((2, 2))
    return Gaussians(part, part, part.astype(bool), np.full(2, 0.5), np.zeros(2), np.ones(2))


def stability(**more):
    return MeasureStability(**{"seed": 0, "centres": centres(), "columns": UNITS} | more)


ATTACKS = {
    "rounds in a one-shot study": (ONE_SHOT, refine(columns=None), "round is 1, and the study says 'no rounds'"),
    "more rounds": (ROUNDS, refine(round_=7), "round is 7, and the study says '1 to 6'"),
    "round 0": (ROUNDS, refine(round_=0), "round is 0"),
    "40 centroids": (ROUNDS, refine(centres(40)), "n_clusters is 40, and the study says 2"),
    "40 centroids to label by": (ROUNDS, Label(centres=centres(40), columns=UNITS), "n_clusters is 40"),
    "101 centroids where K is chosen": (AUTO, refine(centres(101)), "n_clusters is 101, and the study says '1 to 100'"),
    "more rivals": (ROUNDS, refine(*map(centres, (2, 2, 2))), "n_rivals in round 1 is 2, and the study says 1"),
    "rivals after the trials": (ROUNDS, refine(centres(), centres(at=0.5), round_=5), "n_rivals in round 5 is 1"),
    "another seed": (ROUNDS, summary(seed=7), "seed is 7, and the study says 0"),
    "another seed in a round": (ROUNDS, refine(seed=7), "seed is 7, and the study says 0"),
    "local clusters by the silhouette": (
        ROUNDS,
        summary(n_local_clusters="silhouette"),
        "n_local_clusters is 'silhouette', and the study says 'auto'",
    ),
    "50 local clusters": (ROUNDS, summary(n_local_clusters=50), "n_local_clusters is 50, and the study says 'auto'"),
    "50 local clusters at most": (ROUNDS, summary(max_local_clusters=50), "max_local_clusters is 50"),
    "K to be chosen": (ROUNDS, summary(n_clusters=None), "n_clusters is 'auto', and the study says 2"),
    "densities": (ROUNDS, summary(density="gaussian"), "density is 'gaussian', and the study says 'none'"),
    "another density": (ONE_SHOT, one_shot_summary(density="gaussian_full"), "density is 'gaussian_full'"),
    "densities without shrinkage": (ONE_SHOT, one_shot_summary(shrink=False), "shrink is False"),
    "proxies": (ONE_SHOT, one_shot_summary(n_proxies=5), "n_proxies is 5, and the study says 0"),
    "bounding boxes": (ONE_SHOT, one_shot_summary(bounding_boxes=True), "bounding_boxes is True"),
    "units in one shot": (ONE_SHOT, one_shot_summary(columns=UNITS), "columns is 'common units'"),
    "other moments": (ROUNDS, Describe(scale="minmax"), "scale is 'minmax', and the study says 'standard'"),
    "iterations": (ROUNDS, refine(max_iter=9), "local_iterations is 9, and the study says 1"),
    "min_points": (ROUNDS, refine(min_points=3), "min_points is 3, and the study says 1"),
    "crosswise": (replace(ROUNDS, crosswise=False), refine(crosswise=True), "crosswise is True"),
    "groups in rounds": (ROUNDS, Assign(groups=np.array([0, 1]), n_groups=2), "labels_by is"),
    "stability": (ROUNDS, stability(), "stability is True, and the study says False"),
    "stability with another seed": (replace(ROUNDS, stability=True), stability(seed=7), "seed is 7"),
    "stability of 40 clusters": (replace(ROUNDS, stability=True), stability(centres=centres(40)), "n_clusters is 40"),
    "stability after one shot": (ONE_SHOT, stability(columns=None), "stability is True, and the study says False"),
    "columns": (ROUNDS, AskColumns(), "feasibility is True, and the study says False"),
    "Gaussians": (ROUNDS, Label(centres=centres(), gaussians=gaussians(), columns=UNITS), "labels_by is"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_answered_without_terms_and_refused_with_them_before_any_row_is_read(name, tmp_path, monkeypatch):
    terms, request, why = ATTACKS[name]
    before = summary() if terms.in_rounds else one_shot_summary()
    free = participant()
    assert not isinstance(free.handle(before), Failure)
    assert not isinstance(free.handle(request), Failure)
    journal = Journal(tmp_path / "releases.jsonl")
    bound = participant(terms, journal=journal)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryTable, "rows", _must_not_be_read)
        refused = bound.handle(request)
    assert (refused.error, "does not ask this" in refused.message) == ("ReleaseError", True)
    assert why in refused.message
    (line,) = journal.entries(REFUSED)
    assert why in line["why"]
    assert not list(journal.entries(ASKED))  # it counts for nothing: the study can still be answered
    if terms is not AUTO:
        assert not isinstance(bound.handle(before), Failure)


def _must_not_be_read(*_, **__):
    raise AssertionError("rows were read")


@pytest.mark.parametrize("restarted", [False, True])
def test_each_place_in_a_run_is_answered_once_and_the_same_request_again(restarted, tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    first = participant(ROUNDS, journal=journal)
    asked = [summary(), refine(), refine(round_=2), Label(centres=centres(), columns=UNITS)]
    for request in (*asked, *asked):
        assert not isinstance(first.handle(request), Failure)
    again = participant(ROUNDS, journal=journal) if restarted else first
    for other, what in (
        (refine(centres(at=0.1)), "round 1"),
        (Label(centres=centres(at=0.1), columns=UNITS), "labels"),
    ):
        assert f"{what}: another such request was answered" in again.handle(other).message
        assert "another such request" not in getattr(participant().handle(other), "message", "")
    for request in asked:
        assert not isinstance(again.handle(request), Failure)
    assert not isinstance(again.handle(refine(round_=3)), Failure)


@pytest.mark.parametrize("restarted", [False, True])
def test_k_units_and_levels_are_the_same_in_all_requests_of_a_run(restarted, tmp_path):
    journal = Journal(tmp_path / "releases.jsonl")
    first = participant(AUTO, journal=journal)
    chosen = summary(n_clusters=None, max_local_clusters=20, density="gaussian_diagonal")
    for request in (Describe(scale="standard"), chosen, summary()):
        assert not isinstance(first.handle(request), Failure)
    again = participant(AUTO, journal=journal) if restarted else first
    other_units = Columns(UNITS.shift, UNITS.scale * 1.001)
    assert "n_clusters: not the same" in again.handle(refine(centres(3))).message
    assert "columns: not the same" in again.handle(refine(columns=other_units)).message
    assert "columns: not the same" in again.handle(refine(columns=None)).message
    assert "columns: not the same" in again.handle(Label(centres=centres(), columns=other_units)).message
    assert not isinstance(again.handle(refine()), Failure)


def test_no_units_are_the_units_of_the_table(tmp_path):
    """Participants with categories that join later change how the same layout is written, not what it is."""
    same = participant(replace(ROUNDS, scale=None))
    assert not isinstance(same.handle(summary(columns=None)), Failure)
    assert not isinstance(same.handle(refine(columns=Columns(np.zeros(2), np.ones(2)))), Failure)


@pytest.mark.parametrize(
    ("shift", "scale"), [([10, 10], [10, 1e60]), ([10, 10], [10, 1e-60]), ([10, 1e12], [10, 10]), ([10, 0], [10, 1e9])]
)
def test_units_that_the_own_table_does_not_explain_are_refused(shift, scale, monkeypatch):
    odd = summary(columns=Columns(np.array(shift, dtype=float), np.array(scale, dtype=float)))
    assert not isinstance(participant().handle(odd), Failure)
    monkeypatch.setattr(ArrayRows, "pieces", _must_not_be_read)
    monkeypatch.setattr(MemoryRows, "sample", _must_not_be_read)
    refused = participant(ROUNDS).handle(odd)
    assert (refused.error, "units of 1 feature(s) do not fit" in refused.message) == ("ReleaseError", True)


def test_without_a_scale_units_stay_as_they_are_and_levels_have_one_unit():
    table = TABLE | {"ward": ["u", "v"] * 40}
    levels = {"ward": ("u", "v", "w")}
    root = np.sqrt(2.0)
    good, shifted, stretched = (
        summary(columns=Columns(np.array([0, 0, 0, 0, shift]), np.array([ward, root, root, 1, unit]), levels))
        for ward, shift, unit in ((root, 0.0, 1.0), (root, 1.0, 1.0), (3.0, 0.0, 1.0))
    )
    replies = [
        participant(replace(ROUNDS, scale=None), table=table).handle(each) for each in (good, shifted, stretched)
    ]
    assert [isinstance(reply, Failure) for reply in replies] == [False, True, True]


def test_a_column_that_hardly_varies_here_may_vary_elsewhere():
    table = {"x": np.repeat(5.0, 80), "y": np.where(np.arange(80) == 0, 1e-4, 0.0), "z": 0.1 + np.zeros(80)}
    columns = Columns(np.array([900.0, 3.0, 7.0]), np.array([50.0, 1.0, 1e7]))
    assert not columns.implausible({"x": (5.0, 0.0), "y": (1e-6, 1e-5), "z": (0.1, 0.0)}, "standard")
    assert not isinstance(participant(ROUNDS, table=table).handle(summary(columns=columns)), Failure)
    assert columns.implausible({"x": (5.0, 50.0 / MOST_APART / 2), "y": (0.0, 1.0), "z": (0.1, 0.0)}, "standard") == [
        "x"
    ]


def test_all_places_of_a_mixture_and_of_a_one_shot_study():
    likeliest = participant(FederatedAlgorithm(2, model="mixture", scale="standard").terms("a"))
    label = Label(centres=centres(), columns=UNITS)
    with_gaussians = changed(label, gaussians=gaussians())
    for request in (label, with_gaussians):
        assert not isinstance(likeliest.handle(request), Failure)
    other = changed(with_gaussians, centres=centres(at=0.1))
    assert "labels by Gaussians: another" in likeliest.handle(other).message
    assign = Assign(groups=np.array([0, 1]), n_groups=2)
    nearest = participant(ONE_SHOT)
    nearest.handle(one_shot_summary())
    assert "labels_by is 'group of the local cluster'" in nearest.handle(assign).message
    assert "labels_by is 'likeliest Gaussian'" in nearest.handle(changed(with_gaussians, columns=None)).message
    assert not isinstance(nearest.handle(changed(label, columns=None, spread=False)), Failure)
    assert "labels: another" in nearest.handle(changed(label, columns=None)).message  # the spread is not told as well
    once = participant(GROUPED)
    once.handle(one_shot_summary())
    assert not isinstance(once.handle(assign), Failure)
    assert "labels: another" in once.handle(label).message  # a latecomer labels by centroids, nobody else
    late = participant(ONE_SHOT)
    for request in (Describe(), changed(label, columns=None)):
        assert not isinstance(late.handle(request), Failure)


@pytest.mark.parametrize("restarted", [False, True])
def test_stability_is_measured_once_and_of_the_centroids_that_rows_were_labelled_by(restarted, tmp_path):
    journal, terms = Journal(tmp_path / "releases.jsonl"), replace(ROUNDS, stability=True)
    first = participant(terms, journal=journal)
    assert not isinstance(first.handle(Label(centres=centres(), columns=UNITS)), Failure)
    again = participant(terms, journal=journal) if restarted else first
    assert "centroids: not the same" in again.handle(stability(centres=centres(at=0.1))).message
    assert "columns: not the same" in again.handle(stability(columns=None)).message
    told = again.handle(stability())
    np.testing.assert_array_equal(first.handle(stability()).scores, told.scores)  # the same again is the same answer
    once = participant(terms)  # which was not asked for labels
    assert not isinstance(once.handle(stability()), Failure)
    assert "stability: another such request was answered" in once.handle(stability(centres=centres(at=0.1))).message


def test_every_request_says_where_it_departs():
    assert all(kind.departures is not Request.departures for kind in requests())


def test_each_term_has_words_and_is_listed():
    listed = AUTO.listed()
    assert [*listed] == [field.name for field in fields(StudyTerms)]
    assert all(meaning_of_term(name) for name in listed)
    assert (listed["n_clusters"], listed["n_local_clusters"], listed["scale"]) == ("auto", "auto", "standard")


def test_a_participant_may_refuse_rivals_and_crosswise_rounds():
    strict = participant(ROUNDS, ReleasePolicy(max_rivals=0, allow_crosswise=False))
    assert "max_rivals" in strict.handle(refine(centres(), centres(at=0.5))).message
    assert "allow_crosswise" in strict.handle(refine(crosswise=True)).message
    assert not isinstance(strict.handle(refine()), Failure)


@pytest.mark.parametrize("runtime", [InProcessRuntime, WireRuntime])
@pytest.mark.parametrize(
    "algorithm",
    [
        FederatedAlgorithm(n_clusters=2, scale="auto"),
        FederatedAlgorithm(n_clusters=2, scale="standard", refinement="plain", n_local_clusters=3, seed=5),
        FederatedAlgorithm(n_clusters=None, scale="standard", model="mixture", min_points=2, local_iterations=3),
        FederatedAlgorithm(n_clusters=2, max_rounds=0, scale="minmax"),
        OneShotAlgorithm(n_clusters=2, scale="robust", fidelity=True, bounding_boxes=True, force="sampled"),
        OneShotAlgorithm(n_clusters=None, scale=None),
        FederatedAlgorithm(n_clusters=2, scale="standard", stability=True),
        FederatedAlgorithm(n_clusters=2, scale="standard", model="mixture", stability=True),
        OneShotAlgorithm(n_clusters=2, scale="standard", stability=True),
    ],
)
def test_no_request_of_an_honest_run_is_refused(algorithm, runtime):
    names, rng = {"a": "uv", "b": "vw", "c": "wx", "d": "xu"}, np.random.default_rng(0)
    tables = {}
    for name, columns in names.items():
        side = 9.0 * (np.arange(60) % 2)
        tables[name] = {column: 10.0**k * (side + rng.normal(size=60)) for k, column in enumerate(columns)}
        tables[name]["ward"] = np.where(side > 0, "east", f"west of {name}").tolist()
    held = [
        Participant(read_table(table, name), pipeline=Pipeline(OPEN, terms=algorithm.terms(name)))
        for name, table in tables.items()
    ]
    outcome = drive(algorithm, runtime(held))
    assert sum(sizes.sum() for sizes in outcome.sizes.values()) == 240


@pytest.mark.parametrize(("scale", "unit"), [("standard", 2.0), (None, 1.0)])
def test_units_have_exactly_the_factors_of_the_study(scale, unit):
    own, factors = {"age": (50.0, 2.0)}, {"age": 3.0, "sex": 0.5}
    levels = {"sex": ("f", "m")}
    shift = np.array([0.0 if scale is None else 50.0, 0.0, 0.0])
    agreed = Columns(shift=shift, scale=np.array([unit / 3, MISMATCH / 0.5, MISMATCH / 0.5]), levels=levels)
    assert agreed.implausible(own, scale, factors) == []
    assert agreed.implausible(own, scale) == (["sex=f", "sex=m"] if scale else ["age", "sex=f", "sex=m"])
    other = Columns(shift=shift, scale=np.array([unit / 3, MISMATCH, MISMATCH / 0.5]), levels=levels)
    assert other.implausible(own, scale, factors) == ["sex=f"]
