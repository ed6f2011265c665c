"""What `/translate` and `/translate_file` do: texts, their sentences, and the answer."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from mmt.serve import html_text, text
from mmt.serve.errors import Refusal
from mmt.serve.limits import Limits
from mmt.serve.models import AUTO, Models, Route, code
from mmt.serve.parameters import RequestParameters, UploadedFile
from mmt.serve.scheduler import Sentence
from mmt.serve.sentence_work import SentenceWork
from mmt.serve.service import Service
from mmt.serve.text import Split, Text
from mmt.translate import Decoding, Glossary, Translation


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


class PreparedText(NamedTuple):
    """A text in parts, and its language if it had to be identified."""

    text: Text
    detected: dict[str, Any] | None


def read(parameters: RequestParameters, limits: Limits, decoding: Decoding) -> TranslationRequest:
    """Returns the request of the parameters. Raises Refusal for what is missing or too much."""
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
    for size, unit, kind, most in (
        (len(texts), "texts", "batch", limits.texts),
        (characters, "characters", "text", limits.characters),
    ):
        if size > most:
            raise Refusal(
                400, f"Invalid request: request ({size} {unit}) exceeds {kind} limit ({most})"
            )


def with_alternatives(decoding: Decoding, count: int) -> Decoding:
    """Returns the options of a search for more than one translation, if `count` is not 0.

    All of these requests share batches, so they search for as many translations as the beam has.
    """
    return dataclasses.replace(decoding, nbest=decoding.beam if count else 1)


def prepare(request: TranslationRequest, models: Models) -> list[PreparedText]:
    """Returns the texts in parts. Raises Refusal for languages that no model translates."""
    if request.source != AUTO:
        route = models.route(request.source, request.target)
        return [PreparedText(_parts(each, request, route), None) for each in request.texts]
    prepared = []
    for each in request.texts:
        found, detected = detect_route(each, request.target, models)
        prepared.append(PreparedText(_parts(each, request, found), detected))
    return prepared


def detect_route(content: str, target: str, models: Models) -> tuple[Route | None, dict[str, Any]]:
    """Returns the route of a text of unknown language, and the language as clients read it.

    A text without a letter has none.
    """
    if not any(map(str.isalpha, content)):
        models.target(target)
        return None, {"confidence": 0, "language": "en"}
    source, probability = models.identify(content)[0]
    return models.route(source, target), detection(source, probability)


def detection(source: str, probability: float) -> dict[str, Any]:
    """Returns a language as `/detect` lists it: the confidence is a percentage."""
    return {"confidence": round(100 * probability, 1), "language": code(source)}


def _parts(content: str, request: TranslationRequest, route: Route | None) -> Text:
    if route is None or route.model is None:
        return Text([content])
    if request.glossary is not None and not route.model.takes_glossary:
        raise Refusal(
            400, f"glossary: the model {route.model.name} is served by CTranslate2, which has none"
        )
    if request.risk and route.model.calibration is None:
        name = route.model.name
        raise Refusal(
            400,
            f"risk: the model {name} has no calibration of confidence; fit one, then restart the "
            f"server: mmt calibrate --model {name} --corpus CORPUS",
        )
    make = html_text.parts if request.html else text.plain
    return make(content, splitter(route, request.decoding, request.glossary, request.risk))


class FileJob:
    """A file on its way. Raises Refusal for languages that no model translates."""

    def __init__(self, file: UploadedFile, source: str, target: str, service: Service) -> None:
        self.file, self.done, self.total = file, 0, 0
        self._service, self._source = service, source
        models = service.models
        self._route = None if source == AUTO else models.route(source, target)
        self.target = code(models.target(target))

    async def translated(self) -> bytes:
        """Returns the translated file."""
        languages = ("" if self._source == AUTO else self._source), self.target
        return await self._service.file_threads.translate(self.file, self._translate, languages)

    async def _translate(self, lines: list[str]) -> list[str]:
        models = self._service.models
        route = self._route or detect_route("\n".join(lines[:100]), self.target, models)[0]
        if route is None or route.model is None:
            return lines
        split = splitter(route, with_alternatives(self._service.decoding, 0))
        texts = await asyncio.to_thread(lambda: [text.plain(line, split) for line in lines])
        with self._service.work([slot.sentence for each in texts for slot in each.slots]) as work:
            self.total = work.total
            while work.done < work.total:
                self.done = work.done
                await work.progress()
            results = {
                slot.sentence: await work.result(slot.sentence)
                for each in texts for slot in each.slots
            }  # fmt: skip
        return [_filled(each, results)[0] for each in texts]


def splitter(
    route: Route, decoding: Decoding, glossary: Glossary | None = None, risk: bool = False
) -> Split:
    """Returns the function that splits lines for a route."""
    return lambda line: route.split(line, decoding, glossary, risk)


def sentences(prepared: list[PreparedText]) -> list[Sentence]:
    """Returns the sentences of all texts, in order."""
    return [slot.sentence for each in prepared for slot in each.text.slots]


async def answer(
    request: TranslationRequest, prepared: list[PreparedText], work: SentenceWork
) -> dict[str, Any]:
    """Waits for all sentences; returns the answer."""
    results = {each: await work.result(each) for each in sentences(prepared)}
    translations = [_filled(each.text, results) for each in prepared]
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
                {"start": slot.start, "end": slot.end, **_risk(results[slot.sentence])}
                for slot in each.text.slots
            ]
            for each in prepared
        ]
    return content if request.is_list else {name: value[0] for name, value in content.items()}


def _risk(translation: Translation) -> dict[str, Any]:
    """Returns the risk of a sentence as clients read it."""
    assert translation.risk
    return {
        "confidence": round(translation.risk.confidence, 4), "flags": list(translation.risk.flags),
    }  # fmt: skip


def _filled(parts: Text, results: Mapping[Sentence, Translation]) -> list[str]:
    """Returns the translations of a text, best first: the i-th has the i-th of each sentence."""
    found = {slot.sentence: results[slot.sentence].hypotheses for slot in parts.slots}
    count = min(map(len, found.values()), default=1)
    return [
        parts.fill({sentence: hypotheses[i].text for sentence, hypotheses in found.items()})
        for i in range(count)
    ]


async def lines(
    request: TranslationRequest, prepared: list[PreparedText], work: SentenceWork
) -> AsyncIterator[dict[str, Any]]:
    """Yields an object for each sentence, in order, and the answer at the end.

    `text` is the index of the sentence's text, `start` and `end` its place in it.
    """
    for i, each in enumerate(prepared):
        for slot in each.text.slots:
            translation = await work.result(slot.sentence)
            yield {
                "text": i, "start": slot.start, "end": slot.end,
                "translatedText": each.text.write(translation.text),
                **({"risk": _risk(translation)} if request.risk else {}),
            }  # fmt: skip
    yield await answer(request, prepared, work)
