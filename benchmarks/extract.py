"""Peak memory and time of ``intarsia participant extract`` for two million rows of a PostgreSQL of its own.

Two tables: one of 12 columns of all types, and one of 12 wider ones, with two columns of texts and four of ``numeric``.

::

    python -m benchmarks.extract [rows]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.databases import Server, environment, server

from benchmarks.memory import SMALL

LIMIT = 300  # MB, which are millions of bytes
TABLES = {
    "lab": """select g as id, 'P' || lpad(g::text, 8, '0') as patient, (random() * 90)::int as age,
  (random() * 300)::numeric(8, 2) as crp, (random() * 20)::numeric as hb, random() as ratio, g % 2 = 0 as treated,
  case g % 3 when 0 then 'ward a' when 1 then 'ward b' else 'icu' end as ward, date '2015-01-01' + g % 3000 as seen,
  timestamptz '2015-01-01' + g * interval '1 minute' as at, random()::real as r, random() * 1e6 as cells
from generate_series(1, {rows}) g""",
    "wide": """select g as id, md5(g::text) || md5((g + 1)::text) as patient,
  md5((g * 7)::text) || ' ' || md5(g::text) as note, (random() * 300)::numeric as crp,
  (random() * 20)::numeric as hb, (random() * 1e6)::numeric as cells, (random() * 9)::numeric(12, 6) as k, random() as ratio,
  random() * 1e6 as dose, timestamptz '2015-01-01' + g * interval '1 minute' as at,
  date '2015-01-01' + g % 3000 as seen, g % 2 = 0 as treated
from generate_series(1, {rows}) g""",
}


class Measured(NamedTuple):
    """What one extract took; ``peak`` in millions of bytes."""

    seconds: float
    size: float
    peak: float


def measure(database: Server, table: str, rows: int) -> Measured:
    """Make a table, and extract it in a process of its own."""
    database.run(f"create table {table} as {TABLES[table].format(rows=rows)}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cohort.sql").write_text(f"select * from {table} order by id")
        command = [sys.executable, "-c", SMALL, "-m", "intarsia.cli", "participant", "extract", "--query", "cohort.sql"]
        options = ["--database", database.url(), "-o", "a.parquet"]
        started = time.perf_counter()
        done = subprocess.run(
            [*command, *options], cwd=folder, env=environment(), check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - started
        peak = int(done.stdout.splitlines()[-1]) * 1024
        size = Path(folder, "a.parquet").stat().st_size
    return Measured(seconds, size / 1e6, peak / 1e6)


def main() -> None:
    """Extract, and fail if a process held more than the limit."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    peaks = []
    with server() as database:
        for table in TABLES:
            seconds, size, peak = measure(database, table, rows)
            peaks.append(peak)
            what = f"{table}: {rows:,} rows, 12 columns: {seconds:.1f} s, {size:.0f} MB on disk"
            print(f"{what}, peak {peak:.0f} MB (limit {LIMIT})", flush=True)
    if max(peaks) > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
