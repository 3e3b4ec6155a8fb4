"""The charts of a report: plotly figures, each with the table that it shows."""

from __future__ import annotations

from collections.abc import Iterator

from intarsia.report.charts.base import COLOURS, Chart
from intarsia.report.charts.clusters import profiles, sizes
from intarsia.report.charts.coverage import coverage, overlap
from intarsia.report.charts.grouping import curve, grouping, map_of_local_clusters, merge_tree
from intarsia.report.charts.run import convergence, seconds, sent_bytes
from intarsia.report.data import ReportData

__all__ = ["COLOURS", "Chart", "charts_of"]


def charts_of(data: ReportData) -> Iterator[Chart]:
    """Yield every chart for which there are data."""
    yield coverage(data)
    if len(data.participants) > 1:
        yield overlap(data)
    yield profiles(data)
    if not data.secure:  # nobody told where its rows are
        yield sizes(data)
    yield grouping(data)
    yield map_of_local_clusters(data)
    if data.tree is not None and data.tree.silhouettes:
        yield curve(data.tree)
    if data.tree is not None and data.tree.linkage is not None:
        yield merge_tree(data.tree)
    if data.rounds:
        yield convergence(data)
    yield seconds(data)
    yield sent_bytes(data)
