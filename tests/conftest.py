from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.attempts import FAILURES, write_failures

collect_ignore = [] if find_spec("nvflare") else ["e2e", "runtime/federation_case.py"]  # no doctest is in them

# a shell starts what runs in the background without SIGINT, and programs that tests start would ignore it, too
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "intarsia", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "intarsia"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests go to whichever worker is free, those in a browser all to one: starting two takes longer than it saves.

    So do those that share a federation.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = ("test_browser.py", "test_locks.py", "[federation]")
            return next((part for part in shared if part in nodeid), nodeid)

    return OneBrowser(config, log)


def pytest_terminal_summary(terminalreporter):
    if (path := os.environ.get(FAILURES)) and not hasattr(terminalreporter.config, "workerinput"):
        write_failures(Path(path), terminalreporter.stats)
