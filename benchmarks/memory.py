"""How many copies of the data ``intarsia fit`` holds at its peak.

A copy is rows × columns × 8 bytes, of all parties together. The peak is that of the real command in a process of its own,
less that of the same command on a few rows, which loads, draws and writes as much.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

MOST = 3.0  # copies
CLUSTERS, GAPS, SEED = 3, 0.05, 0
FEW = 300  # rows that weigh nothing
LOG = Path("build/memory.log")
# A process inherits the peak of the one that starts it, so one that is hardly there stands between
SMALL = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Case:
    """Which parties there are, and what is asked for."""

    parties: int
    gaps: bool = False
    named: bool = False
    lopsided: bool = False
    options: tuple[str, ...] = ("-k", str(CLUSTERS))

    @property
    def name(self) -> str:
        parts = ["one party" if self.parties == 1 else f"{self.parties} parties"]
        parts += ["5 % empty"] * self.gaps + ["one large cluster"] * self.lopsided
        return ", ".join(parts + ["--id"] * self.named + [" ".join(self.options) or "K chosen"])


ONE_SHOT = ("-k", str(CLUSTERS), "--one-shot")
CASES = (
    Case(1),
    Case(1, gaps=True),
    Case(1, options=ONE_SHOT),
    Case(1, lopsided=True, options=ONE_SHOT),
    Case(2),
    Case(2, gaps=True),
    Case(2, options=ONE_SHOT),
    Case(2, gaps=True, options=ONE_SHOT),
    Case(2, named=True),
)


def copies(case: Case, rows: int, columns: int) -> float:
    """Copies of the data at the peak."""
    with tempfile.TemporaryDirectory() as folder:
        files = [write(Path(folder), case, party, rows, columns) for party in range(case.parties)]
        options = (*case.options, *(("--id", "id") if case.named else ()))
        used = peak("fit", *files, *options, "--quiet", "-o", "study", where=folder)
        few = [write(Path(folder), case, party, FEW, columns) for party in range(case.parties)]
        used -= peak("fit", *few, *options, "--quiet", "-o", "small", where=folder)
    return used / (case.parties * rows * columns * 8)


def peak(*arguments: str, where: str) -> int:
    """The most bytes that a command has held."""
    command = [sys.executable, "-c", SMALL, "-m", "intarsia.cli", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"intarsia {' '.join(arguments)}: {done.stderr}")
    return int(done.stdout.split()[-1]) * (1 if sys.platform == "darwin" else 1024)


def write(folder: Path, case: Case, party: int, rows: int, columns: int) -> str:
    """A party's file: clear clusters, numbers with all their digits, units that differ, three in five columns shared."""
    rng = np.random.default_rng([SEED, party])
    first = party * 2 * columns // 5
    centres = np.random.default_rng(SEED).normal(0.0, 10.0, size=(CLUSTERS, first + columns))
    labels = rng.choice(CLUSTERS, size=rows, p=[0.9, 0.05, 0.05] if case.lopsided else None)
    table = {"id": [f"{party}-{k}" for k in range(rows)]} if case.named else {}
    for m in range(first, first + columns):
        column = pl.Series(10.0 ** (m % 4) * (centres[labels, m] + rng.normal(size=rows)))
        table[f"x{m:03d}"] = column.set(pl.Series(rng.random(rows) < GAPS), None) if case.gaps else column
    pl.DataFrame(table).write_csv(folder / f"{party}.csv")
    return f"{party}.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each party")
    parser.add_argument("--columns", type=int, default=50, help="of each party")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    asked = parser.parse_args()
    print(f"{asked.rows} rows × {asked.columns} columns per party; at most {MOST:g} copies\n")
    LOG.parent.mkdir(exist_ok=True)
    worst = 0.0
    with LOG.open("a") as log:
        for case in (case for case in CASES if asked.only in case.name):
            started = time.perf_counter()
            found = copies(case, asked.rows, asked.columns)
            worst = max(worst, found)
            print(f"{case.name:<45} {found:5.2f} copies{'' if found <= MOST else '  TOO MANY'}", flush=True)
            log.write(f"{asked.rows} × {asked.columns}, {case.name}: {time.perf_counter() - started:.0f} s\n")
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
