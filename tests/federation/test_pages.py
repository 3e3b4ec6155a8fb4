"""The page in a site's kit, and that of the whole federation."""

from __future__ import annotations

import inspect
import json
import logging
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

from intarsia.federation.kit_folder import write_study
from intarsia.federation.moments import moment
from intarsia.federation.operator_page import federation_page
from intarsia.federation.pages import (
    FAILED,
    PAGE,
    computing,
    site_page,
    start_beating,
    write_site_page,
)
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.protocol import Describe, Description, encode
from intarsia.report.data import State
from intarsia.report.status import render_status

HOSTILE = "<script>alert('x')</script>\"' \u202e & zürich"
STUDY = Study("heart", ("a", "b"), n_clusters=2, settings={"random_state": 0, "scale": "standard"})


@pytest.fixture
def kit(tmp_path):
    (tmp_path / "local").mkdir()
    values = np.random.default_rng(0).normal(size=(40, 2))
    pl.DataFrame({"x": values[:, 0], HOSTILE: values[:, 1]}).write_parquet(tmp_path / "data.parquet")
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.parquet")))
    write_study(tmp_path, STUDY)
    return tmp_path


def agree(kit, **more):
    form = {"agreed_by": "Dr. <b>Who</b>", "on": "2026-11-15", "study": "heart", "columns": ["x", HOSTILE]} | more
    lines = [f"{name} = {json.dumps(value)}" for name, value in form.items()]
    tables = ["[release]", "min_cluster_size = 5", "[requests]", "seed = 0", "unknown = 1"]
    (kit / "consent.toml").write_text("\n".join([*lines, *tables]))


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def table(page, name):
    (found,) = (one for one in page.tables if one.id == name)
    return found


def test_each_message_is_in_the_page_when_the_answer_is_given(kit):
    agree(kit)
    site = Site("a", kit, "0" * 16)
    site.answer(encode(Describe(scale="standard")))
    html = (kit / PAGE).read_text()
    assert "reply.description" in html
    (entry,) = Journal(kit / RELEASES).entries(LEFT)
    page = site_page(kit, "a")
    (row,) = table(page, "left").rows
    fewest = min(field["fewest_rows"] for field in entry["fields"] if field["fewest_rows"] is not None)
    assert row[1] == "reply.description"
    assert row[3:5] == (str(fewest), f"{entry['bytes']:,}")
    assert "Waiting for the next request" in page.lights[0].text
    assert dict(table(page, "sums").rows)["messages that left"] == "1"


def test_the_page_says_what_is_being_computed_while_it_is(kit, monkeypatch):
    agree(kit)
    site, seen = Site("a", kit, "0" * 16), []
    answer = site._answer
    monkeypatch.setattr(site, "_answer", lambda data: seen.append((kit / PAGE).read_text()) or answer(data))
    site.answer(encode(Describe(scale="standard")))
    assert "Computing an answer to query.describe since" in seen[0]
    assert "Computing" not in (kit / PAGE).read_text()


def test_a_request_whose_process_is_gone_is_not_being_answered(kit):
    agree(kit)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with computing(kit, "a", "query.describe"):
        note = kit / "intarsia" / "computing.json"
        assert "Computing an answer" in site_page(kit, "a").lights[0].text
        note.write_text(json.dumps(json.loads(note.read_bytes()) | {"process": ended.pid}))
        assert "Computing" not in site_page(kit, "a").lights[0].text
        note.write_text("{")
        assert "Computing" not in site_page(kit, "a").lights[0].text
    assert not note.exists()


def test_a_site_that_runs_writes_its_page_again_and_says_whether_the_server_answers(kit):
    agree(kit)
    write_site_page(kit, "a")
    first = (kit / PAGE).stat().st_mtime_ns
    stop = start_beating(kit, "a", every=0.02)
    try:
        wait_until(lambda: (kit / PAGE).stat().st_mtime_ns > first, 10)
        assert "No answer from the server" not in (kit / PAGE).read_text()
        for handler in list(logging.getLogger().handlers):  # as the engine does when it configures its logs
            logging.getLogger().removeHandler(handler)
        second = (kit / PAGE).stat().st_mtime_ns
        wait_until(lambda: (kit / PAGE).stat().st_mtime_ns > second, 10)
        logging.getLogger("engine").warning("Failed to send heartbeat. Will try again. Exception: error:client_quit")
        wait_until(lambda: "No answer from the server since" in (kit / PAGE).read_text(), 10)
    finally:
        stop.set()


