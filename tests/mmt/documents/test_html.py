"""HTML: what is translated of a page, and pages that are no HTML at all."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.documents import MarkedText, html
from tests.helpers.documents import EXAMPLES


def texts(page: str | bytes) -> list[str]:
    content = page.encode() if isinstance(page, str) else page
    return [segment.source.text for segment in html.read("a.html", content).segments]


def test_text_for_people_is_translated():
    assert texts(EXAMPLES["a.html"]) == [
        "Über uns", "Ein & Titel", "Große Überschrift", "Hallo schöne Welt,", "wie geht  es dir?",
        "Geht's?", "ein Bild", "Fett", "eins\n  zwei", "Zelle", "noch eine", "Punkt kreuz quer",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<script>a<b>c</b></script>d<style>e", ["d"]),
        ("<div class='x notranslate'><p>a</p></div>b", ["b"]),
        ("a <span translate=no>b</span> c", ["a  c"]),
        ("<textarea>a <b></textarea><title>c</title>", ["a <b>", "c"]),
        ("a < b & c &amp;lt; d", ["a < b & c &lt; d"]),
        ("a<!doctype x><?php b ?>c", ["ac"]),
        ("<p title='a' data-x='b' alt=c>", ["a"]),
        ("a<!-- b", ["a"]),
        ('a<p title="b', ["a"]),
        ("<p class='a donotranslate'>b", ["b"]),
        ("a <code>b <b>c</b>", ["a"]),  # code that nothing ends
        ("<ul><li translate=no>a <b>b</b><li>c</ul>d", ["c", "d"]),
        ("<div><p class=notranslate>a</div>b", ["b"]),
        ("<p translate=NO>a <p>b</p> c</p>d", ["d"]),
        ("a <code>b<p>c</p>", ["a"]),
    ],
)
def test_what_belongs_to_the_text(page, expected):
    assert texts(page) == expected


@given(st.lists(st.sampled_from([*"<>/!-='\" abp&;", "<code>", "</b>", "<p translate=no>"])))
def test_anything_is_a_page(parts):
    content = "".join(parts).encode()
    markup = html.tokens("a.html", content)
    assert "".join(markup.text[t.start : t.end] for t in markup.tokens) == markup.text
    for index, token in enumerate(markup.tokens):
        assert token.partner < 0 or markup.tokens[token.partner].partner == index
    document = html.read("a.html", content)
    assert document.write([segment.source for segment in document.segments]) == content


@pytest.mark.parametrize(
    "piece", ["<!--", "<b>", "</b>", "<a b='", "<a ", "<", "<script>", "&", "<b></i>", "<p><b>x",
     "<code>", "<li translate=no>", "<i><code>"]
)
def test_time_is_linear(piece):
    start = time.process_time()
    html.read("a.html", piece.encode() * (50_000 // len(piece)))
    assert time.process_time() - start < 10


def test_the_declared_encoding_is_kept():
    document = html.read("latin.html", EXAMPLES["latin.html"])
    text = document.segments[0].source
    assert text.text == "Große Äpfel"
    written = document.write([text._replace(text="Äpfel für 語")])
    assert written == EXAMPLES["latin.html"].split(b"<p>")[0] + b"<p>\xc4pfel f\xfcr &#35486;"


def test_a_fragment_has_no_encoding_and_no_attributes():
    fragment = "<meta charset=latin1><p title='nein'>Ä\0\ud800 <b>&amp;</b> ß"
    document = html.read_text(fragment)
    assert [segment.source.text for segment in document.segments] == ["Ä\0\ud800 & ß"]
    assert document.render([None]) == fragment
    assert document.render([MarkedText("<Ö>")]).endswith("'>&lt;Ö&gt;")
