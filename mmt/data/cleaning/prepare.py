"""Writes a cleaned corpus as a new corpus folder: `mmt data prepare CORPUS --out DIR`.

Processes work on the entries of each language in any order; the result does not depend on their
number. There are three passes, each with a progress bar: the lengths of each entry (for the rule
`ratio`), each entry's rules, and each language's rules over all its entries. A killed run is
resumed. cascade.py applies the rules, report.py shows the results.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mmt.data.cleaning import cascade, overlap_list, provenance, rulebook
from mmt.data.cleaning.cascade import Cleaner, Tally
from mmt.data.cleaning.corpus_rules import LengthHistogram, LengthRatios, TestSets
from mmt.data.cleaning.report import REPORT, Report
from mmt.data.cleaning.rulebook import Rulebook
from mmt.data.cleaning.rules import RuleContext
from mmt.data.corpora import Corpus, load
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import SPLITS, Pair
from mmt.data.readers.files import Files
from mmt.system import text_lines
from mmt.system.atomic import packed, read_json, working, write_json
from mmt.system.data_root import data_root
from mmt.system.processes import workers

_VERSION = 1
_EVERY = 1000  # number of pairs between two updates of the progress bar

Advance = Callable[[int], None]  # moves the progress bar by a number of units


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


def prepare(
    corpus: Corpus,
    out: Path,
    *,
    book: Rulebook | None = None,
    tests: TestSets | None = None,
    processes: int = 0,
) -> Report:
    """Writes the cleaned corpus into the new folder `out`, and returns the report.

    `out` has a `corpus.toml`, a compressed TSV and its line numbers per entry of each language and
    split, and the report (report.json, .txt, .html). It loads as a corpus with the same names. Only
    [train] is cleaned; test splits are copied, monolingual text stays at its path. `out` appears
    when all work is done. If it exists, from the same text, rules and test sets, it is kept.

    Args:
      corpus: the corpus.
      out: the new folder.
      book: default: the corpus's rules, else the default ones.
      tests: test set -> FLORES code -> its lines, in addition to validation and test splits.
      processes: 0: one per core, as far as there is work.

    Raises:
      ValueError: fewer processes than 0, a fault in the corpus (file and line), rules for missing
        languages or entries, no pair left, `out` exists and is something else, or is in a folder of
        the corpus's files, where a glob might read it.
      OSError: the disk is full, with the path; finished work is kept for the next run.
    """
    if processes < 0:
        raise ValueError(f"processes is {processes}; allowed: 1 and more, or 0, one for each core")
    check_place(out, corpus)
    book = cascade.rules_of(corpus, book)
    entries = [name for code in corpus.files["train"] for name in corpus.entries(code, "train")]
    if not entries:
        raise ValueError(f"corpus {corpus.name} has no [train] pairs to clean")
    for fault in book.check(corpus.files["train"], entries):
        warnings.warn(fault, stacklevel=2)
    sets = cascade.test_sets(corpus, tests or {})
    key = _key(corpus, book, sets)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        return _existing(out, key)
    with working(out, key) as work:
        job = CleaningJob(corpus, book, sets, work)
        report = _Run(job, processes or _processes(corpus)).report(key)
        report.write(work / "corpus")
        if out.exists():
            out.rmdir()
        (work / "corpus").rename(out)
    return report


def check_place(out: Path, corpus: Corpus) -> None:
    """Raises ValueError if a new corpus `out` would be in a folder with files of `corpus`.

    A glob or folder of the description might read it.
    """
    out, root = Path(os.path.realpath(out)), Path(os.path.realpath(corpus.root))
    folders = {
        Path(os.path.realpath(path.parent))
        for by_language in corpus.files.values()
        for files in itertools.chain.from_iterable(by_language.values())
        for path in files.paths
    }
    for folder in folders - {root}:
        if out.is_relative_to(folder):
            raise ValueError(f"{out} is in {folder} with files of the corpus; choose another")
    if out == root:
        raise ValueError(f"{out} is the folder of the corpus; choose another")


def cleaned(corpus: Corpus) -> Corpus:
    """Returns the corpus itself if it has no `[clean]`; else the cleaned corpus.

    The latter is in `$MMT_DATA/cleaned`, and is made if it is missing.
    """
    if corpus.clean is None:
        return corpus
    if corpus.reverse:
        return cleaned(corpus.reversed()).reversed()
    out = data_root() / "cleaned" / f"{corpus.name}-{corpus.hash()}"
    if not out.exists():  # it exists only when complete
        print(
            f"cleaning {corpus.name} by its [clean]; the report will be in {out}", file=sys.stderr
        )
        prepare(corpus, out)
    return load(out)


class _Run:
    """The passes over a corpus."""

    def __init__(self, job: CleaningJob, processes: int) -> None:
        self.job = job
        self.items = [
            EntryWork(split, code, entry)
            for split in SPLITS
            for code in sorted(job.corpus.files[split])
            for entry in range(len(job.corpus.files[split][code]))
        ]
        self.train = [item for item in self.items if item.split == "train"]
        self.processes = min(processes, len(self.items))

    def report(self, key: str) -> Report:
        """Does the unfinished work; returns the report."""
        with workers(self.job, self.processes) as run:
            entries = run("learning lengths", _learn, self.train, len(self.train))
            learnt = self._learnt()
            pairs = sum(entry["pairs"] for entry in entries)
            run("cleaning", functools.partial(_filter, learnt=learnt), self.items, pairs)
            languages = sorted({item.language for item in self.train})
            joined = run("removing duplicates", _join, languages, len(languages))
        tallies: dict[tuple[str, str], Tally] = {}
        for item, tally_json in zip(self.train, itertools.chain.from_iterable(joined), strict=True):
            entry_key = item.language, self.job.name(item)
            tallies[entry_key] = tallies.get(entry_key, Tally()).plus(Tally.from_json(tally_json))
        job = self.job
        report = Report(
            job.corpus.name, job.book.text(), learnt, tallies, key, self._unlearnt(learnt),
            *provenance.of_entries(job.corpus, job.book, job.tests),
        )  # fmt: skip
        if not report.kept:
            raise ValueError(
                f"the rules drop all pairs of the corpus {self.job.corpus.name}: "
                f"{report.reasons()}; nothing is written"
            )
        for code in languages:
            if not any(tally.kept for (language, _), tally in tallies.items() if language == code):
                warnings.warn(f"the rules drop all pairs of {code}", stacklevel=2)
        _describe(self.job, self.items)
        overlap_lists = [self.job.file("part", item, ".overlap.zst") for item in self.train]
        overlap_list.join(overlap_lists, self.job.work / "corpus")
        return report

    def _unlearnt(self, learnt: Mapping[str, LengthRatios]) -> tuple[str, ...]:
        unlearnt = set()
        for item in self.train:
            settings = self.job.book.settings(item.language, self.job.name(item))
            if "ratio" in settings:
                options = {**rulebook.defaults("ratio"), **settings["ratio"]}
                if learnt[item.language].pairs < options["pairs"]:
                    unlearnt.add(item.language)
        return tuple(sorted(unlearnt))

    def _learnt(self) -> dict[str, LengthRatios]:
        by_language: dict[str, LengthHistogram] = {}
        for item in self.train:
            bins = read_json(self.job.file("learnt", item, ".json"))["bins"]
            lengths = LengthHistogram({int(bin_index): count for bin_index, count in bins.items()})
            by_language.setdefault(item.language, LengthHistogram()).update(lengths)
        return {code: lengths.learnt() for code, lengths in by_language.items()}


def _learn(job: CleaningJob, item: EntryWork, advance: Advance) -> dict[str, Any]:
    """Learns the length ratios of an entry."""
    file = job.file("learnt", item, ".json")
    if not file.exists():
        lengths, pairs = LengthHistogram(), 0
        for pair in job.pairs(item):
            lengths.add(pair)
            pairs += 1
        write_json(file, {"pairs": pairs, "bins": lengths.bins})
    advance(1)
    return read_json(file)


def _filter(
    job: CleaningJob, item: EntryWork, advance: Advance, *, learnt: Mapping[str, LengthRatios]
) -> dict[str, Any]:
    """Applies the rules of single pairs to an entry; writes lines of number, id, source, target."""
    file, overlap_file = job.file("part", item, ".json"), job.file("part", item, ".overlap.zst")
    if file.exists() and overlap_file.exists():
        advance(read_json(file)["read"])
        return read_json(file)
    settings = job.book.settings(item.language, job.name(item)) if item.split == "train" else {}
    pair_rules = {name: settings[name] for name in settings if name not in rulebook.TOGETHER}
    cleaner = Cleaner(pair_rules, job.rule_context(item.language, learnt=learnt.get(item.language)))
    tally = Tally()
    has_ids = job.files(item).join  # keys of catalogues may repeat, and have tabs
    with packed(job.file("part", item, ".tsv.zst")) as write, packed(overlap_file) as write_overlap:
        for pair in job.pairs(item):
            outcome = cleaner(pair)
            tally.add(pair, outcome)
            if isinstance(outcome.result, Pair):
                kept = outcome.result
                texts = map(overlap_list.cell, (kept.source, kept.target))
                write("\t".join((str(pair.line), pair.id if has_ids else "", *texts)))
            elif row := overlap_list.row(pair, outcome.result):
                write_overlap(row)
            if tally.read % _EVERY == 0 and item.split == "train":
                advance(_EVERY)
    if item.split == "train":
        advance(tally.read % _EVERY)
    else:
        _finish(job, item, _part(job, item))
    write_json(file, tally.to_json())
    return tally.to_json()


def _join(job: CleaningJob, language: str, advance: Advance) -> list[dict[str, Any]]:
    """Applies the rules over all entries of a language; writes its files."""
    file = job.work / "joined" / f"{language}.json"
    if not file.exists():
        files = job.corpus.files["train"][language]
        items = [EntryWork("train", language, index) for index in range(len(files))]
        tallies = [Tally.from_json(read_json(job.file("part", item, ".json"))) for item in items]
        context = job.rule_context(language, seen={}, pairs=sum(tally.kept for tally in tallies))
        for item, tally in zip(items, tallies, strict=True):
            settings = job.book.settings(language, job.name(item))
            joint_rules = {name: settings[name] for name in settings if name in rulebook.TOGETHER}
            _finish(job, item, tally.filtered(_part(job, item), Cleaner(joint_rules, context)))
        write_json(file, [tally.to_json() for tally in tallies])
    advance(1)
    return read_json(file)


def _part(job: CleaningJob, item: EntryWork) -> Iterator[Pair]:
    name = job.name(item)
    for row in text_lines.read(job.file("part", item, ".tsv.zst")):
        line, identity, source, target = row.split("\t")
        yield Pair(source, target, item.language, name, int(line), identity)


def _finish(job: CleaningJob, item: EntryWork, pairs: Iterable[Pair]) -> None:
    """Writes the final files of an entry, pairs and their line numbers, unless it is empty.

    An entry with documents has an empty line wherever the next pair was not the next line.
    """
    stem = str(job.work / "corpus" / _stem(job, item))
    with contextlib.ExitStack() as stack:
        files: list[Callable[[str], None]] = []
        documents, last_line = job.files(item).documents, 0
        for pair in pairs:
            if not files:
                sides = [".source", ".target"] if pair.id else [""]
                names = [f"{stem}{side}.tsv.zst" for side in sides] + [f"{stem}.lines.zst"]
                files = [stack.enter_context(packed(Path(name))) for name in names]
            if documents and last_line and pair.line != last_line + 1:
                files[0]("")
                files[-1]("")  # of ids, the targets have no order
            last_line, texts = pair.line, [f"{pair.source}\t{pair.target}"]
            if pair.id:
                texts = [f"{pair.id}\t{pair.source}", f"{pair.id}\t{pair.target}"]
            for write, text in zip(files, [*texts, str(pair.line)], strict=True):
                write(text)


def _stem(job: CleaningJob, item: EntryWork) -> str:
    """Returns the path of an entry's files without suffixes: 'train/deu_Latn.0-europarl'."""
    name = re.sub(r"\W+", "_", job.name(item)).strip("_")[:60]
    return f"{item.split}/{item.language}.{item.entry}-{name}"


