"""What the operator's commands say: ``federation status``, and ``federation renew --lost``."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("nvflare")

from intarsia.cli import federation, kits, main
from intarsia.federation.flare import driver, kit
from intarsia.federation.flare.session import ServerStatus
from intarsia.federation.study_file import Study


@pytest.fixture
def said(monkeypatch, capsys):
    """Run a command of the federation without an engine, and return what it printed."""

    def run(*words):
        for module in (federation, kits):
            monkeypatch.setattr(module, "engine", lambda: None)
            monkeypatch.setattr(module, "check_certificates", lambda _: None)
        with pytest.raises(SystemExit) as end:
            main(["federation", *words])
        assert not end.value.code
        return " ".join(capsys.readouterr().out.split())

    return run


@pytest.fixture
def status(said, monkeypatch):
    """``federation status`` over what the server tells and what the kit remembers of the last run."""

    def run(connected, jobs=(), progress=None, last=None):
        class Driver:
            study = Study("heart", ("a", "b", "c"))

            def __init__(self, *_):
                pass

            def server_status(self):
                return ServerStatus(0.0, connected, jobs), progress or {}

            def away(self, server):
                return [name for name in self.study.participants if name not in server.connected]

            def last(self):
                return last or {}

        monkeypatch.setattr(driver, "Driver", Driver)
        return said("status", "--kit", "kit")

    return run


def test_a_job_without_progress_starts_or_ends(status):
    assert "running: a job starts or ends" in status(("a", "b", "c"), jobs=("job",))


def test_without_a_job_there_is_no_run_to_stop_and_a_site_may_be_shut_out(status):
    text = status(("a",))
    assert (
        "away: b, c → start the site there (intarsia participant serve), or run with --without b --without c." in text
    )
    assert "A site that was shut out needs intarsia federation admit" in text
    assert "stop this run" not in text


def test_while_a_job_runs_who_is_shut_out_is_known_and_needs_no_start(status):
    progress = {"exchange": 1, "phase": "describe", "waiting": [], "away": ["b", "c"], "excluded": ["c"]}
    text = status(("a",), ("job",), progress)
    assert "or stop this run and use --without b shut out by the coordinator: c" in text


def test_the_last_run_is_told_in_sentences_with_the_time_zone(status):
    at = datetime.now(UTC).replace(hour=4, minute=15, second=4).isoformat(timespec="seconds")
    text = status(("a", "b", "c"), last={"state": "done", "at": at, "why": "the result is in study/model.intarsia"})
    assert "The last run was done at 04:15:04 (UTC+0). The result is in study/model.intarsia." in text


@pytest.mark.parametrize("name", ["server", "analyst"])
def test_a_new_kit_of_the_server_says_that_nobody_is_shut_out_in_it(name, said, monkeypatch):
    monkeypatch.setattr(kit, "make_again", lambda *_: datetime(2028, 1, 1, tzinfo=UTC))
    text = said("renew", "--lost", name, "--kit", "kits/new")
    assert f"kits/new is the new kit of the {name}, valid until 2028-01-01" in text
    told = "before that: intarsia federation exclude NAME --kit kits/new" in text
    assert told == (name == "server")
