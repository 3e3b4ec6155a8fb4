"""Studies that are repeated: do numbers stay, and are clusters called new, gone, split or the same when they are?

``python -m experiments.repeats`` prints one line per change, layout and separation over random studies: in how many of them
every cluster is called as it was planted, the same among those whose first run had found the planted clusters, and the worst
share of the rows that no change concerns and that kept their number.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import intarsia
from experiments.splits import LAYOUTS
from intarsia.datasets import mask_features

N, ROWS, FEATURES = 4, 150, 16
CHANGES = ("same tables", "new rows", "70 % removed", "gone", "new", "new and gone", "moved", "split")
GIVEN, AUTO = "given", "auto"
SEEDS = range(1000, 1050)
FOUND = 0.9  # share of rows in their planted cluster, from which on a first run has found the planted clusters


class Repeated(NamedTuple):
    """One repeat: the states of all clusters, the planted ones, and the share of other rows that kept their number.

    ``found`` is the share of the rows that the first run put into their planted cluster.
    """

    states: dict[int, str]
    planted: dict[int, str]
    kept: float
    found: float

    @property
    def right(self) -> bool:
        """Whether every cluster is called as it was planted."""
        return self.states == self.planted


class World(NamedTuple):
    """Gaussian clusters at random places, and the columns of each participant."""

    centres: np.ndarray
    masks: np.ndarray

    @classmethod
    def of(cls, seed: int, layout: str, separation: float) -> World:
        """Return five clusters; the first three or four of them are used at first."""
        rng = np.random.default_rng([seed, 7])
        centres = rng.normal(0.0, separation, (5, FEATURES))
        return cls(centres, mask_features(FEATURES, N, layout=layout, random_state=rng))

    def tables(
        self, seed: int, shares: Mapping[int, float], moved: Mapping[int, np.ndarray] | None = None
    ) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
        """Return tables in which clusters have rows in these shares, and the cluster of each row."""
        rng, tables, truth = np.random.default_rng([seed, 11]), {}, {}
        for i in range(N):
            sizes = [int(share * ROWS / 3) for share in shares.values()]
            labels = rng.permutation(np.repeat(list(shares), sizes))
            centres = self.centres.copy()
            for k, step in (moved or {}).items():
                centres[k] += step
            rows = centres[labels] + rng.normal(size=(len(labels), FEATURES))
            name = f"p{i}"
            tables[name] = {f"x{m:02d}": rows[:, m] for m in np.flatnonzero(self.masks[i])}
            truth[name] = labels
        return tables, truth


def repeated(change: str, layout: str, separation: float, seed: int, how: str = AUTO) -> Repeated:
    """Plant a change, repeat the study, and compare."""
    world, first = World.of(seed, layout, separation), {0: 1.0, 1: 1.0, 2: 1.0}
    rng = np.random.default_rng([seed, 13])
    tables, truth = world.tables(seed, first)
    shares, moved = dict(first), {}
    match change:
        case "70 % removed":
            shares[1] = 0.3
        case "gone":
            del shares[1]
        case "new":
            shares[3] = 1.0
        case "new and gone":
            del shares[1]
            shares[3] = 1.0
        case "moved":
            step = rng.normal(size=FEATURES)
            moved[1] = step / np.sqrt(np.square(step).mean()) * 0.6
        case "split":
            shares[4] = 0.5
            shares[1] = 0.5
            world.centres[4] = world.centres[1] + 0.7 * rng.normal(0.0, separation, FEATURES)
    again, truth_again = (tables, truth) if change == "same tables" else world.tables(seed + 500, shares, moved)
    k = len(shares) if how == GIVEN else "auto"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = intarsia.cluster(tables, 3, random_state=seed)
        now = intarsia.cluster(again, k, previous=before, random_state=seed + 1)
    number, found = _numbers(before.labels, truth)
    planted = dict.fromkeys(range(3), "same")
    if change == "gone" or change == "new and gone":
        planted[number[1]] = "gone"
    if change == "moved":
        planted[number[1]] = "moved"
    if change in {"new", "new and gone", "split"}:
        planted[3] = "new"
    assert now.repeat is not None
    states = {c.number: c.state for c in now.repeat.changes}
    concerned = {"new": 3, "new and gone": 3, "gone": 1, "70 % removed": 1, "moved": 1, "split": 1}.get(change)
    return Repeated(states, planted, _kept(before, again, truth_again, now.labels, concerned), found)


def _numbers(labels: Mapping[object, np.ndarray], truth: Mapping[str, np.ndarray]) -> tuple[dict[int, int], float]:
    """Return the number of each true cluster, and the share of rows that have the number of theirs."""
    table = np.zeros((5, 8))
    for name, each in labels.items():
        np.add.at(table, (truth[str(name)], each), 1)
    numbers = {k: int(table[k].argmax()) for k in range(3)}
    return numbers, float(sum(table[k, number] for k, number in numbers.items()) / table.sum())


def _kept(before, again, truth, labels, concerned: int | None) -> float:
    """Return the share of rows of other clusters that have the number that the previous model gives them."""
    same = n = 0
    for name, old in before.predict(again).items():
        others = (truth[name] != concerned) & (truth[name] != 4)
        same += int((old == labels[name])[others].sum())
        n += int(others.sum())
    return same / n


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--separations", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--changes", nargs="+", default=CHANGES)
    options = parser.parse_args()
    head = f"{'right':>7} {'of those found':>14} {'rows kept: worst':>17} {'mean':>6}"
    print(f"{'change':>14} {'layout':>6} {'separation':>10} {'K':>6} {head}")
    for change in options.changes:
        for layout in LAYOUTS:
            for separation in options.separations:
                for how in (AUTO, GIVEN):
                    runs = [repeated(change, layout, separation, seed, how) for seed in SEEDS[: options.seeds]]
                    kept, right = [run.kept for run in runs], sum(run.right for run in runs)
                    found = [run.right for run in runs if run.found >= FOUND]
                    these = f"{right:>3}/{len(runs):<3} {sum(found):>10}/{len(found):<3}"
                    figures = f"{these} {min(kept):>17.3f} {np.mean(kept):>6.3f}"
                    print(f"{change:>14} {layout:>6} {separation:>10} {how:>6} {figures}", flush=True)


if __name__ == "__main__":
    main()
