"""The report of a gate: one HTML file that needs nothing else, and a short Markdown summary."""

from evals.evidence import Compared
from evals.report.given import Quantization, ReportInput, Side
from evals.report.page import HEADLINES, render
from evals.report.summary import render_markdown

__all__ = [
    "HEADLINES",
    "Compared",
    "Quantization",
    "ReportInput",
    "Side",
    "render",
    "render_markdown",
]
