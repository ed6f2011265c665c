"""`Translator`: a trained model that translates lines of text, in order, as they arrive.

It checks languages and options. `mmt.translate.sentences` reads and splits lines,
`mmt.translate.line_search` encodes lines and decodes hypotheses, `mmt.decoding` searches, and
`mmt.translate.model_search` runs the model. Evaluation is in `eval`.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmt import languages
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.vocabulary import Vocabulary, find_tag
from mmt.decoding import DEFAULT, Decoding, ctranslate2_search
from mmt.decoding.bucketing import BucketedBatches
from mmt.decoding.ctranslate2_search import CTranslate2Model, CTranslate2Search
from mmt.identify import LanguageIdentifier
from mmt.model.ensemble import Ensemble
from mmt.model.transformer import Transformer
from mmt.run import Run
from mmt.sharding import Layout
from mmt.translate import alignment, placement, source_language
from mmt.translate.alignment import Alignment
from mmt.translate.comet import Reranker
from mmt.translate.glossary import Glossary, word_edges
from mmt.translate.line_search import LineSearch
from mmt.translate.model_search import Model, TransformerSearch
from mmt.translate.placement import EnsembleMember
from mmt.translate.sentences import windows
from mmt.translate.source_language import AUTO
from mmt.translate.translation import Translation


@dataclasses.dataclass(frozen=True, eq=False)
class Translator:
    """A model with its parameters and vocabularies, ready to translate.

    A line's translation does not depend on other lines, on their order or on how calls group them:
    in float32 the text is equal, and scores are equal to 1e-5. The reasons: every batch has
    `batch_size` rows of a length that depends on the line only, so the line meets the same compiled
    programs, and experts drop no token. This holds on one machine with the same versions,
    `batch_size`, `max_source_length` and decoding; other programs round differently, and near-ties
    may flip. bfloat16 and int8 have no such guarantee. The cost: one line takes as long as
    `batch_size` lines, unless `fixed_batch_size` is False.

    `dataclasses.replace(translator, params=...)` reuses the compiled programs.

    Attributes:
        model: the model.
        params: its parameters.
        vocabularies: the vocabularies of 'source' and 'target'.
        manifest: languages and vocabulary hashes of the training data.
        batch_size: sentences translated together; smaller batches are filled up.
        max_source_length: most source tokens of a line, tag and end included; others are split.
        steps: step of the checkpoint, or steps of the averaged checkpoints.
        layout: placement of a model that is larger than one device; it does not change the text.
        fixed_batch_size: whether small batches are filled up to `batch_size`; slow for few lines.
        identifier: the language identifier of the run, if it has one.
        others: further models of an ensemble (`mmt.model.ensemble`); `align` does not use them.
        ctranslate2: the model of the engine CTranslate2, which translates in place of `model`.
            `params` is then a function that reads the parameters, which only `align` needs.
        reranker: orders the n-best translations of each sentence by a neural score; every call of
            `translate` then needs a `source`. None keeps the order of the search.

    >>> translator = Translator.load("runs/demo/multilingual")                     # doctest: +SKIP
    >>> lines = ["Dienstag, 2. März 2021", "", "3 Stunden"]
    >>> [line.text for line in translator.translate(lines, source="de")]           # doctest: +SKIP
    ['Tuesday, March 2, 2021', '', '3 hours']
    """

    model: Transformer
    params: Any
    vocabularies: Mapping[str, Vocabulary]
    manifest: Manifest
    batch_size: int = 32
    max_source_length: int = 256
    steps: tuple[int, ...] = ()
    layout: Layout | None = None
    fixed_batch_size: bool = True
    identifier: LanguageIdentifier | None = None
    others: tuple[EnsembleMember, ...] = ()
    ctranslate2: CTranslate2Model | None = None
    reranker: Reranker | None = None

    def __post_init__(self) -> None:
        parts = self.layout.parts("batch") if self.layout else 1
        if self.batch_size < 1 or self.batch_size % parts:
            raise ValueError(
                f"batch_size: {self.batch_size}; allowed: multiples of {parts}, the number of "
                "parts into which the mesh divides a batch"
            )
        if self.max_source_length < 8:  # one character may be tag, space, four bytes and end
            raise ValueError(f"max_source_length: {self.max_source_length}; allowed: 8 or more")
        sizes = self.model.config
        embeddings = {"source": sizes.vocab_size, "target": sizes.target_vocabulary}
        for side, vocabulary in self.vocabularies.items():
            trained = self.manifest.vocabulary_hash[side]
            if vocabulary.hash != trained:
                raise ValueError(
                    f"the {side} vocabulary is not the one that the model was trained with: its "
                    f"hash is {vocabulary.hash}, not {trained} as in its manifest"
                )
            if vocabulary.size > embeddings[side]:
                raise ValueError(
                    f"the {side} vocabulary has {vocabulary.size} pieces, the model only "
                    f"{embeddings[side]} embeddings"
                )
        for model in self._models:
            if (routed := model.config.languages) not in (0, len(self.manifest.languages)):
                raise ValueError(
                    f"the model routes by language and has {routed} languages "
                    f"(Config.languages), its manifest {len(self.manifest.languages)}"
                )

    @property
    def tagged(self) -> bool:
        """Returns whether a tag of the source vocabulary names the target language of a line."""
        return bool(self.vocabularies["source"].tags)

    @property
    def sources(self) -> tuple[str, ...]:
        """Returns the languages that the model translates from; empty if they are not known."""
        return (self.manifest.source,) if self.manifest.source else self.manifest.translated

    @property
    def routes_by_language(self) -> bool:
        """Returns whether the language of a line chooses experts; it must then be given."""
        return any(model.config.languages for model in self._models)

    @property
    def _models(self) -> tuple[Transformer, ...]:
        return self.model, *(other.model for other in self.others)

    def combined(self) -> tuple[Model, Any]:
        """Returns the model, or the ensemble of all models, and its parameters."""
        params = self.params if self.ctranslate2 is None else self.params()
        if not self.others:
            return self.model, params
        all_params = (params, *(other.params for other in self.others))
        return Ensemble(self._models, self.vocabularies["target"].size), all_params

    @property
    def default_decoding(self) -> Decoding:
        """Returns the search options that apply where none are given; they depend on the engine."""
        return DEFAULT if self.ctranslate2 is None else ctranslate2_search.DEFAULT_SEARCH

    def target_code(self, target: str | None) -> str:
        """Returns the FLORES code of the language that `translate` writes for this `target`."""
        return self.manifest.target or languages.find(target or "eng").code

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        step: int | None = None,
        average: int = 1,
        batch_size: int = 32,
        layout: Layout | None = None,
        weights: str | None = None,
        fixed_batch_size: bool | None = None,
        engine: str = "jax",
        ensemble: Sequence[str | Path] = (),
        rows: int | None = None,
    ) -> "Translator":
        """Loads the model of a run directory.

        Args:
            model_dir: the run directory; lines are split at the source length of its training.
            step: step of the checkpoint; None is the best one.
            average: number of checkpoints to average, the last ones up to `step`.
            batch_size: sentences translated together.
            layout: placement of the parameters; None is the first device.
            weights: 'float32', 'bfloat16' or 'int8' converts the model to a form that decodes
                faster (`mmt.model.inference`); None, or a layout, keeps it as it was trained.
            fixed_batch_size: None is False for weights in bfloat16 and int8, else True.
            engine: 'jax', or 'ctranslate2' for a dense model on a CPU, which is exported once into
                the run directory (`mmt.convert.ctranslate2`). Without `weights` it is float32.
            ensemble: more runs; the mean of the probabilities of all models chooses each token.
            rows: old name of `batch_size`.

        Raises:
            ValueError: a directory lacks a model or checkpoint, or has a file of another model; an
                ensemble has several vocabularies; CTranslate2 lacks the model or weights.
        """
        size, batch_size = ("batch_size", batch_size) if rows is None else ("rows", rows)
        for name, value, maximum in (("average", average, 2**31 - 1), (size, batch_size, 4096)):
            if type(value) is not int or not 1 <= value <= maximum:
                raise ValueError(f"{name}: {value!r}; allowed: int, 1 to {maximum}")
        run = Run(model_dir)
        run.check_is_model()
        steps = placement.steps(run, step, average)
        others = placement.load_others(engine, ensemble, run, average, layout, weights)
        model, params, exported = placement.load(engine, run, steps, layout, weights)
        fixed = weights in (None, "float32") if fixed_batch_size is None else fixed_batch_size
        return cls(
            model,
            params,
            vocabularies={side: Vocabulary.load(path) for side, path in run.vocabularies().items()},
            manifest=read_manifest(run.manifest),
            batch_size=batch_size,
            max_source_length=placement.source_length(
                run, *ensemble, default=cls.max_source_length
            ),
            steps=tuple(steps),
            layout=layout,
            fixed_batch_size=fixed,
            identifier=LanguageIdentifier.load(model_dir) if run.identifier.is_file() else None,
            others=others,
            ctranslate2=exported,
        )

    def identify(self, lines: Sequence[str], *, most: int = 3) -> list[list[tuple[str, float]]]:
        """Returns the most likely languages of each line, best first: (FLORES code, probability).

        `und` stands for any language that the model does not have. Raises ValueError if the run has
        no identifier.
        """
        return source_language.require_identifier(self.identifier).rank(lines, most=most)

    def translate(
        self,
        lines: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        decoding: Decoding | None = None,
        prefixes: Iterable[str] | None = None,
        token_scores: bool = False,
        sources: Iterable[str] | None = None,
        glossary: Glossary | None = None,
    ) -> Iterator[Translation]:
        """Yields a Translation of every line, in order.

        Lines are read in windows of `WINDOW`; `arriving_lines` are translated as they arrive. A
        line of white space only has an empty translation. A line that is too long is translated in
        pieces, of which the first starts with the prefix; with `decoding.split` 'sentences', so is
        a line of several sentences.

        Args:
            lines: the lines.
            source: language of the lines, or 'auto' to detect that of each line. It decides where
                sentences end, and is compared with the text, with a warning. The model detects the
                language itself; only one that routes by language needs it.
            target: language to translate into; None is the model's own, else English. A model
                whose vocabulary has no tags receives the lines unchanged.
            decoding: options of the search; None is `default_decoding`.
            prefixes: a prefix per line, instead of `decoding.prefix`.
            token_scores: whether to keep the scores of tokens, which takes some time.
            sources: a language per line, instead of `source`.
            glossary: terms whose translations the translations of their lines must contain. Such a
                line takes longer.

        Raises:
            ValueError: at once, for a language that the model does not have or needs, or a prefix
                that the vocabulary cannot write. Languages in `sources` are checked line by line.
        """
        decoding = self.default_decoding if decoding is None else decoding
        if source is not None and sources is not None:
            raise ValueError(f"sources, and the source {source!r} for all; give one")
        self._check_reranked(source, target)
        if source == AUTO:
            source_language.require_identifier(self.identifier)
        elif sources is None:
            self.check_language(source, target)
        line_sources = itertools.repeat(source) if sources is None else iter(sources)
        if prefixes is not None and decoding.prefix:
            raise ValueError(f"prefixes, and the prefix {decoding.prefix!r} for all; give one")
        search = self._search(self.tag(target), target, decoding, token_scores, glossary)
        line_prefixes = itertools.repeat(decoding.prefix) if prefixes is None else iter(prefixes)
        search.prefix(decoding.prefix)
        translations = itertools.chain.from_iterable(
            search.translations(
                window,
                list(itertools.islice(line_prefixes, len(window))),
                list(itertools.islice(line_sources, len(window))),
            )
            for window in windows(lines)
        )
        return (translation._replace(line=i) for i, translation in enumerate(translations))

    def source_tokens(self, texts: Sequence[str], target: str | None = None) -> list[int]:
        """Returns the number of source tokens of each text, with tag and end token.

        At most `max_source_length` fit. Texts of one `bucketing.bucket_length` share a batch.
        """
        search = self._search(self.tag(target), target, self.default_decoding, False, None)
        return list(map(len, search.encode(texts)))

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        source: str | None = None,
        target: str | None = None,
    ) -> list[Alignment]:
        """Returns the alignment of lines with their translations, by cross-attention.

        Lines must fit the model, as the pieces of a translation do. `source` and `target` are as in
        `translate`. A line in capitals and its translation are read in lower case.
        """
        tag = self.tag(target)
        language = self.language_id(source, target) if self.routes_by_language else None
        encoded = [
            (
                alignment.encode(self.vocabularies["source"], line, tag=tag),
                alignment.encode(self.vocabularies["target"], translation),
            )
            for line, translation in map(alignment.in_lower_case, pairs)
        ]
        with self.layout.active() if self.layout else contextlib.nullcontext():
            params = self.params if self.ctranslate2 is None else self.params()
            return alignment.align(
                self.model, params, encoded, [language] * len(pairs),
                batch_size=self.batch_size,
            )  # fmt: skip

    def _search(
        self,
        tag: str,
        target: str | None,
        decoding: Decoding,
        token_scores: bool,
        glossary: Glossary | None,
    ) -> LineSearch:
        """Returns the search that translates lines into a language with its tag."""

        def language_id(source: str | None) -> int | None:
            if source is not None:
                self.check_language(source, target)
            return self.language_id(source, target) if self.routes_by_language else None

        return LineSearch(
            self._batches(decoding, token_scores, glossary), self.vocabularies, tag,
            self.target_code(target), language_id, self.manifest.source, self.sources,
            self.identifier, self.layout, glossary, self.reranker,
        )  # fmt: skip

    def _batches(
        self, decoding: Decoding, token_scores: bool, glossary: Glossary | None
    ) -> BucketedBatches | CTranslate2Search:
        """Returns the search of the engine."""
        if self.ctranslate2 is not None:
            if glossary:
                raise ValueError(ctranslate2_search.refusal("a glossary"))
            return CTranslate2Search(
                self.ctranslate2, decoding, self.batch_size, self.max_source_length, token_scores
            )
        return BucketedBatches(
            TransformerSearch(*self.combined(), self.vocabularies["target"].size),
            decoding,
            batch_size=self.batch_size,
            longest=self.max_source_length,
            fixed=self.fixed_batch_size,
            token_scores=token_scores,
            edges=word_edges(self.vocabularies["target"]) if glossary else None,
        )

    def language_id(self, source: str | None, target: str | None = None) -> int:
        """Returns the id of a line's language, for a model that routes by language.

        It is the index in the manifest's languages: of the source, or of the target if the model
        translates from one language into many. Raises ValueError if the model does not have it.
        """
        return source_language.language_id(self.manifest, source, target)

    def check_language(self, source: str | None, target: str | None) -> None:
        """Raises ValueError for a source that was not trained, or that is needed and missing."""
        if source is not None:
            source_language.check_trained(languages.find(source), self.sources, "source")
        if self.routes_by_language:
            self.language_id(source, target)

    def _check_reranked(self, source: str | None, target: str | None) -> None:
        """Raises ValueError for languages whose translations a reranker cannot order."""
        if self.reranker:
            manifest = self.manifest
            self.reranker.check(source or manifest.source, target or manifest.target or "eng")

    def tag(self, target: str | None) -> str:
        """Returns the tag of the target language; '' for a vocabulary without tags."""
        vocabulary = self.vocabularies["source"]
        if vocabulary.tags:
            trained = self.manifest.target
            language = (trained or "eng") if target is None else target
            return find_tag(vocabulary, language, trained=trained)
        if target is not None:
            raise ValueError(
                f"target language {target!r}: the model's vocabulary has no tags such as <2en>, so "
                "lines are passed unchanged; if it was trained with a tag, write it in each line"
            )
        return ""
