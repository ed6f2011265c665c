"""HTML: what is translated of a page, and pages that are no HTML at all."""

import time

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.documents import MarkedText, by_position, html, locales
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
        ("a <%= b(c) > 1 %>d<?= e ?><?php $f->g ?>h", ["a dh"]),
        ("<p title='<%= a %>'>5 <% 6 b", ["5 <% 6 b"]),
        ('a<p title="b', ["a"]),
        ("<p class='a donotranslate'>b", ["b"]),
        ("a <code>b <b>c</b>", ["a"]),  # code that nothing ends
        ("<ul><li translate=no>a <b>b</b><li>c</ul>d", ["c", "d"]),
        ("<div><p class=notranslate>a</div>b", ["b"]),
        ("<p translate=NO>a <p>b</p> c</p>d", ["d"]),
        ("a <code>b<p>c</p>", ["a"]),
        ("<p translate=no title='a'><img alt='b'></p><img alt='c'>", ["c"]),
        ("<i class=notranslate title='a'>b</i><img translate=no alt='c'><img alt='d'>", ["d"]),
        ("<script title='a'></script><template><img alt='b'></template>", []),
        ("<svg aria-label='a'></svg><svg translate=no aria-label='b'></svg>", ["a"]),
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
     "<code>", "<li translate=no>", "<i><code>", "<%", "<?php"]
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


NAMED = """<html lang=de-DE xml:lang='de'><head><meta http-equiv="Content-Language" content="de">
<meta property="og:locale" content="de_DE"><meta name="author" content="de">
<link hreflang="de" href="a" title="Seite"></head><body><p>eins <i lang="de">zwei</i>
<span lang="fr">trois</span> <b lang="de" translate="no">drei</b> <code lang="de">vier</code></p>
<div class="notranslate"><p lang="de">fünf</p></div><p title="lang='de'" data-lang="de">sechs</p>
</body></html>"""


def test_a_page_names_its_new_language():
    document = html.read("a.html", NAMED.encode(), locales("de", "en"))
    assert document.write([None] * len(document.segments)) == NAMED.encode()
    new = document.write([by_position(s.source, f"{s.source.text}!") for s in document.segments])
    page = lxml.html.fromstring(new.decode())
    assert page.get("lang") == "en-US" and page.get("xml:lang") == "en"
    metas = {m.get("http-equiv") or m.get("property") or m.get("name"): m.get("content")
             for m in page.iter("meta")}  # fmt: skip
    assert metas == {"Content-Language": "en", "og:locale": "en_US", "author": "de"}
    found = [(e.tag, e.get("lang")) for e in page.find("body").iter() if e.get("lang")]
    assert found == [("i", "en"), ("span", "fr"), ("b", "de"), ("code", "de"), ("p", "de")]
    assert b'hreflang="de"' in new and b'data-lang="de"' in new and b"lang=&#39;de&#39;!" in new


def test_the_language_of_the_page_is_that_of_its_root():
    for source, target, expected in (
        (None, "en", "en-US"), ("fr", "en", "de-DE"), (None, None, "de-DE"), ("de", "de", "de-DE"),
    ):  # fmt: skip
        document = html.read("a.html", NAMED.encode(), locales(source, target))
        new = document.write([s.source._replace(text="x", tags=()) for s in document.segments])
        assert f"<html lang={expected} ".encode() in new
    document = html.read("a.xhtml", b"<html xml:lang='de'><p lang=de>eins", locales(None, "en"))
    assert document.write([MarkedText("one")]) == b"<html xml:lang='en'><p lang=en>one"


def test_the_direction_is_that_of_the_target():
    """Elements with the direction of the source turn; those with another one stay."""
    page = (
        '<html lang="ar" dir="rtl"><p DIR=RTL>نص <bdo dir="ltr">123</bdo><code dir="rtl">x</code>'
    )
    document = html.read("a.html", page.encode(), locales("ar", "en"))
    new = document.write([by_position(s.source, "text") for s in document.segments]).decode()
    assert new.startswith('<html lang="en" dir="ltr"><p DIR=ltr>')
    assert '<bdo dir="ltr">' in new and '<code dir="rtl">' in new
    assert html.read("a.html", page.encode(), locales("ar", "fa")).changes[1:] == []
    document = html.read("a.html", b"<HTML><p dir=auto>one<p dir=ltr>two", locales("en", "he"))
    new = document.write([MarkedText("1x"), MarkedText("2x")])
    assert new == b'<HTML dir="rtl"><p dir=auto>1x<p dir=rtl>2x'


@pytest.mark.parametrize(
    ("start", "turned"),
    [
        ('<html dir="upwards" lang=en>', '<html dir="rtl" lang=he>'),
        ("<html lang=en DIR=''>", "<html lang=he DIR='rtl'>"),
        ("<html dir=left>", "<html dir=rtl>"),
        ("<html dir>", '<html dir="rtl" dir>'),
        ('<html dir="foo" dir="ltr">', '<html dir="rtl" dir="rtl">'),
        ('<html dir="Auto">', '<html dir="Auto">'),
    ],
)
def test_a_page_with_an_invalid_direction_turns(start, turned):
    """Browsers show such a page from left to right; `dir` of other elements stays if invalid."""
    rest = "<p dir=foo>{}<p dir>{}</html>"
    page = start + rest.format("one", "two")
    document = html.read("a.html", page.encode(), locales("en", "he"))
    new = document.write([MarkedText("1x"), MarkedText("2x")]).decode()
    assert new == turned + rest.format("1x", "2x")


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [("gb2312", "gbk", "朱镕基总理说"), ("euc-kr", "cp949", "똠방각하"),
     ("shift_jis", "cp932", "①番"),
     ("iso-8859-1", "cp1252", "„gut“ – sagt er…")],
)  # fmt: skip
def test_labels_are_read_as_browsers_do(label, codec, text):
    content = f'<meta charset="{label}"><p>{text}</p>'.encode(codec)
    document = html.read("a.html", content)
    assert [segment.source.text for segment in document.segments] == [text]
    assert document.write([None]) == content


def test_a_page_that_is_not_in_its_declared_encoding_is_refused():
    with pytest.raises(ValueError, match=r"a\.html:1: not utf-8: .* 0xe9"):
        html.read("a.html", b'<meta charset="utf-8"><p>Caf\xe9</p>')
