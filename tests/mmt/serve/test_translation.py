"""What `/translate` answers."""

import json
import re

import pytest

from mmt.decoding.ctranslate2_search import CTranslate2Model
from mmt.serve.responses import NDJSON
from tests.helpers.serving import Echo, echo_translator, listening, request, service, translate


def test_a_text_gives_a_text_and_a_list_a_list(serve_echo):
    with serve_echo() as (port, _):
        assert translate(port, "ein Satz").json == {"translatedText": "ein Satz"}
        assert translate(port, ["ein", "", "zwei\n\n drei "]).json == {
            "translatedText": ["ein", "", "zwei\n\n drei "]
        }
        assert translate(port, " ").json == {"translatedText": " "}


def test_alternatives(serve_echo):
    with serve_echo() as (port, _):
        assert translate(port, "ein Satz\nja", alternatives=2).json == {
            "translatedText": "ein Satz\nja",
            "alternatives": ["ein Satz ein Satz\nja ja", "ein Satz ein Satz ein Satz\nja ja ja"],
        }  # fmt: skip
        assert translate(port, ["ein", "zwei"], alternatives="1").json["alternatives"] == [
            ["ein ein"], ["zwei zwei"],
        ]  # fmt: skip
        error = translate(port, "ein", alternatives=4)
        assert (error.status, error.json["error"]) == (
            400, "Invalid request: alternatives is 4; allowed: 0 to 3",
        )  # fmt: skip


def test_html_keeps_its_tags(serve_echo):
    text = "<p class=x>ein <b>Satz</b> &amp; ja</p><script>a<b</script>"
    with serve_echo() as (port, _):
        assert translate(port, text, format="html").json == {"translatedText": text}
        assert Echo.aligned == [1]


def test_a_sentence_of_html_is_one_text_whose_tags_are_placed(serve_echo):
    text = "<p>ein <b>kleiner</b> Satz</p> <p>ja</p>"
    with serve_echo() as (port, _):
        answer = translate(port, text, format="html", alternatives=1).json
        assert answer["translatedText"] == text
        (other,) = answer["alternatives"]
        assert "<b>kleiner</b>" in other and other.count("kleiner") == 2
        assert sorted(re.findall("<.*?>", other)) == sorted(re.findall("<.*?>", text))
        assert sorted(Echo.batches) == [1, 1] and Echo.aligned == [4]
        translate(port, text, format="html", alternatives=1)
        translate(port, "ein kleiner Satz")
        assert Echo.aligned == [4]  # of the cache; a text without tags needs none


def test_html_arrives_unit_by_unit_with_its_tags(serve_echo):
    text = "<p>ein <b>Satz</b> &amp; ja. <i>Ja. Nein.</i> Nein</p>"
    with serve_echo() as (port, _):
        answer = request(
            port, "POST", "/translate",
            {"q": text, "source": "de", "target": "en", "format": "html"}, Accept=NDJSON,
        )  # fmt: skip
    *units, last = answer.lines
    assert [unit["translatedText"] for unit in units] == [
        "ein <b>Satz</b> &amp; ja.", "<i>Ja. Nein.</i>", "Nein",
    ]  # fmt: skip
    assert all(text[unit["start"] : unit["end"]] in text[3:-4] for unit in units)
    assert last == {"translatedText": text}


def test_sentences_arrive_as_they_are_ready(serve_echo):
    with serve_echo() as (port, _):
        answer = request(
            port, "POST", "/translate",
            {"q": ["ein\nzwei", "drei"], "source": "de", "target": "en"}, Accept=NDJSON,
        )  # fmt: skip
    assert answer.headers["content-type"] == NDJSON
    *sentences, last = answer.lines
    assert [(s["text"], s["start"], s["end"], s["translatedText"]) for s in sentences] == [
        (0, 0, 3, "ein"), (0, 4, 8, "zwei"), (1, 0, 4, "drei"),
    ]  # fmt: skip
    assert last == {"translatedText": ["ein\nzwei", "drei"]}


def test_long_lines_are_split_and_joined(serve_echo):
    text = "ein kleiner Satz. " * 50
    with serve_echo() as (port, _):
        assert translate(port, text).json["translatedText"] == text


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"source": "xx"}, "'xx' is not supported as a source language"),
        ({"source": "germn"}, "nearest: de"),
        ({"source": "fr"}, "fr (French) is not supported as a source language; nearest: de"),
        ({"target": "de"}, "de (German) is not supported as a target language; nearest: en"),
        ({"source": ""}, "missing source parameter"),
        ({"target": None}, "missing target parameter"),
        ({"source": 5}, "source must be text, not a number"),
        ({"q": None}, "missing q parameter"),
        ({"q": {}}, "q must be text or a list of texts, not an object"),
        ({"q": []}, "q is an empty list"),
        ({"q": ["a", 5]}, "q[1] must be text, not a number"),
        ({"q": "x" * 500}, "request (500 characters) exceeds text limit (400)"),
        ({"q": ["x"] * 30}, "request (30 texts) exceeds batch limit (20)"),
        ({"format": "htm"}, "htm format is not supported; nearest: html; allowed: text, html"),
        ({"alternatives": -1}, "alternatives is -1"),
        ({"alternatives": "many"}, "alternatives is text; allowed: 0 to 3"),
        ({"source": "auto"}, "no language identifier"),
        ({"glossary": "a"}, "glossary, line 1"),
        ({"risk": True}, "risk"),
    ],
)
def test_a_fault_is_named(parameters, words, strict_port):
    values = {"q": "a", "source": "de", "target": "en"} | parameters
    answer = request(strict_port, "POST", "/translate", values)
    assert answer.status == 400 and list(answer.json) == ["error"]
    assert words in answer.json["error"]
    assert len(answer.json["error"]) < 300


def test_a_glossary_is_refused_where_ctranslate2_translates(tmp_path):
    library = CTranslate2Model(None, "int8", (), (), 0, 1)
    made = echo_translator(tmp_path / "v.model", ctranslate2=library)
    with service(made) as served, listening(served) as port:
        values = {"q": "a", "source": "de", "target": "en", "glossary": "a\tb"}
        answer = request(port, "POST", "/translate", values)
        assert answer.status == 400 and "served by CTranslate2" in answer.json["error"]
        assert request(port, "GET", "/frontend/settings", {}).json["glossary"] is False


def test_the_same_language_gives_the_text_back(serve_echo):
    with serve_echo() as (port, _):
        assert translate(port, "a text", source="en").json == {"translatedText": "a text"}


def test_the_answer_is_utf_8(serve_echo):
    with serve_echo() as (port, _):
        answer = translate(port, "日本")
        assert "日本".encode() in answer.body and answer.headers["content-type"].startswith(
            "application/json"
        )
        assert json.loads(answer.body)
