"""Text in, text out: a trained model as a `Translator` of lines, in order, as they come.

It makes rows of token ids out of lines and lines out of hypotheses; how lines arrive and are cut is
`sentences`' part, the search `decode`'s. It scores nothing and knows no test sets.
"""

import dataclasses
import difflib
import functools
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Int

from mmt import checkpoint, config, decode, languages, sentences
from mmt.data.cache import MANIFEST, Manifest, read_manifest
from mmt.data.vocab import EOS, PAD, Vocabulary, files, tag
from mmt.model.transformer import KVCache, Memory, Transformer
from mmt.sentences import ArrivingLines

WINDOW = 1024  # lines that are sorted by length and translated together


class Hypothesis(NamedTuple):
    """A translation of a line, on one line itself, and its score.

    The score is the log-probability divided by the length penalty; of a line translated in pieces,
    the mean of theirs; of an empty line, 0.
    """

    text: str
    score: float


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

    vocabularies: of 'source' and 'target'. rows: sentences translated together; fewer are filled
    up, so that a sentence meets the same compiled program whatever else there is.
    max_source_length: tokens of a source with tag and end; a line of more is cut into pieces.

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

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows: {self.rows}; allowed: 1 or more")
        if self.max_source_length < 8:  # one character may be tag, space, four bytes and end
            raise ValueError(f"max_source_length: {self.max_source_length}; allowed: 8 or more")
        sizes = self.model.config
        embeddings = {
            "source": sizes.vocab_size,
            "target": sizes.target_vocab_size or sizes.vocab_size,
        }
        for side, vocabulary in self.vocabularies.items():
            trained = self.manifest.vocabulary_hash[side]
            if vocabulary.hash != trained:
                raise ValueError(
                    f"the {side} vocabulary is not the one that the model was trained with: its "
                    f"hash is {vocabulary.hash}, not {trained} as in {MANIFEST}"
                )
            if vocabulary.size > embeddings[side]:
                raise ValueError(
                    f"the {side} vocabulary has {vocabulary.size} pieces, the model only "
                    f"{embeddings[side]} embeddings"
                )

    @classmethod
    def load(cls, model_dir: str | Path, *, step: int | None = None) -> "Translator":
        """The model of a run directory, at its best checkpoint unless `step` names another.

        Lines are cut at the source length that the run was trained with. Raises ValueError where
        the directory is no model's, or has no such checkpoint, or a file of another model.
        """
        directory = Path(model_dir)
        model = config.model_from(directory)
        if not (directory / MANIFEST).is_file():
            raise ValueError(f"{directory} is no model directory: it has no {MANIFEST}")
        tokens = jnp.zeros((1, 8), jnp.int32)
        shapes = nn.unbox(jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)["params"])
        with config.isolated(directory / "config.gin"):
            lengths = config.macro("TASK_FEATURE_LENGTHS", {"inputs": cls.max_source_length})
        return cls(
            model,
            checkpoint.restore_params(directory, shapes, step=step),
            vocabularies={side: Vocabulary.load(path) for side, path in files(directory).items()},
            manifest=read_manifest(directory / MANIFEST),
            max_source_length=lengths["inputs"],
        )

    def translate(
        self,
        lines: Iterable[str],
        *,
        source: str | None = None,
        target: str = "eng",
        beam: int = 4,
        alpha: float = 0.8,
        nbest: int = 1,
    ) -> Iterator[Translation]:
        """A Translation of every line, in order.

        Lines are read in windows of `WINDOW`, those of `arriving_lines` as they arrive: what is
        there is translated before more is read. A line of nothing but space is an empty one; a line
        that is too long is translated in pieces. `beam` 1 is greedy.

        Raises ValueError at once for a language that the model does not have (`source` may be
        left out: the model finds out itself) and for a beam, alpha or nbest that makes no sense.
        """
        if source is not None:
            self._check_source(languages.find(source))
        search = _Search(
            self, self._tag(target), decode.BeamSettings(1, beam, alpha, nbest, PAD, EOS)
        )
        windows = lines.windows(WINDOW) if isinstance(lines, ArrivingLines) else _windows(lines)
        numbered = itertools.chain.from_iterable(map(search.translations, windows))
        return (translation._replace(line=i) for i, translation in enumerate(numbered))

    def _check_source(self, language: languages.Language) -> None:
        if language.code not in self.manifest.languages:
            names = {found.code: found.name for found in languages.all_languages()}
            known = {names.get(code, code): code for code in self.manifest.languages}
            near = difflib.get_close_matches(language.name, known, n=3, cutoff=0.0)
            raise ValueError(
                f"source language {language.code} ({language.name}) is none of the "
                f"{len(known)} that the model was trained on; nearest: "
                + ", ".join(f"{name} ({known[name]})" for name in near)
            )

    def _tag(self, target: str) -> str:
        wanted = languages.find(target)
        usual = [languages.find(found.iso3).code for found in languages.all_languages()]
        has = self.vocabularies["source"].has
        known = {tag(code): code for code in [*usual, self.manifest.target] if has(tag(code))}
        if wanted.code not in known.values():
            names = [f"{languages.find(code).name} ({code})" for code in sorted(known.values())]
            raise ValueError(
                f"target language {wanted.code} ({wanted.name}): the model translates only into "
                + (", ".join(names) or "languages that its vocabulary has no tag for")
            )
        return tag(wanted.code)


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
    """{"source", "hypotheses": [{"text", "score"}, ...]}, and "pieces" if the line was cut."""
    found: dict[str, Any] = {
        "source": translation.source,
        "hypotheses": [
            {"text": text, "score": round(score, 6)} for text, score in translation.hypotheses
        ],
    }
    if translation.pieces:
        found["pieces"] = [to_json(piece) for piece in translation.pieces]
    return found


