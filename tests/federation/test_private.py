"""Private studies at sites, without any network."""

from __future__ import annotations

import json
import shutil
import tomllib
from hashlib import sha256

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from intarsia.cli import main
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import LocalAlgorithmError, ProtocolError, ReleaseError, SettingError
from intarsia.federation.algorithms import algorithm_of, as_json, check_rules, from_json, with_copies
from intarsia.federation.consent import check_form, form_of, terms_of
from intarsia.federation.kit_folder import study_of, write_study
from intarsia.federation.preview import preview
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, OwnPrivacy, read_settings, write_settings
from intarsia.federation.study_file import Study, read_study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.privacy.ledger import Ledger
from intarsia.privacy.noise import OpenDPNoise
from intarsia.protocol import AskSketch, Describe, Failure, Sketched, decode_request, encode
from intarsia.runtime.contract import Runtime
from intarsia.runtime.drive import drive

pytest.importorskip("opendp")
RUN = "0123456789abcdef"
PRIVACY = DifferentialPrivacy(2, bounds={"x": (-4, 14), "y": (-4, 14), "z": (-4, 14)})
STUDY = Study("s", ("a", "b"), n_clusters=2, settings={"random_state": 0}, privacy=PRIVACY)
COLUMNS = {"a": "xy", "b": "yz", "c": "xz"}
N = 600


def make_kit(folder, name):
    rng = np.random.default_rng(len(name) + ord(name))
    table = {column: 9 * (np.arange(N) % 2) + rng.normal(size=N) for column in COLUMNS[name]}
    kit = folder / name
    for inner in ("local", "startup"):
        (kit / inner).mkdir(parents=True)
    pl.DataFrame(table | {"patient": [f"p{n}" for n in range(N)]}).write_csv(kit / "data.csv")
    write_settings(kit / "local", own(kit))
    (kit / "startup" / "fed_client.json").write_text(json.dumps({"client": {"fqsn": name}}))
    write_study(kit, STUDY)
    return kit


def own(kit, **privacy):
    return LocalSettings(str(kit / "data.csv"), id_column="patient", privacy=OwnPrivacy(**privacy))


@pytest.fixture
def kits(tmp_path):
    return {name: make_kit(tmp_path, name) for name in COLUMNS}


class Sites(Runtime):
    """Sites that are asked by bytes; each request meets a restarted site, and those in ``away`` do not answer."""

    def __init__(self, kits, names=("a", "b"), run=RUN, away=()):
        self._kits, self._names, self._run, self._away, self.bytes = kits, names, run, away, {}

    def participants(self):
        return self._names

    def exchange(self, requests, on_reply=None):
        replies = {}
        for name, request in requests.items():
            if name not in self._away:
                replies[name] = Site(name, self._kits[name], self._run).answer(encode(request))
                self.bytes[name, decode_request(encode(request)).__class__.__name__] = encode(replies[name])
                if on_reply is not None:
                    on_reply(name, replies[name], 0.0)
        return replies


def run(kits, study=STUDY, **options):
    sites = Sites(kits, study.participants, **options)
    quorum = study.quorum
    return drive(
        from_json(json.loads(json.dumps(as_json(with_copies(study, algorithm_of(study)[0]))))), sites, quorum=quorum
    ), sites


def test_a_private_run_over_sites_ends_with_labels_and_a_second_one_is_refused(kits):
    outcome, sites = run(kits)
    assert {part.exchange for part in outcome.privacy.spent} == {"sketch", "round 1", "round 2"}
    labels = pl.read_csv(kits["a"] / "labels.csv")
    assert labels["id"].to_list()[:2] == ["p0", "p1"]
    assert len(labels) == N
    assert set(labels["cluster"]) <= {0, 1}
    entries = Ledger.beside(kits["a"] / "data.csv").entries()
    assert {(entry["study"], entry["run"]) for entry in entries} == {("s", RUN)}
    left = list(Journal(kits["a"] / RELEASES).entries(LEFT))
    assert [entry["reply"] for entry in left] == [
        "reply.sketch",
        "reply.sums",
        "reply.sums",
        "reply.labels_kept",
        "reply.model_kept",
    ]
    assert left[0]["sha256"] == sha256(sites.bytes["a", "AskSketch"]).hexdigest()

    for kit in kits.values():  # another study of the same table, in a new kit: the budget is the table's
        (kit / RELEASES).unlink(missing_ok=True)
        shutil.rmtree(kit / "intarsia", ignore_errors=True)
        write_study(kit, replace(STUDY, name="other", n_clusters=3))
    with pytest.raises(ReleaseError, match=r"'a': the privacy budget of this participant's table does not allow it"):
        run(kits, study_of(kits["a"]), run="f" * 16)
    assert Ledger.beside(kits["a"] / "data.csv").entries() == entries


