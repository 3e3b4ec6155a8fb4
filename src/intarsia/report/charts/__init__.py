"""From what a report says to charts: plotly figures, each with the table that it shows."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.report.charts.base import COLOURS, Chart
from intarsia.report.charts.clusters import profiles, sizes
from intarsia.report.charts.joining import curve, joining, map_of_pieces, merge_tree
from intarsia.report.charts.running import convergence, seconds, sent_bytes
from intarsia.report.charts.who import coverage, overlap
from intarsia.report.data import ReportData

__all__ = ["COLOURS", "Chart", "charts_of"]


def charts_of(data: ReportData) -> Iterator[Chart]:
    """Every chart that the data allow."""
    yield coverage(data)
    if len(data.parties) > 1:
        yield overlap(data)
    yield profiles(data)
    yield sizes(data)
    yield joining(data)
    yield map_of_pieces(data)
    if data.tree is not None and data.tree.silhouettes:
        yield curve(data.tree)
    if data.tree is not None and data.tree.linkage is not None:
        yield merge_tree(data.tree)
    if data.rounds:
        yield convergence(data)
    if data.exchanges:
        yield seconds(data)
        yield sent_bytes(data)
