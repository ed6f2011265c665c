"""HTML: text is translated, tags are kept byte for byte."""

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmt.serve.html_text import parts
from mmt.serve.scheduler import Sentence

PIECES = st.lists(
    st.sampled_from(
        ["<p>", "</p>", "<br/>", "<a href='x>y'>", "<", ">", "&amp;", "&#60;", "&lt", "&", "\n",
         "ein", " Haus.", "<!-- a -->", "<script>if (a<b) c</script>", "<style>", "<b", "]]>",
         "<![CDATA[x]]>", "<?php x ?>", "</", "</>", "<!doctype html>", "\x00", "\u00a0", '"',
         "<code>", "</code>", "<img translate=no>", "<div class='a notranslate'>", "</div>"]
    )
).map("".join)  # fmt: skip


def split(line):
    return [Sentence("k", line, 1)]


def filled(text, translate):
    found = parts(text, split)
    return found.fill({slot.sentence: translate(slot.sentence.text) for slot in found.slots})


class Tags(HTMLParser):
    """Collects everything that is not text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))

    def handle_endtag(self, tag):
        self.found.append(tag)

    def handle_comment(self, data):
        self.found.append(("comment", data))

    def handle_decl(self, decl):
        self.found.append(("decl", decl))

    def handle_data(self, data):
        self.text += data


@given(PIECES)
def test_no_markup_is_lost_changed_or_made(text):
    before = Tags(text)
    translated = Tags(filled(text, lambda line: f"<i>{line} & </p>"))
    assert translated.found == before.found


@given(PIECES)
def test_with_equal_translations_the_text_is_the_same(text):
    same = Tags(filled(text, str)).text
    assert re.sub(r"\s+", " ", same).strip() == re.sub(r"\s+", " ", Tags(text).text).strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>ein\n <b>Haus</b>!</p>", "<p>EIN\n <b>HAUS</b>!</p>"),
        ("a &lt; b &amp; c", "A &lt; B &amp; C"),
        ("<p translate='no'>nein <p>nein</p> nein</p> ja", "<p translate='no'>nein <p>nein</p> "
         "nein</p> JA"),
        ("<img translate=no> ja <br class=notranslate> ja", "<img translate=no> JA "
         "<br class=notranslate> JA"),
        ("<script>nein()</script><code>nein</code> ja", "<script>nein()</script><code>nein</code> "
         "JA"),
        ("<td>&nbsp;</td> 1 &mdash; ", "<td>&nbsp;</td> 1 — "),
        ("<a title='nein'", "<a title='nein'"),
    ],
)  # fmt: skip
def test_examples(text, expected):
    assert html.unescape(filled(text, str.upper)) == html.unescape(expected)
