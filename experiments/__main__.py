"""Measure, resume, and render.

    python -m experiments reproduce [--quick] [--more]     everything below, then docs/evidence.md
    python -m experiments run [--study NAME]… [--layout NAME] [--splits N] [--jobs N] [--quick]     what is not measured yet
    python -m experiments render [--quick]        the page from what is measured
    python -m experiments list                    the studies

A run can be stopped at any time and goes on where it stopped. Results are CSV files in experiments/results, one row per
split and way. --quick takes three splits, leaves slow ways out, and writes to build/quick instead.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from experiments import render, store
from experiments.splits import LAYOUTS
from experiments.studies import STUDIES
from intarsia.exceptions import IntarsiaError

QUICK_SPLITS = 3
RECENT = 60
QUICK_FOLDER = "build/quick"


def one_split(name: str, layout: str, seed: int, ways: list[str]) -> list[dict[str, object]]:
    """Measure these ways on one split."""
    study = STUDIES[name]
    number = study.first + seed
    found = study.measure(study.case(layout, number), study.n_clusters, number, ways)
    return [{"study": name, "layout": layout, "split": number, "way": way, **row} for way, row in found]


def missing(
    names: list[str], layouts: tuple[str, ...], n_splits: int, *, quick: bool
) -> Iterator[tuple[str, str, int, list[str]]]:
    """What is to be measured still: the first split of everything, then the second of everything, and so on."""
    known = {name: store.done(name) for name in names}
    for seed in range(n_splits):
        for name in names:
            for layout in layouts:
                tried = STUDIES[name].ways(layout, seed, quick=quick)
                if ways := [way for way in tried if (layout, str(STUDIES[name].first + seed), way) not in known[name]]:
                    yield name, layout, seed, ways


def run(names: list[str], layouts: tuple[str, ...], n_splits: int, jobs: int, *, quick: bool) -> None:
    tasks = list(missing(names, layouts, n_splits, quick=quick))
    if not tasks:
        print("everything is measured already")
        return
    started = time.monotonic()
    ends = [started]
    pool = ProcessPoolExecutor(jobs)
    try:
        running = {pool.submit(one_split, *task): task for task in tasks}
        for count, future in enumerate(as_completed(running), 1):
            name, layout, seed, ways = running[future]
            store.append(name, future.result())
            ends.append(time.monotonic())
            recent = ends[-1] - ends[max(0, len(ends) - 1 - RECENT)]  # slow ways are tried on the first splits only
            left = recent / min(count, RECENT) * (len(tasks) - count)
            print(
                f"{count}/{len(tasks)}  {name}, {layout}, split {seed}: {len(ways)} ways  "
                f"({(ends[-1] - started) / 60:.1f} min gone, about {left / 60:.1f} left)",
                flush=True,
            )
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        sys.exit("stopped; what is measured is kept, and the same command goes on from here")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (("reproduce", "measure what is missing, then render"), ("run", "measure what is missing")):
        runner = commands.add_parser(command, help=text)
        runner.add_argument("--study", action="append", choices=sorted(STUDIES), help="only this one; may be repeated")
        runner.add_argument(
            "--more", action="store_true", help="also what goes beyond the paper: missing values, choosing K"
        )
        runner.add_argument("--layout", choices=LAYOUTS, help="only this one")
        runner.add_argument(
            "--splits", type=int, help="at most so many random splits per layout (default: as the study says)"
        )
        runner.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
        runner.add_argument(
            "--quick", action="store_true", help=f"{QUICK_SPLITS} splits, no slow ways, to {QUICK_FOLDER}"
        )
    commands.add_parser("render", help="write the page").add_argument("--quick", action="store_true")
    commands.add_parser("list", help="name the studies")
    options = parser.parse_args()
    if options.command == "list":
        print("\n".join(STUDIES))
        return
    if options.quick:
        os.environ["INTARSIA_RESULTS"] = QUICK_FOLDER
    try:
        if options.command in {"run", "reproduce"}:
            layouts = (options.layout,) if options.layout else LAYOUTS
            most = options.splits or (QUICK_SPLITS if options.quick else max(s.splits for s in STUDIES.values()))
            usual = [name for name, study in STUDIES.items() if options.more or not study.more]
            run(options.study or usual, layouts, most, options.jobs, quick=options.quick)
        if options.command in {"render", "reproduce"}:
            page = render.write(Path(QUICK_FOLDER) if options.quick else Path("docs"))
            print(f"written: {page}")
    except IntarsiaError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
