"""What `/translate` answers."""

import dataclasses
import json
import re
import threading

import pytest

from mmt.decoding.ctranslate2_search import CTranslate2Model
from mmt.serve import models
from mmt.serve.responses import NDJSON
from mmt.translate import Decoding, Translator, retry
from tests.helpers import hf_runs
from tests.helpers.serving import (
    Echo,
    echo_translator,
    form,
    listening,
    multipart,
    request,
    service,
    translate,
)
from tests.mmt.translate.test_risk import CALIBRATION


def test_a_text_gives_a_text_and_a_list_a_list(serve_echo):
    with serve_echo() as (port, _):
        assert translate(port, "ein Satz").json == {"translatedText": "ein Satz"}
        assert translate(port, ["ein", "", "zwei\n\n drei "]).json == {
            "translatedText": ["ein", "", "zwei\n\n drei "]
        }
        assert translate(port, " ").json == {"translatedText": " "}


def test_sentences_are_not_cut_again_by_the_rules_of_another_language(serve_echo):
    for split in ("long", "sentences"):
        with serve_echo(decoding=Decoding(split=split)) as (port, _):
            answer = translate(port, "bzw. ein Satz am 3. Mai", source="de").json
        assert answer == {"translatedText": "bzw. ein Satz am 3. Mai"}
        assert Echo.batches == [1]
        Echo.batches.clear()


def test_a_server_that_samples_refuses_a_glossary(serve_echo):
    with serve_echo(decoding=Decoding(beam=1, temperature=1.0)) as (port, _):
        refused = translate(port, "ein Satz", source="de", glossary="ein\tone")
        assert refused.status == 400 and "draws samples" in refused.json["error"]


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
            400, "Invalid request: alternatives is 4; allowed: whole numbers from 0 to 3",
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
        ({"source": "germn"}, "nearest: de (German)"),
        ({"source": "fr"}, "fr (French) is not supported as a source language; nearest: de (Ger"),
        ({"target": "de"}, "de (German) is not supported as a target language; nearest: en (Eng"),
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
        ({"alternatives": "many"}, "alternatives is many; allowed: whole numbers from 0 to 3"),
        ({"source": "auto"}, "no language identifier"),
        ({"glossary": "a"}, "glossary, line 1"),
        ({"glossary": "a\t" + "b " * 99}, "allowed: at most 64"),
        ({"risk": True}, "risk: the model model0 has no calibration of confidence"),
        ({"risk": True}, "mmt calibrate --model model0"),
        ({"risk": "yes"}, "risk must be true or false"),
        ({"context": 1}, "context: the model model0 was not trained with context"),
        ({"context": "x"}, "context is x; allowed: whole numbers from 0 to 100"),
        ({"risk": 1}, "risk: the model model0 has no calibration of confidence"),
        ({"risk": []}, "risk must be true or false"),
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


def test_context_is_that_of_the_text(serve_echo, monkeypatch):
    """The model gives the context back, but it is no part of the answer."""
    seen = []
    decode = models.decode

    def decoded(key, texts):
        seen.extend(texts)
        return decode(key, texts)

    monkeypatch.setattr(models, "decode", decoded)
    text, html = "ein\nzwei\n\ndrei", "<p>ein<br><b>zwei</b> ja</p><p>drei</p>"
    joined = ["ein", "ein ||| zwei", "zwei ||| drei"]
    with serve_echo(context_lines=1) as (port, _):

        def asked(body, **options):
            """The answer, and the texts of the model."""
            seen.clear()
            return request(port, "POST", *body, **options).json, sorted(seen)

        plain = {"q": text, "source": "de", "target": "en"}
        translated = {"translatedText": text}
        assert asked(("/translate", plain)) == (translated, ["drei", "ein", "zwei"])
        # Sentences without context are those of the cache.
        assert asked(("/translate", plain | {"context": 1})) == (translated, joined[1:])
        assert asked(("/translate", plain | {"context": 1})) == (translated, [])
        body, header = form(**plain | {"context": "1"})
        assert asked(("/translate", body), **header) == (translated, [])
        query = "/translate?source=de&target=en&context=1&q=vier%0Aein"
        assert asked((query, b""))[1] == ["vier", "vier ||| ein"]
        # Each text of a list is a document, and so is a page.
        listed = plain | {"q": ["sechs", "ein\nja"], "context": 1}
        assert asked(("/translate", listed))[1] == ["ein ||| ja", "sechs"]
        Echo.aligned.clear()
        page = asked(("/translate", plain | {"q": html, "format": "html", "context": 1}))
        assert page == ({"translatedText": html}, ["ein ||| zwei ja", "zwei ja ||| drei"])
        assert Echo.aligned == [1]
        upload, header = multipart("a.txt", b"acht\nneun", source="de", target="en", context="1")
        asked(("/translate_file", upload), **header)
        assert sorted(seen) == ["acht", "acht ||| neun"]


def test_an_output_without_its_context_is_made_again(serve_echo, monkeypatch):
    with serve_echo(context_lines=1) as (port, _):
        search = Echo.search
        monkeypatch.setattr(Echo, "search", lambda echo, sources: [
            [found._replace(tokens=found.tokens[2:]) for found in each]
            for each in search(echo, sources)
        ])  # fmt: skip
        shortened = translate(port, "||| ein").json["translatedText"]
        answer = translate(port, "ja\nein", context=1)
        assert answer.status == 200 and "|||" not in answer.json["translatedText"], shortened


