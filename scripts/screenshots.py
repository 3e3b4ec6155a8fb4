"""Pictures of the report for the docs: `make picture` draws them anew, in the browser that the tests use."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.report.conftest import QUIET, find_browser

import intarsia

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DESK = {"width": 1000, "height": 760}


def main() -> None:  # noqa: D103
    result = intarsia.cluster(intarsia.datasets.load_heart_disease("pandas").tables, 2, random_state=0)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = result.report(Path(folder) / "report.html", title="Four hospitals")
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        for name, section, how in (
            ("report-summary", "summary", {}),
            ("report-clusters", "profiles", {"color_scheme": "dark"}),
            ("report-left", "left", {}),
        ):
            context = browser.new_context(viewport=DESK, reduced_motion="reduce", **how)
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready='charts']")
            _show(page, section)
            page.screenshot(path=IMAGES / f"{name}.png")
            context.close()
        browser.close()


def _show(page: Page, section: str) -> None:
    """A section at the top of the screen, once charts above it have their size."""
    for _ in range(3):
        if section != "summary":
            page.evaluate(f"document.getElementById({section!r}).scrollIntoView()")
        page.wait_for_timeout(400)


if __name__ == "__main__":
    main()