def test_a_restarted_site_answers_with_the_same_bytes_from_its_kit_or_from_the_ledger(kits):
    _, first = run(kits)
    spent = Ledger.beside(kits["a"] / "data.csv").spent()
    _, again = run(kits)
    shutil.rmtree(kits["a"] / "intarsia")
    (kits["a"] / "labels.csv").unlink()
    _, without_kit = run(kits)
    assert first.bytes == again.bytes == without_kit.bytes
    assert (kits["a"] / "labels.csv").exists()
    assert Ledger.beside(kits["a"] / "data.csv").spent() == spent


def test_whoever_sends_no_sketch_is_left_out_with_a_remark(kits):
    study = replace(STUDY, participants=("a", "b", "c"), quorum=2)
    outcome, _ = run(kits, study, away=("c",))
    assert outcome.participants == ("a", "b")
    assert outcome.remarks == ("'c' sent no sketch: the result is without it.",)
    assert not (kits["c"] / "data.csv.budget").exists()


def test_a_participant_may_spend_less_and_not_more(kits):
    write_settings(kits["a"] / "local", own(kits["a"], epsilon=0.5, total_epsilon=0.75))
    assert read_settings(kits["a"] / "local").privacy == OwnPrivacy(0.5, 0.75)
    outcome, _ = run(kits)
    rho = outcome.privacy.rho
    assert 0 < rho["a"] < rho["b"] / 10
    write_settings(kits["a"] / "local", own(kits["a"], epsilon=3))
    with pytest.raises(SettingError, match="at most 2, that of the study: a participant may only spend less. Got 3"):
        preview(read_settings(kits["a"] / "local"), STUDY, "a")
    with pytest.raises(LocalAlgorithmError):
        Site("a", kits["a"], RUN)


def test_a_total_below_the_cost_of_the_study_spends_nothing(kits):
    write_settings(kits["a"] / "local", own(kits["a"], total_epsilon=1.9))
    reply = Site("a", kits["a"], RUN).answer(encode(AskSketch(n_clusters=2)))
    assert reply.error == "ReleaseError"
    assert Ledger.beside(kits["a"] / "data.csv").spent() == 0
    warning = preview(read_settings(kits["a"] / "local"), STUDY, "a").warning
    assert "of the table's total epsilon 1.9 only rho" in warning


class KilledError(BaseException):
    """Ends whatever runs, as kill -9 does."""


def test_a_site_that_dies_between_debit_and_answer_told_nothing_and_pays_again(kits, monkeypatch):
    ledger, asked = Ledger.beside(kits["a"] / "data.csv"), encode(AskSketch(n_clusters=2))

    def die(*_):
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(OpenDPNoise, "draw", die)
        with pytest.raises(KilledError):
            Site("a", kits["a"], RUN).answer(asked)
    (debit,) = ledger.entries()
    assert ledger.answer(debit["digest"]) is None
    assert Site("a", kits["a"], RUN).answer(asked).error == "ReleaseError"  # the rest is not enough for the study
    assert ledger.entries() == (debit,)
    write_settings(kits["a"] / "local", own(kits["a"], total_epsilon=3))
    assert isinstance(Site("a", kits["a"], RUN).answer(asked), Sketched)
    assert ledger.entries()[0] == debit


@pytest.mark.parametrize("request_", [Describe(), AskSketch(n_clusters=3)])
def test_a_private_site_answers_its_study_and_nothing_else(request_, kits):
    reply = Site("a", kits["a"], RUN).answer(encode(request_))
    assert isinstance(reply, Failure)
    assert reply.error == "ReleaseError"
    assert not (kits["a"] / "data.csv.budget").exists()


def test_a_site_of_another_study_answers_no_private_request(kits):
    write_study(kits["a"], replace(STUDY, privacy=None))
    assert Site("a", kits["a"], RUN).answer(encode(AskSketch(n_clusters=2))).error == "ReleaseError"


def test_what_a_job_declares_does_not_reach_a_site(kits):
    """The run of a job with wider bounds and a larger budget: the site answers under the terms of its own kit."""
    greedy = replace(STUDY, privacy=DifferentialPrivacy(50, bounds=dict(PRIVACY.bounds)))
    outcome, _ = run(kits, greedy)
    mine, _ = run({name: make_kit(kits["a"] / "again", name) for name in COLUMNS})
    assert outcome.privacy.rho == mine.privacy.rho


def test_a_damaged_ledger_is_said_without_its_place(kits):
    (kits["a"] / "data.csv.budget").write_text("{}\n")
    site = Site("a", kits["a"], RUN)
    reply = site.answer(encode(AskSketch(n_clusters=2)))
    assert reply.error == "ReleaseError"
    assert str(kits["a"]) not in reply.message
    assert str(kits["a"]) in str(site.last_error)


