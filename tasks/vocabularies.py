"""Vocabularies of a corpus: where they are kept, and how they are trained when first needed.

SentencePiece models under `$MMT_DATA/vocabularies/`, for SeqIO's tasks and for the cache alike. The
training itself, and the tokeniser without TensorFlow, are `mmt.data.vocabulary`.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seqio
import tensorflow as tf

from mmt.data import corpora
from mmt.data import vocabulary as vocab
from mmt.data.cleaning import prepare
from mmt.system.data_root import data_root

VOCABULARY_SIZE = 8000  # pieces of a shared vocabulary, where the user names no other number


def vocabulary(
    corpus: corpora.Corpus,
    *,
    size: int = VOCABULARY_SIZE,
    target_size: int = 0,
    tags: Sequence[str] = (),
) -> dict[str, Path]:
    """{'source': file, 'target': file}: the corpus's SentencePiece models, trained if missing.

    They lie under `$MMT_DATA/vocabularies/` and are named after the corpus, its hash and the size,
    so that a changed corpus gets new ones. Both sides share one, the same file twice, unless the
    target's has a `target_size`. The tag of the corpus's target (`<2eng>`) and `tags` are pieces of
    their own; so are `<bt>`, where the corpus has back-translated pairs, and, in a shared one,
    sentinels (`<extra_id_0>` …), where it has monolingual text.

    >>> vocabulary(corpora.load("cldr"))["source"].name    # doctest: +SKIP
    'cldr-0f3b...-8000.model'
    """
    recipes = _recipes(corpus, size, target_size, tuple(tags))
    return {side: recipe.make() for side, recipe in recipes.items()}


def trained_on_use(
    corpus: corpora.Corpus, *, size: int = VOCABULARY_SIZE, target_size: int = 0
) -> dict[str, seqio.Vocabulary]:
    """Those of `vocabulary`, for SeqIO; trained only when a task asks for a model."""
    recipes = _recipes(corpus, size, target_size, ())
    if not target_size:
        return dict.fromkeys(recipes, TrainedVocabulary(recipes["source"]))
    return {side: TrainedVocabulary(recipe) for side, recipe in recipes.items()}


@dataclass(frozen=True)
class Recipe:
    """How a vocabulary is made: from which side of a corpus, how many pieces, with which tags."""

    corpus: corpora.Corpus
    size: int
    side: str  # 'source', 'target' or 'both'
    tags: tuple[str, ...]

    @functools.cached_property
    def path(self) -> Path:
        """Where the model lies, or will lie."""
        others = [tag for tag in self.tags if tag != vocab.tag(self.corpus.target)]
        parts = [self.corpus.name, self.corpus.hash(), str(self.size), *others]
        stem = "-".join(re.sub(r"[^\w.]", "", part) for part in parts)
        side = "" if self.side == "both" else f".{self.side}"
        return data_root() / "vocabularies" / f"{stem}{side}.model"

    def make(self) -> Path:
        """The path; the model is trained first if it is not there."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            texts = vocab.training_texts(prepare.cleaned(self.corpus), side=self.side)
            vocab.train(texts, self.path, size=self.size, tags=[*self.tags, *self._marks()])
        return self.path

    def _marks(self) -> Iterator[str]:
        """The pieces that the corpus asks for; its hash is in the path."""
        if self.corpus.reverse:
            yield from (vocab.tag_of(self.corpus, code) for code in self.corpus.languages)
        if self.corpus.back_translated:
            yield vocab.BACK_TRANSLATED
        if self.corpus.monolingual and self.side == "both":
            yield from map(vocab.sentinel, range(vocab.SENTINELS))


class SharedVocabulary(seqio.SentencePieceVocabulary):
    """A SentencePieceVocabulary that TensorFlow loads once, not again in each map of each task."""

    @property
    def tf_tokenizer(self) -> Any:
        return _tf_tokenizer(self.sentencepiece_model_file)


class TrainedVocabulary(SharedVocabulary):
    """A SharedVocabulary whose model is made by its recipe when it is first needed."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        super().__init__(str(recipe.path))

    def _model_context(self) -> Any:
        if self._model is None:
            self._recipe.make()
        return super()._model_context()

    @property
    def sentencepiece_model_file(self) -> str:
        """The model's path. The file is there once this has been asked for."""
        return str(self._recipe.make())


@functools.cache
def _tf_tokenizer(path: str) -> Any:
    with tf.init_scope():  # outlives the graph it is first asked for in
        return seqio.SentencePieceVocabulary(path).tf_tokenizer


def _recipes(
    corpus: corpora.Corpus, size: int, target_size: int, tags: tuple[str, ...]
) -> dict[str, Recipe]:
    own = () if corpus.reverse else (vocab.tag(corpus.target),)
    every = tuple(dict.fromkeys((*own, *tags)))
    if not target_size:
        return dict.fromkeys(("source", "target"), Recipe(corpus, size, "both", every))
    sizes = {"source": size, "target": target_size}
    return {side: Recipe(corpus, sizes[side], side, every) for side in sizes}
