"""The page's pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "intarsia"  # the same bytes for the same figures
from matplotlib import pyplot as plt  # noqa: E402

from experiments.baselines import BASELINES  # noqa: E402
from experiments.linkages import (  # noqa: E402
    EXPONENTS,
    LINKAGES,
    PLANTED_NAMES,
    PLANTED_TRUTH,
    SOFTENINGS,
    merges,
    planted,
)
from experiments.measuring import CEILING, FEDERATED, GROUPING, K_CHOSEN, MIXTURE, ONE_SHOT  # noqa: E402
from experiments.splits import LAYOUTS  # noqa: E402
from experiments.studies import SEPARATIONS  # noqa: E402

Rows = list[dict[str, Any]]


def _values(rows: Rows, key: str, layout: str, way: str) -> np.ndarray:
    return np.array([row[key] for row in rows if row["layout"] == layout and row["way"] == way], dtype=float)


def _legend(figure: Any, axis: Any, columns: int) -> None:
    """Below everything, where it hides nothing."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        rows = -(-len(handles) // columns)
        figure.legend(handles, labels, fontsize=8, loc="lower center", ncol=columns)
        figure.tight_layout(rect=(0, 0.045 * rows + 0.02, 1, 1))


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def separation(rows: dict[str, Rows], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 6), sharey=True)
    for axis, layout in zip(axes, LAYOUTS, strict=True):
        for way in (FEDERATED, ONE_SHOT, CEILING, *BASELINES):
            found = [_values(rows[f"Gaussian {s:g}"], "adjusted_rand", layout, way) for s in SEPARATIONS]
            if all(len(values) for values in found):
                ours = way in {FEDERATED, ONE_SHOT}
                style = (
                    {"linewidth": 3, "marker": "o"} if ours else {"linewidth": 1.2, "linestyle": "--", "marker": "."}
                )
                label = f"{way} ({min(map(len, found))} splits)"
                axis.plot(SEPARATIONS, [values.mean() for values in found], label=label, **style)
        axis.set_title(layout)
        axis.set_xlabel("separation of the clusters")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("adjusted Rand index, mean over splits")
    _legend(figure, axes[1], 3)
    save(figure, path)


def perfect(rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
    ways = [way for way in GROUPING if way not in {K_CHOSEN, MIXTURE}]
    for axis, layout in zip(axes, LAYOUTS, strict=True):
        for shift, clear, label in ((-0.2, 1.0, "clear splits"), (0.2, 0.0, "ambiguous splits")):
            shares = []
            for way in ways:
                grouped, state = (_values(rows, key, layout, way) for key in ("aggregation", "clear"))
                mine = grouped[state == clear]
                shares.append(100 * float(np.mean(mine == 1)) if len(mine) else np.nan)
            axis.barh(np.arange(len(ways)) + shift, shares, height=0.38, label=label)
        axis.set_yticks(np.arange(len(ways)), ways, fontsize=8)
        axis.set_xlabel("splits with every local cluster in the right group, %")
        axis.set_title(layout)
        axis.grid(alpha=0.3, axis="x")
    axes[0].invert_yaxis()  # both: they share it
    _legend(figure, axes[1], 2)
    save(figure, path)


def linkages(path: Path) -> None:
    clusters = planted()
    figure, axes = plt.subplots(2, 4, figsize=(16, 8))
    markers, colours = ("x", "*", "o", "^", "D"), ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")
    panels = [("what belongs together", PLANTED_TRUTH)]
    panels += [(linkage, merges(clusters, linkage, 3)[-1]) for linkage in LINKAGES]
    for axis, (title, groups) in zip(axes.flat, panels, strict=True):
        names = dict(zip(dict.fromkeys(groups.tolist()), colours, strict=False))
        for z, points in enumerate(clusters.points):
            axis.scatter(
                points[:, 0], points[:, 1], s=14, marker=markers[z], color=names[int(groups[z])], label=PLANTED_NAMES[z]
            )
        axis.set_title(title, fontsize=10)
        axis.set_aspect("equal")
        axis.set_xticks([])
        axis.set_yticks([])
    axes.flat[0].legend(fontsize=7, loc="upper right")
    figure.tight_layout()
    save(figure, path)


def exponents(rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
    for axis, layout in zip(axes, LAYOUTS, strict=True):
        for how, style in (("greedy", "--"), ("search", "-")):
            for number, s in enumerate(SOFTENINGS):
                found = [_values(rows, "aggregation", layout, f"{how}, w={w:g}, s={s:g}") for w in EXPONENTS]
                if all(len(values) for values in found):
                    shares = [100 * float(np.mean(values == 1)) for values in found]
                    axis.plot(EXPONENTS, shares, style, color=f"C{number}", marker=".", label=f"{how}, softening {s:g}")
        axis.set_xlabel("exponent w")
        axis.set_title(layout)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("all splits: every cluster in the right group, %")
    _legend(figure, axes[1], 4)
    save(figure, path)
