"""The three passes of cleaning, in processes; the result does not depend on their number.

They are the lengths of each entry (for the rule `ratio`), each entry's rules, and each language's
rules over all its entries. Each has a progress bar. A killed run is resumed.
"""

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mmt.data.cleaning import cleaned_folder, overlap_list, provenance, rulebook
from mmt.data.cleaning.cascade import Cleaner, Tally
from mmt.data.cleaning.corpus_rules import LengthHistogram, LengthRatios
from mmt.data.cleaning.job import CleaningJob, EntryWork
from mmt.data.cleaning.report import Report
from mmt.data.pair import SPLITS, Pair
from mmt.system import text_lines
from mmt.system.atomic import packed, read_json, write_json
from mmt.system.processes import workers

_EVERY = 1000  # number of pairs between two updates of the progress bar

Advance = Callable[[int], None]  # moves the progress bar by a number of units


class Passes:
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
        cleaned_folder.write_description(self.job, self.items)
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
        cleaned_folder.write_entry(job, item, _part(job, item))
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
            pairs = tally.filtered(_part(job, item), Cleaner(joint_rules, context))
            cleaned_folder.write_entry(job, item, pairs)
        write_json(file, [tally.to_json() for tally in tallies])
    advance(1)
    return read_json(file)


def _part(job: CleaningJob, item: EntryWork) -> Iterator[Pair]:
    name = job.name(item)
    for row in text_lines.read(job.file("part", item, ".tsv.zst")):
        line, identity, source, target = row.split("\t")
        yield Pair(source, target, item.language, name, int(line), identity)
