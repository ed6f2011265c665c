"""The page: what the text says, curves, nothing from elsewhere."""

import html.parser
import re

import pytest

from eval import compare
from eval.compare import page
from eval.compare.chapters import chapters


class Structure(html.parser.HTMLParser):
    """The open tags of a page, and its texts."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "br", "path", "use", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in ("path", "use", "rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def test_it_has_all_of_the_text_and_the_curves(made_run, tmp_path):
    runs = [
        made_run("a", scores={"deu_Latn": 0.4}),
        made_run("b <i>&", dropout=0.2, scores={"deu_Latn": 0.1}),
    ]
    comparison = compare.compare(runs)
    page.write(comparison, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    seen = Structure()
    seen.feed(text)
    assert not seen.open
    for chapter in chapters(comparison):
        for table in chapter.tables:
            assert {cell for row in table.rows for cell in row} <= set(seen.texts)
        assert {*chapter.sentences, *chapter.notes} <= set(seen.texts)
    assert text.count("<svg") == 2 and "<script" not in text
    assert all(address.startswith("#") for address in seen.addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert text == page.page(compare.compare(runs))


def test_runs_without_losses_have_no_curves(made_run):
    runs = [made_run("a"), made_run("b")]
    for run in runs:
        (run / "metrics.jsonl").write_text("")
    assert "<svg" not in page.page(compare.compare(runs))


def test_a_page_is_called_html(tmp_path):
    with pytest.raises(ValueError, match=r"config.gin: expected FILE.html"):
        page.write(None, tmp_path / "config.gin")
