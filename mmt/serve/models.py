"""`Models`: the models of a server, and which of them translates from one language into another."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmt import languages, suggest
from mmt.decoding import bucketing
from mmt.documents import MarkedText
from mmt.serve.errors import Refusal
from mmt.serve.language_names import AUTO, code, code_and_name, described, find
from mmt.serve.scheduler import Sentence
from mmt.translate import Decoding, Glossary, Translation, Translator, casing, markup
from mmt.translate.context import ContextTranslator, History, SentenceInContext, trained_lines
from mmt.translate.markup import Unit
from mmt.translate.risk import Calibration, assess

_CANDIDATES = 10  # languages of a text


@dataclasses.dataclass(frozen=True, eq=False)
class ServedModel:
    """A translator with a name. Two are equal only if they are the same object.

    Attributes:
        name: the last folder of its run directory.
        translator: the model.
        calibration: of the confidence of its translations, or None.
        context_lines: the most previous sentences that it was trained with; 0 for none.
    """

    name: str
    translator: Translator
    calibration: Calibration | None = None
    context_lines: int = 0

    @functools.cached_property
    def sources(self) -> tuple[str, ...]:
        """Returns the FLORES codes of the languages that it translates from."""
        manifest = self.translator.manifest
        return (manifest.source,) if manifest.source else manifest.translated or self._tags()

    @functools.cached_property
    def targets(self) -> tuple[str, ...]:
        """Returns the FLORES codes of the languages that it translates into."""
        manifest = self.translator.manifest
        if manifest.source:
            return manifest.translated
        return (manifest.target,) if manifest.target else self._tags()

    @property
    def takes_glossary(self) -> bool:
        """Returns whether its engine can require terms of a glossary."""
        return self.translator.ctranslate2 is None

    def _tags(self) -> tuple[str, ...]:
        codes = self.translator.vocabularies["source"].tags.values()
        return tuple(sorted({code for code in codes if code}))


class BatchKey(NamedTuple):
    """The properties that all sentences of a batch share; also part of the key of the cache.

    `source` is '' unless it chooses experts, terms of the glossary, or the lower case of texts in
    capitals. `align` is whether inline tags need the alignments of translations. `risk` is whether
    translations have their risk. `in_context` is whether the texts are joined with previous
    sentences.
    """

    model: ServedModel
    source: str
    target: str
    decoding: Decoding
    length: int
    glossary: Glossary | None = None
    align: bool = False
    risk: bool = False
    in_context: bool = False


class Route(NamedTuple):
    """A pair of languages (FLORES codes) and its model; None if both are the same language."""

    source: str
    target: str
    model: ServedModel | None

    def cut(
        self,
        text: MarkedText,
        decoding: Decoding,
        glossary: Glossary | None = None,
        risk: bool = False,
        history: History | None = None,
    ) -> list[tuple[Unit, tuple[Sentence, ...]]]:
        """Splits a text into units; returns each with its sentences, which fit the model.

        With a history, the sentences are joined with as many previous ones as fit. Raises Refusal
        for terms of the glossary that no translation can contain.
        """
        assert self.model
        translator = self.model.translator
        longest = translator.max_source_length
        target = self.target if translator.tagged else None
        token_counts: dict[str, int] = {}

        def fits(text: str) -> bool:
            token_counts[text] = translator.source_tokens([text], target)[0]
            return token_counts[text] <= longest

        def lower_case_depends_on_source(sentence: SentenceInContext) -> bool:
            """Returns whether the sentence is recased, and otherwise than in other languages."""
            texts = [sentence.text, *sentence.previous] if decoding.recase_capitals else []
            return any(
                casing.in_capitals(each) and casing.lower(each, self.source) != casing.lower(each)
                for each in texts
            )

        uses_source = translator.routes_by_language or glossary is not None
        key = BatchKey(
            self.model,
            self.source if uses_source else "",
            self.target,
            decoding,
            0,
            glossary,
            risk=risk,
        )

        def sentence(text: str, align: bool) -> Sentence:
            in_context = history.add(text) if history else SentenceInContext(text)
            while in_context.previous and not fits(in_context.joined):
                in_context = in_context._replace(previous=in_context.previous[1:])
            tokens = token_counts[in_context.joined]
            if glossary:
                _check_terms(glossary, translator, text, self.source)
            of_batch = key._replace(
                source=self.source if lower_case_depends_on_source(in_context) else key.source,
                length=bucketing.bucket_length(tokens, longest), align=align,
                in_context=bool(in_context.previous),
            )  # fmt: skip
            return Sentence(of_batch, in_context.joined, tokens)

        return [
            (unit, tuple(sentence(each, unit.aligns) for each in unit.sentences.sentences))
            for unit in markup.cut(text, self.source, fits=fits)
        ]


def _check_terms(glossary: Glossary, translator: Translator, text: str, source: str) -> None:
    try:
        glossary.phrases_of(
            translator.vocabularies["target"], text, source, any_case=casing.in_capitals(text)
        )
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {error}") from None


class Models:
    """The models of a server. The first model that has a pair of languages translates it.

    Raises:
        ValueError: a model adds no pair of languages.
    """

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._pairs: dict[tuple[str, str], ServedModel] = {}
        for model in models:
            before = len(self._pairs)
            for pair in ((s, t) for s in model.sources for t in model.targets if s != t):
                self._pairs.setdefault(pair, model)
            if not any(s != t for s in model.sources for t in model.targets):
                raise ValueError(
                    f"--model {model.name}: neither its manifest nor its vocabulary names two "
                    "languages, so no request can choose it"
                )
            if len(self._pairs) == before:
                raise ValueError(
                    f"--model {model.name}: the models before it translate all of its languages"
                )
        translators = {id(m.translator): m.translator for m in models}.values()
        self._identifiers = [each for each in translators if each.identifier is not None]
        self.take_glossary = any(model.takes_glossary for model in models)
        self.sources = sorted({source for source, _ in self._pairs})
        self.targets = sorted({target for _, target in self._pairs})

    def __str__(self) -> str:
        """Returns the numbers of languages: '152 languages into English'."""
        names = ", ".join(map(languages.name_of, self.targets[:3]))
        rest = f" and {len(self.targets) - 3} more" if len(self.targets) > 3 else ""
        return f"{len(self.sources)} languages into {names}{rest}"

    def route(self, source: str, target: str) -> Route:
        """Returns the route between two languages, given by any name.

        Raises:
            Refusal: a language is unknown, or no model has the pair.
        """
        target = self.target(target)
        source = find(source, [*self.sources, target], "source")
        model = self._pairs.get((source, target))
        if model is None and source != target:
            sources = [code(s) for s, t in self._pairs if t == target]
            raise Refusal(
                400,
                f"{described(source)} is not available as a source for {described(target)}; "
                f"{suggest.choices(code(source), sorted(sources)[:10])}",
            )
        return Route(source, target, model)

    def target(self, name: str) -> str:
        """Returns the FLORES code of a target language. Raises Refusal if no model has it."""
        return find(name, self.targets, "target")

    def default(self) -> dict[str, dict[str, str]]:
        """Returns the languages that the page has selected at first."""
        target = "eng_Latn" if "eng_Latn" in self.targets else self.targets[0]
        source = {"code": AUTO, "name": "Detect language"}
        if not self.identifies:
            source = code_and_name(self._largest_source(target))
        return {"source": source, "target": code_and_name(target)}

    def _largest_source(self, target: str) -> str:
        """Returns the source language with the most training pairs."""

        def pairs(source: str) -> int:
            counts = self._pairs[source, target].translator.manifest.counts
            return counts.get("train", {}).get(source, 0)

        return max((s for s, t in self._pairs if t == target), key=pairs)

    @property
    def identifies(self) -> bool:
        """Returns whether `identify` can be called."""
        return bool(self._identifiers)

    def identify(self, text: str) -> list[tuple[str, float]]:
        """Returns the FLORES codes of a text's likely languages, with probabilities, best first.

        Languages that no model translates are omitted.

        Raises:
            Refusal: no model of the server can identify languages.
        """
        if not self._identifiers:
            raise Refusal(
                400,
                "the model has no language identifier (mmt data identify makes one): name the "
                f"source language instead of {AUTO!r}",
            )
        best: dict[str, float] = {}
        for translator in self._identifiers:
            (ranked,) = translator.identify([text], most=_CANDIDATES)
            for language, probability in ranked:
                best[language] = max(probability, best.get(language, 0.0))
        served = {*self.sources, *self.targets}
        candidates = [(language, p) for language, p in best.items() if language in served]
        if not candidates:
            raise Refusal(400, "the text is in none of the languages of GET /languages")
        return sorted(candidates, key=lambda candidate: -candidate[1])

    def listed(self) -> list[dict[str, Any]]:
        """Returns the answer of `/languages`, sorted by name.

        `risk` has the targets whose translations can be assessed, and `context` the most previous
        sentences by target.
        """
        rows = []
        for source in self.sources:
            targets = {code(t): model for (s, t), model in self._pairs.items() if s == source}
            assessed = [
                target for target, model in targets.items() if model.calibration is not None
            ]
            lines = {t: model.context_lines for t, model in targets.items() if model.context_lines}
            rows.append(
                {
                    **code_and_name(source), "targets": sorted(targets), "risk": sorted(assessed),
                    "context": lines,
                }
            )  # fmt: skip
        return sorted(rows, key=lambda row: str(row["name"]))

    def listed_targets(self) -> list[dict[str, str]]:
        """Returns code and name of each target language, sorted by name."""
        return sorted(map(code_and_name, self.targets), key=lambda row: row["name"])


def load(
    directories: Sequence[str | Path], load_one: Callable[..., Translator] = Translator.load
) -> list[ServedModel]:
    """Loads the models of run directories, named by their last folder."""
    return [_served(directory, load_one(directory)) for directory in directories]


def _served(directory: str | Path, translator: Translator) -> ServedModel:
    """Returns a loaded model with its calibration and context.

    An ensemble has no calibration, and the context that all of its models were trained with.
    """
    others = [other.directory for other in translator.others]
    return ServedModel(
        Path(directory).resolve().name,
        translator,
        None if others else Calibration.load_if_any(directory),
        min(map(trained_lines, [directory, *others])),
    )


def decode(key: BatchKey, texts: list[str]) -> list[Translation]:
    """Returns the translations of texts, without their tokens.

    They have their risk, and alignments, if `key` asks for them.
    """
    translator, calibration = key.model.translator, key.model.calibration
    source, target = key.source or None, key.target if translator.tagged else None
    if key.in_context:
        sentences = [SentenceInContext.of_joined(text) for text in texts]
        by_sentence = ContextTranslator(translator, key.model.context_lines).sentences(
            sentences, source=source, target=target, decoding=key.decoding
        )
        translations = [by_sentence[sentence] for sentence in sentences]
    else:
        translations = list(
            translator.translate(
                texts, source=source, target=target, decoding=key.decoding,
                glossary=key.glossary, token_scores=key.risk,
            )
        )  # fmt: skip
    if key.risk:
        assert calibration, "checked by `mmt.serve.translation.cutter`"
        translations = assess(translator, translations, calibration, target=key.target)
    if key.align:
        translations = markup.aligned(translator, translations, source=source, target=target)
    return [
        Translation(
            each.source,
            tuple(
                hypothesis._replace(tokens=(), token_scores=()) for hypothesis in each.hypotheses
            ),
            risk=each.risk,
        )
        for each in translations
    ]
