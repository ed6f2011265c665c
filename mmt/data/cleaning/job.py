"""The unit of cleaning and the state that its processes share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mmt.data.cleaning import cascade
from mmt.data.cleaning.corpus_rules import TestSets
from mmt.data.cleaning.rulebook import Rulebook
from mmt.data.cleaning.rules import RuleContext
from mmt.data.corpora import Corpus
from mmt.data.pair import Pair
from mmt.data.readers.files import Files


class EntryWork(NamedTuple):
    """A unit of work: the n-th entry of a language and split."""

    split: str
    language: str
    entry: int


@dataclass(frozen=True)
class CleaningJob:
    """The state that all processes share; `work` is the directory of unfinished work."""

    corpus: Corpus
    book: Rulebook
    tests: TestSets
    work: Path

    def pairs(self, item: EntryWork) -> Iterator[Pair]:
        """Returns the pairs of one entry."""
        return cascade.entry_pairs(self.corpus, item.language, item.split, item.entry)

    def name(self, item: EntryWork) -> str:
        """Returns the entry's name."""
        return self.files(item).name

    def files(self, item: EntryWork) -> Files:
        """Returns the entry's files."""
        return self.corpus.files[item.split][item.language][item.entry]

    def file(self, step: str, item: EntryWork, suffix: str) -> Path:
        """Returns a file for the work on an item."""
        return self.work / step / f"{item.split}.{item.language}.{item.entry}{suffix}"

    def rule_context(self, language: str, **details: Any) -> RuleContext:
        """Returns the context of the rules of a language."""
        return RuleContext(language, self.corpus.target, overlap=self.tests, **details)
