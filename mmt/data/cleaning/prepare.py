"""A corpus, cleaned, as another corpus folder: `mmt data prepare CORPUS --out DIR`.

The work is cut into the entries of each language, which processes take on in any order; what they
write is the same whatever their number. Three passes: the lengths of each entry (from which `ratio`
learns), each entry's rules, and each language's rules for all its entries together. What a killed
run has finished the next one takes over. The rules are run by clean.py, shown by clean_report.py.
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

from mmt.data.cleaning import cascade, rulebook
from mmt.data.cleaning.cascade import Cleaner, Tally
from mmt.data.cleaning.corpus_rules import Learnt, Lengths, TestSets
from mmt.data.cleaning.report import Report
from mmt.data.cleaning.rulebook import Rulebook
from mmt.data.cleaning.rules import About
from mmt.data.corpora import Corpus, load
from mmt.data.entries import MONOLINGUAL
from mmt.data.pair import SPLITS, Pair
from mmt.data.readers.files import Files
from mmt.system import text_lines
from mmt.system.atomic import packed, read_json, working, write_json
from mmt.system.data_root import data_root
from mmt.system.processes import workers

REPORT = "report.json"
_VERSION = 1
_FLAT = str.maketrans("\t\n\r", "   ")  # what a line of TSV cannot hold
_BREAK = re.compile("[\t\n\r]")
_EVERY = 1000  # pairs between two words of progress


class EntryWork(NamedTuple):
    """A piece of work: an entry of a language and split, by its place."""

    split: str
    language: str
    entry: int


@dataclass(frozen=True)
class CleaningJob:
    """What all processes know. work: where what is not finished lies."""

    corpus: Corpus
    book: Rulebook
    tests: TestSets
    work: Path

    def pairs(self, item: EntryWork) -> Iterator[Pair]:
        """The pairs of one entry."""
        return cascade.entry_pairs(self.corpus, item.language, item.split, item.entry)

    def name(self, item: EntryWork) -> str:
        """What the entry is called."""
        return self.corpus.files[item.split][item.language][item.entry].name

    def file(self, what: str, item: EntryWork, suffix: str) -> Path:
        """A file of the work on an item."""
        return self.work / what / f"{item.split}.{item.language}.{item.entry}{suffix}"

    def about(self, language: str, **known: Any) -> About:
        """What the rules of a language may know."""
        return About(language, self.corpus.target, overlap=self.tests, **known)


def prepare(
    corpus: Corpus,
    out: Path,
    *,
    book: Rulebook | None = None,
    tests: TestSets | None = None,
    processes: int = 0,
) -> Report:
    """Writes the cleaned corpus into the new folder `out`: `corpus.toml`, a compressed TSV for each
    entry of each language and split with its lines' numbers beside, and the report (report.json,
    .txt, .html). Loading it gives a corpus of the same names.

    Only [train] is cleaned: what models are judged on stays as it is, and monolingual text where it
    is. `out` appears when all is
    done; if it is there already, made of the same text, rules and test sets, it is left so.

    Args:
      book: default: the corpus' own rules, else the default ones.
      tests: test set -> FLORES code -> its lines, beside the corpus' own validation and test.
      processes: 0: one for each core, where there is work for them.

    Raises:
      ValueError: fewer processes than 0, a fault in the corpus (file and line), rules for what it
        has not, no pair left, something else that is there under the name of `out`, and one in a
        folder of the corpus' files, where it might be taken for more of them.
      OSError: the disk is full, with the path; what is finished is kept for the next time.
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
        return _there(out, key)
    with working(out, key) as work:
        job = CleaningJob(corpus, book, sets, work)
        report = _Run(job, processes or _processes(corpus)).report(key)
        report.write(work / "corpus")
        if out.exists():
            out.rmdir()
        (work / "corpus").rename(out)
    return report


