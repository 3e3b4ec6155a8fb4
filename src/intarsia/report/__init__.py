"""The report of a study, in two halves: :func:`summarise` says what there is to say, :func:`render` draws it."""

from intarsia.report.data import Finding, ReportData
from intarsia.report.render import in_notebook, render
from intarsia.report.summarise import findings, summarise
from intarsia.report.words import FEW_ROWS

__all__ = ["FEW_ROWS", "Finding", "ReportData", "findings", "in_notebook", "render", "summarise"]
