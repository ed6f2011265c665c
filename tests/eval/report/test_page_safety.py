"""A page needs no other file, and texts of rows never become markup or leave without consent."""

import dataclasses

from markdown_it import MarkdownIt

from eval import report
from eval.records import analysis
from tests.eval.report.test_examples import interval_of, keep
from tests.helpers.report_page import Page, write_rows
from tests.helpers.report_rows import baseline, row


def test_the_page_is_whole_and_alone(whole):
    text = (whole / "report.html").read_text()
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "base"), tag
        assert "src" not in attributes, (tag, attributes)
        image = tag == "image"  # a heat map's pixels
        assert attributes.get("href", "#").startswith("data:image/png" if image else "#")
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert sum(tag == "svg" for tag, _ in page.tags) == 2 * 6 + 1, "for pages and for phones"
    headings = [attributes["aria-label"] for tag, attributes in page.tags if tag == "figure"]
    assert len(headings) == 5 and not any(f">{h}</text>" in text for h in headings), "heading once"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = {a["href"][1:] for tag, a in page.tags if tag == "a"}
    assert len(links) >= 8 and links <= set(ids)
    assert "prefers-color-scheme: dark" in text and "viewport" in text


def test_recipes_are_code_in_markdown_whatever_is_in_them(tmp_path):
    text = "# Macros:\n# =====\n````\nA = '</pre><script>alert(1)</script>'\n"
    recipe = analysis.SystemRecipe(
        system="<img src=x>", config="c", text=text, seed=0, versions={"a": "b"}
    )
    rows = [row(system="<img src=x>")]
    report.report([write_rows(tmp_path, rows, [recipe])], tmp_path / "out")
    tree = MarkdownIt().parse((tmp_path / "out/report.md").read_text())
    fences = [token.content for token in tree if token.type == "fence"]
    assert fences == ["````\nA = '</pre><script>alert(1)</script>'\n"]
    assert sum(token.type == "heading_open" and token.tag == "h1" for token in tree) == 1
    html = "".join(token.content for token in tree if token.type == "html_block")
    assert "&lt;img src=x&gt;</summary>" in html and "<img" not in html and "<script" not in html


def test_without_examples_no_text_is_in_the_report(tmp_path):
    rows, lines = [row(sentences=4), baseline(sentences=4)], ["a text with a licence"] * 4
    keep(tmp_path, rows[0], lines, lines, lines)
    file = write_rows(tmp_path, rows)
    report.report([file], tmp_path / "without", examples=False)
    (bare := tmp_path / "bare").mkdir()
    report.report([write_rows(bare, rows)], bare / "report")
    for path in (bare / "report").iterdir():
        assert path.read_bytes() == (tmp_path / "without" / path.name).read_bytes(), path.name


EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> $x$ {{ 7 * 7 }} &amp;"


def test_nothing_in_rows_or_texts_becomes_markup(render, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    evil = row(system=name, checkpoint=EVIL, decode=EVIL, config=EVIL, bleu_signature=EVIL,
               testset="<b>&'\"", sentences=4)  # fmt: skip
    keep(tmp_path, evil, [EVIL] * 4, [EVIL] * 4, [EVIL] * 4)
    key = {field: getattr(evil, field) for field in analysis.OutputChecks.about}
    shares = dict.fromkeys(("copies", "empty", "short", "long", "looping", "not_english"), 0.5)
    analysis.add(tmp_path / "analysis.jsonl", [
        interval_of(evil, tmp_path),
        analysis.OutputChecks(**key, **shares, recited=None, sentences=4, hypotheses="x"),
        analysis.TestsetQuality(testset=evil.testset, source=evil.source, target=evil.target,
                                mark="poor", reasons=(EVIL,), sentences=4),
        analysis.SystemRecipe(system=name, config=EVIL, text=EVIL, seed=0, versions={EVIL: EVIL}),
        analysis.Remark(title=EVIL, text=EVIL),
    ])  # fmt: skip
    out = render([evil, dataclasses.replace(evil, system="bi <i>", kind="bilingual")],
                 allow=["small"])  # fmt: skip
    page = Page((out / "report.html").read_text())
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1 and "img" not in tags
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    text = "".join(page.words)
    assert EVIL in text and name in text, "and it is shown as it is"
    assert "Recipe notes" in text and "### Recipe notes" in (out / "report.md").read_text()