def check_place(out: Path, corpus: Corpus) -> None:
    """ValueError where a new corpus `out` would lie among the files of `corpus`: a glob or folder
    of its description may read what is below them. Beside them is well.
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
            raise ValueError(f"{out} lies in {folder}, where the corpus' files are; choose another")
    if out == root:
        raise ValueError(f"{out} is the corpus' own folder; choose another")


def cleaned(corpus: Corpus) -> Corpus:
    """The corpus itself where it has no `[clean]`; else what its rules leave of it, prepared under
    `$MMT_DATA/cleaned` when first asked for.
    """
    if corpus.clean is None:
        return corpus
    if corpus.reverse:
        return cleaned(corpus.reversed()).reversed()
    out = data_root() / "cleaned" / f"{corpus.name}-{corpus.hash()}"
    if not out.exists():  # which it does only when it is whole
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
        """Does what is not done; the report of all."""
        with workers(self.job, self.processes) as run:
            entries = run("learning lengths", _learn, self.train, len(self.train))
            learnt = self._learnt()
            pairs = sum(entry["pairs"] for entry in entries)
            run("cleaning", functools.partial(_filter, learnt=learnt), self.items, pairs)
            languages = sorted({item.language for item in self.train})
            joined = run("joining", _join, languages, len(languages))
        tallies: dict[tuple[str, str], Tally] = {}
        for item, tally_json in zip(self.train, itertools.chain.from_iterable(joined), strict=True):
            at = item.language, self.job.name(item)
            tallies[at] = tallies.get(at, Tally()).plus(Tally.from_json(tally_json))
        report = Report(
            self.job.corpus.name, self.job.book.text(), learnt, tallies, key, self._unlearnt(learnt)
        )
        if not report.kept:
            raise ValueError(
                f"the rules leave nothing of the corpus {self.job.corpus.name}: "
                f"{report.reasons()}; nothing is written"
            )
        for code in languages:
            if not any(tally.kept for (language, _), tally in tallies.items() if language == code):
                warnings.warn(f"the rules leave nothing of {code}", stacklevel=2)
        _describe(self.job, self.items)
        return report

    def _unlearnt(self, learnt: Mapping[str, Learnt]) -> tuple[str, ...]:
        unlearnt = set()
        for item in self.train:
            settings = self.job.book.settings(item.language, self.job.name(item))
            if "ratio" in settings:
                options = {**rulebook.defaults("ratio"), **settings["ratio"]}
                if learnt[item.language].pairs < options["pairs"]:
                    unlearnt.add(item.language)
        return tuple(sorted(unlearnt))

    def _learnt(self) -> dict[str, Learnt]:
        by_language: dict[str, Lengths] = {}
        for item in self.train:
            bins = read_json(self.job.file("learnt", item, ".json"))["bins"]
            lengths = Lengths({int(place): count for place, count in bins.items()})
            by_language.setdefault(item.language, Lengths()).update(lengths)
        return {code: lengths.learnt() for code, lengths in by_language.items()}


def _learn(job: CleaningJob, item: EntryWork, done: Callable[[int], None]) -> dict[str, Any]:
    """The lengths of an entry."""
    file = job.file("learnt", item, ".json")
    if not file.exists():
        lengths, pairs = Lengths(), 0
        for pair in job.pairs(item):
            lengths.add(pair)
            pairs += 1
        write_json(file, {"pairs": pairs, "bins": lengths.bins})
    done(1)
    return read_json(file)


def _filter(
    job: CleaningJob, item: EntryWork, done: Callable[[int], None], *, learnt: Mapping[str, Learnt]
) -> dict[str, Any]:
    """What the rules leave of an entry by itself, as lines of line, id, source, target."""
    file = job.file("part", item, ".json")
    if file.exists():
        done(read_json(file)["read"])
        return read_json(file)
    settings = job.book.settings(item.language, job.name(item)) if item.split == "train" else {}
    alone = {name: options for name, options in settings.items() if name not in rulebook.TOGETHER}
    cleaner = Cleaner(alone, job.about(item.language, learnt=learnt.get(item.language)))
    tally = Tally()
    with packed(job.file("part", item, ".tsv.zst")) as write:
        for pair in job.pairs(item):
            outcome = cleaner(pair)
            tally.add(pair, outcome)
            if isinstance(outcome.result, Pair):
                kept = outcome.result
                texts = _flat(kept.source), _flat(kept.target)
                write("\t".join((str(pair.line), pair.id, *texts)))
            if tally.read % _EVERY == 0 and item.split == "train":
                done(_EVERY)
    if item.split == "train":
        done(tally.read % _EVERY)
    else:
        _finish(job, item, _part(job, item))
    write_json(file, tally.to_json())
    return tally.to_json()


def _flat(text: str) -> str:
    return text.translate(_FLAT) if _BREAK.search(text) else text


def _join(job: CleaningJob, language: str, done: Callable[[int], None]) -> list[dict[str, Any]]:
    """Writes a language's files: what the rules leave that look at all its entries."""
    file = job.work / "joined" / f"{language}.json"
    if not file.exists():
        files = job.corpus.files["train"][language]
        items = [EntryWork("train", language, place) for place in range(len(files))]
        tallies = [Tally.from_json(read_json(job.file("part", item, ".json"))) for item in items]
        about = job.about(language, seen={}, pairs=sum(tally.kept for tally in tallies))
        for item, tally in zip(items, tallies, strict=True):
            settings = job.book.settings(language, job.name(item))
            together = {name: settings[name] for name in settings if name in rulebook.TOGETHER}
            _finish(job, item, tally.going_on(_part(job, item), Cleaner(together, about)))
        write_json(file, [tally.to_json() for tally in tallies])
    done(1)
    return read_json(file)


