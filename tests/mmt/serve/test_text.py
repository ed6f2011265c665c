"""Texts: sentences are translated; white space, and tags of HTML, stay."""

import html
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmt import documents
from mmt.documents import words
from mmt.serve import text
from mmt.serve.scheduler import Sentence
from mmt.serve.text import ServedUnit
from mmt.translate import Hypothesis, Translation, markup
from mmt.translate.alignment import Alignment

SLOW_AT_FIRST = settings(deadline=None)  # the first sentence loads the rules of its language

SPACED = st.text(st.sampled_from(list("aé. \n\r\t\u2028\u00a0漢。")))
PIECES = st.lists(
    st.sampled_from(
        ["<p>", "</p>", "<br/>", "<a href='x>y'>", "<", ">", "&amp;", "&#60;", "&lt", "&", "\n",
         "ein", " Haus.", "<!-- a -->", "<script>if (a<b) c</script>", "<style>", "<b", "]]>",
         "<![CDATA[x]]>", "<?php x ?>", "</", "</>", "<!doctype html>", "\x00", "\u00a0", '"',
         "<code>", "</code>", "<img translate=no>", "<div class='a notranslate'>", "</div>",
         "<b>", "</b>", "<i>", "</i>", "</a>"]
    )
).map("".join)  # fmt: skip


def cut(marked):
    return [
        ServedUnit(unit, tuple(Sentence(unit.aligns, s, 1) for s in unit.sentences.sentences))
        for unit in markup.cut(marked, "de")
    ]


def hypotheses(sentences, translate=str):
    """A result for each sentence; each of its words comes from the one in the same place."""
    results = {}
    for sentence in sentences:
        translation = translate(sentence.text)
        spans = [words.spans(each) for each in (sentence.text, translation)]
        weights = np.eye(len(spans[1]), len(spans[0]), dtype=np.float32)
        alignment = Alignment(tuple(spans[0]), tuple(spans[1]), weights)
        hypothesis = Hypothesis(translation, 0.0, alignment=alignment)
        results[sentence] = Translation(sentence.text, (hypothesis,))
    return results


def filled(made, translate):
    (found,) = made.translations(hypotheses(made.sentences, translate))
    return found


def of_html(fragment):
    return text.html(documents.read_html(fragment), cut)


@SLOW_AT_FIRST
@given(SPACED)
def test_with_equal_translations_a_plain_text_is_the_same(content):
    same = filled(text.plain(content, cut), str)
    assert same.replace(" ", "") == content.replace(" ", "")  # 。 gets a space behind it


@SLOW_AT_FIRST
@given(SPACED)
def test_units_are_at_their_places_without_line_breaks(content):
    made = text.plain(content, cut)
    for unit in made.segments[0]:
        for sentence in unit.sentences:
            assert content[unit.start : unit.end] == sentence.text
            assert len(sentence.text.splitlines()) == 1


def test_sentences_without_a_space_between_them_get_one():
    made = text.plain("甲。乙。\n", cut)
    assert filled(made, lambda sentence: "A.") == "A. A.\n"


def test_what_has_no_letter_stays():
    assert text.plain(" — ?! \n * * *", cut).sentences == []
    assert filled(text.plain("* * *\nja!\t...\n", cut), str.upper) == "* * *\nJA!\t...\n"


class Tags(HTMLParser):
    """Collects everything that is not text."""

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.found, self.text = [], ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(attrs)))

    def handle_endtag(self, tag):
        self.found.append(tag)

    def handle_comment(self, data):
        self.found.append(("comment", data))

    def handle_decl(self, decl):
        self.found.append(("decl", decl))

    def handle_data(self, data):
        self.text += data


@SLOW_AT_FIRST
@given(PIECES)
def test_no_markup_is_lost_changed_or_made(content):
    translated = filled(of_html(content), lambda line: f"{line} <i> & </p>")
    assert Counter(Tags(translated).found) == Counter(Tags(content).found)


def without_space(content):
    """HTML without the spaces that sentences without a space between them get.

    The HTML standard replaces NUL by U+FFFD.
    """
    return html.unescape(content).replace(" ", "").replace("\n", "").replace("\0", "\ufffd")


@SLOW_AT_FIRST
@given(PIECES)
@example(" Haus.< Haus.\0")
def test_with_equal_translations_html_is_the_same_byte_for_byte(content):
    same = filled(of_html(content), str)
    assert same == content or ("." in content and without_space(same) == without_space(content))
    assert filled(text.html(documents.read_html(content), text.keep), str.upper) == content


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("<p>ein\n <b>Haus</b>!</p>", "<p>EIN <b>HAUS</b>!</p>"),
        ("ja. <b>ja. Nein!</b> ja<br>ja", "JA. <b>JA. NEIN!</b> JA<br>JA"),
        ("<b>ja</b> nein <i>ja", "<b>JA</b> NEIN <i>JA"),
        ("a &lt; b &amp; c", "A &lt; B &amp; C"),
        ("<p translate='no'>nein <p>nein</p> nein</p> ja", "<p translate='no'>nein <p>nein</p> "
         "nein</p> JA"),
        ("<img translate=no> ja <br class=notranslate> ja", "<img translate=no> JA "
         "<br class=notranslate> JA"),
        ("<script>nein()</script><code>nein</code> ja", "<script>nein()</script><code>nein</code> "
         "JA"),
        ("ja <code>nein</code> ja", "JA <code>nein</code> JA"),
        ("ja <code>nein <b>nein</b>", "JA <code>nein <b>nein</b>"),
        ("<td>&nbsp;</td> 1 &mdash; ", "<td>&nbsp;</td> 1 — "),
        ("<a title='nein'", "<a title='nein'"),
        ("<p title='nein' alt=nein>ja", "<p title='nein' alt=nein>JA"),
    ],
)  # fmt: skip
def test_examples_of_html(fragment, expected):
    translated = filled(of_html(fragment), lambda line: " ".join(line.upper().split()))
    assert html.unescape(translated) == html.unescape(expected)


def test_a_unit_of_html_is_shown_with_its_tags():
    made = of_html("<ul> <li>ja &amp; <b>nein</b>. Ja! <li>eins")
    results = hypotheses(made.sentences, str.upper)
    shown = [
        (unit.start, unit.end, made.show(number, unit, results))
        for number, segment in enumerate(made.segments)
        for unit in segment
    ]
    assert shown == [
        (9, 34, "JA &amp; <b>NEIN</b>."), (9, 34, "JA!"), (39, 43, "EINS"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make", [lambda content: text.plain(content, cut), of_html], ids=["text", "html"]
)
def test_a_sentence_with_fewer_translations_repeats_its_best(make):
    made = make("Ja. Nein. Gut.")
    given = {"Ja.": ["Yes.", "Yeah.", "Aye."], "Nein.": ["No."], "Gut.": ["Good.", "Well."]}
    results = {}
    for sentence in made.sentences:
        hypotheses = tuple(Hypothesis(each, 0.0) for each in given[sentence.text])
        results[sentence] = Translation(sentence.text, hypotheses)
    assert made.translations(results) == ["Yes. No. Good.", "Yeah. No. Well.", "Aye. No. Good."]
