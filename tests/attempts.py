"""``python -m tests.attempts unit``, or ``e2e``: run these tests; those that fail run once more, alone.

A machine that also does something else can fail a test that measures. A test that passes only at the second attempt is
flaky: it is named at the end of the output and in ``build/flaky-unit.txt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

FAILURES = "INTARSIA_FAILURES"  # where a run of pytest writes the tests that failed, by name, with their last line
MOST = 10  # tests that a busy machine may fail; if more fail, no second attempt is made
Words = tuple[str, ...]
ALONE = (  # their tests of this mark measure seconds or memory
    "tests/e2e/test_overhead.py",
    "tests/report/test_browser.py",
    "tests/cli/test_memory.py",
    "tests/runtime/test_processes.py",
)
GROUPS: dict[str, tuple[Words, ...]] = {
    "unit": (("--numprocesses", "2"),),
    "e2e": (
        (
            *("-m", "e2e", "tests/e2e", "tests/runtime/test_conformance.py", "--ignore", "tests/e2e/test_overhead.py"),
            *("--numprocesses", "3", "--durations", "12"),
        ),
        ("-m", "e2e", *ALONE, "-s"),
    ),
}


def write_failures(path: Path, stats: dict[str, list]) -> None:
    """Called by ``conftest.py`` at the end of a run of pytest."""
    reports = [*stats.get("failed", ()), *stats.get("error", ())]
    path.write_bytes(msgspec.json.encode({report.nodeid: last_line(report) for report in reports}))


def last_line(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().splitlines()[0][:200]


def attempt(words: Words, failures: Path) -> tuple[int, dict[str, str]]:
    """One run of pytest: its exit status, and what failed."""
    failures.unlink(missing_ok=True)
    failures.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", *words]
    environment = os.environ | {FAILURES: str(failures), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=False)
    return done.returncode, msgspec.json.decode(failures.read_bytes()) if failures.exists() else {}


def run(groups: Iterable[Words], report: Path, *more: str) -> int:
    """Run all groups of tests, and what failed in each once more; the status is that of the last attempts."""
    flaky, failed, status = {}, {}, 0
    report.unlink(missing_ok=True)
    for words in groups:
        rc, first = attempt((*words, *more), report.parent / "failures.json")
        failed |= first if len(first) > MOST else {}
        if rc and 0 < len(first) <= MOST:
            again = words[:2] if words[0] == "-m" else ()  # the same marker, and the tests by name
            rc, second = attempt((*again, *first), report.parent / "failures.json")
            flaky |= {name: why for name, why in first.items() if name not in second} if rc in (0, 1) else {}
            failed |= second
        status = status or rc
    lines = [f"FLAKY (failed, then passed): {name}: {why}" for name, why in flaky.items()]
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("".join(f"{line}\n" for line in lines))
    lines += [f"FAILED: {name}: {why}" for name, why in failed.items()]
    print("", *lines, f"attempts: {len(failed)} failed, {len(flaky)} flaky ({report})", sep="\n", flush=True)  # noqa: T201
    return status


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    sys.exit(run(GROUPS[kind], Path(f"build/flaky-{kind}.txt"), *rest))