def test_what_context_excludes_is_named(serve_echo):
    options = {"context_lines": 2, "calibration": CALIBRATION}
    with serve_echo(**options) as (port, _):
        for values, words in (
            ({"context": 3}, "context is 3: the model model0 was trained with at most 2 previous"),
            ({"context": 1, "risk": True}, "context excludes risk"),
            ({"context": 1, "risk": True, "glossary": "a\tb"}, "context excludes glossary, risk"),
        ):
            answer = translate(port, "ja", **values)
            assert answer.status == 400 and words in answer.json["error"]
        body, header = multipart("a.txt", b"ja", source="de", target="en", context="3")
        answer = request(port, "POST", "/translate_file", body, **header)
        assert answer.status == 400 and "allowed: 0 to 2" in answer.json["error"]
    with serve_echo(context_lines=2, decoding=Decoding(prefix="ja")) as (port, _):
        error = translate(port, "ja", context=1).json["error"]
        assert error == "context excludes Decoding.prefix"


def places(risk):
    """The place and the flags of each sentence of a text."""
    return [(each["start"], each["end"], each["flags"]) for each in risk]


def test_risk_of_each_sentence(serve_echo):
    """The model gives the source back: everything but names is a copy."""
    text = "ein Satz. Satz Satz.\n --- \n nein Satz"
    copies = [(0, 9, ["copy"]), (10, 20, []), (28, 37, ["copy"])]
    with serve_echo(calibration=CALIBRATION) as (port, _):
        answer = translate(port, text, risk=True).json
        assert answer["translatedText"] == text and places(answer["risk"]) == copies
        good, bad = answer["risk"][1]["confidence"], answer["risk"][0]["confidence"]
        assert 0 < bad < good < 1
        listed = translate(port, [text, " ", "Satz Satz."], risk=True).json["risk"]
        assert listed[0] == answer["risk"] and listed[1] == []
        assert listed[2] == [{**answer["risk"][1], "start": 0, "end": 10}]
        html = translate(port, "<p>ein Satz</p>", risk="true", format="html").json
        assert places(html["risk"]) == [(3, 11, ["copy"])]
        assert "risk" not in translate(port, text, risk=False).json
        assert translate(port, text, source="en", risk=True).json["risk"] == []
        body, header = form(q=text, source="de", target="en", risk="1")
        assert request(port, "POST", "/translate", body, **header).json == answer
        query = "/translate?source=de&target=en&risk=true&q=Satz%20Satz."
        assert request(port, "POST", query, b"").json["risk"] == listed[2]
        both = translate(port, text, risk=True, alternatives=2).json
        assert places(both["risk"]) == copies and len(both["alternatives"]) == 2


def test_risk_of_a_stream(serve_echo):
    values = {"q": "ein Satz. Satz Satz.", "source": "de", "target": "en", "risk": True}
    with serve_echo(calibration=CALIBRATION) as (port, _):
        *sentences, last = request(port, "POST", "/translate", values, Accept=NDJSON).lines
    assert [each["risk"]["flags"] for each in sentences] == [["copy"], []]
    assert [{**each["risk"], "start": each["start"], "end": each["end"]} for each in sentences] == (
        last["risk"]
    )


def test_risk_is_computed_where_asked_by_a_thread_that_translates(serve_echo, monkeypatch):
    """A translation without its risk, kept before, is not the answer to a request with it."""
    threads = []
    assess = models.assess
    monkeypatch.setattr(
        models, "assess",
        lambda *given, **more: (threads.append(threading.current_thread().name),
                                assess(*given, **more))[1],
    )  # fmt: skip
    with serve_echo(calibration=CALIBRATION) as (port, service):
        assert translate(port, "ein Satz").json == {"translatedText": "ein Satz"}
        assert threads == [] and len(service.cache) == 1
        for _ in range(2):
            assert translate(port, "ein Satz", risk=True).json["risk"][0]["flags"] == ["copy"]
        assert {name[:13] for name in threads} == {"mmt-decoding-"}
        assert len(Echo.batches) == 2 == len(service.cache)
        assert translate(port, "ein Satz").json == {"translatedText": "ein Satz"}
        assert len(Echo.batches) == 2


def test_risk_with_ctranslate2_is_that_of_its_translations(tmp_path):
    """CTranslate2's hypotheses are scored again, so they have scores of tokens."""
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    run = hf_runs.make_run(tmp_path / "run", **hf_runs.VARIANTS["t5, tied"])
    translator = Translator.load(run, engine="ctranslate2")
    decoding = dataclasses.replace(translator.default_decoding, beam=2)
    lines = ["eins zwei", "12 drei", "vier"]
    expected = list(retry.translate(translator, lines, CALIBRATION, decoding=decoding))
    with service(translator, decoding=decoding, calibration=CALIBRATION) as served:
        with listening(served) as port:
            source, target = (served.models.sources[0], served.models.targets[0])
            values = {"q": lines, "source": source, "target": target, "risk": True}
            answer = request(port, "POST", "/translate", values).json
    assert answer["translatedText"] == [each.text for each in expected]
    for (found,), line in zip(answer["risk"], expected, strict=True):
        assert found["flags"] == list(line.risk.flags)
        assert found["confidence"] == pytest.approx(line.risk.confidence, abs=1e-4)
        assert line.risk.signals.lowest < 0


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
