"""Text in, text out: a trained model as a `Translator` of lines, in order, as they come.

It makes sources of lines and lines of hypotheses; how lines arrive and are cut is `sentences`'
part, the search that of `tiles`. It scores nothing and knows no test sets.
"""

import dataclasses
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmt import checkpoint, config, languages, suggest
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.vocabulary import Vocabulary, find_tag
from mmt.decoding import USUAL, Decoding
from mmt.decoding.bucketing import Found, Source, Tiles
from mmt.model.transformer import Transformer, boxed_shapes, parameter_shapes
from mmt.run import Run
from mmt.sharding import Layout
from mmt.translate import sentences
from mmt.translate.sentences import ArrivingLines

WINDOW = 1024  # lines that are sorted by length and translated together


class Hypothesis(NamedTuple):
    """A translation of a line, on one line itself, and its score.

    The score is the log-probability divided by the length penalty; of a line translated in pieces,
    the mean of theirs; of an empty line, 0. tokens: its pieces of the vocabulary, the end too, and
    token_scores, where asked for, their log-probabilities, of which the score is the sum, divided;
    neither where the line was translated in pieces.
    """

    text: str
    score: float
    tokens: tuple[str, ...] = ()
    token_scores: tuple[float, ...] = ()


class Translation(NamedTuple):
    """A line and its translations, best first. `line` counts the lines from 0.

    pieces: the translations of the pieces of a line too long for the model, else nothing. The i-th
    hypothesis of the line is made of the i-th of each piece, joined by spaces.
    """

    source: str
    hypotheses: tuple[Hypothesis, ...]
    pieces: tuple["Translation", ...] = ()
    line: int = 0

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


