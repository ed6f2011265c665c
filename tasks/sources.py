"""The text of a task as a SeqIO DataSource: a corpus, one language at a time.

Sources yield text; the preprocessors in `tasks` add tags and tokenise.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import seqio
import tensorflow as tf

from mmt.data import corpora, vocabulary
from mmt.data.pair import Pair


@runtime_checkable
class LanguageSource(Protocol):
    """A SeqIO DataSource of one language of a corpus: CorpusSource, or `tasks.tfds.TfdsSource`.

    Attributes:
      corpus: the corpus to read.
      language: FLORES code, or 'deu_Latn.monolingual'.
    """

    corpus: corpora.Corpus
    language: str

    def chunks(self, split: str) -> Iterator[dict[str, np.ndarray]]:
        """Yields the examples in order, in chunks.

        A chunk has 'inputs' and 'targets' as arrays of UTF-8 bytes, and may have 'corpus', the
        names of their corpora (default: `corpus.name`), and 'follows' (default: false), whether the
        example before is the previous line of the document.
        """

    def num_input_examples(self, split: str) -> int: ...


class CorpusSource(seqio.DataSource):
    """Streams one language of a corpus: {'inputs': source text, 'targets': target text}.

    It does not clean: `tasks.register` passes the cleaned corpus (`prepare.cleaned`). `shuffle`
    shuffles chunks of 256 neighbours within a window of 64 chunks; a Task's own buffer shuffles
    within them. Unlike FunctionDataSource, it does not warn about that and can be pickled. Its
    shards are the entries of the corpus, so a Beam job can read a language on several machines.
    """

    chunk, window = 256, 64

    def __init__(self, corpus: corpora.Corpus, language: str) -> None:
        self.corpus, self.language = corpus, language
        counts = {split: corpus.count(language, split) for split in corpora.SPLITS}
        counts_of_splits = {split: count for split, count in counts.items() if count}
        super().__init__(splits=counts_of_splits, num_input_examples=counts_of_splits)

    @property
    def supports_arbitrary_sharding(self) -> bool:
        return False

    def list_shards(self, split: str) -> Sequence[str]:
        """Returns a name per entry of the corpus."""
        entries = self.corpus.entries(self.language, split)
        return [f"{position}-{name}" for position, name in enumerate(entries)]

    def get_dataset(
        self,
        split: str = "train",
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: seqio.ShardInfo | None = None,
        **unused: Any,
    ) -> tf.data.Dataset:
        """Returns the examples of a split, or of every n-th entry, in corpus order unless shuffled.
        """
        entries, shard = len(self.list_shards(split)), (0, 1)
        if shard_info:
            shard = shard_info.index, shard_info.num_shards
        if shard[1] > entries:
            raise ValueError(
                f"{shard[1]} shards of {entries} entries; shard the dataset, as seqio.Task does"
            )
        text = tf.TensorSpec(shape=[None], dtype=tf.string)
        signature = {"inputs": text, "targets": text}
        dataset = tf.data.Dataset.from_generator(
            lambda: ({key: chunk[key] for key in signature} for chunk in self.chunks(split, shard)),
            output_signature=signature,
        )
        if shuffle:
            dataset = dataset.shuffle(self.window, seed=seed)
        return dataset.unbatch()

    def chunks(self, split: str, part: tuple[int, int] = (0, 1)) -> Iterator[dict[str, np.ndarray]]:
        """Yields the pairs in order, `chunk` at a time, as `LanguageSource` describes.

        For a part (i, n), only every n-th entry is read, from the i-th. Back-translated sources
        have their mark.
        """
        pairs = self._pairs(split, part)
        while batch := list(itertools.islice(pairs, self.chunk)):
            yield {
                "inputs": np.array(
                    [vocabulary.source_text(pair).encode() for pair in batch], object
                ),
                "targets": np.array([pair.target.encode() for pair in batch], object),
                "corpus": np.array([pair.corpus for pair in batch], object),
                "follows": np.array([pair.follows for pair in batch], bool),
            }

    def _pairs(self, split: str, part: tuple[int, int]) -> Iterator[Pair]:
        return self.corpus.part(*part).pairs(self.language, split)
