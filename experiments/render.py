"""From results to a page that a person reads: docs/measurements.md, with a plot of the Gaussian grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments import store
from experiments.measuring import CEILING, OURS, WAYS
from experiments.studies import SEPARATIONS, STUDIES

PAGE = Path("docs/measurements.md")
TEMPLATE = Path("experiments/measurements.template.md")
PLOT = Path("docs/images/separation.svg")
BOLD = ("federated, search", "one-shot, search")
SEE_MORE = ("centralised k-means, all columns", CEILING)  # they know what nobody knows
# Tables 2 to 5 of the paper: accuracy and relative centroid distance; features dealt by importance, Method A in the chain,
# Method B in the core; how many splits is not said
PAPER = {
    ("HAR", "chain"): ("99.87 ± 0.04", "0.005 ± 0.001", "99.87 ± 0.04", "0.005 ± 0.001"),
    ("HAR", "core"): ("99.94 ± 0.01", "0.002 ± 0.001", "99.94 ± 0.00", "0.002 ± 0.001"),
    ("QMNIST 0/3/7", "chain"): ("92.16 ± 1.28", "0.058 ± 0.021", "91.37 ± 1.35", "0.066 ± 0.024"),
    ("QMNIST 0/3/7", "core"): ("94.59 ± 0.46", "0.059 ± 0.009", "94.36 ± 0.45", "0.062 ± 0.011"),
    ("DIM-set 128", "chain"): ("100 ± 0.00", "0.0 ± 0.0", "100 ± 0.00", "0.0 ± 0.0"),
    ("DIM-set 128", "core"): ("100 ± 0.00", "0.0 ± 0.0", "100 ± 0.00", "0.0 ± 0.0"),
}


def write() -> None:
    rows = {name: store.read(name) for name in STUDIES}
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace(
        "{tables}", "\n\n".join(table(name, rows[name]) for name in STUDIES if not name.startswith("Gauss"))
    )
    text = (
        text.replace("{order}", order_table(rows)).replace("{grid}", grid_table(rows)).replace("{ahead}", ahead(rows))
    )
    PAGE.write_text(text, encoding="utf-8")
    plot(rows)


def column(rows: list, key: str, **where: str) -> np.ndarray:
    return np.array([row[key] for row in rows if all(row[k] == v for k, v in where.items())], dtype=float)


def spread(values: np.ndarray, worst: float, digits: int, scale: float = 1.0) -> str:
    if not len(values) or np.isnan(values).all():
        return "|"
    return (
        f"{scale * np.nanmean(values):.{digits}f} ± {scale * np.nanstd(values):.{digits}f} | {scale * worst:.{digits}f}"
    )


def table(name: str, rows: list) -> str:
    head = (
        f"### {name}\n\nFrom {STUDIES[name].source}.\n\n| layout | way | splits | perfect aggregation | accuracy % | worst "
        "| centroid error | worst | kB from each party |\n|---|---|---|---|---|---|---|---|---|"
    )
    lines = [head]
    for layout in STUDIES[name].layouts:
        for way, (accuracy, error) in zip(("1", "2"), (PAPER[name, layout][:2], PAPER[name, layout][2:]), strict=True):
            lines.append(f"| {layout} | *the paper, Algorithm {way}* | | all | {accuracy} | | {error} | | |")
        for way in WAYS:
            y = column(rows, "accuracy", layout=layout, way=way)
            if not len(y):
                continue
            if way == "one-shot, search, K chosen":
                found = column(rows, "n_clusters", layout=layout, way=way).astype(int)
                shown = ", ".join(f"{k} × {np.sum(found == k)}" for k in np.unique(found))
                lines.append(f"| {layout} | {way}: {shown} | {len(y)} | | {spread(y, y.min(), 2, 100)} | | | |")
                continue
            a, clear = (column(rows, key, layout=layout, way=way) for key in ("aggregation", "clear"))
            e = column(rows, "centroid_distance", layout=layout, way=way)
            perfect = "" if np.isnan(a).all() else f"{int(((a == 1) & (clear == 1)).sum())} of {int(clear.sum())} clear"
            shown = f"**{way}**" if way in BOLD else way
            kb = np.nanmean(column(rows, "bytes_out", layout=layout, way=way)) / 1000
            errors = spread(e, np.nanmax(e) if not np.isnan(e).all() else np.nan, 4)
            moved = (
                f"{kb:.1f}"
                if way in WAYS[:6] or way.startswith("pooled")
                else ""
                if way.startswith(("ceil", "cent"))
                else "0"
            )
            lines.append(
                f"| {layout} | {shown} | {len(y)} | {perfect} | {spread(y, y.min(), 2, 100)} | {errors} | {moved} |"
            )
    return "\n".join(lines)


def ahead(rows: dict[str, list]) -> str:
    """Every baseline that is ahead of the federated method by more than a hundredth of a point."""
    lines = []
    for name, study in STUDIES.items():
        key, unit = ("adjusted_rand", "adjusted Rand") if name.startswith("Gauss") else ("accuracy", "accuracy")
        for layout in study.layouts:
            ours = column(rows[name], key, layout=layout, way=BOLD[0])
            for way in WAYS:
                theirs = column(rows[name], key, layout=layout, way=way)
                if way not in OURS and way not in SEE_MORE and len(theirs) and theirs.mean() > ours.mean() + 1e-4:
                    lines.append(f"- **{name}, {layout}**: {way}: {unit} {theirs.mean():.3f}, ours {ours.mean():.3f}.")
    return "\n".join(lines) or "Nowhere."


def order_table(rows: dict[str, list]) -> str:
    lines = ["| data | chain | core |", "|---|---|---|"]
    for name in STUDIES:
        if not name.startswith("Gauss"):
            rates = [
                column(rows[name], "order_preservation", layout=layout, way=WAYS[0]) for layout in ("chain", "core")
            ]
            cells = " | ".join(f"{r.mean():.3f} (worst {r.min():.3f})" if len(r) else "" for r in rates)
            lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def grid_table(rows: dict[str, list]) -> str:
    names = [f"Gaussian {s:g}" for s in SEPARATIONS]
    lines = [
        "| layout | way | " + " | ".join(f"{s:g}" for s in SEPARATIONS) + " |",
        "|---|---|" + "---|" * len(SEPARATIONS),
    ]
    for layout in ("chain", "core"):
        for way in WAYS:
            cells = [column(rows[name], "adjusted_rand", layout=layout, way=way) for name in names]
            if all(len(cell) for cell in cells):
                shown = f"**{way}**" if way in BOLD else way
                values = " | ".join(f"{cell.mean():.2f} ({cell.min():.2f})" for cell in cells)
                lines.append(f"| {layout} | {shown} | {values} |")
    return "\n".join(lines)


def plot(rows: dict[str, list]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "intarsia"
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, layout in zip(axes, ("chain", "core"), strict=True):
        for way in WAYS:
            if way in {
                "one-shot, search, K chosen",
                "federated, Method A",
                "federated, Method B",
                "one-shot, greedy, 100 proxies",
            }:
                continue
            means = [column(rows[f"Gaussian {s:g}"], "adjusted_rand", layout=layout, way=way) for s in SEPARATIONS]
            if all(len(m) for m in means):
                ours = way in BOLD
                style = {
                    "linewidth": 3 if ours else 1.2,
                    "linestyle": "-" if ours else "--",
                    "marker": "o" if ours else None,
                }
                axis.plot(SEPARATIONS, [m.mean() for m in means], label=way, **style)
        axis.set_title(layout)
        axis.set_xlabel("separation of the clusters")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("adjusted Rand index, mean over splits")
    axes[1].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)
