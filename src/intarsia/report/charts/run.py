"""Charts of the run: convergence, seconds, bytes."""

from __future__ import annotations

import plotly.graph_objects as go

from intarsia.protocol.catalogue import title_of
from intarsia.report.charts.base import (
    ABOVE,
    COLOURS,
    Chart,
    Rows,
    bars,
    figure,
    full,
    largest,
    only,
    stacked,
    text,
    titled,
)
from intarsia.report.data import ReportData
from intarsia.results.outcome import RoundInfo

KINDS = {"trial": "trial: groupings compared", "crosswise": "crosswise: judged by the others"}
_NOTHING = 1e-9  # movement that is only rounding
_MOST_TICKS = 25
_MANY_TIMES = 100  # ratio from which on the scale is logarithmic


def convergence(data: ReportData) -> Chart:
    """Return the chart of the movement of centroids by round."""
    numbered = list(enumerate(data.rounds, start=1))
    traces = []
    for colour, kind in zip(COLOURS, dict.fromkeys(r.kind for r in data.rounds), strict=False):
        of_kind = [(k, r.movement) for k, r in numbered if r.kind == kind]
        traces.append(
            go.Scatter(
                x=[k for k, _ in of_kind],
                y=[100 * movement if movement > _NOTHING else 0.0 for _, movement in of_kind],
                mode="lines+markers",
                name=KINDS.get(kind, text(kind)),
                line={"color": colour},
                hovertemplate="round %{x}: moved by %{y:.3g} % of the extent<extra></extra>",
            )
        )
    positive = [r.movement for r in data.rounds if r.movement > _NOTHING]
    wide = bool(positive) and max(positive) > _MANY_TIMES * min(positive)
    scale = {"type": "log", "dtick": 1, "exponentformat": "power"} if wide else {"rangemode": "tozero"}
    return Chart(
        "convergence",
        "Convergence",
        "The largest movement of a centroid in each round"
        + ("; no movement cannot be drawn on a logarithmic scale." if wide else "."),
        figure(
            traces,
            340,
            showlegend=True,
            legend=ABOVE,
            xaxis=titled("round", dtick=1 if len(numbered) <= _MOST_TICKS else None),
            yaxis=titled("largest move, % of extent", **scale),
        ),
        Rows(
            ("round", "kind", "largest move", "misfit", "rows behind each centroid"),
            tuple(_round(k, r) for k, r in numbered),
        ),
    )


def _round(k: int, r: RoundInfo) -> tuple[int, str, str, str, str]:
    misfit = "" if r.misfit != r.misfit else f"{r.misfit:.6g}"
    return (k, r.kind, f"{r.movement:.4%}", misfit, ", ".join(map(str, r.sizes)))


def _by_phase(data: ReportData, of: str) -> dict[str, list[float]]:
    total: dict[str, list[float]] = {}
    for exchange in data.exchanges:
        own = total.setdefault(text(title_of(exchange.phase)), [0.0] * len(data.participants))
        for i, participant in enumerate(data.participants):
            own[i] += getattr(exchange, of).get(participant.name, 0)
    return total


def _in_phases(data: ReportData, total: dict[str, list[float]], axis: str, unit: str) -> go.Figure:
    who = largest(data.participants)
    names = [data.participants[i].name for i in who]
    traces = [
        bars(
            names,
            [values[i] for i in who],
            [f"{full(data.participants[i].name)}<br>{phase}: {values[i]:,.4g} {unit}" for i in who],
            phase,
            COLOURS[i % len(COLOURS)],
        )
        for i, (phase, values) in enumerate(total.items())
    ]
    return stacked(traces, names, titled(axis))


def _some(data: ReportData) -> str:
    return only(len(largest(data.participants)), len(data.participants), "largest participants")


def seconds(data: ReportData) -> Chart:
    """Return the chart of seconds by participant."""
    total = _by_phase(data, "seconds")
    rows = tuple((p.name, *(f"{own[i]:.3f}" for own in total.values())) for i, p in enumerate(data.participants))
    return Chart(
        "seconds",
        "Seconds at each participant",
        "How long each participant computed, by step." + _some(data),
        _in_phases(data, total, "seconds", "s"),
        Rows(("participant", *total), rows),
    )


def sent_bytes(data: ReportData) -> Chart:
    """Return the chart of bytes by participant."""
    total = _by_phase(data, "bytes_out")
    rows = tuple(
        (p.name, *(int(own[i]) for own in total.values()), p.bytes_in) for i, p in enumerate(data.participants)
    )
    return Chart(
        "bytes",
        "Bytes that left each participant",
        "What each participant sent, by step; the table also has what it received." + _some(data),
        _in_phases(data, total, "bytes", "bytes"),
        Rows(("participant", *total, "received"), rows),
    )