def _describe(job: CleaningJob, items: Iterable[EntryWork]) -> None:
    """Writes the `corpus.toml`."""
    corpus = job.corpus
    facts = {key: getattr(corpus, key) for key in ("name", "target", "domain", "licence")}
    facts = {key: json.dumps(fact, ensure_ascii=False) for key, fact in facts.items() if fact}
    text = [f"{key} = {fact}" for key, fact in facts.items()]
    tables: dict[str, dict[str, list[str]]] = {}
    for item in items:
        stem, name = _stem(job, item), json.dumps(job.name(item), ensure_ascii=False)
        options = ("back_translated", "documents")
        name += "".join(f", {key} = true" for key in options if getattr(job.files(item), key))
        entries = tables.setdefault(item.split, {}).setdefault(item.language, [])
        if (job.work / "corpus" / f"{stem}.tsv.zst").exists():
            entries.append(f'{{ pairs = "{stem}.tsv.zst", name = {name} }}')
        elif (job.work / "corpus" / f"{stem}.lines.zst").exists():
            files = f'source = "{stem}.source.tsv.zst", target = "{stem}.target.tsv.zst"'
            entries.append(f'{{ {files}, join = "id", name = {name} }}')
    for split, by_language in tables.items():
        text.append(f"[{split}]")
        for code, entries in by_language.items():
            if tables["train"].get(code):
                text.append(f"{code} = [\n" + "".join(f"  {entry},\n" for entry in entries) + "]")
    if corpus.monolingual:
        text.append(f"[{MONOLINGUAL}]")
        for code, texts in corpus.files[MONOLINGUAL].items():
            lines = "".join(f"  {_as_text(entry)},\n" for entry in texts)
            text.append(f"{code} = [\n{lines}]")
    (job.work / "corpus" / "corpus.toml").write_text("\n".join(text) + "\n", encoding="utf-8")


