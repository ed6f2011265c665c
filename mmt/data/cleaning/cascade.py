"""Cleaning a corpus: the rules of its rulebook applied to pairs, counted, and explained.

`Cleaner` applies the rules to one entry of the corpus; `Tally` counts the outcomes. rulebook.py
determines which rules apply; rules.py and corpus_rules.py define them; prepare.py cleans a whole
corpus.
"""

import heapq
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mmt import languages
from mmt.data.cleaning import rulebook
from mmt.data.cleaning.corpus_rules import LengthHistogram, LengthRatios, TestSets
from mmt.data.cleaning.rulebook import Rulebook, Settings
from mmt.data.cleaning.rules import Dropped, RuleContext
from mmt.data.corpora import Corpus
from mmt.data.pair import SPLITS, Pair
from mmt.system import text_lines

EXAMPLES = 5
_SHOWN = 240  # characters of an example's side


class Outcome(NamedTuple):
    """The outcome of cleaning a pair, and the rules that changed it."""

    result: Pair | Dropped
    changed: tuple[str, ...] = ()


class Cleaner:
    """Applies rules in order.

    >>> clean = Cleaner({"length": {"words": 3}}, RuleContext("deu_Latn", "eng_Latn"))
    >>> clean(Pair("eins", "one", "deu_Latn", "numbers", 1)).result.target
    'one'
    >>> clean(Pair("eins zwei drei vier", "1 2 3 4", "deu_Latn", "numbers", 2)).result.reason
    'length: long'
    """

    def __init__(self, settings: Settings, context: RuleContext) -> None:
        self._rules = [
            (name, rulebook.RULES[name](context, **options)) for name, options in settings.items()
        ]

    def __call__(self, pair: Pair) -> Outcome:
        """Returns the kept pair, or the reason for dropping it.

        A side without a visible character is always dropped. So is a side with a NUL, which readers
        refuse, if no rule has removed it.
        """
        changed: list[str] = []
        dropped = _empty(pair)
        for name, rule in self._rules:
            if dropped:
                break
            result = rule(pair)
            if isinstance(result, Dropped):
                dropped = result
            elif result is not pair:
                changed.append(name)
                pair, dropped = result, _empty(result)
        return Outcome(dropped or _with_nul(pair) or pair, tuple(changed))

    def steps(self, pair: Pair) -> Iterator[tuple[str, Pair | Dropped]]:
        """Yields each rule and its result, up to the first that drops the pair."""
        for name, rule in [("empty", lambda pair: _empty(pair) or pair), *self._rules]:
            result = rule(pair)
            yield name, result
            if isinstance(result, Dropped):
                return
            if result is not pair and (dropped := _empty(result)):
                yield "empty", dropped
                return
            pair = result


class Tally:
    """Counts of one entry: `read`, `kept`, `dropped` by reason, and `changed` by rule.

    `examples` has up to five (line, source, target, detail) per reason, sampled by a hash of the
    line number.
    """

    def __init__(self) -> None:
        self.read = self.kept = 0
        self.dropped: dict[str, int] = {}
        self.changed: dict[str, int] = {}
        self._examples: dict[str, list[tuple[int, int, tuple[str, str, str]]]] = {}

    def add(self, pair: Pair, outcome: Outcome) -> None:
        """Counts the outcome of `pair`, the pair before cleaning."""
        self.read += 1
        self.kept += isinstance(outcome.result, Pair)
        for rule in outcome.changed:
            self.changed[rule] = self.changed.get(rule, 0) + 1
        if isinstance(outcome.result, Dropped):
            reason, detail = outcome.result
            self.dropped[reason] = self.dropped.get(reason, 0) + 1
            self._keep(reason, pair, detail)
        elif outcome.changed:
            texts = zip(outcome.result[:2], pair[:2], strict=True)
            detail = "now " + " / ".join(_short(new) for new, old in texts if new != old)
            for rule in outcome.changed:
                self._keep(f"changed: {rule}", pair, detail)

    def filtered(self, pairs: Iterable[Pair], cleaner: Cleaner) -> Iterator[Pair]:
        """Yields the pairs that further rules keep, and counts the others as dropped."""
        for pair in pairs:
            outcome = cleaner(pair)
            if isinstance(outcome.result, Pair):
                yield outcome.result
            else:
                self.read, self.kept = self.read - 1, self.kept - 1
                self.add(pair, outcome)

    def plus(self, other: "Tally") -> "Tally":
        """Returns the sum of both, for entries with several files."""
        total = Tally()
        total.read, total.kept = self.read + other.read, self.kept + other.kept
        for name in ("dropped", "changed"):
            counts = getattr(total, name)
            for tally_counts in (getattr(self, name), getattr(other, name)):
                for reason, count in tally_counts.items():
                    counts[reason] = counts.get(reason, 0) + count
        for examples in (self._examples, other._examples):
            for reason, heap in examples.items():
                kept = total._examples.get(reason, [])
                total._examples[reason] = heapq.nlargest(EXAMPLES, [*kept, *heap])[::-1]
        return total

    @property
    def examples(self) -> dict[str, list[tuple[int, str, str, str]]]:
        """Returns reason -> (line, source, target, detail), in the order of the lines."""
        return {
            reason: sorted((line, *texts) for _, line, texts in heap)
            for reason, heap in self._examples.items()
        }

    def _keep(self, reason: str, pair: Pair, detail: str) -> None:
        """Keeps the five examples with the smallest hashes of their line numbers: a fixed sample.
        """
        heap = self._examples.setdefault(reason, [])
        rank = -zlib.crc32(pair.line.to_bytes(8, "little"))
        texts = _short(pair.source), _short(pair.target), detail
        if len(heap) < EXAMPLES:
            heapq.heappush(heap, (rank, pair.line, texts))
        elif rank > heap[0][0]:
            heapq.heapreplace(heap, (rank, pair.line, texts))

    def to_json(self) -> dict[str, Any]:
        """Returns the counts as JSON; `from_json` reads them."""
        return {
            "read": self.read, "kept": self.kept, "dropped": self.dropped, "changed": self.changed,
            "examples": self._examples,
        }  # fmt: skip

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Tally":
        """Returns the tally that `to_json` wrote."""
        tally = cls()
        tally.read, tally.kept = content["read"], content["kept"]
        tally.dropped, tally.changed = dict(content["dropped"]), dict(content["changed"])
        tally._examples = {
            reason: [(rank, line, tuple(texts)) for rank, line, texts in heap]
            for reason, heap in content["examples"].items()
        }
        return tally


