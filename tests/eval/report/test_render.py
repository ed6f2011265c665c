"""Rendering: CSV with all columns, and text that stays text."""

import csv
import io

from eval.report import render


def test_a_csv_file_has_a_column_for_every_key():
    content = render.csv_file([{"a": 1, "b": "x,y"}, {"a": 2, "c": None}]).decode()
    assert list(csv.DictReader(io.StringIO(content))) == [
        {"a": "1", "b": "x,y", "c": ""}, {"a": "2", "b": "", "c": ""},
    ]  # fmt: skip
    assert "\r" not in content


def test_only_pages_escape_what_they_show():
    for name, escapes in (("report.html.j2", True), ("report.md.j2", False)):
        environment = render.template(name).environment
        shown = environment.from_string("{{ text }}").render(text="<b>")
        assert (shown == "&lt;b&gt;") is escapes


def test_a_fence_is_longer_than_any_in_its_text():
    fenced = render.template("report.md.j2").environment.filters["fenced"]
    assert fenced("a ```` b").startswith("`````\n") and fenced("a").startswith("```\n")
