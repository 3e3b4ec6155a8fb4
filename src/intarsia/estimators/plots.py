"""Figures of a result, drawn with matplotlib if it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from intarsia.core.grouping.linkages import FORCE, height_of
from intarsia.exceptions import SettingError, install
from intarsia.results.outcome import Outcome

_MOST_NAMES = 60  # leaves, beyond which names would overlap


def plot_n_clusters(outcome: Outcome, linkage: object = FORCE) -> Any:
    """Return a figure of the silhouette of every cut, and of the tree that the linkage made."""
    if outcome.merge_tree is None or (outcome.found is None and not outcome.silhouettes):
        raise SettingError("n_clusters was given, so that there is no choice to show. Hint: n_clusters='auto'.")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError(f"a plot needs matplotlib, which is not installed. {install('plot')}") from None
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(left, outcome)
    _draw_tree(right, outcome)
    right.set_ylabel(height_of(linkage))
    return figure


def _draw_curve(axes: Any, outcome: Outcome) -> None:
    curve, n_clusters = outcome.silhouettes, len(outcome.model.centroids)
    numbers = sorted(curve)
    axes.plot(numbers, [curve[k] for k in numbers], marker=".", color="tab:blue")
    axes.axvline(n_clusters, color="tab:red", linewidth=1, label=f"chosen: {n_clusters}")
    if outcome.found is not None:
        axes.axvspan(0.5, outcome.found - 0.5, color="0.92", zorder=0, linewidth=0)
        label = f"found by participants: {outcome.found}"
        axes.axvline(outcome.found, color="0.4", linewidth=1, linestyle=":", label=label)
    axes.set_xlim(0.5, min(max(numbers, default=2), max(20, 2 * n_clusters)) + 0.5)
    axes.set_xlabel("number of clusters")
    axes.set_ylabel("silhouette over summaries")
    axes.legend(frameon=False)


def _draw_tree(axes: Any, outcome: Outcome) -> None:
    tree, n_clusters = outcome.merge_tree, len(outcome.model.centroids)
    if tree is None or tree.fewest_groups > 1 or tree.n_leaves == 1:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no tree that ends in one group", ha="center")
        return
    names = [f"{leaf.participant} {leaf.index}".replace("$", r"\$") for leaf in outcome.tree_leaves]
    linkage = tree.to_linkage(2.0)
    cut = 0.0
    if n_clusters < tree.n_leaves:
        above = linkage[1 - n_clusters, 2] if n_clusters > 1 else 1.05 * linkage[-1, 2]
        cut = float(np.mean([linkage[-n_clusters, 2], above]))
    dendrogram(
        linkage,
        ax=axes,
        labels=names,
        leaf_rotation=90,
        color_threshold=cut,
        no_labels=len(names) > _MOST_NAMES,
        above_threshold_color="0.6",
    )
    axes.axhline(cut, color="tab:red", linewidth=1)
    axes.set_title("merge tree of the local clusters", fontsize="medium")
