"""The cache of old and new languages, in a vocabulary that has more pieces for sources.

The old text is that of the old cache, so neither its corpus nor SeqIO is needed.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mmt.data import cache
from mmt.data import vocabulary as vocab
from mmt.data.cache import Cache, origins
from mmt.data.cache.manifest import Manifest
from mmt.data.cleaning import provenance
from mmt.data.corpora import Corpus
from mmt.data.pair import SPLITS
from mmt.data.vocabulary import Tokeniser, Vocabulary

LINES = 30_000  # of each text that pieces are learnt on
TEMPERATURE = 5.0  # by which languages are sampled, as for a new vocabulary
_BATCH_TEXTS = 256  # texts that are tokenised at once


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
        manifest, examples = self.old.manifest, dict[tuple[str, str], cache.Examples]()
        for split in SPLITS:
            for code in self.languages:
                if manifest.counts.get(split, {}).get(code):
                    examples[split, code] = functools.partial(
                        self._old_examples, split, code, vocabularies["source"]
                    )
            for code in self.corpus.files.get(split, ()):
                examples[split, code] = functools.partial(
                    self._new_examples, split, code, vocabularies
                )
        hashes = f"{manifest.corpus_hash} {self.corpus.hash()}".encode()
        return cache.build(
            directory, examples, name=f"{manifest.name}_{self.corpus.name}", target=manifest.target,
            corpus_hash=hashlib.sha256(hashes).hexdigest()[:16], vocabularies=vocabularies,
            pad=manifest.pad, start=manifest.start,
            origins=[*manifest.only(self.languages).origins, *provenance.origins([self.corpus])],
        )  # fmt: skip

    def _old_examples(self, split: str, language: str, source: Path) -> Iterator[cache.Tokens]:
        """Yields the old tokens; sources are tokenised again if that changes them."""
        old_vocabulary = Vocabulary.load(self.old.vocabulary_files()["source"])
        new_vocabulary = Vocabulary.load(source)
        records = self.old.records(language, split)
        runs = self.old.manifest.corpora.get(split, {}).get(language, [])
        columns = origins.columns(runs, self.old.follows(language, split))
        for start in range(0, len(records), _BATCH_TEXTS):
            batch = [records[i] for i in range(start, min(start + _BATCH_TEXTS, len(records)))]
            old_ids = [record["inputs"].tolist() for record in batch]
            texts = old_vocabulary.decode_all(old_ids)
            old_encodings = old_vocabulary.encode_all(texts)
            encodings = zip(old_ids, old_encodings, new_vocabulary.encode_all(texts), strict=True)
            for record, (ids, old_encoding, new_encoding) in zip(batch, encodings, strict=True):
                # Tokens that the old vocabulary would not give for this text stay as they are.
                changed = ids == old_encoding and ids != new_encoding
                self.changed += changed and split == "train"
                inputs = new_encoding if changed else ids
                yield inputs, record["targets"].tolist(), *next(columns, ())

    def _new_examples(
        self, split: str, language: str, vocabularies: Mapping[str, Path]
    ) -> Iterator[cache.Piece]:
        """Yields functions, each of which tokenises some pairs of a new language."""
        source, target = vocabularies["source"], self.old.manifest.target
        vocabulary = Vocabulary.load(source)
        prefix = vocab.source_prefix(vocabulary, target)
        tokenise = Tokeniser(prefix, source, vocabularies["target"])
        pairs = self.corpus.pairs(language, split)
        while batch := list(itertools.islice(pairs, _BATCH_TEXTS)):
            yield functools.partial(
                tokenise,
                [vocab.source_text(p).encode() for p in batch],
                [p.target.encode() for p in batch],
                [p.corpus for p in batch],
                [p.follows for p in batch],
            )
