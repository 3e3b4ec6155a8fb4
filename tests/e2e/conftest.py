from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.attempts import FAILURES, write_failures


def pytest_terminal_summary(terminalreporter):
    if (path := os.environ.get(FAILURES)) and not hasattr(terminalreporter.config, "workerinput"):
        write_failures(Path(path), terminalreporter.stats)
