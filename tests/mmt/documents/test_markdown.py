"""Markdown: which text is translated, and that translations cannot become markup."""

import pytest
from markdown_it import MarkdownIt

from mmt.documents import MarkedText, markdown
from tests.helpers.documents import EXAMPLES


def test_text_of_blocks_is_translated():
    document = markdown.read("a.md", EXAMPLES["a.md"])
    assert [s.source.text for s in document.segments] == [
        "Die Überschrift",
        "Ein Absatz mit  und einem fetten Link, der mit 3 * 4 und snake_case weitergeht",
        "hart & umgebrochen", "noch * einer .", "Ein Zitat geht weiter", "Punkt a b c",
        "Kopf eins", "Kopf | zwei", "Zelle", "noch Zelle", "Erster Punkt zweite Zeile", "Aufgabe",
        "Noch eine",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["# a", "- a", "1. a", "*a*", "`a`", "[a](b)", "<b>a</b>", "a_b _c_", "&lt; a", "\\* a"]
)
def test_a_translation_is_text_and_no_markup(text):
    document = markdown.read("a.md", b"Ein Absatz\n")
    written = document.write([MarkedText(text)]).decode()
    blocks = MarkdownIt("commonmark").parse(written)
    assert [block.type for block in blocks] == ["paragraph_open", "inline", "paragraph_close"]
    children = blocks[1].children or []
    assert "".join(child.content for child in children) == text
    assert {child.type for child in children} <= {"text", "text_special"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("+++\ntags = ['Titel']\n+++\nEin Satz\n", "+++\ntags = ['Titel']\n+++\nEIN SATZ\n"),
        ("Ein Satz[^1]\n\n[^1]: Mit Fuß\n", "EIN SATZ[^1]\n\n[^1]: MIT FUSS\n"),
        ("[^a]: Erste Note\n[^b]: Zweite\nNote\n", "[^a]: ERSTE NOTE\n[^b]: ZWEITE NOTE\n"),
        ("> [!NOTE]\n> Ein Satz\n", "> [!NOTE]\n> EIN SATZ\n"),
        (":::note Mein Titel\nEin\nSatz\n:::\n", ":::note MEIN TITEL\nEIN SATZ\n:::\n"),
        (":::tip[Mein *Titel*]\n\nEin Satz\n:::\n", ":::tip[MEIN *TITEL*]\n\nEIN SATZ\n:::\n"),
        ("::: {.note}\nEin Satz\n:::\n", "::: {.note}\nEIN SATZ\n:::\n"),
        ('!!! note "Titel"\n    Ein Satz\n', '!!! note "TITEL"\n    EIN SATZ\n'),
        ("??? note\n    Ein Satz\n", "??? note\n    EIN SATZ\n"),
        ("!!! Halt !!!\n", "!!! HALT !!!\n"),
        (
            "!!! note\n\n    Ein *Satz*\n    ja\n\n    - P\n\n    ```\n    code\n    ```\n\nEnde\n",
            "!!! note\n\n    EIN *SATZ* JA\n\n    - P\n\n    ```\n    code\n    ```\n\nENDE\n",
        ),
        ("!!! note\n\n    Ein\n\nWer\n\n    code\n", "!!! note\n\n    EIN\n\nWER\n\n    code\n"),
        (
            '=== "Titel"\n\n    Ein Satz\n\n    ??? tip\n\n        Innen\n\n            code\n',
            '=== "TITEL"\n\n    EIN SATZ\n\n    ??? tip\n\n        INNEN\n\n            code\n',
        ),
        ("[^1]: Mit Fuß\n\n    Zwei\n\nDrei\n", "[^1]: MIT FUSS\n\n    ZWEI\n\nDREI\n"),
        (":::note\n\n    code\n\n:::\n", ":::note\n\n    code\n\n:::\n"),
        ("Wort\n: Sein Sinn\n: Noch\n  einer\n", "WORT\n: SEIN SINN\n: NOCH EINER\n"),
        ("> [!tip]+ Titel\n> Ein Satz\n", "> [!tip]+ TITEL\n> EIN SATZ\n"),
        ("[Ein b]\n\n[ein B]: /u", "[EIN B][Ein b]\n\n[ein B]: /u"),
        ("![b][] [*x*][]\n\n[b]: /u\n[*x*]: /v", "![b][] [*X*][*x*]\n\n[b]: /u\n[*x*]: /v"),
        ("![Ein b]\n\n[ein b]: /u", "![EIN B][Ein b]\n\n[ein b]: /u"),
        ("[`x`](<u/v(w)>) [ein](u(v)w)", "[`x`](<u/v(w)>) [EIN](u(v)w)"),
        (f"[Ein](/{'u' * 3000}) b", f"[EIN](/{'u' * 3000}) B"),
        ("[Ein][] b", "[EIN][] B"),
        ("![Ein Bild](a.png)\n", "![EIN BILD](a.png)\n"),
        ("[![Ein Bild](a.png)](/u)\n", "[![EIN BILD](a.png)](/u)\n"),
        ("ein ![Bild](a.png)\n", "EIN ![Bild](a.png)\n"),
        ("kostet $5, nicht $10", "KOSTET $5, NICHT $10"),
        ("ein $x^2 + y$ ist", "EIN $x^2 + y$ IST"),
        ("$$\nx \\\\\ny\n$$\n\nEin\n", "$$\nx \\\\\ny\n$$\n\nEIN\n"),
        ("eins \\\\\nzwei", "EINS \\ ZWEI"),
        ("eins\\\nzwei", "EINS\\\nZWEI"),
        (
            '<p align="center">\n  Ein <b>Satz</b>\n</p>\n<img alt="Bild">\n\nEin\n',
            '<p align="center">\n  EIN <b>SATZ</b>\n</p>\n<img alt="BILD">\n\nEIN\n',
        ),
        (
            "- a\n\n  <details>\n  <summary>Ein Titel</summary>\n\n  Ein\n\n  </details>\n",
            "- A\n\n  <details>\n  <summary>EIN TITEL</summary>\n\n  EIN\n\n  </details>\n",
        ),
        ("> <p>\n> Ein\n> </p>\n", "> <p>\n> Ein\n> </p>\n"),
        ("<!-- ein\nb -->\n<pre><code>ein</code></pre>\n",) * 2,
        ("Ein <KBD>Alt</KBD>+<kbd class=a>C</kbd>", "EIN <KBD>Alt</KBD>+<kbd class=a>C</kbd>"),
        ("[![Bau](a.svg)](/u) ist grün", "[![Bau](a.svg)](/u) IST GRÜN"),
        ("{{< bild >}} ist a < b", "{{< BILD >}} IST A < B"),
        ("*www.a.org/x_(y)* ist http://b.org/_c.", "*WWW.A.ORG/X_(Y)* IST HTTP://B.ORG/_C."),
        ("[[Seite]] und [TOC] a[0]", "[[SEITE]] UND [TOC] A[0]"),
        ("Hilfe | Start\n---\nEin | b\n", "HILFE | START\n---\nEIN | B\n"),
        ("![Ein | Bild](a.png)\n\nEin \\| b\n", "![EIN | BILD](a.png)\n\nEIN \\| B\n"),
        ("|a\\|b|\n|-|\n|![c\\|d](e)|\n\nf|g\n", "|A\\|B|\n|-|\n|![C\\|D](e)|\n\nF|G\n"),
    ],
)
def test_links_notes_and_front_matter_stay(source, expected):
    document = markdown.read("a.md", source.encode())
    translations = [s.source._replace(text=s.source.text.upper()) for s in document.segments]
    assert document.write(translations).decode() == expected


