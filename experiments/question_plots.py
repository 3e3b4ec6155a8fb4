"""The five small pictures of the page's first screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from experiments.baselines import BASELINES, CENTRALISED, MASKED_LLOYD
from experiments.choosing_k import K_WAYS
from experiments.figures import BOLD, Results, paired
from experiments.measuring import FEDERATED, ONE_SHOT
from experiments.plots import plt, save
from experiments.questions import REAL, gap, gaps, number_parts, off_by, title
from experiments.random_layouts import LAYOUT, RANDOM

WIDTH = 4.4  # inches
COLOURS = {FEDERATED: "C0", ONE_SHOT: "C1"}
MARKERS = {FEDERATED: "o", ONE_SHOT: "s", MASKED_LLOYD: "x", CENTRALISED: "*"}
WORDS = {MASKED_LLOYD: "pooled rows, same columns", CENTRALISED: "pooled rows, all columns"}


def draw_all(rows: Results, images: Path) -> None:
    """Write every picture; one of which nothing is measured is empty."""
    for name, draw, height in (
        ("pooling", pooling, 1.6), ("lacking", lacking, 2.2), ("methods", methods, 2.3), ("behind", behind, 2.0),
        ("number", number, 1.9),
    ):  # fmt: skip
        figure, axis = plt.subplots(figsize=(WIDTH, height))
        draw(rows, axis)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
        axis.xaxis.label.set_size(7)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        if handles := axis.get_legend_handles_labels()[0]:
            axis.legend(
                fontsize=6.5, ncol=len(handles), loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False,
                columnspacing=1.0, handletextpad=0.3,
            )  # fmt: skip
        figure.tight_layout(pad=0.3)
        save(figure, images / f"question-{name}.svg")


def _points(rows: Results, axis: Any, cells: tuple[tuple[str, str], ...], ways: tuple[str, ...]) -> None:
    """Mean adjusted Rand index of each way, one line of points for each data set and layout."""
    for way in ways:
        means = [paired(rows[name], "adjusted_rand", layout, FEDERATED, way)[1] for name, layout in cells]
        axis.plot(
            [values.mean() if len(values) else np.nan for values in means], range(len(cells)), MARKERS[way],
            label=WORDS.get(way, way), markersize=5, markerfacecolor="none",
        )  # fmt: skip
    axis.set_yticks(range(len(cells)), [title(*cell) for cell in cells])
    axis.set_ylim(len(cells) - 0.5, -0.5)
    axis.set_xlabel("adjusted Rand index, mean over splits")


def pooling(rows: Results, axis: Any) -> None:
    _points(rows, axis, tuple((name, LAYOUT) for name in RANDOM), (FEDERATED, ONE_SHOT, MASKED_LLOYD))


def lacking(rows: Results, axis: Any) -> None:
    found = [each for name, layout in REAL if (each := gap(rows, name, layout, FEDERATED, CENTRALISED))]
    axis.barh(range(len(found)), [-each.ahead for each in found], xerr=[each.error for each in found])
    axis.set_yticks(range(len(found)), [title(each.name, each.layout) for each in found])
    axis.invert_yaxis()
    axis.set_xlabel("federated minus k-means with all columns")


def methods(rows: Results, axis: Any) -> None:
    _points(rows, axis, REAL, (FEDERATED, ONE_SHOT))


def behind(rows: Results, axis: Any) -> None:
    ways = [way for way in BASELINES if way != CENTRALISED]
    for mine, shift in zip(BOLD, (-0.15, 0.15), strict=True):
        found = gaps(rows, mine)
        y = [ways.index(each.way) + shift for each in found]
        axis.plot([each.ahead for each in found], y, MARKERS[mine], label=f"ahead of {mine}", markersize=4, alpha=0.7)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(range(len(ways)), [way.removeprefix("pooled, ") for way in ways])
    axis.set_ylim(len(ways) - 0.5, -0.5)
    axis.set_xlabel("theirs minus ours")


def number(rows: Results, axis: Any) -> None:
    parts = number_parts()
    for way, shift in zip(K_WAYS[:2], (-0.2, 0.2), strict=True):
        found = [off_by(rows, names, way) for names in parts.values()]
        for test, alpha, label in ((0, 1.0, f"{way}: right"), (1, 0.4, "off by one")):
            share = [100 * np.mean(np.abs(off) <= test) if len(off) else np.nan for off in found]
            y = np.arange(len(parts)) + shift
            axis.barh(y, share, height=0.36, color=COLOURS[way], alpha=alpha, label=label, zorder=2 - test)
    axis.set_yticks(range(len(parts)), list(parts))
    axis.invert_yaxis()
    axis.set_xlabel("cases, %")
