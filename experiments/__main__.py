"""Measure, resume, and render.

    python -m experiments run [--study NAME]… [--splits N] [--jobs N]     what is not measured yet
    python -m experiments render                                          docs/measurements.md from what is measured
    python -m experiments list                                            the studies

A run can be stopped at any time and goes on where it stopped. Results are CSV files in experiments/results.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from experiments import render, store
from experiments.measuring import measure, order_preservation
from experiments.studies import STUDIES
from intarsia.exceptions import IntarsiaError


def one_split(name: str, layout: str, seed: int) -> list[dict[str, object]]:
    """Measure every way on one split that is not in the store yet."""
    study = STUDIES[name]
    split = study.split(layout, seed)
    known = store.done(name)
    rows: list[dict[str, object]] = []
    rate = order_preservation(split, seed)
    for way in study.ways(split.X.shape[1]):
        if (layout, str(seed), way) not in known:
            found = measure(split, study.n_clusters, seed, way) | {"order_preservation": rate}
            rows.append({"study": name, "layout": layout, "split": seed, "way": way, **found})
    return rows


def run(names: list[str], n_splits: int, jobs: int) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per process; there are as many processes as cores
    tasks = [(n, layout, seed) for n in names for layout in STUDIES[n].layouts for seed in range(n_splits)]
    started = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(one_split, *task): task for task in tasks}
        for count, future in enumerate(as_completed(running), 1):
            name, layout, seed = running[future]
            rows = future.result()
            if rows:
                store.append(name, rows)
            left = (time.monotonic() - started) / count * (len(tasks) - count)
            print(
                f"{count}/{len(tasks)}  {name}, {layout}, split {seed}: {len(rows)} new  ({left / 60:.1f} min left)",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="measure what is not measured yet")
    runner.add_argument("--study", action="append", choices=sorted(STUDIES), help="only this one; may be repeated")
    runner.add_argument("--splits", type=int, default=20, help="random splits per layout (default 20)")
    runner.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    commands.add_parser("render", help="write docs/measurements.md")
    commands.add_parser("list", help="name the studies")
    options = parser.parse_args()
    if options.command == "run":
        try:
            run(options.study or list(STUDIES), options.splits, options.jobs)
        except IntarsiaError as error:
            sys.exit(f"{type(error).__name__}: {error}")
    elif options.command == "render":
        render.write()
    else:
        print("\n".join(STUDIES))


if __name__ == "__main__":
    main()
