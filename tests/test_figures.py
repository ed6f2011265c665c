"""Figures: a mark per language, the same bytes every time, nothing from outside."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from test_comparison import baseline, row, seven

from eval import figures
from eval.comparison import compare

SVG = "{http://www.w3.org/2000/svg}"


def titles(svg: str) -> list[str]:
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def test_a_bar_per_language_with_a_baseline():
    (found,) = compare(seven())
    tips = titles(figures.svg(figures.delta_bleu(found)))
    assert len(tips) == 4
    assert tips[1] == "Swahili: 42.0 BLEU, multi; 40.0 bilingual; Δ +2.0; 998 training pairs"


def test_a_dot_per_language_and_per_baseline():
    (found,) = compare(seven())
    tips = titles(figures.svg(figures.bleu_by_size(found)))
    names = [tip.split(":")[0] for tip in tips]
    assert len(set(names)) == 7 and len(tips) == 7 + 4 + 4  # dots, baselines, ties


def test_bars_up_and_down_and_the_sliding_mean():
    (found,) = compare(seven())
    axes = figures.delta_bleu(found).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [-10, 2, 14, 26]
    assert [line for line in axes.lines if list(line.get_ydata()) == [8, 8, 8, 8]]


@pytest.mark.parametrize("draw", [figures.delta_bleu, figures.bleu_by_size])
def test_equal_input_gives_equal_bytes(draw):
    pictures = []
    for _ in range(2):
        (found,) = compare(seven())
        pictures.append((figures.png(draw(found)), figures.svg(draw(found))))
    assert pictures[0] == pictures[1]
    assert pictures[0][0].startswith(b"\x89PNG")


@pytest.mark.parametrize("draw", [figures.delta_bleu, figures.bleu_by_size])
@pytest.mark.parametrize(
    "rows",
    [
        [row()],
        [baseline()],
        [row(), baseline()],
        [row(train_pairs=0), baseline()],
        [row(system=f"system {place} <$x^2$ & {{}}>", bleu=40.0 + place) for place in range(8)],
    ],
    ids=["no baseline", "only a baseline", "one language", "no training data", "many systems"],
)
def test_unusual_results_are_drawn_too(draw, rows):
    (found,) = compare(rows)
    svg = figures.svg(draw(found))
    ElementTree.fromstring(svg)
    assert figures.png(draw(found)).startswith(b"\x89PNG")


def test_inline_svg_is_part_of_its_page():
    (found,) = compare([row(system="<script>&$a$"), baseline()])
    text = figures.inline(figures.svg(figures.delta_bleu(found)), "first")
    assert text.startswith("<svg viewBox=") and "http" not in text and "<style" not in text
    assert not re.search(r"#[0-9a-f]{6}", text), "a colour that the page cannot change"
    assert "var(--up)" in text and "<script" not in text
    assert all(name.startswith("first-") for name in re.findall(r'\sid="([^"]*)"', text))
    ids = set(re.findall(r'\sid="([^"]*)"', text))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', text)) <= ids