@dataclasses.dataclass(frozen=True, eq=False)
class Translator:
    """Translates lines. `dataclasses.replace(translator, params=...)` compiles nothing anew.

    vocabularies: of 'source' and 'target'. max_source_length: tokens of a source with tag and end;
    a line of more is cut into pieces. rows: sentences translated together; fewer are filled up.
    steps: of the checkpoint, or of those whose average `params` are. layout: of a model that is
    larger than a device, where `params` lie; the text is the same.

    A line's translation is its own: in float32, whatever other lines there are, in calls of any
    size and any order, its text is the same and its scores are to 1e-5. For every tile has `rows`
    rows and the length of the line's own bucket, and experts drop no token, so a line meets the
    same compiled programs. That holds on one machine with the same versions, `rows`,
    `max_source_length` and decoding; other programs round differently, and near-ties may flip.
    bfloat16 runs the same way, but is not promised. The price: one line takes the time of `rows`.

    >>> translator = Translator.load("runs/demo/multilingual")                     # doctest: +SKIP
    >>> lines = ["Dienstag, 2. März 2021", "", "3 Stunden"]
    >>> [found.text for found in translator.translate(lines, source="de")]        # doctest: +SKIP
    ['Tuesday, March 2, 2021', '', '3 hours']
    """

    model: Transformer
    params: Any
    vocabularies: Mapping[str, Vocabulary]
    manifest: Manifest
    rows: int = 32
    max_source_length: int = 256
    steps: tuple[int, ...] = ()
    layout: Layout | None = None

    def __post_init__(self) -> None:
        parts = self.layout.parts("batch") if self.layout else 1
        if self.rows < 1 or self.rows % parts:
            raise ValueError(f"rows: {self.rows}; allowed: multiples of {parts}, as the mesh cuts")
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

    @property
    def tagged(self) -> bool:
        """Whether lines are told the target language, by a tag that the vocabulary has."""
        return bool(self.vocabularies["source"].tags)

    @classmethod
    def load(
        cls, model_dir: str | Path, *, step: int | None = None, average: int = 1, rows: int = 32,
        layout: Layout | None = None,
    ) -> "Translator":  # fmt: skip
        """The model of a run directory, at its best checkpoint unless `step` names another.

        average: the mean of so many checkpoints, the last ones up to `step`. layout: where to put
        the parameters, if not on the first device. Lines are cut at the source length that the run
        was trained with. Raises ValueError where the directory is no
        model's, or has no such checkpoints, or a file of another model.
        """
        for name, value, most in (("average", average, 2**31 - 1), ("rows", rows, 4096)):
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(f"{name}: {value!r}; allowed: int, 1 to {most}")
        run = Run(model_dir)
        model = run.model()
        run.check_is_model()
        with config.isolated(run.config):
            lengths = config.macro("TASK_FEATURE_LENGTHS", {"inputs": cls.max_source_length})
        shapes = layout.shapes(boxed_shapes(model)) if layout else parameter_shapes(model)
        if average == 1:
            steps = [run.best_step() if step is None else step]
            params = checkpoint.restore_params(model_dir, shapes, step=steps[0])
        else:
            steps = run.last_steps(average, step=step)
            params = checkpoint.average(model_dir, shapes, last=average, step=step)
        return cls(
            model,
            params,
            vocabularies={side: Vocabulary.load(path) for side, path in run.vocabularies().items()},
            manifest=read_manifest(run.manifest),
            rows=rows,
            max_source_length=lengths["inputs"],
            steps=tuple(steps),
            layout=layout,
        )

    def translate(
        self,
        lines: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        decoding: Decoding = USUAL,
        prefixes: Iterable[str] | None = None,
        token_scores: bool = False,
    ) -> Iterator[Translation]:
        """A Translation of every line, in order.

        Lines are read in windows of `WINDOW`, those of `arriving_lines` as they arrive: what is
        there is translated before more is read. A line of nothing but space is an empty one, and so
        is its translation; a line that is too long is translated in pieces, of which the first
        begins with the prefix. prefixes: of each line its own, in place of `decoding.prefix`.
        token_scores: whether to keep each token's, too, which takes a little time.

        target: default: what the model was trained for, else English. A model whose vocabulary has
        no tags is given the lines as they are.

        Raises ValueError at once for a language that the model does not have (`source` may be
        left out: the model finds out itself), and for a prefix that the vocabulary cannot write.
        """
        if source is not None:
            self._check_source(languages.find(source))
        if prefixes is not None and decoding.prefix:
            raise ValueError(f"prefixes, and the prefix {decoding.prefix!r} for all; give one")
        search = _Search(self, self._tag(target), decoding, token_scores)
        forced = itertools.repeat(decoding.prefix) if prefixes is None else iter(prefixes)
        search.prefix(decoding.prefix)
        windows = lines.windows(WINDOW) if isinstance(lines, ArrivingLines) else _windows(lines)
        numbered = itertools.chain.from_iterable(
            search.translations(window, list(itertools.islice(forced, len(window))))
            for window in windows
        )
        return (translation._replace(line=i) for i, translation in enumerate(numbered))

    def _check_source(self, language: languages.Language) -> None:
        manifest = self.manifest
        translated = (manifest.source,) if manifest.source else manifest.translated
        if translated and language.code not in translated:
            names = {found.code: found.name for found in languages.all_languages()}
            known = {names.get(code, code): code for code in translated}
            near = suggest.hint(
                language.name, known, 3, cutoff=0.0, show=lambda name: f"{name} ({known[name]})"
            )
            raise ValueError(
                f"source language {language.code} ({language.name}) is none of the "
                f"{len(known)} that the model was trained on{near}"
            )

    def _tag(self, target: str | None) -> str:
        vocabulary = self.vocabularies["source"]
        if vocabulary.tags:
            trained = self.manifest.target
            wanted = (trained or "eng") if target is None else target
            return find_tag(vocabulary, wanted, trained=trained)
        if target is not None:
            raise ValueError(
                f"target language {target!r}: the model's vocabulary has no tags such as <2en>; "
                "lines go in as they are, so write what the model was trained to be told"
            )
        return ""


def arriving_lines(stream: io.BufferedIOBase) -> ArrivingLines:
    """The lines of `sys.stdin.buffer` or the like, to be translated as they arrive."""
    return ArrivingLines(stream)


def format_text(translation: Translation, *, nbest: int = 1) -> str:
    """The translation; or with `nbest` over 1 a line for each, as Moses and Marian write them.

    `line ||| translation ||| score`, line counting the input's lines from 0, best first.
    """
    if nbest == 1:
        return translation.text
    return "\n".join(
        f"{translation.line} ||| {found.text} ||| {found.score:.6f}"
        for found in translation.hypotheses
    )


