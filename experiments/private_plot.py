"""The picture of what differential privacy costs."""

from __future__ import annotations

from pathlib import Path

from experiments.figures import BOLD, Results
from experiments.measuring import FEDERATED
from experiments.plots import plt, save
from experiments.private import EPSILONS, ROWS
from experiments.private_page import SETTINGS, grid_name, values
from experiments.splits import LAYOUTS


def draw(rows: Results, path: Path) -> None:
    """Epsilon against the adjusted Rand index on the Gaussian grid, mean and worst, a line for each number of rows."""
    places = [*EPSILONS, 2 * EPSILONS[-1]]
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
    for axis, layout in zip(axes, LAYOUTS, strict=True):
        for number, n in enumerate(ROWS):
            for method in BOLD:
                found = [values(rows, grid_name(n), layout, method, epsilon) for epsilon in (*SETTINGS[1:], None)]
                if not all(map(len, found)):
                    continue
                ours = method == FEDERATED
                style = {"color": f"C{number}", "marker": "o" if ours else "s", "markersize": 5 if ours else 3}
                label = f"{method}, {n:,} rows each"
                axis.plot(places, [f.mean() for f in found], "-" if ours else "--", label=label, **style)
                if ours:
                    axis.plot(places, [f.min() for f in found], ":", color=f"C{number}", label="its worst split")
        axis.set_xscale("log", base=2)
        axis.set_xticks(places, [*(f"{epsilon:g}" for epsilon in EPSILONS), "no privacy"])
        axis.set_xlabel("ε of each participant, δ = 1e-6")
        axis.set_title(layout)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("adjusted Rand index, mean over splits")
    handles, labels = axes[1].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, fontsize=8, loc="lower center", ncol=3)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    save(figure, path)
