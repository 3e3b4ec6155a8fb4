"""The report of a study, in two halves: :func:`summarise` says what there is to say, :func:`render` draws it."""

from intarsia.report.data import ReportData
from intarsia.report.render import in_notebook, render
from intarsia.report.summarise import summarise
from intarsia.report.words import FEW_ROWS

__all__ = ["FEW_ROWS", "ReportData", "in_notebook", "render", "summarise"]
