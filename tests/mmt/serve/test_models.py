"""Which model translates."""

import dataclasses

import pytest

from mmt.documents import MarkedText, Tag
from mmt.identify import IdentifierConfig
from mmt.identify.training import train
from mmt.run import Run
from mmt.serve.models import Models, Route, ServedModel, load
from mmt.translate import Glossary
from mmt.translate.context import History
from mmt.translate.placement import EnsembleMember
from tests.helpers.serving import echo_translator, request, translate
from tests.mmt.identify import made_up
from tests.mmt.translate.test_risk import CALIBRATION

CONTEXT_OF_TWO = """
from __gin__ import dynamic_registration
from mmt.data import stages
stages.Stage.modifiers = {'context': 0.5}
stages.Stage.context_lines = 2
"""


def test_several_models_are_chosen_by_language(serve_echo, echo, tmp_path):
    french = "fra_Latn", "swh_Latn"
    german = echo_translator(tmp_path / "vocabulary.model", target="deu_Latn", sources=french)
    with serve_echo(echo, german) as (port, service):
        assert {row["code"]: row["targets"] for row in request(port, "GET", "/languages").json} == {
            "de": ["en"], "fr": ["de"], "sw": ["de", "en"], "zh": ["en"],
        }  # fmt: skip
        routes = [service.models.route("sw", target).model for target in ("en", "de")]
        assert [route.translator for route in routes] == [echo, german]
        assert translate(port, "ja", source="sw", target="de").json["translatedText"] == "ja"
        error = translate(port, "ja", source="fr", target="en")
        assert error.status == 400 and error.json["error"] == (
            "fr (French) is not available as a source for en (English); allowed: de, sw, zh"
        )
        assert str(service.models) == "4 languages into German, English"


def test_languages_tell_where_a_risk_is_known(echo, tmp_path):
    german = echo_translator(tmp_path / "v.model", target="deu_Latn", sources=("swh_Latn",))
    listed = Models([ServedModel("a", echo, CALIBRATION), ServedModel("b", german)]).listed()
    assert {row["code"]: (row["targets"], row["risk"]) for row in listed} == {
        "de": (["en"], ["en"]), "sw": (["de", "en"], ["en"]), "zh": (["en"], ["en"]),
    }  # fmt: skip


def test_the_calibration_of_a_run_is_loaded_and_a_broken_one_is_refused(echo, tmp_path):
    config = Run(tmp_path).config
    config.write_text("")
    (model,) = load([tmp_path], lambda _: echo)
    assert model.calibration is None and model.context_lines == 0
    config.write_text(CONTEXT_OF_TWO)
    assert load([tmp_path], lambda _: echo)[0].context_lines == 2
    CALIBRATION.save(tmp_path)
    (model,) = load([tmp_path], lambda _: echo)
    assert model.calibration == CALIBRATION
    Run(tmp_path).risk.write_text("{}")
    with pytest.raises(ValueError, match=r"risk\.json is no calibration"):
        load([tmp_path], lambda _: echo)


def test_a_model_that_adds_nothing_is_refused(echo):
    with pytest.raises(ValueError, match="--model b: the models before it translate all"):
        Models([ServedModel("a", echo), ServedModel("b", echo)])


def test_an_imported_model_has_the_languages_of_its_tags(echo):
    manifest = dataclasses.replace(echo.manifest, target="", languages=())
    model = ServedModel("a", dataclasses.replace(echo, manifest=manifest))
    assert model.sources == model.targets == ("eng_Latn",)
    with pytest.raises(ValueError, match="neither its manifest nor its vocabulary names two"):
        Models([model])


def test_languages_are_identified_among_those_that_are_served(echo, serve_echo):
    text = made_up.lines(codes=("deu_Latn", "fin_Latn"))
    identifier = train(text, {}, config=IdentifierConfig(buckets=2**10, dimensions=8, epochs=8))
    known = dataclasses.replace(echo, identifier=identifier)
    with serve_echo(known) as (port, _):
        for code_, languages_ in (("deu_Latn", ["de"]), ("fin_Latn", ["de"])):
            line = max(text[code_], key=len)
            found = request(port, "POST", "/detect", {"q": line}).json
            assert [row["language"] for row in found] == languages_
            assert (found[0]["confidence"] > 50) == (code_ == "deu_Latn")
            answer = translate(port, line, source="auto").json
            assert answer["detectedLanguage"] == found[0]
        no_language = {"confidence": 0, "language": "en"}
        assert request(port, "POST", "/detect", {"q": "12:30"}).json == [no_language]
        assert translate(port, "12:30", source="auto").json["detectedLanguage"] == no_language
        settings = request(port, "GET", "/frontend/settings").json
        assert settings["identification"] and settings["language"]["source"]["code"] == "auto"