def test_the_engine_still_writes_the_line_that_tells_of_a_failed_heartbeat():
    communicator = pytest.importorskip("nvflare.private.fed.client.communicator")
    assert f'"{FAILED}. ' in inspect.getsource(communicator.Communicator.send_heartbeat)


def test_a_long_journal_makes_no_long_page(kit):
    agree(kit)
    field = {"field": "values", "entries": 3, "bytes": 24, "fewest_rows": 7}
    with Journal(kit / RELEASES).locked() as journal:
        line = json.dumps({"event": LEFT, "reply": "reply.refinement", "fields": [field], "bytes": 10})
        journal.append({"event": LEFT, "reply": "reply.summary", "fields": [field | {"fewest_rows": 6}], "bytes": 5})
    with (kit / RELEASES).open("a") as journal:
        journal.write(f"{line}\n" * 2000)
    page = site_page(kit, "a")
    assert len(table(page, "left").rows) == 300
    assert "The 1,701 oldest" in table(page, "left").about
    sums = dict(table(page, "sums").rows)
    assert (sums["messages that left"], sums["bytes"]) == ("2,001", "20,005")
    assert sums["fewest rows behind a number, of all"] == "6"


def test_what_was_refused_is_in_the_page_with_the_reason(kit):
    agree(kit)
    Site("a", kit, "0" * 16).answer(encode(Describe(scale=None)))
    page = site_page(kit, "a")
    assert any(light.state is State.BAD and "refused" in light.text for light in page.lights)
    assert "refused" in {row[1] for row in table(page, "left").rows}


def test_what_was_agreed_is_in_the_page_with_its_meaning(kit):
    assert any("Nobody has agreed yet" in light.text for light in site_page(kit, "a").lights)
    agree(kit)
    rows = {row[0]: row[1:] for row in table(site_page(kit, "a"), "agreed").rows}
    assert rows["who agreed"][0] == "Dr. <b>Who</b>"
    assert rows["release rule: min_cluster_size"] == ("5", "")
    assert rows["request: seed"] == ("0", "seed of all random numbers")
    assert rows["request: unknown"] == ("1", "")


def test_hostile_names_stay_text_and_the_page_has_no_script(kit):
    agree(kit, agreed_by=HOSTILE)
    write_site_page(kit, HOSTILE)
    html = (kit / PAGE).read_text()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 3
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert 'http-equiv="refresh" content="10"' in html


def test_only_its_owner_can_read_the_page_and_it_is_replaced_as_a_whole(kit):
    write_site_page(kit, "a")
    first = (kit / PAGE).stat()
    write_site_page(kit, "a")
    assert (kit / PAGE).stat().st_mode & 0o777 == 0o600
    assert (kit / PAGE).stat().st_ino != first.st_ino


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "left", "reply": "reply.description", "fields": 3, "bytes": "many"}',
        '{"event": "left", "fields": [1, {"field": "x"}], "suppressed": []}',
        '{"event": "renewed", "reason": "corrected"}',
        '{"event": "left", "time": "yesterday"}',
        "[]",
        "{",
    ],
)
def test_a_journal_that_somebody_edited_gives_a_page(kit, line):
    (kit / RELEASES).write_text(line + "\n")
    render_status(site_page(kit, "a"))


def test_a_page_that_cannot_be_written_does_not_keep_an_answer_back(kit):
    agree(kit)
    (kit / PAGE).mkdir()
    assert isinstance(Site("a", kit, "0" * 16).answer(encode(Describe(scale="standard"))), Description)


