"""The description of a run's cache, and its location. `tasks.build` builds the cache with SeqIO.

Configs name this module `recipe`: `recipe.CacheConfig`, in older configs `recipe.Recipe`.
"""

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mmt.data import cache, corpora, mixing
from mmt.data import vocabulary as vocab
from mmt.data.cache import origins
from mmt.data.cache.manifest import Manifest
from mmt.data.entries import MONOLINGUAL
from mmt.run import Run
from mmt.system.data_root import data_root

_CODE = "[a-z]{3}_[A-Z][a-z]{3}"  # of FLORES


@dataclasses.dataclass(frozen=True)
class CacheConfig:
    """Describes the cache of a SeqIO mixture (or task).

    Attributes:
      directory: the cache's directory.
      mixture: the name of the mixture.
      corpus: a description file or folder, or 'cldr'; its registration creates the mixture.
      module: alternatively a Python module that registers the mixture on import (T5X's
        MIXTURE_OR_TASK_MODULE).
      vocab_size: pieces of the vocabulary to train from the corpus; 0: the tasks have vocabularies.
      target_vocab_size: 0: one vocabulary for both sides; else pieces of the target vocabulary.
      vocabulary_from: a run directory or cache whose vocabulary is used (fine-tuning).
      seqio_cache: the output of SeqIO's Beam job (`seqio_cache_tasks`) with the tokens.
      processes: the number of processes that tokenise; 0: one per core, as far as there is work.
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
        """Returns whether the cache exists; an empty directory is none.

        A cache with fewer pieces than `vocab_size` is used, with a warning: its texts may have no
        more.

        Raises:
          ValueError: it has another mixture; its corpus, if that is readable, has changed; its
            vocabulary is not that of `vocabulary_from`; it has one vocabulary for both sides where
            two are configured, or the reverse.
        """
        directory = Path(self.directory)
        if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
            return False
        manifest = cache.open_cache(directory).manifest
        if manifest.name != self.mixture:
            raise ValueError(
                f"the cache {self.directory} is that of {manifest.name!r}, not {self.mixture!r}: "
                "set CACHE_DIR to another directory"
            )
        if self.vocabulary_from:
            for side, path in Run(self.vocabulary_from).vocabularies().items():
                expected = vocab.Vocabulary.load(path).hash
                if expected != manifest.vocabulary_hash[side]:
                    raise ValueError(
                        f"the cache {self.directory} has another {side} vocabulary "
                        f"({manifest.vocabulary_hash[side]}) than {self.vocabulary_from} "
                        f"({expected}) in vocabulary_from: remove the cache, or set CACHE_DIR to "
                        "another directory"
                    )
        elif self.vocab_size:
            self._check_pieces(manifest)
        if self.corpus and (self.corpus == corpora.EMBEDDED or Path(self.corpus).exists()):
            corpus = corpora.load(self.corpus)
            corpus = corpus.reversed() if manifest.source else corpus
            if corpus.hash() != manifest.corpus_hash:
                raise ValueError(
                    f"the cache {self.directory} is stale: the corpus {self.corpus!r} has changed "
                    "since it was made. Remove that directory, or set CACHE_DIR to another"
                )
        return True

    def _check_pieces(self, manifest: Manifest) -> None:
        """Compares the vocabularies of an existing cache with the sizes to train."""
        is_shared = len(set(manifest.vocabulary_hash.values())) == 1
        if is_shared == bool(self.target_vocab_size):
            found = "one vocabulary for both sides" if is_shared else "a vocabulary for each side"
            raise ValueError(
                f"the cache {self.directory} has {found}; target_vocab_size is "
                f"{self.target_vocab_size}: set CACHE_DIR to another directory"
            )
        sizes = {"source": self.vocab_size, "target": self.target_vocab_size or self.vocab_size}
        for side in ("source",) if is_shared else sizes:
            if (pieces := manifest.vocabulary_size[side]) < sizes[side]:
                name = "vocabulary" if is_shared else f"{side} vocabulary"
                warnings.warn(
                    f"the cache {self.directory} has a {name} of {pieces} pieces, not of "
                    f"{sizes[side]}; for another vocabulary set CACHE_DIR to another directory",
                    stacklevel=3,
                )

    def check_leave_out(self, names: Sequence[str]) -> None:
        """Checks the corpora of `pipeline.train_batches.leave_out` before a cache exists.

        Raises:
          ValueError: a corpus that the training data do not have, with the nearest name, or nothing
            remains without them.
        """
        if Run(self.directory).manifest.is_file():
            table = cache.open_cache(Path(self.directory)).manifest.corpus_table
        elif not self.corpus:
            return  # the names of a module's tasks are known when the cache is built
        else:
            corpus, components = select(corpora.load(self.corpus), self.mixture)
            table = tuple(
                (code, name)
                for code, split in components.values()
                for name in corpus.entries(code, split)
            )
        origins.check_corpora(names, [name for _, name in table])
        if all(origins.in_corpora(name, names) for _, name in table):
            raise ValueError(f"without {', '.join(names)} no training example remains")


Recipe = CacheConfig  # the name in older configs


class Selection(NamedTuple):
    """What a mixture or task reads: `corpus`, reversed if sources are in its target language, and
    `components`, each a language and split of it: 'deu_Latn' -> ('deu_Latn', 'train').
    """

    corpus: corpora.Corpus
    components: Mapping[str, tuple[str, str]]


def select(corpus: corpora.Corpus, name: str) -> Selection:
    """Returns what a mixture or task of a corpus reads; all pairs if it has another name.

    `x_to_eng` are pairs, `x_from_eng` the same in the reverse direction, `x_monolingual` text
    without pairs, `x_mixed` both. Tasks have one language: `x_deu_Latn_to_eng`,
    `x_eng_to_deu_Latn`, `x_deu_Latn_monolingual`.
    """
    target, end = corpus.target.split("_")[0], name.removeprefix(corpus.name)
    reverse = re.search(rf"_(?:from_{target}|{target}_to_({_CODE}))$", end)
    forward = re.search(rf"(?:_({_CODE}))?_(?:to_{target}|monolingual)$", end)
    if corpus.reverse != bool(reverse):
        corpus = corpus.reversed()
    components = {}
    if not end.endswith("_monolingual"):
        components = {code: (code, "train") for code in corpus.languages}
    if end.endswith(("_monolingual", "_mixed")):
        components |= {mixing.monolingual(code): (code, MONOLINGUAL) for code in corpus.monolingual}
    match = reverse or forward
    if match and match[1]:
        components = {key: part for key, part in components.items() if part[0] == match[1]}
    return Selection(corpus, components)


def default_directory(
    mixture: str,
    *,
    vocab_size: int = 0,
    target_vocab_size: int = 0,
    vocabulary_from: str = "",
    name: str = "",
) -> str:
    """Returns `$MMT_DATA/caches/<mixture>-<vocabulary>`.

    Args:
      mixture: the name of the mixture.
      vocab_size, target_vocab_size: become the second part; 0: not given.
      vocabulary_from: a run or cache. The hash of its vocabularies becomes the second part, so that
        all runs with one vocabulary share the cache.
      name: replaces both parts.
    """
    caches = data_root() / "caches"
    if name:
        return str(caches / name)
    vocabulary = str(vocab_size or "own")
    if target_vocab_size:
        vocabulary += f"-{target_vocab_size}"
    if vocabulary_from:
        of_older_version = caches / f"{mixture}-{_path_of(vocabulary_from)}"
        if of_older_version.is_dir():
            return str(of_older_version)
        vocabulary = _vocabulary_of(vocabulary_from)
    return str(caches / f"{mixture}-{vocabulary}")


def _vocabulary_of(run: str) -> str:
    """Returns the start of the hashes of a run's vocabularies; where it has none, its path."""
    try:
        files = Run(run).vocabularies().values()
    except ValueError:  # a run that is gone; who builds the cache reports it
        return _path_of(run)
    return "-".join(dict.fromkeys(vocab.Vocabulary.load(file).hash[:12] for file in files))


def _path_of(run: str) -> str:
    """Returns the name of a directory and a hash of its path."""
    path = str(Path(run).absolute()).encode()
    return f"{Path(run).name}-{hashlib.sha256(path).hexdigest()[:8]}"
