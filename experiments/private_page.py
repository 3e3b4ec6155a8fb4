"""The page about differential privacy: evidence-privacy.md with its picture, from the CSV files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.figures import BOLD, Results, bold, column, paired, table, verdict
from experiments.measuring import FEDERATED, ONE_SHOT
from experiments.private import (
    BOUNDS_OF_HOSPITALS,
    COMPLETE,
    EPSILONS,
    HOSPITALS,
    KMEANS,
    NARROW,
    POOLED_ROWS,
    PRIVATE,
    QMNIST,
    ROWS,
    WIDE,
    way_of,
)
from experiments.private_rivals import RIVALS
from experiments.splits import LAYOUTS

TEMPLATE = Path(__file__).parent / "evidence-privacy.template.md"
SETTINGS = (None, *EPSILONS)
MUCH = 0.1  # of the adjusted Rand index: where privacy costs more, the page says so first
Line = tuple[str, str, str]


def write(rows: Results, folder: Path) -> Path:
    """Render what is measured into ``folder``/evidence-privacy.md and ``folder``/images."""
    from experiments.private_plot import draw  # matplotlib is in the group of optional packages

    text = TEMPLATE.read_text(encoding="utf-8")
    parts = {
        "behind": behind, "rivals": rivals_ahead, "costly": costly, "bars": bars, "grid": grid_table,
        "hospitals": hospitals_table, "bounds": bounds_table, "qmnist": qmnist_table, "pooled": pooled_table,
    }  # fmt: skip
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part(rows))
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    draw(rows, images / "privacy.svg")
    page = folder / "evidence-privacy.md"
    page.write_text(text, encoding="utf-8")
    return page


def grid_name(n_rows: int) -> str:
    return f"Private Gaussian {n_rows}"


def pooled_name(n_rows: int) -> str:
    return f"Private pooled {n_rows}"


def values(rows: Results, name: str, layout: str, method: str, epsilon: float | None) -> np.ndarray:
    """Adjusted Rand index, or accuracy in hospitals, split by split."""
    return column(rows[name], _key(name), layout=layout, way=way_of(method, epsilon))


def _key(name: str) -> str:
    return "accuracy" if name == HOSPITALS else "adjusted_rand"


def losses(rows: Results, name: str, layout: str, method: str, epsilon: float) -> np.ndarray:
    """What privacy costs on each split that was measured with and without it."""
    without, private = paired(rows[name], _key(name), layout, way_of(method, None), way_of(method, epsilon))
    return without - private


def cell(found: np.ndarray, scale: float = 1.0) -> str:
    """Mean (worst)."""
    digits = 3 if scale == 1.0 else 1
    return f"{scale * found.mean():.{digits}f} ({scale * found.min():.{digits}f})" if len(found) else ""


def _splits(rows: Results, name: str, layout: str, methods: tuple[str, ...]) -> str:
    """On how many splits all these cells were measured."""
    numbers = {len(f) for m in methods for e in SETTINGS if len(f := values(rows, name, layout, m, e))}
    return "–".join(map(str, sorted({min(numbers), max(numbers)}))) if numbers else "0"


# -- tables -------------------------------------------------------------------------------------------------------

OF_EPSILONS = ("no privacy", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))


def grid_table(rows: Results) -> str:
    lines = [
        (
            f"{n:,}", layout, bold(method), _splits(rows, grid_name(n), layout, (method,)),
            *(cell(values(rows, grid_name(n), layout, method, epsilon)) for epsilon in SETTINGS),
        )
        for n in ROWS for layout in LAYOUTS for method in BOLD
    ]  # fmt: skip
    return table(("rows each", "layout", "method", "splits", *OF_EPSILONS), lines)


def hospitals_table(rows: Results) -> str:
    lines = [
        (
            layout, bold(method), _splits(rows, HOSPITALS, layout, (method,)),
            *(cell(values(rows, HOSPITALS, layout, method, epsilon), 100) for epsilon in SETTINGS[:-1]),
        )
        for layout in (WIDE, NARROW) for method in BOLD
    ]  # fmt: skip
    return table(("bounds", "method", "seeds", *OF_EPSILONS[:-1]), lines)


def bounds_table(_: Results) -> str:
    lines = [
        (f"`{name}`", f"{wide[0]} to {wide[1]}", f"{narrow[0]} to {narrow[1]}", why)
        for name, (wide, narrow, why) in BOUNDS_OF_HOSPITALS.items()
    ]
    return table(("column", WIDE, NARROW, "reason"), lines)


def qmnist_table(rows: Results) -> str:
    lines = [
        (
            layout, bold(method), _splits(rows, QMNIST, layout, (method,)),
            *(cell(values(rows, QMNIST, layout, method, epsilon)) for epsilon in (None, 1.0)),
        )
        for layout in LAYOUTS for method in BOLD
    ]  # fmt: skip
    return table(("layout", "method", "splits", *OF_EPSILONS[:1], OF_EPSILONS[2]), lines)


def pooled_table(rows: Results) -> str:
    lines = [
        (
            f"{n:,}", bold(way), _splits(rows, pooled_name(n), COMPLETE, (way,)),
            *(cell(values(rows, pooled_name(n), COMPLETE, way, epsilon)) for epsilon in SETTINGS),
        )
        for n in POOLED_ROWS for way in (KMEANS, *BOLD, *RIVALS)
    ]  # fmt: skip
    return table(("rows", "way", "splits", *OF_EPSILONS), lines)


# -- what was asked -----------------------------------------------------------------------------------------------


def _bars(rows: Results, method: str = FEDERATED) -> Iterator[Line]:
    for layout, least in zip(LAYOUTS, (0.84, 0.86), strict=True):
        found = values(rows, grid_name(3000), layout, method, 1.0)
        yield _at_least(f"Gaussians, {layout}, 3,000 rows each, ε = 1: mean at least {least}", found, least)
    found = values(rows, grid_name(3000), LAYOUTS[0], method, 1.0)
    worst = float(found.min(initial=np.inf))
    what = "the same, chain: worst at least 0.80 (prototype: 0.49 to 0.73)"
    yield what, f"{worst:.3f}" if len(found) else "", verdict(worst >= 0.8, len(found))
    for layout in LAYOUTS:
        lost = losses(rows, grid_name(30_000), layout, method, 0.5)
        yield _within(f"Gaussians, {layout}, 30,000 rows each, ε = 0.5: within 0.01 of no privacy", lost, 0.01)
    found = values(rows, HOSPITALS, WIDE, method, 2.0)
    what = "hospitals, wide bounds, ε = 2: mean at least 79 %, worst at least 76 %"
    holds = len(found) > 0 and found.mean() >= 0.79 and found.min() >= 0.76
    yield what, cell(found, 100), verdict(bool(holds), len(found))
    for layout in LAYOUTS:
        lost = losses(rows, QMNIST, layout, method, 1.0)
        yield _within(f"QMNIST 0/3/7, {layout}, ε = 1: within 0.02 of no privacy", lost, 0.02)
    found = values(rows, pooled_name(1200), COMPLETE, method, 1.0)
    yield _at_least("one complete table, 1,200 rows, ε = 1: mean at least 0.85", found, 0.85)
    yield from _against_rivals(rows, method)


def _at_least(what: str, found: np.ndarray, least: float) -> Line:
    return what, cell(found), verdict(len(found) > 0 and bool(found.mean() >= least), len(found))


def _within(what: str, lost: np.ndarray, most: float) -> Line:
    said = f"lost {lost.mean():.4f} on average, {lost.max():.4f} at most" if len(lost) else ""
    return what, said, verdict(len(lost) > 0 and bool(lost.mean() <= most), len(lost))


def _against_rivals(rows: Results, method: str) -> Iterator[Line]:
    for n in POOLED_ROWS:
        for rival in RIVALS:
            gaps = [_gap(rows, n, rival, method, epsilon) for epsilon in EPSILONS if epsilon >= 1]
            found = [ours.mean() - theirs.mean() for ours, theirs in gaps if len(ours)]
            said = f"{min(found):+.4f} to {max(found):+.4f}" if found else ""
            what = f"one complete table, {n:,} rows: ahead of {rival} at every ε ≥ 1"
            yield what, said, verdict(bool(found) and min(found) >= 0, len(found))


def _gap(rows: Results, n: int, rival: str, method: str, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    name = pooled_name(n)
    return paired(rows[name], "adjusted_rand", COMPLETE, way_of(method, epsilon), way_of(rival, epsilon))


def bars(rows: Results) -> str:
    return table(("what was asked", "measured", "holds"), _bars(rows))


# -- where we are behind ------------------------------------------------------------------------------------------


def behind(rows: Results) -> str:
    """What was asked and does not hold: of the federated method, and what the one-shot method does not reach of it."""
    head = ("asked, and not reached", "measured", "holds")
    missed, also = (
        [line for line in _bars(rows, method) if line[2] not in {"yes", "not measured"}]
        for method in (FEDERATED, ONE_SHOT)
    )
    text = table(head, missed) if missed else "All that was asked of the federated method holds."
    if not also:
        return text
    return f"{text}\n\nThe one-shot method has no noisy rounds. It does not reach all of it:\n\n{table(head, also)}"


def rivals_ahead(rows: Results) -> str:
    """Every case in which another private clustering of one complete table is ahead, however small the difference."""
    lines = []
    for n in POOLED_ROWS:
        for method in BOLD:
            for rival in RIVALS:
                for epsilon in EPSILONS:
                    ours, theirs = _gap(rows, n, rival, method, epsilon)
                    if len(ours) and theirs.mean() > ours.mean():
                        error = float(np.std(theirs - ours) / np.sqrt(len(ours)))
                        beyond = "yes" if theirs.mean() - ours.mean() > 2 * error else "no"
                        figures = (f"{theirs.mean():.4f}", f"{ours.mean():.4f}", beyond)
                        lines.append((f"{n:,}", f"{epsilon:g}", method, rival, *figures))
    head = ("rows", "ε", "ours", "who is ahead", "theirs", "ours, mean", "beyond chance")
    return table(head, lines) if lines else "Nowhere."


def costly(rows: Results) -> str:
    """Every case in which privacy costs more than 0.1 on average, or on the worst split."""
    lines = []
    for name, data in PRIVATE.items():
        for layout in data.layouts:
            for method in BOLD:
                for epsilon in EPSILONS:
                    lost = losses(rows, name, layout, method, epsilon)
                    if len(lost) and lost.max() > MUCH:
                        many = f"{int((lost > MUCH).sum())} of {len(lost)}"
                        figures = (f"{lost.mean():.3f}", f"{lost.max():.3f}", many)
                        lines.append((name.removeprefix("Private "), layout, method, f"{epsilon:g}", *figures))
    head = ("data", "layout", "method", "ε", "lost on average", "at most", f"more than {MUCH:g} on")
    return table(head, lines) if lines else "Nowhere."
