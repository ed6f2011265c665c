"""What a run's cache is made of, and where it lies. Knows no SeqIO: `tasks.build` does the making.

A run that finds its cache needs nothing else; a run that does not has it made from this.
"""

import dataclasses
import hashlib
from pathlib import Path

from mmt.data import cache, corpora
from mmt.data import vocabulary as vocab
from mmt.run import Run
from mmt.system.data_root import data_root


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The cache in `directory` holds the SeqIO mixture (or task) `mixture`.

    corpus: a description file or folder, or 'cldr'; registering it makes the mixture exist.
    module: or a Python module that registers the mixture on import (T5X's MIXTURE_OR_TASK_MODULE).
    vocab_size: pieces of the vocabulary to train from the corpus; 0: the tasks bring their own.
    target_vocab_size: 0: one vocabulary for both sides; else pieces of the target's own.
    vocabulary_from: a run directory or cache whose vocabulary is taken over (fine-tuning).
    seqio_cache: what SeqIO's Beam job (`seqio_cache_tasks`) wrote: the tokens are taken from there.
    processes: how many tokenise; 0: one for each core, where there is work for them.
    """

    directory: str
    mixture: str
    corpus: str = ""
    module: str = ""
    vocab_size: int = 0
    target_vocab_size: int = 0
    vocabulary_from: str = ""
    seqio_cache: str = ""
    processes: int = 0

    def present(self) -> bool:
        """Whether the cache is there. ValueError where its corpus, if at hand, has changed, or
        it has not the vocabulary of `vocabulary_from`.
        """
        if not Path(self.directory).exists():
            return False
        found = cache.open_cache(Path(self.directory)).manifest
        if found.name != self.mixture:
            raise ValueError(
                f"the cache {self.directory} is of {found.name!r}, not of {self.mixture!r}: "
                "set CACHE_DIR to another directory"
            )
        if self.vocabulary_from:
            for side, path in Run(self.vocabulary_from).vocabularies().items():
                own = vocab.Vocabulary.load(path).hash
                if own != found.vocabulary_hash[side]:
                    raise ValueError(
                        f"the cache {self.directory} has another {side} vocabulary "
                        f"({found.vocabulary_hash[side]}) than {self.vocabulary_from} ({own}), "
                        "whose it should have: remove it, or set CACHE_DIR to another directory"
                    )
        if self.corpus and (self.corpus == corpora.EMBEDDED or Path(self.corpus).exists()):
            corpus = corpora.load(self.corpus)
            corpus = corpus.reversed() if found.source else corpus
            if corpus.hash() != found.corpus_hash:
                raise ValueError(
                    f"the cache {self.directory} is stale: the corpus {self.corpus!r} has changed "
                    "since it was made. Remove that directory, or set CACHE_DIR to another"
                )
        return True


def default_directory(
    mixture: str,
    *,
    vocab_size: int = 0,
    target_vocab_size: int = 0,
    vocabulary_from: str = "",
    name: str = "",
) -> str:
    """`$MMT_DATA/caches/<mixture>-<vocabulary>`: its size or sizes, or a hash of where it is from.
    A `name` stands in place of both.
    """
    vocabulary = str(vocab_size or "own")
    if target_vocab_size:
        vocabulary += f"-{target_vocab_size}"
    if vocabulary_from:
        place = str(Path(vocabulary_from).absolute()).encode()
        vocabulary = f"{Path(vocabulary_from).name}-{hashlib.sha256(place).hexdigest()[:8]}"
    return str(data_root() / "caches" / (name or f"{mixture}-{vocabulary}"))
