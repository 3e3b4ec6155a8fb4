"""Names and kinds of columns before a study: who tells them, what leaves, and what the analyst sees."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from intarsia.cli import columns as command
from intarsia.cli import main
from intarsia.coordinator.feasibility import ColumnsQuestion, ColumnsTold
from intarsia.exceptions import ProtocolError, SettingError
from intarsia.federation.algorithms import as_json, asks_columns, digest_of, from_json, run_of, terms_for
from intarsia.federation.consent import form_of, terms_of
from intarsia.federation.kit_folder import write_study
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings
from intarsia.federation.study_file import Study, check_study, read_study
from intarsia.privacy.journal import LEFT, REFUSED, Journal
from intarsia.protocol import AskColumns, ColumnKinds, Describe, Description, Failure, encode
from intarsia.protocol.catalogue import fields_of
from tests.federation.conftest import ONE_SHOT

RUN = "0123456789abcdef"
ASKED = replace(ONE_SHOT, feasibility=True)


def table_of(kit, **more):
    table = pl.read_csv(kit / "data.csv").with_columns(**more)
    table.write_csv(kit / "data.csv")
    return table


def test_a_site_tells_names_and_kinds_and_nothing_else(kit):
    sex = pl.Series(["planted-f", "planted-m"] * 20)
    table_of(kit, sex=sex, rare=pl.Series([1.5] * 2 + [None] * 38))
    write_study(kit, ASKED)
    reply = Site("a", kit, RUN).answer(encode(AskColumns()))
    assert (reply.numbers, reply.categories) == (("rare", "x", "y"), ("sex",))  # all that the consent form lists
    assert b"planted" not in encode(reply)
    assert {field.path for field in fields_of(reply)} == {"numbers", "categories"}
    (line,) = Journal(kit / RELEASES).entries(LEFT)
    assert line["reply"] == "reply.column_kinds"


def test_a_site_of_a_study_that_does_not_say_so_refuses(kit):
    reply = Site("a", kit, RUN).answer(encode(AskColumns()))
    assert isinstance(reply, Failure)
    assert "feasibility is True, and the study says False" in reply.message
    assert len(list(Journal(kit / RELEASES).entries(REFUSED))) == 1


def test_columns_that_are_renamed_after_the_question_are_told_anew_and_bind_nobody(kit):
    write_study(kit, ASKED)
    Site("a", kit, RUN).answer(encode(AskColumns()))
    assert not list(kit.glob("*.told"))
    pl.read_csv(kit / "data.csv").rename({"y": "weight"}).head(30).write_csv(kit / "data.csv")
    site = Site("a", kit, RUN)
    assert site.answer(encode(AskColumns())).numbers == ("weight", "x")
    assert isinstance(site.answer(encode(Describe())), Description)  # the table is bound only now
    assert list(kit.glob("*.told"))


def test_consent_forms_list_the_message_only_where_the_study_says_so():
    settings = LocalSettings("data.csv")
    plain, asked = (terms_of(study, "a", settings, ("x",)) for study in (ONE_SHOT, ASKED))
    assert plain["requests"]["feasibility"] is False
    assert asked["requests"] == plain["requests"] | {"feasibility": True}
    assert "column_kinds" not in form_of(plain, ())
    form = form_of(asked, ())
    assert '[leaves."reply.column_kinds"]' in form
    assert "feasibility = true  # whether names and kinds of columns are told" in form
    assert terms_for(ASKED, "a").feasibility
    assert run_of(ASKED) == run_of(ONE_SHOT)  # the run of the study is the same


def test_a_question_is_no_run():
    description = as_json(ColumnsQuestion())
    assert asks_columns(description)
    assert asks_columns(json.loads(json.dumps(description)))
    for other in (None, [], {}, description | {"settings": {"seed": 0}}, {"method": "federated", "settings": {}}):
        assert not asks_columns(other)
    with pytest.raises(ProtocolError, match="unknown algorithm"):
        from_json(description)
    assert digest_of(description, ("a", "b")) != run_of(ONE_SHOT)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("[privacy]\nepsilon = 1\n[privacy.bounds]\nx = [0, 1]", "declares all columns"),
        ("secure_sums = true", "their keys are for one run"),
    ],
)
def test_private_and_secure_studies_are_not_asked(more, why, tmp_path):
    (tmp_path / "study.toml").write_text(f"name = 's'\nparticipants = ['a', 'b', 'c']\nfeasibility = true\n{more}\n")
    with pytest.raises(SettingError, match=why):
        read_study(tmp_path / "study.toml")
    check_study(Study("s", ("a",), feasibility=True))


def test_replies_are_sorted_into_columns_refusals_and_silence():
    replies = {
        "c": Failure(error="ReleaseError", message="participant 'c' does not"),
        "a": ColumnKinds(numbers=("x",), categories=("sex",)),
        "d": ColumnKinds(numbers=("x",), categories=("x",)),
        "e": Description(features=("x",), n_rows=9),
    }
    told = ColumnsQuestion().told(replies, {"b": "not connected"})
    assert told.kinds == {"a": {"x": "numbers", "sex": "categories"}}
    assert told.silent == {"b": "not connected"}
    assert told.refused["c"] == "participant 'c' does not"
    assert "numeric or categorical, not both" in told.refused["d"]
    assert "Description where a ColumnKinds" in told.refused["e"]
    assert set(ColumnsQuestion().requests(("b", "a"))) == {"a", "b"}


@pytest.fixture
def check(monkeypatch, capsys):
    """The analyst's command, over what participants told."""
    pytest.importorskip("nvflare")
    from intarsia.federation.flare import driver as module

    def run(told, *words):
        class Driver:
            study = Study("heart", ("a", "b", "c"), feasibility=True)

            def __init__(self, *_):
                pass

            def ask_columns(self):
                return told

        monkeypatch.setattr(command, "engine", lambda: None)
        monkeypatch.setattr(command, "check_certificates", lambda _: None)
        monkeypatch.setattr(module, "Driver", Driver)
        with pytest.raises(SystemExit) as end:
            main(["federation", "check", "--kit", "kit", *words])
        said = capsys.readouterr()
        return end.value.code, " ".join(said.out.split()), " ".join(said.err.split())

    return run