def test_glossaries_separate_batches(serve_echo):
    with serve_echo() as (port, service):
        route = service.models.route("de", "en")
        plain, with_terms, same = (
            route.cut(MarkedText("ein Satz"), service.decoding, glossary)[0][1][0].key
            for glossary in (None, Glossary.parse("a\tb"), Glossary.parse("a\tb"))
        )
        assert plain != with_terms and with_terms == same and hash(with_terms) == hash(same)
        assert translate(port, "ein Satz", glossary="nein\tno\n").json["translatedText"]


def test_the_language_is_part_of_the_key_where_it_decides_the_lower_case(serve_echo):
    with serve_echo() as (port, service):
        model = service.models.route("de", "en").model
        recased = dataclasses.replace(service.decoding, recase_capitals=True)
        text = MarkedText("AKŞAM YİNE. KIRMIZI EV. Kırmızı ev. EV VE SU.")
        expected = {recased: ["", "tur_Latn", "", ""], service.decoding: [""] * 4}
        for decoding, sources in expected.items():
            units = Route("tur_Latn", "eng_Latn", model).cut(text, decoding)
            assert [s.key.source for _, of_unit in units for s in of_unit] == sources


def test_sentences_in_context_are_joined_as_far_as_they_fit(serve_echo):
    with serve_echo(context_lines=2) as (port, service):
        route = service.models.route("de", "en")
        texts = "ein Satz\nja\nja\n* * *\na ||| b\nnein", "kleiner Satz " * 11, "nein"
        lengthy, history = texts[1].strip(), History(2)
        sentences = [
            sentence
            for text in texts
            for _, of_unit in route.cut(MarkedText(text), service.decoding, history=history)
            for sentence in of_unit
        ]  # fmt: skip
        assert [each.text for each in sentences] == [
            "ein Satz", "ein Satz ||| ja", "ein Satz ||| ja ||| ja", "a ||| b",
            "ja ||| ja ||| nein", f"nein ||| {lengthy}", f"{lengthy} ||| nein",
        ]  # fmt: skip
        in_context = [each.key.in_context for each in sentences]
        assert in_context == [False, True, True, False, True, True, True]
        for each in sentences:
            assert each.tokens <= each.key.length
            assert each.tokens == route.model.translator.source_tokens([each.text], "eng")[0]
        listed = request(port, "GET", "/languages").json[0]
        assert listed["context"] == {"en": 2}


def test_sentences_with_tags_are_aligned_and_others_are_not(serve_echo):
    with serve_echo() as (port, service):
        route = service.models.route("de", "en")
        text = MarkedText("Ein Satz. Ein Satz.", (Tag(0, "start", "<b>"), Tag(3, "end", "</b>")))
        (tagged, first), (plain, second) = route.cut(text, service.decoding)
        assert tagged.source.tags and not plain.source.tags
        assert [s.key.align for s in (*first, *second)] == [True, False]
        assert first[0].text == second[0].text == "Ein Satz."


def test_an_ensemble_has_no_risk_and_the_context_of_all_its_models(echo, tmp_path):
    for name, lines in (("first", 2), ("second", 1)):
        (tmp_path / name).mkdir()
        config = CONTEXT_OF_TWO.replace("lines = 2", f"lines = {lines}")
        (tmp_path / name / "config.gin").write_text(config)
        CALIBRATION.save(tmp_path / name)
    other = EnsembleMember(echo.model, echo.params, tmp_path / "second", ())
    ensemble = dataclasses.replace(echo, others=(other,))
    (alone,) = load([tmp_path / "first"], lambda _: echo)
    (together,) = load([tmp_path / "first"], lambda _: ensemble)
    assert (alone.calibration, alone.context_lines) == (CALIBRATION, 2)
    assert (together.calibration, together.context_lines) == (None, 1)
