"""The cache of old and new languages, in a vocabulary that has more pieces for sources.

The old text is that of the old cache, so neither its corpus nor SeqIO is needed.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmt.data import cache
from mmt.data import vocabulary as vocab
from mmt.data.cache import Cache
from mmt.data.cache.manifest import Manifest
from mmt.data.cleaning import provenance
from mmt.data.corpora import Corpus
from mmt.data.pair import SPLITS
from mmt.data.vocabulary import Tokeniser, Vocabulary

LINES = 30_000  # of each text that pieces are learnt on
TEMPERATURE = 5.0  # by which languages are sampled, as for a new vocabulary
_TOGETHER = 256  # texts that are tokenised at once


class MergedCache:
    """A cache of the languages of an old cache and of those of a corpus.

    Attributes:
      old: the old cache.
      languages: those of its languages that stay.
      corpus: clean text of the new languages, into the same target.
      changed: after `build`, the number of old training pairs whose sources get other pieces.
    """

    def __init__(self, old: Cache, languages: Sequence[str], corpus: Corpus) -> None:
        self.old, self.languages, self.corpus = old, tuple(languages), corpus
        self.changed = 0

    def old_texts(self) -> Iterator[str]:
        """Yields about LINES sources of the old languages, with their tag."""
        counts = self.old.manifest.counts["train"]
        counts = {code: counts[code] for code in self.languages if counts.get(code)}
        for code, quota in vocab.quotas(counts, TEMPERATURE, LINES).items():
            for source, _ in self.old.pairs(code, "train", every=counts[code] // quota):
                yield source

    def new_texts(self) -> Iterator[str]:
        """Yields about LINES sources of the new languages, with a tag."""
        yield from vocab.training_texts(
            self.corpus, side="source", temperature=TEMPERATURE, limit=LINES
        )

    def build(self, directory: Path, vocabularies: Mapping[str, Path]) -> Manifest:
        """Writes the cache, and returns its manifest.

        vocabularies: of 'source' with more pieces than the old one, of 'target' the old one.
        """
        self.changed = 0
        old, parts = self.old.manifest, dict[tuple[str, str], cache.Examples]()
        for split in SPLITS:
            for code in self.languages:
                if old.counts.get(split, {}).get(code):
                    parts[split, code] = functools.partial(
                        self._old, split, code, vocabularies["source"]
                    )
            for code in self.corpus.files.get(split, ()):
                parts[split, code] = functools.partial(self._new, split, code, vocabularies)
        both = f"{old.corpus_hash} {self.corpus.hash()}".encode()
        return cache.build(
            directory, parts, name=f"{old.name}_{self.corpus.name}", target=old.target,
            corpus_hash=hashlib.sha256(both).hexdigest()[:16], vocabularies=vocabularies,
            pad=old.pad, start=old.start,
            origins=[*old.only(self.languages).origins, *provenance.origins([self.corpus])],
        )  # fmt: skip

    def _old(self, split: str, language: str, source: Path) -> Iterator[cache.Tokens]:
        """Yields the old tokens; sources are tokenised again if that changes them."""
        before = Vocabulary.load(self.old.vocabulary_files()["source"])
        after = Vocabulary.load(source)
        records = self.old.records(language, split)
        runs = self.old.manifest.corpora.get(split, {}).get(language, [])
        follows = self.old.follows(language, split)
        known: Iterator[tuple[Any, ...]] = itertools.chain.from_iterable(
            itertools.repeat((name,), n) for name, n in runs
        )
        if follows is not None:
            known = ((*name, bool(each)) for name, each in zip(known, follows, strict=True))
        for start in range(0, len(records), _TOGETHER):
            batch = [records[i] for i in range(start, min(start + _TOGETHER, len(records)))]
            kept = [record["inputs"].tolist() for record in batch]
            texts = before.decode_all(kept)
            again = zip(kept, before.encode_all(texts), after.encode_all(texts), strict=True)
            for record, (ids, same, new) in zip(batch, again, strict=True):
                changed = ids == same and ids != new  # text that is not encoded alike stays
                self.changed += changed and split == "train"
                yield new if changed else ids, record["targets"].tolist(), *next(known, ())

    def _new(
        self, split: str, language: str, vocabularies: Mapping[str, Path]
    ) -> Iterator[cache.Piece]:
        """Yields functions, each of which tokenises some pairs of a new language."""
        source, target = vocabularies["source"], self.old.manifest.target
        vocabulary = Vocabulary.load(source)
        prefix = vocab.find_tag(vocabulary, target, trained=target) if vocabulary.tags else ""
        tokenise = Tokeniser(f"{prefix} " if prefix else "", source, vocabularies["target"])
        pairs = self.corpus.pairs(language, split)
        while batch := list(itertools.islice(pairs, _TOGETHER)):
            yield functools.partial(
                tokenise,
                [vocab.marked(p.source, back_translated=p.back_translated).encode() for p in batch],
                [p.target.encode() for p in batch],
                [p.corpus for p in batch],
                [p.follows for p in batch],
            )