def _as_text(files: Files) -> str:
    """Returns the TOML of an entry of monolingual text, which is not cleaned."""
    table: dict[str, object] = {"text": str(files.source.absolute()), "name": files.name}
    if files.columns:
        column = files.columns[0]
        table["column"] = int(column) if column.isdigit() else column
    if files.sample:
        table["sample"] = files.sample
    fields = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return f"{{ {', '.join(fields)} }}"


def _processes(corpus: Corpus) -> int:
    """Returns one process per core, but at most one per MiB: starting one takes a second."""
    entries = itertools.chain.from_iterable(corpus.files["train"].values())
    size = sum(path.stat().st_size for files in entries for path in files.paths)
    return min(len(os.sched_getaffinity(0)), 1 + (size >> 20))


def _key(corpus: Corpus, book: Rulebook, tests: TestSets) -> str:
    """Returns 16 hex digits of all inputs of the result."""
    content = json.dumps([_VERSION, corpus.hash(), book.hash(), sorted(tests.items())])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _existing(folder: Path, key: str) -> Report:
    """Returns the report of the existing folder, if text, rules and test sets are the same."""
    if not (folder / REPORT).is_file():
        raise ValueError(f"{folder} exists and is no cleaned corpus; it is not changed")
    report = Report.read_from(folder / REPORT)
    if report.key != key:
        raise ValueError(
            f"{folder} holds a cleaned corpus of other text, rules or test sets; remove it, or "
            "choose another folder"
        )
    return report
