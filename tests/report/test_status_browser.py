"""The page in a site's kit in a real Chromium, as a data manager has it, and that of ``federation status --html``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread
from playwright.sync_api import expect

from intarsia.cli.status_page import keep_writing
from intarsia.exceptions import FederationError
from intarsia.federation.kit_folder import write_study
from intarsia.federation.pages import PAGE, write_site_page
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, toml_lines, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.protocol import Describe, encode
from tests.report import studies

HOSTILE = " ".join(studies.HOSTILE)
SECONDS = 2.5  # until a message is seen: one for the page, one until it loads itself again, and the browser's own


@pytest.fixture
def kit(tmp_path):
    values = np.random.default_rng(0).normal(size=(40, 2))
    pl.DataFrame({"age": values[:, 0], HOSTILE: values[:, 1]}).write_parquet(tmp_path / "data.parquet")
    (tmp_path / "local").mkdir()
    write_settings(tmp_path / "local", LocalSettings(str(tmp_path / "data.parquet")))
    write_study(tmp_path, Study("heart", ("a", "b"), n_clusters=2, settings={"random_state": 0, "scale": "standard"}))
    form = {"agreed_by": HOSTILE, "on": "2026-11-15", "columns": [HOSTILE, "age"]}
    (tmp_path / "consent.toml").write_text("\n".join(toml_lines(form)))
    return tmp_path


def leave(kit, reply="reply.refinement", size=4321):
    """Write a message to the journal and the page, as a site does."""
    field = {"field": HOSTILE, "entries": 3, "bytes": 24, "fewest_rows": 7}
    with Journal(kit / RELEASES).locked() as journal:
        journal.append({"event": LEFT, "request": "query.refine", "reply": reply, "fields": [field], "bytes": size})
    write_site_page(kit, HOSTILE)


class Reader:
    """A page that is open, what it complained of, and what it asked the network for."""

    def __init__(self, browser, path, **how):
        self.context = browser.new_context(viewport={"width": 1000, "height": 800}, **how)
        self.page, self.path = self.context.new_page(), path
        self.complaints, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def check_quiet(self):
        assert self.complaints == self.dialogs == []
        assert {url for url in self.requests if not url.startswith("data:")} == {self.path.as_uri()}


@pytest.fixture
def read(browser):
    readers = []

    def start(path, **how):
        readers.append(Reader(browser, path, **how))
        return readers[-1]

    yield start
    for reader in readers:
        reader.context.close()


def test_an_answer_of_a_site_is_seen_soon_after_its_line_in_the_journal_without_touching_the_browser(kit, read):
    """The site itself writes both, when it answers a request."""
    site, request = Site("a", kit, "0" * 16), encode(Describe(scale="standard"))
    site.answer(request)
    reader = read(kit / PAGE)
    expect(reader.page.locator("#left tbody tr")).to_have_count(1)
    site.answer(request)
    answered = time.monotonic()
    written, line = (kit / PAGE).stat().st_mtime, (kit / RELEASES).stat().st_mtime
    assert 0 <= written - line < 1.0
    expect(reader.page.locator("#left tbody tr")).to_have_count(2, timeout=10_000)
    assert time.monotonic() - answered < SECONDS
    assert "reply.description" in reader.page.locator("#left tbody tr").first.text_content()
    reader.check_quiet()


def test_hostile_names_are_shown_as_text(kit, read):
    leave(kit)
    reader = read(kit / PAGE)
    for place in ("h1", "#agreed", "#left"):
        assert HOSTILE in reader.page.locator(place).text_content()
    assert reader.page.locator("script, iframe, img, form").count() == 0
    reader.page.wait_for_timeout(1500)  # it loads itself again meanwhile
    reader.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_in_light_and_dark_and_on_a_phone(scheme, kit, read):
    leave(kit)
    reader = read(kit / PAGE, color_scheme=scheme)
    colours = "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    paper, ink = (sum(map(int, text[4:-1].split(", "))) for text in reader.page.evaluate(colours))
    assert abs(paper - ink) > 400
    assert (paper > ink) == (scheme == "light")
    reader.page.set_viewport_size({"width": 390, "height": 844})
    assert reader.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_time_on_the_page_is_that_of_this_machine(kit, read):
    write_site_page(kit, "a")
    at = read(kit / PAGE).page.locator("time").get_attribute("datetime")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()) < 60


def inked(page):
    """The share of a screenshot's pixels that differ from its corner, in each quarter from above."""
    pixels = imread(BytesIO(page.screenshot()))[:, :, :3]
    return [np.mean(np.abs(part - pixels[0, 0]).max(axis=2) > 0.3) for part in np.array_split(pixels, 4)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_of_a_sites_page_has_text_from_top_to_bottom(scheme, kit, read):
    leave(kit)
    shares = inked(read(kit / PAGE, color_scheme=scheme).page)
    assert all(0.002 < share < 0.5 for share in shares), shares


def test_names_of_messages_are_in_one_piece(kit, read):
    """Beside long contents, and on a phone: one line each."""
    leave(kit, reply="reply.model_kept")
    leave(kit, reply="reply.refinement")
    reader = read(kit / PAGE)
    for width in (1000, 390):
        reader.page.set_viewport_size({"width": width, "height": 800})
        lines = "[...document.querySelectorAll('#left td:nth-child(2) bdi')].map(e => e.getClientRects().length)"
        assert reader.page.evaluate(lines) == [1, 1]


class Stop(BaseException):
    """Ctrl-C."""


class Driver:
    """The analyst's side over statuses of a test: one each second, and then Ctrl-C."""

    study = SimpleNamespace(name=HOSTILE, participants=("a", HOSTILE), needed=2)

    def __init__(self, *statuses):
        self.statuses = iter(statuses)

    def server_status(self, _patience):
        status = next(self.statuses, None)
        if status is None:
            raise Stop
        if isinstance(status, Exception):
            raise status
        return (status,)

    def described(self, status):
        return status

    def last(self):
        return LAST


LAST = {"state": "failed", "why": HOSTILE, "at": "2026-11-19T04:15:04+00:00"}
PROGRESS = {
    "exchange": 3,
    "phase": "refine",
    "round": 2,
    "answered": ["a"],
    "waiting": [HOSTILE],
    "away": [HOSTILE],
    "excluded": [HOSTILE],
    "seconds": 1.0,
    "deadline": 60,
}
RUNNING = {
    "connected": ("a",),
    "away": [HOSTILE],
    "needed": 2,
    "jobs": ("job",),
    "progress": PROGRESS,
    "last": LAST,
}
IDLE = RUNNING | {"jobs": (), "progress": {}}


def write(path, *statuses):
    """The page, as ``federation status --html`` writes it."""
    with pytest.raises(Stop):
        keep_writing(Driver(*statuses), path)


@pytest.mark.parametrize("status", [RUNNING, IDLE, FederationError(HOSTILE)], ids=["running", "idle", "no server"])
def test_the_operators_page_shows_hostile_names_as_text_and_asks_nobody(status, tmp_path, read):
    write(tmp_path / "op.html", status)
    reader = read(tmp_path / "op.html")
    for place in ("h1", "#now", "#who"):
        assert HOSTILE in reader.page.locator(place).text_content()
    assert reader.page.locator("script, iframe, img, form, a").count() == 0
    assert reader.page.evaluate("window.broken === undefined")
    reader.page.wait_for_timeout(1500)  # while a job runs, it loads itself again meanwhile
    reader.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_operators_page_has_text_and_can_be_read_on_a_phone(scheme, tmp_path, read):
    write(tmp_path / "op.html", RUNNING)
    page = read(tmp_path / "op.html", color_scheme=scheme).page
    shares = inked(page)
    assert all(0.002 < share < 0.5 for share in shares[:3]), shares
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_operators_page_shows_how_the_run_goes_on_without_touching_the_browser(tmp_path, read):
    write(tmp_path / "op.html", RUNNING)
    reader = read(tmp_path / "op.html")
    expect(reader.page.locator("#now")).to_contain_text("refine 2: waiting for")
    done = {"state": "done", "why": "the result is in study/model.intarsia", "at": "2026-11-19T04:15:04+00:00"}
    write(tmp_path / "op.html", RUNNING | {"progress": {}}, IDLE | {"last": done})
    expect(reader.page.locator("#now")).to_contain_text(
        "(UTC+0). The result is in study/model.intarsia.", timeout=10_000
    )
    reader.check_quiet()
