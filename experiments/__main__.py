"""Measure, resume, and render.

    python -m experiments reproduce [--quick] [--more]     everything below, then docs/evidence.md
    python -m experiments run [--study NAME]… [--way NAME]… [--layout NAME] [--splits N] [--jobs N] [--quick]     what is not
                                                  measured yet
    python -m experiments forget --way NAME… [--study NAME]…     remove the results of a way, to measure it anew
    python -m experiments render [--quick]        the page from what is measured
    python -m experiments list                    the studies

A run can be stopped at any time and goes on where it stopped. Results are CSV files in experiments/results, one row per
split and way. The name of a way may contain * (--way "one-shot*"). --quick takes three splits, leaves slow ways out, and
writes to build/quick instead.
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
from experiments.linkages import SWEEP
from experiments.studies import ALL_LAYOUTS, STUDIES
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
    names: list[str], layouts: tuple[str, ...], n_splits: int, *, quick: bool, only: list[str] | None = None
) -> Iterator[tuple[str, str, int, list[str]]]:
    """What is to be measured still: the first split of everything, then the second of everything, and so on."""
    known = {name: store.done(name) for name in names}
    for seed in range(n_splits):
        for name in names:
            for layout in STUDIES[name].layouts:
                if layout not in layouts:
                    continue
                tried = [
                    way
                    for way in STUDIES[name].ways(layout, seed, quick=quick)
                    if only is None or store.matches(way, only)
                ]
                if ways := [way for way in tried if (layout, str(STUDIES[name].first + seed), way) not in known[name]]:
                    yield name, layout, seed, ways


def forget(names: list[str], ways: list[str]) -> None:
    """Remove what was measured of these ways."""
    for name in names:
        if removed := store.forget(name, ways):
            print(f"{name}: {removed} rows removed")


def check_ways(names: list[str], ways: list[str] | None) -> None:
    """Stop if a name or pattern fits no way of these studies."""
    known = list(dict.fromkeys(way for name in names for way in STUDIES[name].tried if way not in SWEEP))
    if unknown := [way for way in ways or () if not any(store.matches(each, [way]) for each in known)]:
        sys.exit(f"no study has the way {unknown[0]!r}. Hint: one of\n  " + "\n  ".join(known))


def run(
    names: list[str], layouts: tuple[str, ...], n_splits: int, jobs: int, *, quick: bool, only: list[str] | None = None
) -> None:
    tasks = list(missing(names, layouts, n_splits, quick=quick, only=only))
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
    options = _parser().parse_args()
    if options.command == "list":
        print("\n".join(STUDIES))
        return
    if options.quick:
        os.environ["INTARSIA_RESULTS"] = QUICK_FOLDER
    try:
        _do(options)
    except IntarsiaError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _do(options: argparse.Namespace) -> None:
    if options.command != "render":
        check_ways(options.study or [*STUDIES], options.way)
    if options.command == "forget":
        forget(options.study or [*STUDIES], options.way)
    if options.command in {"run", "reproduce"}:
        layouts = (options.layout,) if options.layout else ALL_LAYOUTS
        most = options.splits or (QUICK_SPLITS if options.quick else max(s.splits for s in STUDIES.values()))
        usual = [name for name, study in STUDIES.items() if options.more or not study.more]
        run(options.study or usual, layouts, most, options.jobs, quick=options.quick, only=options.way)
    if options.command in {"render", "reproduce"}:
        page = render.write(Path(QUICK_FOLDER) if options.quick else Path("docs"))
        print(f"written: {page}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in (
        ("reproduce", "measure what is missing, then render"),
        ("run", "measure what is missing"),
        ("forget", "remove results"),
    ):
        parts = commands.add_parser(command, help=text)
        parts.add_argument("--study", action="append", choices=sorted(STUDIES), help="only this one; may be repeated")
        parts.add_argument(
            "--way",
            action="append",
            required=command == "forget",
            help="only this one; * fits anything; may be repeated",
        )
        parts.add_argument(
            "--quick", action="store_true", help=f"{QUICK_SPLITS} splits, no slow ways, to {QUICK_FOLDER}"
        )
        if command == "forget":
            continue
        parts.add_argument(
            "--more", action="store_true", help="also what goes beyond the paper: missing values, choosing K, privacy"
        )
        parts.add_argument("--layout", choices=ALL_LAYOUTS, help="only this one")
        parts.add_argument(
            "--splits", type=int, help="at most so many random splits per layout (default: as the study says)"
        )
        parts.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    commands.add_parser("render", help="write the page").add_argument("--quick", action="store_true")
    commands.add_parser("list", help="name the studies")
    return parser


if __name__ == "__main__":
    main()
