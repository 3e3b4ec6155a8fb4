from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

settings.register_profile(
    "intarsia", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "intarsia"))


class OneBrowser(LoadScopeScheduling):
    """Tests go to whichever worker is free, those in a browser all to one: starting two takes longer than it saves."""

    def _split_scope(self, nodeid: str) -> str:
        return "browser" if "test_browser.py" in nodeid else nodeid


def pytest_xdist_make_scheduler(config, log):
    return OneBrowser(config, log)
