"""Charts of which participant has which columns, and which participants share columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import cos, pi, sin
from typing import Any

import plotly.graph_objects as go

from intarsia.report.charts.base import (
    ABOVE,
    COLOURS,
    GREY,
    MOST_FEATURES,
    PALE_TO_DEEP,
    Chart,
    Rows,
    axis,
    figure,
    full,
    heat,
    largest,
    only,
    text,
)
from intarsia.report.data import ReportData, Shared

MOST_EDGES = 150


def coverage(data: ReportData) -> Chart:
    """Return the chart of values by column and participant."""
    names, columns = [participant.name for participant in data.participants], data.columns
    shown, who = columns[:MOST_FEATURES], largest(data.participants)
    shares = [[column.filled[i] for i in who] for column in shown]
    filled = [[None if share is None else 100 * share for share in row] for row in shares]
    hover = [
        [_cell_text(column.name, names[i], share) for i, share in zip(who, row, strict=True)]
        for column, row in zip(shown, shares, strict=True)
    ]
    drawn = figure(
        [heat(filled, hover, scale=PALE_TO_DEEP, bar="values, %", zmax=100)],
        120 + 20 * len(shown),
        xaxis=axis([names[i] for i in who], side="top"),
        yaxis=axis([column.name for column in shown], autorange="reversed"),
    )
    rows = tuple((c.name, c.owners, *("absent" if s is None else f"{s:.0%}" for s in c.filled)) for c in columns)
    return Chart(
        "coverage",
        "Values by column and participant",
        "The share of values that are not missing; blank where a participant does not have the column."
        + only(len(shown), len(columns), "columns that most participants have")
        + only(len(who), len(names), "largest participants"),
        drawn,
        Rows(("column", "participants", *names), rows),
    )


def _cell_text(column: str, name: str, share: float | None) -> str:
    what = "has no such column" if share is None else f"{share:.1%} of values"
    return f"{full(column)}<br>{full(name)}: {what}"


def overlap(data: ReportData) -> Chart:
    """Return the chart of the overlap graph, with participants on a circle."""
    names, who = [participant.name for participant in data.participants], largest(data.participants)
    turns = {i: pi / 2 - 2 * pi * k / len(who) for k, i in enumerate(who)}
    at = {i: (cos(turn), sin(turn)) for i, turn in turns.items()}
    edges = sorted(data.shared, key=lambda edge: -edge.columns)
    shown = [edge for edge in edges if edge.left in at and edge.right in at][:MOST_EDGES]
    bare = {"visible": False, "range": [-1.25, 1.25]}
    drawn = figure(
        [*_lines(at, shown), _middles(at, shown, names), *_nodes(at, data)],
        460,
        xaxis=bare,
        yaxis=bare | {"scaleanchor": "x"},
        legend=ABOVE,
    )
    return Chart(
        "overlap",
        "Who shares columns with whom",
        "A line joins two participants that share columns, the thicker the more. Clusters are compared along these lines."
        + only(len(who), len(names), "largest participants")
        + only(len(shown), len(edges), "pairs that share most"),
        drawn,
        Rows(
            ("participant", "participant", "shared columns"),
            tuple((names[e.left], names[e.right], e.columns) for e in edges),
        ),
    )


Places = Mapping[int, tuple[float, float]]


def _lines(at: Places, edges: Sequence[Shared]) -> Iterator[go.Scatter]:
    most = max((edge.columns for edge in edges), default=1)
    for edge in edges:
        x, y = zip(at[edge.left], at[edge.right], strict=True)
        line = {"color": GREY, "width": 0.5 + 5 * edge.columns / most}
        yield go.Scatter(x=x, y=y, mode="lines", hoverinfo="skip", showlegend=False, line=line, opacity=0.35)


def _middles(at: Places, edges: Sequence[Shared], names: Sequence[str]) -> go.Scatter:
    """Marks in the middle of lines, which show a hover text."""
    hover = [f"{full(names[e.left])} and {full(names[e.right])}<br>{e.columns} shared" for e in edges]
    return go.Scatter(
        x=[(at[e.left][0] + at[e.right][0]) / 2 for e in edges],
        y=[(at[e.left][1] + at[e.right][1]) / 2 for e in edges],
        mode="markers",
        marker={"color": GREY, "size": 9, "opacity": 0.45},
        name="shared columns",
        hoverinfo="text",
        hovertext=hover,
    )


def _outside(x: float, y: float) -> str:
    """The position of a name beside its mark, outside of the circle."""
    if abs(x) > 0.3:
        return "middle right" if x > 0 else "middle left"
    return "top center" if y > 0 else "bottom center"


def _nodes(at: Places, data: ReportData) -> Iterator[Any]:
    everybody = list(at)
    bridges = [k for k in everybody if data.participants[k].name in data.bridges]
    kinds = (
        ("participant", COLOURS[0], [k for k in everybody if k not in bridges]),
        ("bridge: without it the study falls into parts", COLOURS[1], bridges),
    )
    for label, colour, which in kinds:
        participants = [data.participants[k] for k in which]
        if participants:
            yield go.Scatter(
                x=[at[k][0] for k in which],
                y=[at[k][1] for k in which],
                mode="markers+text",
                name=label,
                text=[text(participant.name, 18) for participant in participants],
                cliponaxis=False,
                textposition=[_outside(*at[k]) for k in which],
                marker={"size": 16, "color": colour},
                hoverinfo="text",
                hovertext=[f"{full(p.name)}<br>{p.columns} columns, {p.rows:,} rows" for p in participants],
            )