def to_json(translation: Translation) -> dict[str, Any]:
    """{"source", "hypotheses": [{"text", "score", "tokens", "token_scores"}, ...]}.

    Token scores where they were kept. If the line was cut, its hypotheses have no tokens, but
    "pieces" stand beside them.
    """
    found: dict[str, Any] = {
        "source": translation.source,
        "hypotheses": [_hypothesis_json(one) for one in translation.hypotheses],
    }
    if translation.pieces:
        found["pieces"] = [to_json(piece) for piece in translation.pieces]
    return found


def _hypothesis_json(one: Hypothesis) -> dict[str, Any]:
    found: dict[str, Any] = {"text": one.text, "score": round(one.score, 6)}
    if one.tokens:
        found["tokens"] = list(one.tokens)
    if one.token_scores:
        found["token_scores"] = [round(score, 6) for score in one.token_scores]
    return found


@dataclasses.dataclass(frozen=True)
class _Search:
    """A translator with a way to search."""

    translator: Translator
    tag: str
    decoding: Decoding
    token_scores: bool

    def translations(self, lines: Sequence[str], prefixes: Sequence[str]) -> list[Translation]:
        """Of each line, in order; prefixes: what their translations begin with."""
        if len(prefixes) < len(lines):
            raise ValueError(
                f"there are fewer prefixes than lines: none for {lines[len(prefixes)]!r}"
            )
        pieces = [sentences.split(line, self._fits) for line in lines]
        forced = [
            "" if i else prefix
            for prefix, own in zip(prefixes, pieces, strict=True)
            for i in range(len(own))
        ]
        found = iter(self._sentences([piece for line in pieces for piece in line], forced))
        return [
            _joined(line, list(itertools.islice(found, len(own))))
            for line, own in zip(lines, pieces, strict=True)
        ]

    def prefix(self, text: str) -> list[int]:
        """The token ids of a prefix. ValueError where the vocabulary cannot write it."""
        vocabulary = self.translator.vocabularies["target"]
        ids = vocabulary.encode(text)
        if {vocabulary.pad, vocabulary.eos, vocabulary.unk} & set(ids):
            raise ValueError(f"prefix {text!r}: the target vocabulary cannot write it")
        return ids

    def _sentences(self, texts: Sequence[str], prefixes: Sequence[str]) -> list[Translation]:
        """Of texts that fit."""
        t, encoded = self.translator, self._encode(texts)
        forced = {text: self.prefix(text) for text in set(prefixes)}
        sources = [
            Source(ids, forced[prefix]) for ids, prefix in zip(encoded, prefixes, strict=True)
        ]
        tiles = Tiles(
            t.model, t.params, self.decoding, rows=t.rows, longest=t.max_source_length,
            vocabulary=t.vocabularies["target"].size, layout=t.layout,
            token_scores=self.token_scores,
        )  # fmt: skip
        return [
            Translation(text, tuple(map(self._hypothesis, found)))
            for text, found in zip(texts, tiles.search(sources), strict=True)
        ]

    def _hypothesis(self, found: Found) -> Hypothesis:
        vocabulary = self.translator.vocabularies["target"]
        return Hypothesis(
            _one_line(vocabulary.decode(found.tokens)),
            found.score,
            tuple(map(vocabulary.piece, found.tokens)),
            tuple(found.token_scores),
        )

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.translator.vocabularies["source"].encode_all(
            [f"{self.tag} {text}" if self.tag else text for text in texts]
        )
        return [[*ids, self.translator.model.config.eos_id] for ids in encoded]

    def _fits(self, text: str) -> bool:
        return len(self._encode([text])[0]) <= self.translator.max_source_length


def _joined(line: str, pieces: Sequence[Translation]) -> Translation:
    if not pieces:
        return Translation(line, (Hypothesis("", 0.0),))
    if len(pieces) == 1:
        return Translation(line, pieces[0].hypotheses)
    count = min(len(piece.hypotheses) for piece in pieces)
    hypotheses = (
        Hypothesis(
            " ".join(filter(None, (piece.hypotheses[i].text for piece in pieces))),
            sum(piece.hypotheses[i].score for piece in pieces) / len(pieces),
        )
        for i in range(count)
    )
    return Translation(line, tuple(hypotheses), tuple(pieces))


def _one_line(text: str) -> str:
    """Whatever a program may take for the end of a line becomes a space."""
    return re.sub("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+", " ", text).strip()


def _windows(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while window := list(itertools.islice(iterator, WINDOW)):
        yield window
