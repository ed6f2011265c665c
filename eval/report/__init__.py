"""`mmt report`: one HTML page, Markdown, CSV and figures from rows."""

from eval.report.build import check, check_folder, report

__all__ = [
    "check",
    "check_folder",
    "report",
]