@dataclasses.dataclass(frozen=True)
class _Search:
    """A translator with a way to search; the length in `settings` is that of the bucket instead."""

    translator: Translator
    tag: str
    settings: decode.BeamSettings

    def translations(self, lines: Sequence[str]) -> list[Translation]:
        """Of each line, in order."""
        pieces = [sentences.split(line, self._fits) for line in lines]
        found = iter(self._sentences([piece for line in pieces for piece in line]))
        return [
            _joined(line, list(itertools.islice(found, len(own))))
            for line, own in zip(lines, pieces, strict=True)
        ]

    def _sentences(self, texts: Sequence[str]) -> list[Translation]:
        """Of texts that fit: in tiles of like length, handed back in the order given."""
        sources = self._encode(texts)
        order = sorted(range(len(texts)), key=lambda i: len(sources[i]))
        found: dict[int, Translation] = {}
        for _, same in itertools.groupby(order, key=lambda i: self._bucket(len(sources[i]))):
            while tile := list(itertools.islice(same, self.translator.rows)):
                hypotheses = self._tile([sources[i] for i in tile])
                for i, own in zip(tile, hypotheses, strict=True):
                    found[i] = Translation(texts[i], own)
        return [found[i] for i in range(len(texts))]

    def _tile(self, sources: Sequence[Sequence[int]]) -> list[tuple[Hypothesis, ...]]:
        """At most `rows` sources of one bucket, shortest first -> their hypotheses."""
        t = self.translator
        bucket = self._bucket(len(sources[-1]))
        tokens = np.zeros((t.rows, bucket), np.int32)
        limits = np.zeros(t.rows, np.int32)  # rows that fill up have nothing to decode
        for row, source in enumerate(sources):
            tokens[row, : len(source)] = source
            limits[row] = _target_length(len(source))
        settings = dataclasses.replace(self.settings, max_length=_target_length(bucket))
        memory, state = _begin(t.model, t.params, tokens, limits, settings=settings)
        for until in _cache_lengths(settings.max_length):
            state = _go_on(
                t.model, t.params, memory, state,
                settings=settings, until=until, vocabulary=t.vocabularies["target"].size,
            )  # fmt: skip
            if not decode.any_live(state):
                break
        tokens, scores = np.asarray(state.finished.tokens), np.asarray(state.finished.scores)
        if np.isnan(scores).any():
            raise ValueError("the model's output is not a number (NaN): did its training diverge?")
        text = t.vocabularies["target"].decode
        return [
            tuple(
                Hypothesis(_one_line(text(tokens[row, i].tolist())), float(scores[row, i]))
                for i in np.flatnonzero(scores[row] > -np.inf)
            )
            for row in range(len(sources))
        ]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.translator.vocabularies["source"].encode_all(
            [f"{self.tag} {text}" for text in texts]
        )
        return [[*ids, EOS] for ids in encoded]

    def _fits(self, text: str) -> bool:
        return len(self._encode([text])[0]) <= self.translator.max_source_length

    def _bucket(self, length: int) -> int:
        """16, 32, 64, ... up to the longest."""
        return min(max(16, 1 << (length - 1).bit_length()), self.translator.max_source_length)


@functools.partial(jax.jit, static_argnames=("model", "settings"))
def _begin(
    model: Transformer,
    params: Any,
    source: Int[Array, "B S"],
    limits: Int[Array, "B"],
    *,
    settings: decode.BeamSettings,
) -> tuple[Memory, decode.State]:
    """Encodes, and sets up the search."""
    variables = {"params": params}
    encoded = model.apply(variables, source, method="encode")
    memory: Any = model.apply(variables, encoded, source, method="memory")
    rows = source.shape[0] * settings.beams
    cache = model.apply(
        variables, rows, _cache_lengths(settings.max_length)[0], method="empty_cache"
    )
    return memory, decode.start(cache, max_lengths=limits, settings=settings)


@functools.partial(jax.jit, static_argnames=("model", "settings", "until", "vocabulary"))
def _go_on(
    model: Transformer,
    params: Any,
    memory: Memory,
    state: decode.State,
    *,
    settings: decode.BeamSettings,
    until: int,
    vocabulary: int,
) -> decode.State:
    """Searches up to `until` tokens, with a cache of that length.

    The first `vocabulary` logits count; a model may have more, for which there is no text.
    """
    variables = {"params": params}
    rows = state.last.shape[0]
    longer: Any = model.apply(variables, rows, until, method="empty_cache")
    cache = jax.tree.map(
        lambda new, old: new.at[tuple(map(slice, old.shape))].set(old), longer, state.cache
    )

    def step(tokens: Int[Array, "N"], cache: Any) -> tuple[Array, KVCache]:
        logits, cache = model.apply(variables, tokens, memory, cache, method="decode_step")
        return logits[:, :vocabulary], cache

    return decode.extend(step, state._replace(cache=cache), settings=settings, until=until)


def _target_length(source_length: int) -> int:
    """The most tokens that a translation may have, its end included."""
    return 2 * source_length + 16


def _cache_lengths(longest: int) -> list[int]:
    """[16, 32, 64, 80] for 80. A step's time grows with the cache, and most outputs are short;
    only the lengths that come up are ever compiled."""
    return [*itertools.takewhile(lambda n: n < longest, (16 << i for i in range(32))), longest]


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