STATUS = {
    "connected": ("a",),
    "away": ["b", "c"],
    "needed": 2,
    "jobs": ("job",),
    "progress": {
        "exchange": 3,
        "phase": "refine",
        "round": 2,
        "answered": ["a"],
        "waiting": ["b"],
        "away": ["c"],
        "excluded": ["c"],
        "seconds": 12.4,
        "deadline": 60,
    },
    "last": {"state": "running", "why": "job 1", "at": "2026-11-18T20:00:00+00:00"},
}


def test_the_operators_page_says_who_is_waited_for_since_when_and_for_how_long():
    page = federation_page("heart", STATUS, {"a": "20:00:00", "b": "20:01:02", "c": "20:01:03"})
    texts = [light.text for light in page.lights]
    assert texts == ["Not connected: b, c. 2 of 3 are needed.", "refine 2: waiting for b, for 48 s more at most."]
    assert table(page, "who").rows == [
        ("a", "connected", "20:00:00", "answered"),
        ("b", "not connected", "20:01:02", "is waited for"),
        ("c", "shut out by the coordinator", "20:01:03", "takes no part now"),
    ]
    assert ("step", "refine 2") in table(page, "run").rows
    assert page.refresh == 1
    render_status(page)


def test_the_operators_page_says_why_the_server_cannot_be_asked():
    status = STATUS | {"progress": {}, "jobs": (), "last": {"state": "paused", "why": HOSTILE, "at": "then"}}
    page = federation_page("heart", status, {}, "the server does not answer.")
    assert page.lights[0].state is State.BAD
    assert [light.state for light in page.lights] == [State.BAD, State.BAD]
    assert HOSTILE not in render_status(page)


def test_the_operators_page_of_a_study_that_was_never_run():
    page = federation_page("heart", {"connected": (), "away": ["a"], "needed": 1, "last": {}}, {"a": "1 or before"})
    assert "Nothing runs." in [light.text for light in page.lights]
    assert "Nothing was run with this kit yet." in render_status(replace(page, refresh=1))


def test_the_last_run_is_told_in_sentences():
    last = {"state": "done", "why": "the result is in study/model.intarsia", "at": "2026-11-18T04:15:04+00:00"}
    page = federation_page("heart", STATUS | {"progress": {}, "jobs": (), "last": last}, {})
    text = "The last run was done at 04:15:04 on 2026-11-18 (UTC+0). The result is in study/model.intarsia."
    assert text in [light.text for light in page.lights]
    assert ("since", "04:15:04 on 2026-11-18 (UTC+0)") in table(page, "run").rows
    assert "A job starts or ends." in [
        light.text for light in federation_page("heart", STATUS | {"progress": {}}, {}).lights
    ]


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-11-18T04:15:04+05:30", "04:15:04 on 2026-11-18 (UTC+5:30)"),
        ("2026-11-18T04:15:04-03:30", "04:15:04 on 2026-11-18 (UTC-3:30)"),
        ("then", "?"),
    ],
)
def test_a_time_in_words_has_its_zone(at, words):
    assert moment(at) == words


def test_a_time_of_today_has_no_day():
    now = datetime.now(UTC)
    assert moment(now.isoformat()) == f"{now:%H:%M:%S} (UTC+0)"


def test_one_row_is_in_the_singular(kit):
    with Journal(kit / RELEASES).locked() as journal:
        for suppressed in ({"rows": 1, "entries": 1}, {"rows": 21}, {"unknown": 1}):
            journal.append({"event": LEFT, "reply": "reply.refinement", "fields": [], "suppressed": suppressed})
    assert [row[5] for row in table(site_page(kit, "a"), "left").rows] == [
        "1 unknown",
        "21 rows counted in another cluster than their own",
        "1 row counted in another cluster than their own; 1 entry of centroids with too few values, suppressed",
    ]
    assert "Suppressed is what the release rules removed or changed" in table(site_page(kit, "a"), "left").about


def test_since_when_counts_from_the_latest_change():
    from intarsia.cli.status_page import Since

    since = Since()
    first = since.update({"connected": ["a"], "away": ["b"]})
    assert first["a"].endswith("or before")
    assert since.update({"connected": ["a"], "away": ["b"]}) == first
    changed = since.update({"connected": [], "away": ["a", "b"]})
    assert changed["b"] == first["b"]
    assert not changed["a"].endswith("or before")
