"""Parts of charts: colours, axes, bars, heat maps, and names made safe for plotly.

Plotly reads markup in texts, so that names are escaped here and isolated from the text around them. Axes are by position
with texts beside, so that no name is read as a number or a date, and names that are cut alike stay apart.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from intarsia.report.data import Participant, ReportData
from intarsia.results.outcome import called

# distinguishable for people who cannot tell red from green, on a light and on a dark page
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#3f9fd8", "#7a5195", "#b5484e", "#5c8a2e", "#6b7280",
)  # fmt: skip
GREY = "#8b929c"
AMBIGUOUS = "#e69f00"
PALE_TO_DEEP = [[0, "#d9e8f5"], [1, "#0072b2"]]
ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
MOST_FEATURES = 40  # on a chart; the table has all
MOST_PARTICIPANTS = 40
_JOINER = "\u200d"
_SHORT = 28
_LONG = 120


@dataclass(frozen=True)
class Rows:
    """The table behind a chart."""

    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Chart:
    """A figure with its title, its caption and its table."""

    name: str
    title: str
    caption: str
    figure: go.Figure
    table: Rows


def colour_of(cluster: int) -> str:
    """Return the colour of a cluster, which is the same in all charts."""
    return COLOURS[cluster % len(COLOURS)]


def text(name: str, most: int = _SHORT) -> str:
    """Return a name for a chart: shortened in the middle, escaped, and isolated from the text around it."""
    tail = (most - 1) // 3
    short = name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"
    # between dollar signs plotly would look for formulas
    return f"\u2068{html.escape(short, quote=False).replace('$', '$' + _JOINER)}\u2069"


def full(name: str) -> str:
    """Return a name for a hover text, which may be longer."""
    return text(name, _LONG)


def of_cluster(data: ReportData, number: int, most: int = _SHORT) -> str:
    """Return what a chart calls a cluster: its number is never shortened, and its name is made safe."""
    name = data.clusters[number].name
    return called(number, text(name, most) if name else None)


def axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return an axis of names by position."""
    ticks = [text(name) for name in names]
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": ticks,
        "automargin": True,
        "zeroline": False,
    } | more


def titled(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis of numbers with a title."""
    return {"title": {"text": title}, "automargin": True} | more


def figure(traces: Sequence[Any], height: int, **layout: Any) -> go.Figure:
    """Return a figure; the page sets all colours but those of the data."""
    layout.setdefault("margin", {"l": 8, "r": 8, "t": 8, "b": 8})
    return go.Figure(list(traces), {"height": height, "hoverlabel": {"align": "left"}, **layout})


def heat(values: Any, hover: Any, *, scale: Any, bar: str, **more: Any) -> go.Heatmap:
    """Return a heat map with a hover text for every cell."""
    colourbar = {"title": {"text": bar}, "thickness": 12}
    more = {"zmin": 0, "xgap": 1, "ygap": 1, "hoverongaps": True} | more
    return go.Heatmap(
        z=values, text=hover, hovertemplate="%{text}<extra></extra>", colorscale=scale, colorbar=colourbar, **more
    )


def bars(names: Sequence[str], values: Sequence[float], hover: Sequence[str], name: str, colour: str) -> go.Bar:
    """Return one part of a stack of horizontal bars, one bar for each name."""
    return go.Bar(
        y=list(range(len(names))),
        x=list(values),
        orientation="h",
        name=name,
        marker={"color": colour},
        hoverinfo="text",
        hovertext=list(hover),
    )


def stacked(traces: Sequence[go.Bar], names: Sequence[str], xaxis: dict[str, Any]) -> go.Figure:
    """Return stacked horizontal bars, the first name on top."""
    return figure(
        traces,
        120 + 26 * len(names),
        barmode="stack",
        showlegend=True,
        legend=ABOVE,
        xaxis=xaxis,
        yaxis=axis(names, autorange="reversed"),
    )


def largest(participants: Sequence[Participant]) -> list[int]:
    """Return the positions of the participants that a chart shows: the largest, in their order."""
    order = sorted(range(len(participants)), key=lambda k: -participants[k].rows)[:MOST_PARTICIPANTS]
    return sorted(order)


def only(shown: int, of: int, what: str) -> str:
    """Return a sentence for a chart that does not show all entries."""
    return "" if shown >= of else f" The {shown} {what}; the table has all {of:,}."
