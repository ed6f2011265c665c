"""Vocabularies of a corpus: their paths, and training on first use.

They are SentencePiece models under `$MMT_DATA/vocabularies/`, for both SeqIO's tasks and the cache.
`mmt.data.vocabulary` trains them, and tokenises without TensorFlow.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import seqio
import tensorflow as tf

from mmt.data import corpora
from mmt.data import vocabulary as vocab
from mmt.data.cleaning import prepare
from mmt.system import status
from mmt.system.data_root import data_root

VOCABULARY_SIZE = 8000  # pieces of a shared vocabulary by default


def vocabulary(
    corpus: corpora.Corpus,
    *,
    size: int = VOCABULARY_SIZE,
    target_size: int = 0,
    tags: Sequence[str] = (),
) -> dict[str, Path]:
    """Returns {'source': file, 'target': file}, the corpus's models; trains missing ones.

    They are under `$MMT_DATA/vocabularies/`. The file name has the corpus, its hash and the size,
    so a changed corpus gets new models. The tag of the corpus's target (`<2eng>`) becomes a piece.
    So does `<bt>` if the corpus has back-translated pairs, and, in a shared vocabulary, sentinels
    (`<extra_id_0>` …) if it has monolingual text.

    Args:
      corpus: the corpus before cleaning.
      size: number of pieces, of the source's vocabulary or of a shared one.
      target_size: pieces of the target's vocabulary; 0: both sides share one.
      tags: further pieces that are never split.

    >>> vocabulary(corpora.load("cldr"))["source"].name    # doctest: +SKIP
    'cldr-0f3b...-8000.model'
    """
    trainings = _trainings(corpus, None, size, target_size, tuple(tags))
    return {side: training.run() for side, training in trainings.items()}


def lazy_vocabularies(
    corpus: corpora.Corpus, cleaned: corpora.Corpus, *, size: int, target_size: int = 0
) -> dict[str, seqio.Vocabulary]:
    """Returns the vocabularies of `vocabulary` for SeqIO, trained on first use.

    Args:
      corpus: the corpus before cleaning; the files have its name and hash.
      cleaned: the text to train on.
      size, target_size: see `vocabulary`.
    """
    trainings = _trainings(corpus, cleaned, size, target_size, ())
    if not target_size:
        return dict.fromkeys(trainings, TrainedVocabulary(trainings["source"]))
    return {side: TrainedVocabulary(training) for side, training in trainings.items()}


@dataclass(frozen=True)
class VocabularyTraining:
    """The training of a vocabulary.

    Attributes:
      corpus: the corpus before cleaning; the file name has its name and hash.
      size: number of pieces.
      side: 'source', 'target' or 'both'.
      tags: pieces that are never split.
      cleaned: the cleaned text; None cleans the corpus when it is needed.
    """

    corpus: corpora.Corpus
    size: int
    side: str
    tags: tuple[str, ...]
    cleaned: corpora.Corpus | None = field(default=None, compare=False, repr=False)

    @functools.cached_property
    def path(self) -> Path:
        """Returns the path of the model, which may not exist yet."""
        other_tags = [tag for tag in self.tags if tag != vocab.tag(self.corpus.target)]
        name_parts = [self.corpus.name, self.corpus.hash(), str(self.size), *other_tags]
        stem = "-".join(re.sub(r"[^\w.]", "", part) for part in name_parts)
        side = "" if self.side == "both" else f".{self.side}"
        return data_root() / "vocabularies" / f"{stem}{side}.model"

    def run(self) -> Path:
        """Trains the model if its file is missing; returns the file."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.cleaned or prepare.cleaned(self.corpus)
            texts = vocab.training_texts(text, side=self.side)
            with status.phase(f"training a vocabulary of {self.size:,} pieces"):
                tags = [*self.tags, *self._special_pieces()]
                vocab.train(texts, self.path, size=self.size, tags=tags)
        return self.path

    def _special_pieces(self) -> Iterator[str]:
        """Returns the special pieces of the corpus; their hash is in the path."""
        if self.corpus.reverse:
            yield from (vocab.tag_of(self.corpus, code) for code in self.corpus.languages)
        if self.corpus.back_translated:
            yield vocab.BACK_TRANSLATED
        if self.corpus.monolingual and self.side == "both":
            yield from map(vocab.sentinel, range(vocab.SENTINELS))


class SharedVocabulary(seqio.SentencePieceVocabulary):
    """A SentencePieceVocabulary that TensorFlow loads once for all maps of all tasks."""

    @property
    def tf_tokenizer(self) -> Any:
        return _tf_tokenizer(self.sentencepiece_model_file)


class TrainedVocabulary(SharedVocabulary):
    """A SharedVocabulary whose model is trained on first use."""

    def __init__(self, training: VocabularyTraining) -> None:
        self._training = training
        super().__init__(str(training.path))

    def _model_context(self) -> Any:
        if self._model is None:
            self._training.run()
        return super()._model_context()

    @property
    def sentencepiece_model_file(self) -> str:
        """Returns the model's path; trains the model if it is missing."""
        return str(self._training.run())


@functools.cache
def _tf_tokenizer(path: str) -> Any:
    with tf.init_scope():  # outlives the graph that first needs it
        return seqio.SentencePieceVocabulary(path).tf_tokenizer


def _trainings(
    corpus: corpora.Corpus,
    cleaned: corpora.Corpus | None,
    size: int,
    target_size: int,
    tags: tuple[str, ...],
) -> dict[str, VocabularyTraining]:
    target_tag = () if corpus.reverse else (vocab.tag(corpus.target),)
    tags = tuple(dict.fromkeys((*target_tag, *tags)))
    if not target_size:
        shared = VocabularyTraining(corpus, size, "both", tags, cleaned)
        return dict.fromkeys(("source", "target"), shared)
    sizes = {"source": size, "target": target_size}
    return {side: VocabularyTraining(corpus, sizes[side], side, tags, cleaned) for side in sizes}
