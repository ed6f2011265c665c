"""The rows of analysis.jsonl about the corpora that a system was trained on."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from eval.records import rows
from mmt.checked import HUGE, within

GROUPS = ("with", "only", "others")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusUse(rows.Checked):
    """A corpus of one language in training; None where a number is not known.

    text: whether it is monolingual. pairs: training examples in the cache, after cleaning.
    examples: those that the run has seen, with repeats. loss: nats per target token, over `tokens`
    of them, in the second half of the steps. files: file -> hash. read: pairs before cleaning; None
    if no rules were applied. dropped, changed: reason or rule -> pairs. overlap: test set -> pairs
    removed for overlap with it; listed: the folder and file that list them, else "".
    """

    corpus: str
    text: bool = False
    pairs: int = dataclasses.field(metadata=rows.AMOUNT)
    examples: int | None = dataclasses.field(metadata=rows.AMOUNT)
    loss: float | None = dataclasses.field(metadata=rows.AMOUNT)
    tokens: float | None = dataclasses.field(metadata=rows.AMOUNT)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read: int | None = dataclasses.field(default=None, metadata=rows.AMOUNT)
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict, metadata=rows.AMOUNT)
    changed: Mapping[str, int] = dataclasses.field(default_factory=dict, metadata=rows.AMOUNT)
    overlap: Mapping[str, int] = dataclasses.field(default_factory=dict, metadata=rows.AMOUNT)
    listed: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusUses(rows.AnalysisRow):
    """The corpora of one language that a system was trained on.

    named: whether its cache names corpora; without names all text of the language is one corpus.
    """

    kind: ClassVar[str] = "corpora"
    about: ClassVar[tuple[str, ...]] = ("system", "source")

    system: str
    source: str
    named: bool
    corpora: tuple[CorpusUse, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusEffect(rows.AnalysisRow):
    """What a corpus gives: the scores of a system less those of one trained without the corpus.

    The effect is that on the language `source`, or if that is "" the mean over the `languages` of a
    group: `with` has the corpus and others, `only` nothing but the corpus, `others` does not have
    it. Intervals are 95 %, by paired bootstrap over the test sentences; languages and training seed
    are fixed. against: the system without the corpus. pairs: of the corpus in these languages.
    """

    kind: ClassVar[str] = "corpus_effect"
    about: ClassVar[tuple[str, ...]] = ("system", "testset", "target", "corpus", "group", "source")

    system: str
    checkpoint: str
    decode: str
    against: str
    against_checkpoint: str
    testset: str
    target: str
    corpus: str
    group: str
    source: str = ""
    languages: int = dataclasses.field(metadata=rows.POSITIVE)
    pairs: int = dataclasses.field(metadata=rows.AMOUNT)
    sentences: int = dataclasses.field(metadata=within(1, HUGE))
    bleu: float = dataclasses.field(metadata=rows.DIFFERENCE)
    bleu_low: float = dataclasses.field(metadata=rows.DIFFERENCE)
    bleu_high: float = dataclasses.field(metadata=rows.DIFFERENCE)
    chrf: float = dataclasses.field(metadata=rows.DIFFERENCE)
    chrf_low: float = dataclasses.field(metadata=rows.DIFFERENCE)
    chrf_high: float = dataclasses.field(metadata=rows.DIFFERENCE)
    resamples: int = dataclasses.field(metadata=rows.POSITIVE)
    seed: int

    def _check(self) -> None:
        rows.check_one_of("group", self.group, GROUPS)
        for name in ("bleu", "chrf"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low > high:
                raise ValueError(f"{name}_low is {low}, above {name}_high, {high}")
