"""A cache: one corpus as token ids, in a directory with all files that training needs.

It holds a manifest (manifest.py), the vocabulary files, and the records (`records.py`) of each
split and language. `builder.py` writes it. Nothing here depends on corpora or SeqIO.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int32, Int64

from mmt import suggest
from mmt.data.cache import longest, records
from mmt.data.cache.arrays import open_array
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.vocabulary import Vocabulary, sentinel
from mmt.run import Run


@dataclass(frozen=True)
class Cache:
    """An open cache; `open_cache` returns it."""

    directory: Path
    manifest: Manifest
    has_text: ClassVar[bool] = True

    def without(self, corpora: Sequence[str]) -> "Cache":
        """Returns the cache with a manifest that omits some corpora; it describes a run, see
        `pipeline.train_batches.leave_out`. The records are those of the whole cache.
        """
        return replace(self, manifest=self.manifest.without(corpora))

    def records(self, language: str, split: str) -> records.RecordReader:
        """Returns the records of a language and split; their token ids have no EOS.

        [i] -> {'inputs': int32 [S], 'targets': int32 [T]}; `len` is their number.
        """
        return records.RecordReader(self.directory / split, language, self._count(language, split))

    def pairs(self, language: str, split: str, every: int = 1) -> Iterator[tuple[str, str]]:
        """Yields the texts of a split, or of every n-th example: the source with its tag, and the
        target.
        """
        files = self.vocabulary_files()
        source, target = Vocabulary.load(files["source"]), Vocabulary.load(files["target"])
        examples = self.records(language, split)
        for i in range(0, len(examples), every):
            inputs, targets = (examples[i][name].tolist() for name in ("inputs", "targets"))
            yield source.decode(inputs), target.decode(targets)

    def lengths(self, language: str, split: str) -> Int32[np.ndarray, "n 2"]:
        """Returns the tokens of source and target per example, without EOS; memory-mapped.

        Raises:
          ValueError: the file is damaged.
        """
        count = self._count(language, split)
        file = self.directory / split / f"{language}.lengths.npy"
        return open_array(file, (count, 2), np.int32) if count else np.zeros((0, 2), np.int32)

    def too_long(self, language: str, split: str, shape: Sequence[int]) -> Int64[np.ndarray, "m"]:
        """Returns the records, in order, that do not fit into rows of `shape` tokens with EOS.

        Of monolingual text these are the lines, not the noised examples.
        """
        file = longest.path_of(self.directory / split, language)
        return longest.too_long(file, self.lengths(language, split), shape)

    def follows(self, language: str, split: str) -> Bool[np.ndarray, "n"] | None:
        """Returns whether each example follows the one before it in a document; memory-mapped.

        None if the corpora of the language mark no documents.
        """
        file = self.directory / split / f"{language}.follows.npy"
        if not file.is_file():
            return None
        return open_array(file, (self._count(language, split),), bool)

    def sentinels(self) -> tuple[int, ...]:
        """Returns the ids of the sentinels for noise spans in monolingual text.

        Raises:
          ValueError: the sides have different vocabularies, or the vocabulary has no sentinels.
        """
        files = set(self.vocabulary_files().values())
        problem = f"monolingual text of the cache {self.directory} cannot be used"
        if len(files) > 1:
            raise ValueError(
                f"{problem}: source and target have separate vocabularies; train one for both "
                "(TARGET_VOCAB_SIZE = 0), or omit this text (mixing.Mixing.monolingual = 0)"
            )
        sentinel_ids = Vocabulary.load(files.pop()).sentinels
        if not sentinel_ids:
            raise ValueError(
                f"{problem}: its vocabulary has no sentinels ({sentinel(0)}, …); a vocabulary that "
                "is trained on a corpus with [monolingual] text has them: set VOCABULARY_FROM to "
                "such a run, or omit the text (mixing.Mixing.monolingual = 0)"
            )
        return sentinel_ids

    def vocabulary_files(self) -> dict[str, Path]:
        """Returns the SentencePiece models of 'source' and 'target'; they may share one file."""
        return {side: self.directory / name for side, name in self.manifest.model_files.items()}

    def _count(self, language: str, split: str) -> int:
        if split == "validation" and split not in self.manifest.counts:
            raise ValueError(
                f"{self.directory} has no validation pairs: add [validation] to the corpus, or "
                "turn validation off (--gin.train.train.hooks=[])"
            )
        for name, valid_names in (
            (split, list(self.manifest.counts)),
            (language, list(self.manifest.languages)),
        ):
            if name not in valid_names:
                hint = suggest.hint(name, valid_names, 3, cutoff=0.0)
                raise ValueError(f"{self.directory} has no {name!r}{hint}")
        return self.manifest.counts[split].get(language, 0)


def open_cache(directory: Path) -> Cache:
    """Returns the cache at `directory`. Raises ValueError if it is absent, incomplete or outdated.
    """
    path = Run(directory).manifest
    if not path.is_file():
        raise ValueError(f"{directory} holds no cache: {path.name} is missing")
    cache = Cache(directory, read_manifest(path))
    files = list(cache.vocabulary_files().values())
    for split, counts in cache.manifest.counts.items():
        files += [directory / split / f"{code}.lengths.npy" for code, n in counts.items() if n]
    for file in files:
        if not file.is_file():
            if (config := Run(directory).config).is_file():
                raise ValueError(
                    f"{directory} is a run, not a cache: give --gin_file={config}, "
                    "or the directory of its cache"
                )
            raise ValueError(f"{file} is missing: the cache is incomplete, build it again")
    return cache


def check_fresh(cache: Cache, *, corpus_hash: str, vocabulary_hash: Mapping[str, str]) -> None:
    """Raises ValueError if the corpus or a vocabulary has changed since the cache was built."""
    stale = ["the corpus"] if cache.manifest.corpus_hash != corpus_hash else []
    for side, digest in vocabulary_hash.items():
        if cache.manifest.vocabulary_hash.get(side) != digest:
            stale.append(f"the {side} vocabulary")
    if stale:
        raise ValueError(
            f"the cache {cache.directory} is stale: {' and '.join(stale)} changed since it was "
            f"built; delete it (rm -r {cache.directory}) to build it again"
        )
