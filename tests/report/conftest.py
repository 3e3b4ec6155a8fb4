"""A real browser for the page."""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# no sandbox: tests also run as root; the rest keeps the browser from talking to its maker
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def find_browser():
    return os.environ.get("INTARSIA_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    path = find_browser()
    if path is None:
        message = f"no browser ({', '.join(NAMES)}) is there. Hint: make browser, or INTARSIA_BROWSER=/path/to/one"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield running
        running.close()
