"""The work of `/translate` and `/translate_file`: from parameters to sentences to the answer."""

import asyncio
import dataclasses
import functools
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from mmt import documents
from mmt.documents import MarkedText
from mmt.serve import text
from mmt.serve.errors import Refusal
from mmt.serve.language_names import AUTO, code, document_region
from mmt.serve.limits import Limits
from mmt.serve.models import Models, Route, ServedModel
from mmt.serve.parameters import RequestParameters, UploadedFile
from mmt.serve.scheduler import Sentence
from mmt.serve.sentence_work import SentenceWork
from mmt.serve.service import Service
from mmt.serve.text import Cut, ServedUnit, Text
from mmt.translate import Decoding, Glossary
from mmt.translate.context import History

_MAX_CONTEXT = 100  # previous sentences; a model's own limit is lower

_NO_LANGUAGE = {"confidence": 0, "language": "en"}  # of a text without a letter, as LibreTranslate


class TranslationRequest(NamedTuple):
    """The parameters of `/translate`.

    Attributes:
        texts: the texts.
        is_list: whether the client sent a list, and gets one.
        source, target: the languages as the client names them; the source may be 'auto'.
        html: whether the texts are HTML.
        decoding: options of the search.
        alternatives: the number of further translations.
        glossary: terms whose translations are required, or None.
        risk: whether the answer has the risk of each sentence.
        context: maximum previous sentences of its text with which a sentence is translated.
    """

    texts: list[str]
    is_list: bool
    source: str
    target: str
    html: bool
    decoding: Decoding
    alternatives: int
    glossary: Glossary | None = None
    risk: bool = False
    context: int = 0


class PreparedText(NamedTuple):
    """A text in units, and its language if it had to be identified."""

    text: Text
    detected: dict[str, Any] | None


def read(parameters: RequestParameters, limits: Limits, decoding: Decoding) -> TranslationRequest:
    """Returns the checked parameters. Raises Refusal if one is missing or exceeds a limit."""
    q = parameters.texts("q")
    texts = [q] if isinstance(q, str) else q
    check_size(texts, limits)
    alternatives = parameters.number("alternatives", decoding.beam - 1)
    return TranslationRequest(
        texts,
        isinstance(q, list),
        parameters.text("source"),
        parameters.text("target"),
        parameters.choice("format", ("text", "html")) == "html",
        with_alternatives(decoding, alternatives),
        alternatives,
        _glossary(parameters.text("glossary", "")),
        parameters.flag("risk"),
        parameters.number("context", _MAX_CONTEXT),
    )


def _glossary(content: str) -> Glossary | None:
    """Returns a glossary of tab-separated lines. Raises Refusal for a broken one."""
    try:
        return Glossary.parse(content) if content.strip() else None
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {error}") from None


def check_size(texts: list[str], limits: Limits) -> None:
    """Raises Refusal for too many texts or characters."""
    characters = sum(map(len, texts))
    for size, unit, kind, limit in (
        (len(texts), "texts", "batch", limits.texts),
        (characters, "characters", "text", limits.characters),
    ):
        if size > limit:
            raise Refusal(
                400, f"Invalid request: request ({size} {unit}) exceeds {kind} limit ({limit})"
            )


def with_alternatives(decoding: Decoding, count: int) -> Decoding:
    """Returns the search options for `count` further translations.

    If `count` is not 0, `nbest` is the beam size, so that all such requests share batches. A unit
    is a sentence of its language already, so `split` is 'long'.
    """
    return dataclasses.replace(decoding, nbest=decoding.beam if count else 1, split="long")


def prepare(request: TranslationRequest, models: Models) -> list[PreparedText]:
    """Splits the texts into units. Raises Refusal for languages that no model translates."""
    route = None if request.source == AUTO else models.route(request.source, request.target)
    return [_prepared(each, request, models, route) for each in request.texts]