def test_emphasis_of_no_words_is_left_out():
    document = markdown.read("a.md", b"Ein **fettes** Wort\n")
    start, end = document.segments[0].source.tags
    empty = MarkedText("word", (start._replace(position=0), end._replace(position=0)))
    assert document.write([empty]) == b"word\n"


def test_a_lone_carriage_return_ends_a_line():
    content = b"\r---\ntitle: bleibt\r---\rEins *zwei*\rdrei\r\r- vier\r\n- acht\n\r--"
    document = markdown.read("a.md", content)
    assert document.write([None] * len(document.segments)) == content
    assert {"Eins zwei drei", "vier"} <= {s.source.text for s in document.segments}


def test_a_title_in_quotes_has_no_quotes_inside():
    document = markdown.read("a.md", b'!!! note "Ein Titel"\n    Ein Satz\n')
    written = document.write([MarkedText('A "good" title'), None])
    assert written == b"!!! note \"A 'good' title\"\n    Ein Satz\n"


@pytest.mark.parametrize(
    "code", ["{{ site.title | upcase }}", "{{</ tab >}}", "{{ a | default: '_x_' }}", "{% if a_ %}"]
)
def test_code_of_templates_is_written_as_it_is(code):
    document = markdown.read("a.md", f"Willkommen auf {code}, Freund.\n".encode())
    (segment,) = document.segments
    assert segment.source.text == f"Willkommen auf {code}, Freund."
    written = document.write([MarkedText(f"Welcome to {code}, *friend*.")]).decode()
    assert written == f"Welcome to {code}, \\*friend\\*.\n"


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\f", "\u00a0\n\u2003"])
@pytest.mark.parametrize("before", ["", "# T\n", "1. ", "> ", "> - ", "[a]: /u\n", "!!! a\n\n    "])
def test_lines_of_other_white_space_before_a_paragraph_stay(before, space):
    lines = f"{before}{space}", "1", "Ein Text", ""
    content = ("\n    " if before.startswith("!") else "\n").join(lines)
    document = markdown.read("a.md", content.encode())
    *others, segment = document.segments
    assert segment.source.text == "1 Ein Text"
    written = document.write([None for _ in others] + [MarkedText("Words")]).decode()
    assert written.split() == [*content.split()[:-3], "Words"]
    assert written.startswith(f"{before}{space}\n")
