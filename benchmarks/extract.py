"""Peak memory and time of ``intarsia participant extract`` for two million rows of a PostgreSQL of its own.

::

    python -m benchmarks.extract [rows]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.databases import environment, server

LIMIT = 300  # MiB
TABLE = """create table lab as select g as id, 'P' || lpad(g::text, 8, '0') as patient, (random() * 90)::int as age,
  (random() * 300)::numeric(8, 2) as crp, (random() * 20)::numeric as hb, random() as ratio, g % 2 = 0 as treated,
  case g % 3 when 0 then 'ward a' when 1 then 'ward b' else 'icu' end as ward, date '2015-01-01' + g % 3000 as seen,
  timestamptz '2015-01-01' + g * interval '1 minute' as at, random()::real as r, random() * 1e6 as cells
from generate_series(1, {rows}) g;"""


def main() -> None:
    """Extract, and fail if the process held more than the limit."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with server() as database, tempfile.TemporaryDirectory() as folder:
        database.run(TABLE.format(rows=rows))
        Path(folder, "cohort.sql").write_text("select * from lab order by id")
        command = [sys.executable, "-m", "intarsia.cli", "participant", "extract", "--query", "cohort.sql"]
        started = time.perf_counter()
        options = ["--database", database.url(), "-o", "a.parquet"]
        subprocess.run([*command, *options], cwd=folder, env=environment(), check=True)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size = Path(folder, "a.parquet").stat().st_size / 2**20
    print(f"{rows:,} rows, 12 columns: {seconds:.1f} s, {size:.0f} MiB on disk, peak {peak:.0f} MiB (limit {LIMIT})")
    if peak > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