def entry_pairs(corpus: Corpus, language: str, split: str, entry: int) -> Iterator[Pair]:
    """Yields the pairs of an entry, given by its index, without cleaning.

    In [train] pairs with an empty side are included.
    """
    files = corpus.files[split][language][entry]._replace(empty=split == "train")
    files_by_split: dict[str, dict[str, Any]] = {name: {} for name in SPLITS}
    files_by_split[split] = {language: (files,)}
    return replace(corpus, files=files_by_split).pairs(language, split)


def rules_of(corpus: Corpus, book: Rulebook | None = None) -> Rulebook:
    """Returns the given rules, else the corpus's `[clean]`, else the default ones."""
    return book or corpus.clean or rulebook.DEFAULT


def test_sets(corpus: Corpus, given: TestSets) -> TestSets:
    """Returns the given test sets, and the corpus's validation and test splits."""
    sets = dict(given)
    for split in SPLITS[1:]:
        lines: dict[str, list[str]] = {}
        targets: dict[str, None] = {}
        for code in corpus.files[split]:
            pairs = list(corpus.pairs(code, split))
            lines[code] = [pair.source for pair in pairs]
            targets |= dict.fromkeys(pair.target for pair in pairs)
        if lines:
            sets[f"{corpus.name} {split}"] = {**lines, corpus.target: list(targets)}
    return sets


def learn(pairs: Iterable[Pair]) -> LengthRatios:
    """Returns the length ratios of a language's pairs."""
    lengths = LengthHistogram()
    for pair in pairs:
        lengths.add(pair)
    return lengths.learnt()


def explain(
    corpus: Corpus, sides: tuple[str, str], language: str, *, book: Rulebook, tests: TestSets
) -> str:
    """Explains which rules drop or change a pair of a language, and why.

    There is a line per rule, for each entry with different rules. It reads the language once, to
    learn its length ratios. Rules that depend on earlier pairs (`duplicates`, `one_side`) are only
    listed.

    Args:
      corpus: has the entries, and their length ratios.
      sides: source and target of the pair.
      language: of the source, by any name.
      book: the rules.
      tests: test set -> FLORES code -> its lines.
    """
    code = languages.find(language).code
    entries = corpus.entries(code, "train")
    if not entries:
        corpus.pairs(code, "train")  # raises an error that lists the languages
    files = corpus.files["train"][code]  # an entry may have several files
    pairs_by_entry = (entry_pairs(corpus, code, "train", index) for index in range(len(files)))
    pairs = itertools.chain.from_iterable(pairs_by_entry)
    context = RuleContext(code, corpus.target, learn(pairs), tests)
    entries_by_text: dict[str, list[str]] = {}
    for entry in entries:
        pair = Pair(*sides, code, entry, 1)
        settings = book.settings(code, entry)
        corpus_rules = [name for name in settings if name in rulebook.TOGETHER]
        pair_rules = {name: settings[name] for name in settings if name not in corpus_rules}
        lines, is_kept = [], True
        for name, result in Cleaner(pair_rules, context).steps(pair):
            lines.append(f"  {name:<12} {_described(pair, result)}")
            if isinstance(result, Dropped):
                is_kept = False
            else:
                pair = result
        if is_kept:
            lines += [f"  {name:<12} depends on earlier pairs" for name in corpus_rules]
        lines.append("  kept" if is_kept else "  dropped")
        entries_by_text.setdefault("\n".join(lines), []).append(entry)
    return "\n".join(f"{', '.join(names)}:\n{text}" for text, names in entries_by_text.items())


def _empty(pair: Pair) -> Dropped | None:
    for side, text in (("source", pair.source), ("target", pair.target)):
        if text_lines.is_blank(text):
            return Dropped("empty", f"the {side} is empty")
    return None


def _with_nul(pair: Pair) -> Dropped | None:
    for side, text in (("source", pair.source), ("target", pair.target)):
        if "\0" in text:
            return Dropped("nul", f"the {side} has a NUL character")
    return None


def _described(pair: Pair, result: Pair | Dropped) -> str:
    if isinstance(result, Dropped):
        return f"drops it, {result.reason!r}: {result.detail}"
    if result == pair:
        return "keeps it"
    changes = [
        f"{old!r} -> {new!r}" for old, new in zip(pair[:2], result[:2], strict=True) if old != new
    ]
    return f"changes {'; '.join(changes)}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