def _part(job: CleaningJob, item: EntryWork) -> Iterator[Pair]:
    name = job.name(item)
    for row in text_lines.read(job.file("part", item, ".tsv.zst")):
        line, identity, source, target = row.split("\t")
        yield Pair(source, target, item.language, name, int(line), identity)


def _finish(job: CleaningJob, item: EntryWork, pairs: Iterable[Pair]) -> None:
    """The final files of an entry: the pairs, and the lines they were on. None where no pair is."""
    stem = str(job.work / "corpus" / _stem(job, item))
    with contextlib.ExitStack() as stack:
        files: list[Callable[[str], None]] = []
        for pair in pairs:
            if not files:
                sides = [".source", ".target"] if pair.id else [""]
                names = [f"{stem}{side}.tsv.zst" for side in sides] + [f"{stem}.lines.zst"]
                files = [stack.enter_context(packed(Path(name))) for name in names]
            texts = [f"{pair.source}\t{pair.target}"]
            if pair.id:
                texts = [f"{pair.id}\t{pair.source}", f"{pair.id}\t{pair.target}"]
            for write, text in zip(files, [*texts, str(pair.line)], strict=True):
                write(text)


def _stem(job: CleaningJob, item: EntryWork) -> str:
    """'train/deu_Latn.0-europarl': where in the folder an entry's files are, without suffixes."""
    name = re.sub(r"\W+", "_", job.name(item)).strip("_")[:60]
    return f"{item.split}/{item.language}.{item.entry}-{name}"


def _describe(job: CleaningJob, items: Iterable[EntryWork]) -> None:
    """The `corpus.toml` of what was written."""
    corpus = job.corpus
    text = [f"name = {json.dumps(corpus.name)}", f"target = {json.dumps(corpus.target)}"]
    tables: dict[str, dict[str, list[str]]] = {}
    for item in items:
        stem, name = _stem(job, item), json.dumps(job.name(item), ensure_ascii=False)
        if corpus.files[item.split][item.language][item.entry].back_translated:
            name += ", back_translated = true"
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
    """An entry of monolingual text, which is not cleaned: where it lies."""
    table: dict[str, object] = {"text": str(files.source.absolute()), "name": files.name}
    if files.columns:
        column = files.columns[0]
        table["column"] = int(column) if column.isdigit() else column
    if files.sample:
        table["sample"] = files.sample
    fields = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return f"{{ {', '.join(fields)} }}"


def _processes(corpus: Corpus) -> int:
    """One for each core, but only one for each MiB: to start one takes a second."""
    entries = itertools.chain.from_iterable(corpus.files["train"].values())
    size = sum(path.stat().st_size for files in entries for path in files.paths)
    return min(len(os.sched_getaffinity(0)), 1 + (size >> 20))


def _key(corpus: Corpus, book: Rulebook, tests: TestSets) -> str:
    """16 hex digits of all that decides what is written."""
    content = json.dumps([_VERSION, corpus.hash(), book.hash(), sorted(tests.items())])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _there(out: Path, key: str) -> Report:
    """The report of the folder that is there, where it is of the same."""
    if not (out / REPORT).is_file():
        raise ValueError(f"{out} exists and is no cleaned corpus; it is left as it is")
    report = Report.read_from(out / REPORT)
    if report.key != key:
        raise ValueError(
            f"{out} holds a cleaned corpus of other text, rules or test sets; remove it, or choose "
            "another folder"
        )
    return report
