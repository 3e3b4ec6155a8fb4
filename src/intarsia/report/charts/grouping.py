"""Charts of how local clusters were grouped, and how the number of clusters was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from scipy.cluster.hierarchy import dendrogram

from intarsia.core.types import FloatArray
from intarsia.report.charts.base import (
    ABOVE,
    AMBIGUOUS,
    COLOURS,
    GREY,
    Chart,
    Rows,
    colour_of,
    figure,
    full,
    of_cluster,
    only,
    text,
    titled,
)
from intarsia.report.data import MapPoint, ReportData, Tree

MOST_POINTS = 60  # local clusters by name
MOST_TARGETS = 12  # clusters by name where there are many local ones
MOST_NAMED = 20  # clusters in a legend
MOST_LEAVES = 60
_MOST_TICKS = 25


def grouping(data: ReportData) -> Chart:
    """Return the chart from local to global clusters; of many local ones, from participants to the largest clusters."""
    order = sorted(data.local_clusters, key=lambda point: -point.rows)
    folded = len(order) > MOST_POINTS
    height = max(320, 60 + 17 * (len(data.participants) if folded else max(len(order), len(data.clusters))))
    flows = _by_participant(data) if folded else _by_point(data)
    what = "participants" if folded else "local clusters"
    before = ", before rounds moved single rows" if data.rounds else ""
    others = f", the {MOST_TARGETS} largest by name" if folded and len(data.clusters) > MOST_TARGETS else ""
    return Chart(
        "grouping",
        "From local to global clusters",
        f"Left: {what}; right: the clusters that their local clusters joined{others}{before}. "
        "Ambiguous ones are orange and have a question mark: their margin over the second-best cluster is below a tenth."
        + (f" The table has all {len(order):,} local clusters." if folded else ""),
        figure([_sankey(flows)], height, margin={"l": 8, "r": 8, "t": 12, "b": 12}),
        Rows(
            ("participant", "local cluster", "rows", "cluster", "margin", "note"),
            tuple(_point_row(data, point) for point in order),
        ),
    )


class _Flow(NamedTuple):
    """A band from a name on the left to one on the right; shortened names may be equal, their keys are not."""

    key: tuple[int, ...]
    left: str
    left_colour: str
    right: str
    right_colour: str
    rows: int
    colour: str
    hover: str


def _by_point(data: ReportData) -> Iterator[_Flow]:
    for point in sorted(data.local_clusters, key=lambda point: (point.participant, point.index)):
        left, right = AMBIGUOUS if point.ambiguous else GREY, colour_of(point.cluster)
        band = AMBIGUOUS if point.ambiguous else right
        name, hover = _point_name(data, point), _point_text(data, point)
        yield _Flow(
            (point.participant, point.index),
            name,
            left,
            of_cluster(data, point.cluster),
            right,
            point.rows,
            band,
            hover,
        )


def _by_participant(data: ReportData) -> Iterator[_Flow]:
    largest = {c.number for c in sorted(data.clusters, key=lambda c: -c.rows)[:MOST_TARGETS]}
    bands: dict[tuple[int, int, bool], list[MapPoint]] = {}
    for point in data.local_clusters:
        target = point.cluster if point.cluster in largest else len(data.clusters)
        bands.setdefault((point.participant, target, point.ambiguous), []).append(point)
    for (participant, target, ambiguous), points in sorted(bands.items()):
        known = target < len(data.clusters)
        right, colour = (of_cluster(data, target), colour_of(target)) if known else ("other clusters", GREY)
        name, rows = data.participants[participant].name, sum(point.rows for point in points)
        mark = " (ambiguous)" if ambiguous else ""
        hover = f"{full(name)}: {len(points)} local clusters<br>{rows:,} rows in {right}{mark}"
        yield _Flow(
            (participant,), text(name, 18), GREY, right, colour, rows, AMBIGUOUS if ambiguous else colour, hover
        )


def _sankey(flows: Iterable[_Flow]) -> go.Sankey:
    bands = list(flows)
    left = {flow.key: (flow.left, flow.left_colour) for flow in bands}
    right = {flow.right: (flow.right, flow.right_colour) for flow in bands}
    nodes = [*left.values(), *right.values()]
    at = {key: k for k, key in enumerate([*left, *right])}
    return go.Sankey(
        node={
            "label": [label for label, _ in nodes],
            "color": [colour for _, colour in nodes],
            "pad": 10,
            "thickness": 14,
            "hovertemplate": "%{label}: %{value:,} rows<extra></extra>",
        },
        link={
            "source": [at[flow.key] for flow in bands],
            "target": [at[flow.right] for flow in bands],
            "value": [flow.rows for flow in bands],
            "color": [_faint(flow.colour) for flow in bands],
            "customdata": [flow.hover for flow in bands],
            "hovertemplate": "%{customdata}<extra></extra>",
        },
    )


def _point_name(data: ReportData, point: MapPoint) -> str:
    mark = " ?" if point.ambiguous else ""
    return f"{text(data.participants[point.participant].name, 18)} {point.index}{mark}"


def _point_text(data: ReportData, point: MapPoint) -> str:
    clear = "" if point.margin is None else f"<br>margin {point.margin:.2f}"
    mark = " (ambiguous)" if point.ambiguous else ""
    whose = full(data.participants[point.participant].name)
    return (
        f"{whose}, local cluster {point.index}<br>{point.rows:,} rows in {of_cluster(data, point.cluster)}{clear}{mark}"
    )


def _point_row(data: ReportData, point: MapPoint) -> tuple[Any, ...]:
    margin = "" if point.margin is None else f"{point.margin:.2f}"
    note = "ambiguous" if point.ambiguous else ""
    return (data.participants[point.participant].name, point.index, point.rows, point.cluster, margin, note)


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.35)"


def map_of_local_clusters(data: ReportData) -> Chart:
    """Return the map of local clusters by the distances between their summaries."""
    largest = max((point.rows for point in data.local_clusters), default=1) or 1
    small, large = (9, 24) if len(data.local_clusters) <= MOST_POINTS else (5, 8)
    traces = []
    for ambiguous in (False, True):
        for c in range(len(data.clusters)):
            points = [point for point in data.local_clusters if point.cluster == c and point.ambiguous == ambiguous]
            sizes = [small + large * (point.rows / largest) ** 0.5 for point in points]
            edge = {"width": 3, "color": AMBIGUOUS} if ambiguous else {"width": 1, "color": "#ffffff"}
            traces.append(
                go.Scatter(
                    x=[point.x for point in points],
                    y=[point.y for point in points],
                    mode="markers",
                    name=of_cluster(data, c) + (", ambiguous" if ambiguous else ""),
                    showlegend=bool(points),
                    hoverinfo="text",
                    hovertext=[_point_text(data, point) for point in points],
                    marker={
                        "size": sizes,
                        "color": colour_of(c),
                        "opacity": 0.8,
                        "symbol": "diamond" if ambiguous else "circle",
                        "line": edge,
                    },
                )
            )
    bare = {"showticklabels": False, "zeroline": False, "ticks": ""}
    legend, named = ABOVE | {"itemsizing": "constant"}, len(data.clusters) <= MOST_NAMED
    return Chart(
        "map",
        "Map of the local clusters",
        "Each mark is a local cluster, not a row; near ones have similar summaries over the columns they share. "
        f"The map shows {data.map_keeps:.0%} of their squared distances. Ambiguous ones are diamonds.",
        figure(traces, 480, xaxis=bare, yaxis=bare | {"scaleanchor": "x"}, legend=legend, showlegend=named),
        Rows(
            ("participant", "local cluster", "rows", "cluster", "margin", "note", "x", "y"),
            tuple((*_point_row(data, point), f"{point.x:.3f}", f"{point.y:.3f}") for point in data.local_clusters),
        ),
    )


def curve(tree: Tree) -> Chart:
    """Return the chart of the silhouette of every number of clusters."""
    last = min(max(tree.silhouettes), max(20, 2 * tree.chosen))
    shown = {k: value for k, value in tree.silhouettes.items() if k <= last}
    hover = "%{x} clusters: silhouette %{y:.3f}<extra></extra>"
    traces = [
        go.Scatter(
            x=list(shown),
            y=list(shown.values()),
            mode="lines+markers",
            name="silhouette",
            line={"color": COLOURS[0]},
            hovertemplate=hover,
        )
    ]
    marks = [(tree.chosen, COLOURS[1], f"chosen: {tree.chosen}", "solid")]
    if tree.found is not None:
        marks.append((tree.found, GREY, f"found by participants: {tree.found}", "dot"))
    reach = [min(shown.values()), max(shown.values())]
    for k, colour, name, dash in marks:
        line = {"color": colour, "dash": dash, "width": 2}
        traces.append(go.Scatter(x=[k, k], y=reach, mode="lines", name=name, line=line, hoverinfo="name"))
    return Chart(
        "curve",
        "Silhouette by number of clusters",
        "How clearly local clusters are separated, from summaries. The chosen number is at least the number that the rows "
        "of all participants show together, and more where the curve is clearly higher. The table has all scores.",
        figure(
            traces,
            340,
            showlegend=True,
            legend=ABOVE,
            xaxis=titled("number of clusters", dtick=1 if last <= _MOST_TICKS else None),
            yaxis=titled("silhouette over summaries"),
        ),
        _numbers(tree),
    )


def _numbers(tree: Tree) -> Rows:
    """Return the scores of all numbers of clusters that were considered."""
    if not tree.choices:
        return Rows(("clusters", "silhouette"), tuple((k, f"{value:.4f}") for k, value in tree.silhouettes.items()))
    names = ("clusters", "confidence", "silhouette", "stability", "objective")
    return Rows(
        names,
        tuple(
            (row.n_clusters, *("" if np.isnan(value) else f"{value:.4f}" for value in row[1:])) for row in tree.choices
        ),
    )


def merge_tree(tree: Tree) -> Chart:
    """Return the dendrogram; of a large tree only the last merges."""
    linkage, n, k = np.array(tree.linkage), len(tree.leaves), tree.chosen
    cut = 0.0
    if k < n:
        above = linkage[1 - k, 2] if k > 1 else 1.05 * linkage[-1, 2]
        cut = float(np.mean([linkage[-k, 2], above]))
    drawn: Any = dendrogram(linkage, no_plot=True, truncate_mode="lastp" if n > MOST_LEAVES else None, p=MOST_LEAVES)
    traces = [
        go.Scatter(
            x=xs,
            y=ys,
            mode="lines",
            line={"color": COLOURS[0] if below else GREY, "width": 1.5},
            name="within a cluster" if below else "between clusters",
            hovertemplate="joined at %{y:.3g}<extra></extra>",
        )
        for below, xs, ys in _arms(drawn, cut)
    ]
    leaves = [_leaf(tree, int(leaf)) for leaf in drawn["leaves"]]
    line = {"color": COLOURS[1], "width": 1.5, "dash": "dash"}
    notes = " The result is this cut." if tree.is_result else " The result itself may group them slightly differently."
    if tree.earlier:
        notes += " Local clusters here are those that participants found before the number was known."
    return Chart(
        "tree",
        "Merge tree",
        f"Local clusters merged step by step, the closest first; the dashed line leaves {k}.{notes}"
        + only(len(leaves), n, "branches that were joined last"),
        figure(
            traces,
            440,
            showlegend=True,
            legend=ABOVE,
            xaxis=_leaf_axis(leaves),
            yaxis=titled(tree.height, rangemode="tozero"),
            shapes=[{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": cut, "y1": cut, "line": line}],
        ),
        _merge_table(tree, linkage),
    )


def _leaf_axis(leaves: Sequence[str]) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": [5 + 10 * k for k in range(len(leaves))],
        "ticktext": [text(leaf, 20) for leaf in leaves],
        "tickangle": -90,
        "automargin": True,
        "range": [0, 10 * len(leaves)],
        "showgrid": False,
        "zeroline": False,
    }


def _merge_table(tree: Tree, linkage: FloatArray) -> Rows:
    """Return all merges, the last first."""
    steps = reversed(list(enumerate(linkage.tolist(), start=1)))
    return Rows(
        ("step", "clusters left", "one", "other", "height", "local clusters"),
        tuple(
            (step, len(tree.leaves) - step, _leaf(tree, int(a)), _leaf(tree, int(b)), f"{height:.4g}", int(size))
            for step, (a, b, height, size) in steps
        ),
    )


def _arms(drawn: Any, cut: float) -> Iterator[tuple[bool, list[float | None], list[float | None]]]:
    """All merges below the cut as one broken line, and all above."""
    for below in (True, False):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
            if (max(y) <= cut) == below:
                xs += [*map(float, x), None]
                ys += [*map(float, y), None]
        if xs:
            yield below, xs, ys


def _leaf(tree: Tree, k: int) -> str:
    n = len(tree.leaves)
    if k < n:
        return tree.leaves[k]
    assert tree.linkage is not None
    return f"{int(tree.linkage[k - n][3])} local clusters"
