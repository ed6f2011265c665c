"""Titles and descriptions in the front matter of Markdown files."""

import tomllib

import pytest
import yaml

from mmt.documents import markdown


def translated(text, translate):
    document = markdown.read("a.md", text.encode())
    segments = document.segments
    return document.write(
        [segment.source._replace(text=translate(segment.source.text)) for segment in segments]
    ).decode()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "---\ntitle: Über uns # x\nslug: ueber-uns\ntags: [Eins]\nnr: 1\n---\nText\n",
            "---\ntitle: ÜBER UNS # x\nslug: ueber-uns\ntags: [Eins]\nnr: 1\n---\nTEXT\n",
        ),
        (
            "---\r\ndescription: >-\r\n  Ein langer\r\n  Satz\r\nlayout: post\r\n---\r\n",
            '---\r\ndescription: "EIN LANGER SATZ"\r\nlayout: post\r\n---\r\n',
        ),
        ("---\ntitle: Ein\xa0\n---\n", "---\ntitle: EIN\xa0\n---\n"),
        ("---\ntitle: 'Ein \U0001f600'\n...\n", "---\ntitle: 'EIN \U0001f600'\n...\n"),
        ("---\nhero:\n  title: Held\n---\n", "---\nhero:\n  title: Held\n---\n"),
        ("---\na: &x Eins\ntitle: *x\n---\n", "---\na: &x Eins\ntitle: *x\n---\n"),
        ("---\ntitle: {{ page.title }} }\n---\n", "---\ntitle: {{ page.title }} }\n---\n"),
        (
            '+++\ntitle = "Ein \\"Titel\\"" # x\ndraft = true\n[params]\ntitle = "Nein"\n+++\n',
            '+++\ntitle = "EIN \\"TITEL\\"" # x\ndraft = true\n[params]\ntitle = "Nein"\n+++\n',
        ),
        ("+++\nlinkTitle='Ein Ort'\n+++\n", '+++\nlinkTitle="EIN ORT"\n+++\n'),
        ('+++\ntitle = """\nEins"""\n+++\n', '+++\ntitle = """\nEins"""\n+++\n'),
    ],
)
def test_titles_and_descriptions_are_translated_and_all_else_stays(source, expected):
    assert translated(source, str.upper) == expected


@pytest.mark.parametrize("title", ["a: b", "# a", "'", "- a", "\x7f\x07", "no", "a\\", "{a}"])
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_any_translation_is_read_back(title, quote):
    text = translated(f"---\ntitle: {quote}Titel{quote}\nb: 1\n---\n", lambda _: title)
    assert yaml.safe_load(text.split("\n---\n")[0]) == {"title": title, "b": 1}
    if quote:
        text = translated(f"+++\ntitle = {quote}Titel{quote}\nb = 1\n+++\n", lambda _: title)
        assert tomllib.loads(text[4:-5]) == {"title": title, "b": 1}