def _prepared(
    content: str, request: TranslationRequest, models: Models, route: Route | None
) -> PreparedText:
    page = documents.read_html(content) if request.html else None
    detected = None
    if request.source == AUTO:
        words = content if page is None else _words([each.source for each in page.segments])
        route, detected = detect_route(words, request.target, models)
    cut = cutter(route, request.decoding, request.glossary, request.risk, request.context)
    prepared = text.plain(content, cut) if page is None else text.html(page, cut)
    return PreparedText(prepared, detected)


def _words(segments: list[MarkedText]) -> str:
    return "\n".join(segment.text for segment in segments)


def detect_route(content: str, target: str, models: Models) -> tuple[Route | None, dict[str, Any]]:
    """Returns the route of a text of unknown language, and its language as `/detect` lists it.

    A text without a letter has no route.
    """
    if not any(map(str.isalpha, content)):
        models.target(target)
        return None, _NO_LANGUAGE
    source, probability = models.identify(content)[0]
    return models.route(source, target), detection(source, probability)


def detections(content: str, models: Models) -> list[dict[str, Any]]:
    """Returns the likely languages of a text as `/detect` lists them, best first."""
    listed = [detection(*each) for each in models.identify(content)]
    if not any(map(str.isalpha, content)):
        return [_NO_LANGUAGE]
    return [each for each in listed if each["confidence"]] or listed[:1]


def detection(source: str, probability: float) -> dict[str, Any]:
    """Returns a language as `/detect` lists it: the confidence is a percentage."""
    return {"confidence": round(100 * probability, 1), "language": code(source)}


def cutter(
    route: Route | None,
    decoding: Decoding,
    glossary: Glossary | None = None,
    risk: bool = False,
    context: int = 0,
) -> Cut:
    """Returns the function that splits texts for a route; without a model, texts are unchanged.

    The texts are parts of one document: `context` previous sentences may be of previous texts.

    Raises Refusal if the model supports no glossary, has no calibration for risks, or was not
    trained with so much context.
    """
    if route is None or route.model is None:
        return text.keep
    if glossary is not None and not route.model.takes_glossary:
        raise Refusal(
            400, f"glossary: the model {route.model.name} is served by CTranslate2, which has none"
        )
    if glossary is not None and decoding.temperature:
        raise Refusal(
            400, "glossary: this server draws samples (Decoding.temperature), which have no terms"
        )
    if risk and route.model.calibration is None:
        name = route.model.name
        raise Refusal(
            400,
            f"risk: the model {name} has no calibration of confidence; fit one, then restart the "
            f"server: mmt calibrate --model {name} --corpus CORPUS",
        )
    if context:
        excluded = {"glossary": glossary, "risk": risk, "Decoding.prefix": decoding.prefix}
        _check_context(context, route.model, [name for name, value in excluded.items() if value])
    history = History(context) if context else None
    return lambda marked: [
        ServedUnit(unit, sentences)
        for unit, sentences in route.cut(marked, decoding, glossary, risk, history)
    ]


def _check_context(context: int, model: ServedModel, excluded: list[str]) -> None:
    """Raises Refusal unless a model translates with this number of previous sentences."""
    if excluded:
        raise Refusal(400, f"context excludes {', '.join(excluded)}")
    if not model.context_lines:
        raise Refusal(
            400,
            f"context: the model {model.name} was not trained with context (the modifier context, "
            "docs/data/mixtures.md); omit it",
        )
    if context > model.context_lines:
        raise Refusal(
            400,
            f"context is {context}: the model {model.name} was trained with at most "
            f"{model.context_lines} previous sentences; allowed: 0 to {model.context_lines}",
        )


