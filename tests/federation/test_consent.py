"""Consent: a form to be read and filled in, which counts for what it says and nothing else."""

from __future__ import annotations

import json
import tomllib

import msgspec
import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from intarsia.cli import main
from intarsia.cli import participant as commands
from intarsia.coordinator import FederatedAlgorithm, OneShotAlgorithm
from intarsia.federation import consent
from intarsia.federation.algorithms import algorithm_of, terms_for
from intarsia.federation.consent import form_of, later_fields, terms_of
from intarsia.federation.preview import preview
from intarsia.federation.site import Site, open_rows, participant_of
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Server, Study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Describe, Description, encode, tag_of
from intarsia.protocol.catalogue import fields_of, rows_behind

STUDY = Study("heart", ("a", "b"), n_clusters=2, settings={"random_state": 0, "n_local_clusters": {"a": 2, "b": 3}})


@pytest.fixture
def kit(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    table = pl.DataFrame({"patient": [f"p{n}" for n in range(40)], "x": values[:, 0], "y 1": values[:, 1]})
    table.write_csv(tmp_path / "data.csv")
    for folder in ("local", "startup"):
        (tmp_path / folder).mkdir()
    write_settings(tmp_path / "local", LocalSettings(id_column="patient", release=ReleasePolicy(7)))
    (tmp_path / "startup" / "fed_client.json").write_text('{"client": {"fqsn": "a"}}')
    (tmp_path / "local" / "resources.json").write_text("{}")
    (tmp_path / "study.json").write_bytes(msgspec.json.encode(STUDY))
    return tmp_path


@pytest.fixture
def intarsia(kit, capsys, monkeypatch):
    """A command of the participant's, and what it says; a site that would start is noted in the kit instead."""
    monkeypatch.setattr(commands, "engine", lambda: None)
    monkeypatch.setattr(commands, "check_certificates", lambda _: None)
    monkeypatch.setattr(commands, "become", lambda *_: (kit / "started").touch())

    def run(command, *words, rc=0):
        with pytest.raises(SystemExit) as end:
            main(["participant", command, "--kit", str(kit), "--table", str(kit / "data.csv"), *map(str, words)])
        said = capsys.readouterr()
        assert end.value.code == rc, said.err
        return " ".join((said.out if rc == 0 else said.err).split())

    return run


def fill_in(form, by="Dr. Who", on="2026-11-15"):
    text = form.read_text()
    form.write_text(text.replace('agreed_by = ""', f'agreed_by = "{by}"').replace('\non = ""', f'\non = "{on}"'))


def test_a_form_says_what_would_leave_and_counts_once_it_is_filled_in(kit, intarsia):
    form = kit / "form.toml"
    intarsia("preview", "--form", form)
    said = tomllib.loads(form.read_text())
    assert (said["agreed_by"], said["on"]) == ("", "")
    assert (said["study"], said["participant"], said["server"]) == ("heart", "a", "localhost:8102")
    assert (said["table"], said["columns"], said["n_clusters"]) == ("data.csv", ["x", "y 1"], 2)
    assert said["release"]["min_cluster_size"] == 7
    assert said["settings"]["n_local_clusters"] == {"a": 2, "b": 3}
    asked = FederatedAlgorithm(2, scale="auto", n_local_clusters=2).terms("a").listed()
    assert said["requests"] == asked | {"share_model": True}
    assert said["leaves"]["reply.model_kept"] == {}
    assert "over the columns of all participants" in form.read_text()
    assert said["leaves"]["reply.summary"]["sizes"] == "at least 7; 20 in the preview"
    assert said["leaves"]["reply.refinement"]["refined.values"] == "at least 7"
    assert "'agreed_by', 'on' must be filled in" in intarsia("serve", "--consent", form, rc=1)
    assert not (kit / "consent.toml").exists()
    fill_in(form, on="")
    assert "'on' must be filled in" in intarsia("serve", "--consent", form, rc=1)
    text = form.read_text()
    for day in ("soon", "2126-01-01"):
        fill_in(form, on=day)
        assert f"has on = {day!r}. It must be the day of consent" in intarsia("serve", "--consent", form, rc=1)
        form.write_text(text)
    fill_in(form)
    intarsia("serve", "--consent", form)
    assert (kit / "started").exists()
    assert (kit / "consent.toml").read_text() == form.read_text()
    intarsia("serve", "--consent", kit / "consent.toml")  # as after a restart
    assert "already exists" in intarsia("preview", "--form", form, rc=1)


def test_consent_to_something_else_does_not_count_and_what_differs_is_named(kit, intarsia):
    form = kit / "form.toml"
    intarsia("preview", "--form", form)
    fill_in(form)
    said = intarsia("serve", "--consent", form, "--min-cluster-size", 3, "--allow-extremes", rc=1)
    assert "[release] min_cluster_size: agreed 7, now 3; [release] allow_extremes: agreed False, now True." in said
    said = intarsia("serve", "--consent", form, "-c", "x", "--round-counts-to", 1, rc=1)
    assert "other terms: columns: removed 'y 1'." in said
    pl.DataFrame({"patient": ["p"] * 40, "x": range(40), "y 1": range(40), "new": range(40)}).write_csv(
        kit / "data.csv"
    )
    assert "other terms: columns: added 'new'." in intarsia("serve", "--consent", form, rc=1)
    for study, what in (
        (replace(STUDY, name="lungs"), "study: agreed 'heart', now 'lungs'"),
        (replace(STUDY, server=Server("x.org")), "server: agreed 'localhost:8102', now 'x.org:8102'"),
        (replace(STUDY, n_clusters="auto"), "n_clusters: agreed 2, now 'auto'"),
        (
            replace(STUDY, settings={"random_state": 0}),
            "[settings] n_local_clusters: agreed {'a': 2, 'b': 3}, now nothing",
        ),
    ):
        (kit / "study.json").write_bytes(msgspec.json.encode(study))
        assert what in intarsia("serve", "--consent", form, rc=1)
    assert not (kit / "started").exists()
    assert not (kit / "consent.toml").exists()


def test_a_term_that_was_not_there_before_is_a_difference_and_the_file_is_a_form(kit, intarsia):
    pl.read_csv(kit / "data.csv").write_parquet(kit / "data.parquet")
    intarsia("preview", "--table", kit / "data.parquet", "--form", kit / "form.toml")
    fill_in(kit / "form.toml")
    (kit / "data.csv").write_text((kit / "data.csv").read_text().replace(",", ";"))
    (kit / "data.csv").write_text((kit / "data.csv").read_text() + ";;\n")
    said = intarsia("serve", "--table", kit / "data.csv", "--consent", kit / "form.toml", rc=1)
    assert "is consent to other terms" in said
    assert "reading: agreed nothing, now 'separated by semicolons; without 1 blank row at the end'" in said


@pytest.mark.parametrize("text", ["", "agreed_by = 'x'\non = 2026-11-15\nstudy = 'heart'", "x", "agreed_by = 3"])
def test_a_file_that_is_no_form_is_refused(text, kit, intarsia):
    (kit / "form.toml").write_text(text)
    said = intarsia("serve", "--consent", kit / "form.toml", rc=1)
    assert "is not a consent form: missing" in said or "is not valid TOML" in said
    assert "cannot be read" in intarsia("serve", "--consent", kit / "nothing.toml", rc=1)


def test_nobody_to_ask_is_no_consent_and_at_a_terminal_it_is_kept_who_agreed(kit, intarsia, monkeypatch):
    assert "somebody must agree" in intarsia("serve", rc=1)

    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr(commands.sys, "stdin", Terminal())
    monkeypatch.setattr(commands.getpass, "getuser", lambda: "keeper")
    monkeypatch.setattr(commands.typer, "confirm", lambda *_, **__: True)
    assert "columns to cluster on: x, y" in intarsia("serve")
    said = tomllib.loads((kit / "consent.toml").read_text())
    assert said["agreed_by"].startswith("keeper, at the terminal of ")
    assert said["on"][:2] == "20"
    assert said["columns"] == ["x", "y 1"]


def test_consent_is_to_a_study(kit, capsys):
    with pytest.raises(SystemExit) as end:
        main(["participant", "preview", "--table", str(kit / "data.csv"), "-c", "x", "--form", str(kit / "f.toml")])
    assert end.value.code == 1
    assert "a consent form needs a study" in capsys.readouterr().err


@pytest.mark.parametrize(
    "algorithm",
    [
        FederatedAlgorithm(n_clusters=2),
        FederatedAlgorithm(n_clusters=2, model="mixture"),
        OneShotAlgorithm(2),
        FederatedAlgorithm(n_clusters=2, stability=True),
        OneShotAlgorithm(2, stability=True),
    ],
)
def test_the_form_names_every_field_of_every_message_of_a_run(algorithm, kit):
    """Numbers of rows behind later messages come true as well."""
    settings = LocalSettings(str(kit / "data.csv"), id_column="patient", release=ReleasePolicy(7))
    held = participant_of(settings, open_rows("a", settings))
    method = "one_shot" if isinstance(algorithm, OneShotAlgorithm) else "federated"
    step, kinds = algorithm.start(("a",)), {}
    while step.result is None:
        reply = held.handle(step.requests["a"])
        behind = rows_behind(reply)
        named = {h.path for h in fields_of(reply) if h.entries}
        assert all(behind[path] >= 7 for path in named if path in behind)
        kinds.setdefault(tag_of(reply), set()).update(named)
        step = algorithm.advance(step.state, {"a": reply})
    later = {kind: named for kind, named in kinds.items() if kind not in ("reply.description", "reply.summary")}
    expected = later_fields(method, stability=algorithm.stability)
    assert set(later) == set(expected)
    assert all(named <= set(expected[kind]) for kind, named in later.items())


def test_whatever_leaves_a_run_is_in_the_form_with_no_fewer_rows_behind_it(tmp_path):
    """Both have the same columns, so that clusters are told as halves: fewer rows are behind them than in the preview."""
    rng, left = np.random.default_rng(0), {}
    study = Study("s", ("a", "b"), n_clusters=2, settings={"scale": "standard"}, share_model=False)
    participants = {}
    for name in study.participants:
        kind = 9 * (np.arange(200) % 2)
        table = tmp_path / f"{name}.parquet"
        pl.DataFrame({c: rng.normal(size=200) + kind for c in "xyz"}).write_parquet(table)
        settings = LocalSettings(str(table))
        seen = preview(settings, study, name)
        left[name] = tomllib.loads(form_of(seen.terms, seen.messages))["leaves"]
        journal = Journal(tmp_path / f"{name}.jsonl")
        opened = open_rows(name, settings, terms_for(study, name))
        participants[name] = participant_of(settings, opened, journal, terms_for(study, name))
    algorithm, _ = algorithm_of(study)
    step = algorithm.start(study.participants)
    while step.result is None:
        replies = {name: participants[name].handle(request) for name, request in step.requests.items()}
        step = algorithm.advance(step.state, replies)
    fewer = 0
    for name, leaves in left.items():
        for entry in Journal(tmp_path / f"{name}.jsonl").entries(LEFT):
            for field in entry["fields"]:
                said = leaves[entry["reply"]][field["field"]]
                if field["fewest_rows"] is not None:
                    assert field["fewest_rows"] >= int(said.removeprefix("at least ").partition(";")[0])
                    fewer += "in the preview" in said and f"; {field['fewest_rows']} in" not in said
    assert fewer  # so the preview alone would have promised too much


def test_names_of_any_kind_survive_in_a_form(tmp_path):
    columns = ['a"b', "c\\d", "e\nf", "g\x7fh", "ö, [x]"]
    terms = terms_of(STUDY, "a", LocalSettings("/d/a.csv"), columns)
    said = tomllib.loads(form_of(terms, [{"message": "reply.x", "fields": [{"field": "a.b", "fewest_rows": None}]}]))
    assert said["columns"] == columns
    assert json.dumps(said["leaves"]["reply.x"]) == '{"a.b": "no rows: names and settings"}'


def test_a_changed_table_is_served_only_after_its_record_was_renewed(kit, intarsia, capsys):
    form = kit / "form.toml"
    intarsia("preview", "--form", form)
    fill_in(form)
    intarsia("serve", "--consent", form)
    record = kit / "data.csv.told"
    assert not record.exists()  # nothing was told yet
    site = Site("a", kit, "0" * 16)
    assert isinstance(site.answer(encode(Describe(scale="auto"))), Description)
    assert record.exists()
    table = pl.read_csv(kit / "data.csv")
    table[:-1].write_csv(kit / "data.csv")
    assert "1 row(s) of the table were changed or removed" in intarsia("serve", "--consent", form, rc=1)
    for words in (("--reason", "patient 39 withdrew"), ("--reason", "again")):
        with pytest.raises(SystemExit) as end:
            main(["participant", "renew", "--kit", str(kit), *words])
        assert end.value.code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "keep it: it says what was told before" in said
    assert "there is no record to renew" in said
    (entry,) = Journal(kit / "releases.jsonl").entries("renewed")
    assert entry["reason"] == "patient 39 withdrew"
    assert (kit / entry["record"]).exists()
    intarsia("serve", "--consent", form)


def test_a_form_names_the_participants_and_every_field_of_every_message_of_a_kind():
    first = {
        "message": "reply.summary",
        "fields": [{"field": "tried", "fewest_rows": 60}, {"field": "values", "fewest_rows": 9}],
    }
    second = {
        "message": "reply.summary",
        "fields": [{"field": "half_of", "fewest_rows": None}, {"field": "values", "fewest_rows": 7}],
    }
    study = Study("s", ("a", "b", "c"), quorum=2)
    form = form_of(terms_of(study, "a", LocalSettings("data.csv"), ("x",)), [first, second])
    assert 'participants = ["a", "b", "c"]\nquorum = 2' in form
    table = tomllib.loads(form)["leaves"]["reply.summary"]
    assert table["tried"] == "at least 5; 60 in the preview"
    assert table["values"] == "at least 5; 7 in the preview"
    assert "half_of" in table
    agreed = terms_of(study, "a", LocalSettings("data.csv"), ("x",))
    other = terms_of(Study("s", ("a", "b", "d"), quorum=2), "a", LocalSettings("data.csv"), ("x",))
    assert list(consent._differences(agreed, other)) == ["participants: added 'd'", "participants: removed 'c'"]