def test_errors_of_a_private_table_have_one_kind(kits):
    (kits["a"] / "data.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(LocalAlgorithmError, match="cannot take part in a private study"):
        Site("a", kits["a"], RUN)


def test_the_form_lists_budget_bounds_and_what_each_exchange_spends_and_is_no_longer_valid_if_they_change(
    kits, tmp_path
):
    settings = own(kits["a"], total_epsilon=3)
    seen = preview(settings, STUDY, "a")
    assert all(message["values"] is None for message in seen.messages)
    form = tmp_path / "consent.toml"
    form.write_text(form_of(seen.terms, seen.messages, "Dr. Who", "2026-11-16"))
    agreed = tomllib.loads(form.read_text())
    assert agreed["privacy"]["bounds"]["x"] == [-4, 14]
    budget = {
        name: agreed["privacy"][name] for name in ("epsilon", "total_epsilon", "delta", "rows_per_person", "rounds")
    }
    assert budget == {"epsilon": 2, "total_epsilon": 3, "delta": 1e-6, "rows_per_person": 1, "rounds": 2}
    assert list(agreed["privacy"]["spends"]) == ["sketch", "round 1", "round 2"]
    assert set(agreed["leaves"]) == {"reply.sketch", "reply.sums", "reply.labels_kept", "reply.model_kept"}
    assert check_form(form, seen.terms)
    wider = replace(STUDY, privacy=DifferentialPrivacy(2, bounds={**PRIVACY.bounds, "x": (0, 1)}))
    for study, changed in ((wider, r"\[privacy\] bounds: agreed"), (replace(STUDY, privacy=None), "privacy: agreed")):
        with pytest.raises(SettingError, match=f"consent to other terms: .*{changed}"):
            check_form(form, terms_of(study, "a", settings, seen.terms["columns"]))


def test_a_preview_shows_the_budget_and_clipped_values_and_spends_nothing(kits, capsys):
    write_study(kits["a"], replace(STUDY, privacy=DifferentialPrivacy(2, bounds={"x": (-4, 14), "y": (-4, 4)})))
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--kit", str(kits["a"]), "--epsilon", "1.5"])
    said = capsys.readouterr()
    assert not end.value.code, said.err
    assert "epsilon = 1.5, total_epsilon = 2.0, delta = 1e-06" in " ".join(said.out.split())
    assert "of the values of 'y' are outside its bounds" in " ".join(said.err.split())
    assert not (kits["a"] / "data.csv.budget").exists()


def test_columns_without_bounds_are_named(kits):
    study = replace(STUDY, privacy=DifferentialPrivacy(2, bounds={"x": (-4, 14)}))
    with pytest.raises(SettingError, match=r"1 column\(s\) of 'a' have neither bounds nor levels.*'y'"):
        preview(own(kits["a"]), study, "a")


@pytest.mark.parametrize("setting", [{"local": "KMeans(n_clusters=2)"}, {"missing": "impute"}])
def test_settings_of_a_participant_without_bounded_sensitivity_are_refused(setting, kits):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} cannot be set in a private study"):
        preview(replace(own(kits["a"]), **setting), STUDY, "a")


def test_a_study_file_by_hand(tmp_path):
    path = tmp_path / "study.toml"
    head = 'name = "s"\nparticipants = ["a", "b"]\nn_clusters = 2\n[privacy]\nepsilon = 2\n'
    path.write_text(head + "[privacy.bounds]\nx = [-4, 14]\ny = [-4, 14]\nz = [-4, 14.0]\n")
    study = read_study(path)
    assert study.privacy == PRIVACY
    write_study(tmp_path, study)
    assert study_of(tmp_path) == study
    check_rules(study)
    for text, why in (
        (head, "declares no columns"),
        (head + "[privacy.bounds]\nx = [4, -4]\n", r"\[privacy\] of .*bounds of column 'x'"),
        (head.replace("epsilon = 2", "eps = 2"), r"\[privacy\] of .*unknown settings: 'eps'"),
    ):
        path.write_text(text)
        with pytest.raises(SettingError, match=why):
            read_study(path)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"stability": True}, "stability cannot be set"),
        ({"scale": "minmax"}, "scale"),
        ({"privacy": 1}, "table of its own"),
    ],
)
def test_a_private_study_with_settings_that_look_at_rows_is_refused(settings, why):
    with pytest.raises(SettingError, match=why):
        check_rules(replace(STUDY, settings=settings))


ALGORITHM = json.loads(json.dumps(as_json(algorithm_of(STUDY)[0])))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_a_job_with_any_field_replaced_is_an_algorithm_or_a_protocol_error(data):
    where = data.draw(st.sampled_from(["", "settings", "privacy"]))
    table = ALGORITHM[where] if where else ALGORITHM
    changed = {**table, data.draw(st.sampled_from([*table, "other"])): data.draw(JSON)}
    job = {**ALGORITHM, where: changed} if where else changed
    try:
        algorithm = from_json(job)
    except ProtocolError:
        return
    assert from_json(json.loads(json.dumps(as_json(algorithm)))) == algorithm


def test_types_of_a_job_are_checked():
    for name, wrong in (("n_clusters", "2"), ("seed", 1.5), ("step_size", None), ("metric", 3), ("stability", 1)):
        with pytest.raises(ProtocolError, match="settings that the algorithm does not have"):
            from_json({**ALGORITHM, "settings": {**ALGORITHM["settings"], name: wrong}})
