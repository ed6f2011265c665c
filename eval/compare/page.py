"""The comparison as one HTML page without external resources or scripts, light and dark."""

import functools
from pathlib import Path

from eval.compare import figures
from eval.compare.chapters import chapters
from eval.compare.comparison import RunComparison, check_page
from eval.report import render
from eval.report.figures import drawing
from mmt.system import atomic


def write(comparison: RunComparison, file: Path) -> None:
    """Writes the page; equal comparisons give equal bytes.

    Raises:
      ValueError: the file is not called `*.html`.
      OSError: it cannot be written.
    """
    check_page(file)
    atomic.write_bytes(file, page(comparison).encode())


def page(comparison: RunComparison) -> str:
    """Returns the page: the chapters of the text, and curves of the losses."""
    draw = functools.partial(figures.losses, comparison)
    pictures = {
        name: drawing.svg(figure)
        for name, width in (("wide", drawing.WIDE), ("narrow", drawing.NARROW))
        if (figure := draw(width)) is not None
    }
    template = render.template("compare.html.j2", Path(__file__).with_name("templates"))
    return template.render(
        runs=comparison.runs, chapters=chapters(comparison), pictures=pictures,
        marks={"▲": "gain", "▼": "loss"},
    )  # fmt: skip
