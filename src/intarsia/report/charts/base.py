"""What all charts share.

Names are somebody else's text. Plotly reads markup in texts, so they are escaped here, and kept from turning the line
around by the marks that Unicode has for it. Axes are by position with texts beside, so that no name is taken for a number
or a date, and names that are cut at the same letter stay apart.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from intarsia.report.data import Participant

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
    """A figure, what it shows in a sentence, and its table."""

    name: str
    title: str
    caption: str
    figure: go.Figure
    table: Rows


def colour_of(cluster: int) -> str:
    """Clusters keep their colour through the report."""
    return COLOURS[cluster % len(COLOURS)]


def text(name: str, most: int = _SHORT) -> str:
    """Somebody's name for a chart: cut in the middle, escaped, and isolated from the text around it."""
    tail = (most - 1) // 3
    short = name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"
    # between dollar signs plotly would look for formulas
    return f"\u2068{html.escape(short, quote=False).replace('$', '$' + _JOINER)}\u2069"


def full(name: str) -> str:
    """For hover texts: longer, but not so long that it covers the page."""
    return text(name, _LONG)


def axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis of names by position."""
    ticks = [text(name) for name in names]
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": ticks,
        "automargin": True,
        "zeroline": False,
    } | more


def titled(title: str, **more: Any) -> dict[str, Any]:
    """An axis of numbers."""
    return {"title": {"text": title}, "automargin": True} | more


def figure(traces: Sequence[Any], height: int, **layout: Any) -> go.Figure:
    """A figure without colours of its own but those of its data: the page has them."""
    layout.setdefault("margin", {"l": 8, "r": 8, "t": 8, "b": 8})
    return go.Figure(list(traces), {"height": height, "hoverlabel": {"align": "left"}, **layout})


def heat(values: Any, said: Any, *, scale: Any, bar: str, **more: Any) -> go.Heatmap:
    """A heat map whose cells say what they are."""
    colourbar = {"title": {"text": bar}, "thickness": 12}
    more = {"zmin": 0, "xgap": 1, "ygap": 1, "hoverongaps": True} | more
    return go.Heatmap(
        z=values, text=said, hovertemplate="%{text}<extra></extra>", colorscale=scale, colorbar=colourbar, **more
    )


def bars(names: Sequence[str], values: Sequence[float], said: Sequence[str], name: str, colour: str) -> go.Bar:
    """One part of a stack of lying bars, one for each name."""
    return go.Bar(
        y=list(range(len(names))),
        x=list(values),
        orientation="h",
        name=name,
        marker={"color": colour},
        hoverinfo="text",
        hovertext=list(said),
    )


def stacked(traces: Sequence[go.Bar], names: Sequence[str], xaxis: dict[str, Any]) -> go.Figure:
    """Lying bars, the first name on top."""
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
    """Positions of the participants that a chart shows: the largest, in their own order."""
    order = sorted(range(len(participants)), key=lambda k: -participants[k].rows)[:MOST_PARTICIPANTS]
    return sorted(order)


def only(shown: int, of: int, what: str) -> str:
    """A sentence for a chart that does not show all."""
    return "" if shown >= of else f" The {shown} {what}; the table has all {of:,}."
