"""The page in a site's kit in a real Chromium, as a data manager has it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from intarsia.federation.kit_folder import write_study
from intarsia.federation.pages import PAGE, write_site_page
from intarsia.federation.site import RELEASES
from intarsia.federation.site_settings import toml_lines
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import LEFT, Journal
from tests.report import studies

HOSTILE = " ".join(studies.HOSTILE)
SECONDS = 2.5  # until a message is seen: one for the page, one until it loads itself again, and the browser's own


@pytest.fixture
def kit(tmp_path):
    write_study(tmp_path, Study("heart", ("a", "b")))
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


def test_a_message_is_seen_soon_after_its_line_in_the_journal_without_touching_the_browser(kit, read):
    leave(kit)
    reader = read(kit / PAGE)
    assert reader.page.locator("#left tbody tr").count() == 1
    leave(kit, size=98_765)
    written, line = (kit / PAGE).stat().st_mtime, (kit / RELEASES).stat().st_mtime
    assert written - line < 1.0
    started = time.monotonic()
    reader.page.get_by_text("98,765").first.wait_for(timeout=10_000)
    assert time.monotonic() - started < SECONDS
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