def test_the_analyst_sees_who_shares_what_and_who_is_missing(check):
    told = ColumnsTold(
        {"a": {"age": "numbers", "sex": "categories"}, "b": {"age": "numbers"}}, silent={"c": "not connected"}
    )
    code, out, _ = check(told)
    assert code == 0
    assert "age ● ●" in out
    assert "sex ◆" in out
    assert "Yes: every two participants share a column" in out
    assert "c did not answer: not connected." in out
    assert "The answer above is about 2 of 3 participants." in out
    assert " rows" not in out
    code, out, _ = check(told, "--json")
    found = json.loads(out)
    assert (code, found["possible"], found["silent"]) == (0, True, {"c": "not connected"})
    assert found["participants"]["a"]["rows"] is None
    assert not {"units", "other_units"} & set(found)  # which names do not tell


def test_secure_sums_which_such_a_study_cannot_have_are_not_mentioned(check):
    told = ColumnsTold({name: {"age": "numbers"} for name in "abc"})
    assert "secure sums" not in check(told)[1].lower()
    assert "secure_sums" not in json.loads(check(told, "--json")[1])


def test_the_exit_code_is_3_if_tables_do_not_fit(check):
    code, out, _ = check(ColumnsTold({"a": {"Age": "numbers"}, "b": {"age": "numbers"}}))
    assert code == 3
    assert "look alike" in out


def test_nobody_who_tells_is_an_error_with_the_reasons(check):
    code, _, err = check(ColumnsTold({}, refused={"a": "participant 'a': no."}, silent={"b": "gone"}))
    assert code not in {0, 3}
    assert "no participant told its columns. a refused: participant 'a': no. b did not answer: gone." in err


def test_how_many_answered_is_told_when_all_have(tmp_path, monkeypatch):
    """The job ends as soon as they have, so that no look at its progress finds it."""
    pytest.importorskip("nvflare")
    from intarsia.federation.flare import driver as module
    from intarsia.federation.flare.session import Ended, ServerStatus

    class Session:
        submit_job = staticmethod(lambda _: "job")
        get_job_status = staticmethod(lambda _: "FINISHED:COMPLETED")

    def fetched(_session, _job, path, *_):
        path.write_bytes(json.dumps({"kinds": {"a": {"x": "numbers"}}, "refused": {"b": "no"}}).encode())
        return Ended(done=True)

    write_study(tmp_path, replace(ASKED, participants=("a", "b", "c")))
    monkeypatch.setattr(module, "open_session", lambda *_: nullcontext(Session))
    monkeypatch.setattr(module, "status_of", lambda _: ServerStatus(0.0, ("a", "b"), ()))
    monkeypatch.setattr(module, "fetch", fetched)
    lines = []
    told = module.Driver(Path(tmp_path), lines.append).ask_columns()
    assert lines[-1] == "columns: 2 of 2 answered; away: c"
    assert told.silent == {"c": "not connected"}


def test_without_feasibility_in_the_study_the_command_says_how_to_change_it(tmp_path, monkeypatch):
    pytest.importorskip("nvflare")
    from intarsia.federation.flare.driver import Driver

    write_study(tmp_path, ONE_SHOT)
    with pytest.raises(SettingError, match="feasibility = true in the study file, above all tables, then new kits"):
        Driver(Path(tmp_path)).ask_columns()
