"""Turns the tables and figures of a report into HTML, Markdown and CSV."""

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from eval.report import cells
from eval.report.csv_tables import Record
from eval.report.figures import drawing


def csv_file(records: Iterable[Record]) -> bytes:
    """Returns records as CSV, with a column for every key that any record has."""
    lines = list(records)
    header = dict.fromkeys(name for record in lines for name in record)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(header), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue().encode()


def template(name: str, *folders: Path) -> jinja2.Template:
    """Returns a template of this package, with the filters and tests that templates use.

    folders: searched before this package's; their templates may include those of this package.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent / "templates"]),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "written": cells.text, "sorted_by": cells.number, "ends": cells.interval,
        "markdown": _markdown, "drawn": _drawn, "fenced": _fenced,
    }  # fmt: skip
    environment.tests |= {
        "estimate": lambda value: isinstance(value, cells.Estimate),
        "risks": lambda value: isinstance(value, cells.Risks),
        "grade": lambda value: isinstance(value, cells.Grade),
    }
    return environment.get_template(name)


def _drawn(svg: str, name: str) -> Markup:
    """Returns a figure as part of the page; matplotlib has escaped the names in it."""
    return Markup(drawing.inline(svg, re.sub(r"\W", "-", name)))


def _fenced(text: str) -> str:
    """Returns text as a code block; the fence is longer than any in the text."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}\n{text}\n{fence}"


def _markdown(text: Any) -> str:
    """Returns text that Markdown shows unchanged, also in a table."""
    return re.sub(r"([\\`*_\[\]<>|#~$&])", r"\\\1", str(text))
