"""The style of figures: titles for marks, the same bytes every time, nothing from outside."""

import re
import xml.etree.ElementTree as ElementTree

from eval.report.figures import drawing
from tests.helpers.report_rows import titles


def drawn(label="<script>&$a$"):
    with drawing.styled():
        figure = drawing.canvas(f"A title {label}")
        axes = figure.add_subplot()
        drawing.dots(axes, [1, 2], [1 / 3, 2], tips=[f"one {label}", "two"], color="#2f74b5")
        drawing.dots(axes, [3], [1], tips=["three"], color="#2f74b5")
        axes.plot([1, 2], [0, 1], color="#2f74b5", gid=drawing.tooltip("a line"), label=label)
        axes.imshow([[0.0, 1.0]], interpolation="none", extent=(0, 1, 0, 1))
        drawing.legend(axes, above=4)
    return figure


def test_every_mark_has_its_own_title():
    assert titles(drawing.svg(drawn())) == ["one <script>&$a$", "two", "three", "a line"]


def test_a_quotation_mark_ends_no_title():
    shown = titles(drawing.svg(drawn("the \"big\" one's")))
    assert shown[0] == "one the ”big” one's"


def test_a_name_with_an_underscore_is_in_the_legend():
    with drawing.styled():
        figure = drawing.canvas("A title")
        axes = figure.add_subplot()
        axes.plot([1, 2], label=drawing.label("_dense"))
        drawing.legend(axes, above=4)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [" _dense"]


def test_equal_input_gives_equal_bytes():
    assert drawing.svg(drawn()) == drawing.svg(drawn())
    assert drawing.png(drawn()) == drawing.png(drawn())
    assert drawing.png(drawn()).startswith(b"\x89PNG")


def test_coordinates_are_short_and_names_whole():
    text = drawing.svg(drawn("model-1.23456"))
    assert "model-1.23456" in text
    assert not re.search(r' (d|x|y)="[^"]*\.\d{3}', text)


def test_inline_svg_is_part_of_its_page():
    text = drawing.inline(drawing.svg(drawn()), "first")
    assert text.startswith("<svg viewBox=") and "http" not in text and "<style" not in text
    assert not re.search(r"#[0-9a-f]{6}\b", text), "a colour that the page cannot change"
    assert "var(--up)" in text and "<script" not in text and "font-family" not in text
    assert all(name.startswith("first-") for name in re.findall(r'\sid="([^"]*)"', text))
    ids = set(re.findall(r'\sid="([^"]*)"', text))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= ids
    assert re.findall(r'href="([^#][^"]{9})', text) == ["data:image"]


def test_names_stay_as_they_are_in_a_page():
    name = "#2f74b5 url(#a) font: 9px xlink:href"
    page = ElementTree.fromstring(drawing.inline(drawing.svg(drawn(name)), "first"))
    assert f"one {name}" in [element.text for element in page.iter("title")]
    texts = [element.text for element in page.iter("text")]
    assert f" {name}" not in texts and name in texts, "the legend's"


def test_a_page_has_the_title_as_a_heading_of_its_own():
    svg = drawing.svg(drawn())
    assert "A title" in svg and "A title" not in drawing.inline(svg, "first")
    heights = [float(re.search(r'viewBox="0 \S+ \S+ (\S+)"', text)[1])
               for text in (svg, drawing.inline(svg, "first"))]  # fmt: skip
    assert heights[1] < heights[0], "and no room for it"


def test_a_legend_adds_to_the_height_and_fits_the_width():
    sizes = {}
    for width in (drawing.WIDE, drawing.NARROW):
        with drawing.styled():
            figure = drawing.canvas("A title", width=width)
            axes = figure.add_subplot()
            for place in range(9):
                axes.plot([1, 2], label=f"a name of a system {place}")
            drawing.legend(axes, above=4)
            figure.draw_without_rendering()
        box = axes.get_legend().get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
        sizes[width] = figure.get_figheight()
    assert sizes[drawing.NARROW] > sizes[drawing.WIDE] > 4.8


def test_systems_have_colours_of_their_own_and_then_lines():
    systems = [f"system {place}" for place in range(12)]
    looks = [(drawing.colour(systems, s), drawing.dashes(systems, s)) for s in systems]
    assert len(set(looks)) == 12 and len({colour for colour, _ in looks[:6]}) == 6
    assert all(colour in drawing.PALETTE.values() for colour, _ in looks)


def test_long_names_leave_room():
    assert drawing.shortened("Swahili") == "Swahili"
    assert drawing.shortened("Central Atlas Tamazight") == "Central Atlas Tamaz…"