class FileJob:
    """The translation of a file, with its progress: `done` of `total` sentences.

    Raises Refusal for languages that no model translates, for a broken glossary, and for a glossary
    or context that the model does not support.
    """

    def __init__(self, file: UploadedFile, parameters: RequestParameters, service: Service) -> None:
        self.file, self.done, self.total = file, 0, 0
        source, target = parameters.text("source"), parameters.text("target")
        self._service = service
        self._glossary = _glossary(parameters.text("glossary", ""))
        self._context = parameters.number("context", _MAX_CONTEXT)
        models = service.models
        self._route = None if source == AUTO else models.route(source, target)
        self._cutter(self._route)
        self.target = code(models.target(target))
        region = document_region(target)
        self._document_target = f"{self.target}-{region}" if region else self.target

    async def translated(self) -> bytes:
        """Returns the translated file."""
        source = code(self._route.source) if self._route else ""
        languages = source, self._document_target
        detect = None if self._route else self._detect
        threads = self._service.file_threads
        return await threads.translate(self.file, self._translate, languages, detect)

    def _detect(self, content: str) -> str:
        """Sets the route for the language of a text; returns the language, '' for none."""
        self._route, _ = detect_route(content, self.target, self._service.models)
        return self._route.source if self._route else ""

    def _cutter(self, route: Route | None) -> Cut:
        decoding = with_alternatives(self._service.decoding, 0)
        return cutter(route, decoding, self._glossary, context=self._context)

    async def _translate(self, segments: list[MarkedText]) -> list[MarkedText]:
        cut = self._cutter(self._route)
        units = await asyncio.to_thread(lambda: [cut(segment) for segment in segments])
        sentences = [each for segment in units for unit in segment for each in unit.sentences]
        with self._service.work(sentences) as work:
            self.total = work.total
            while work.done < work.total:
                self.done = work.done
                await work.progress()
            results = {each: await work.result(each) for each in sentences}
        return await asyncio.to_thread(lambda: [text.written(each, results) for each in units])


def sentences(prepared: list[PreparedText]) -> list[Sentence]:
    """Returns the sentences of all texts, in order."""
    return [sentence for each in prepared for sentence in each.text.sentences]


def _filled(prepared: list[PreparedText], results: text.Results) -> list[list[str]]:
    return [each.text.translations(results) for each in prepared]


async def answer(
    request: TranslationRequest, prepared: list[PreparedText], work: SentenceWork
) -> dict[str, Any]:
    """Waits for all sentences; returns the answer."""
    results = {each: await work.result(each) for each in sentences(prepared)}
    fill = functools.partial(_filled, prepared, results)
    translations = await asyncio.to_thread(fill) if request.html else fill()
    content: dict[str, Any] = {
        "translatedText": [texts[0] for texts in translations]
    }  # LibreTranslate's order
    if request.source == AUTO:
        content["detectedLanguage"] = [each.detected for each in prepared]
    if request.alternatives:
        content["alternatives"] = [texts[1 : request.alternatives + 1] for texts in translations]
    if request.risk:
        content["risk"] = [
            [
                {"start": unit.start, "end": unit.end, **_risk(unit, results)}
                for segment in each.text.segments for unit in segment if unit.sentences
            ]
            for each in prepared
        ]  # fmt: skip
    return content if request.is_list else {name: value[0] for name, value in content.items()}


def _risk(unit: ServedUnit, results: text.Results) -> dict[str, Any]:
    """Returns the risk of a unit for the client: the lowest confidence and all flags."""
    risks = [results[sentence].risk for sentence in unit.sentences]
    assessed = [risk for risk in risks if risk is not None]
    return {
        "confidence": round(min(risk.confidence for risk in assessed), 4),
        "flags": list(dict.fromkeys(flag for risk in assessed for flag in risk.flags)),
    }


async def lines(
    request: TranslationRequest, prepared: list[PreparedText], work: SentenceWork
) -> AsyncIterator[dict[str, Any]]:
    """Yields an object for each unit, in order, and the answer at the end.

    `text` is the index of the unit's text, `start` and `end` its span in it.
    """
    for i, each in enumerate(prepared):
        for number, unit in ((n, u) for n, units in enumerate(each.text.segments) for u in units):
            if not unit.sentences:
                continue
            results = {sentence: await work.result(sentence) for sentence in unit.sentences}
            show = functools.partial(each.text.show, number, unit, results)
            translated = await asyncio.to_thread(show) if unit.unit.source.tags else show()
            yield {
                "text": i, "start": unit.start, "end": unit.end, "translatedText": translated,
                **({"risk": _risk(unit, results)} if request.risk else {}),
            }  # fmt: skip
    yield await answer(request, prepared, work)
