"""Writes a cleaned corpus as a new corpus folder: `mmt data prepare CORPUS --out DIR`.

passes.py does the work, cascade.py applies the rules, cleaned_folder.py writes the files, and
report.py shows the results.
"""

import hashlib
import itertools
import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

from mmt.data.cleaning import cascade
from mmt.data.cleaning.corpus_rules import TestSets
from mmt.data.cleaning.job import CleaningJob
from mmt.data.cleaning.passes import Passes
from mmt.data.cleaning.report import REPORT, Report
from mmt.data.cleaning.rulebook import Rulebook
from mmt.data.corpora import Corpus, load
from mmt.data.pair import SPLITS
from mmt.system.atomic import working
from mmt.system.data_root import data_root

_VERSION = 1


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
    when all work is done. If it exists, from the same text, rules, test sets and names of entries,
    it is kept.

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
    _check_distinct(corpus)
    for fault in book.check(corpus.files["train"], entries):
        warnings.warn(fault, stacklevel=2)
    sets = cascade.test_sets(corpus, tests or {})
    key = _key(corpus, book, sets)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        return _existing(out, key, corpus)
    with working(out, _digest([key, _names(corpus)])) as work:
        job = CleaningJob(corpus, book, sets, work)
        report = Passes(job, processes or _processes(corpus)).report(key)
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

    Raises:
      ValueError: as `prepare`; or the cleaned corpus has other names of entries, or a file of its
        monolingual text is missing. The message has the folder to remove.
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
    if (out / REPORT).is_file():
        _check_names(out, Report.read_from(out / REPORT), corpus)
    try:
        return load(out)
    except ValueError as error:
        raise ValueError(f"{error}; remove {out} to clean the corpus again") from None


def _processes(corpus: Corpus) -> int:
    """Returns one process per core, but at most one per MiB: starting one takes a second."""
    entries = itertools.chain.from_iterable(corpus.files["train"].values())
    size = sum(path.stat().st_size for files in entries for path in files.paths)
    return min(len(os.sched_getaffinity(0)), 1 + (size >> 20))


def _key(corpus: Corpus, book: Rulebook, tests: TestSets) -> str:
    """Returns 16 hex digits of all inputs of the result."""
    return _digest([_VERSION, corpus.hash(), book.hash(), sorted(tests.items())])


def _digest(content: object) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def _existing(folder: Path, key: str, corpus: Corpus) -> Report:
    """Returns the report of the existing folder.

    Raises ValueError if text, rules, test sets or names of entries are not the same.
    """
    if not (folder / REPORT).is_file():
        raise ValueError(f"{folder} exists and is no cleaned corpus; it is not changed")
    report = Report.read_from(folder / REPORT)
    if report.key != key:
        raise ValueError(
            f"{folder} holds a cleaned corpus of other text, rules or test sets; remove it, or "
            "choose another folder"
        )
    _check_names(folder, report, corpus)
    return report


def _check_names(folder: Path, report: Report, corpus: Corpus) -> None:
    """Raises ValueError if the cleaned corpus has other names of training entries."""
    names = [(code, name) for split, code, name in _names(corpus) if split == "train"]
    for made, now in itertools.zip_longest(report.tallies, dict.fromkeys(names), fillvalue=()):
        if made != now:
            raise ValueError(
                f"{folder} holds a cleaned corpus with other names of entries: it has "
                f"{' '.join(made) or 'fewer'}, the corpus {' '.join(now) or 'fewer'}; remove it to "
                "clean the corpus again"
            )


def _check_distinct(corpus: Corpus) -> None:
    """Raises ValueError for entries of a language and split with one name.

    They may share a file, such as two columns of a TSV, but become two files.
    """
    for (split, code, name), count in Counter(_names(corpus)).items():
        if count > 1:
            raise ValueError(
                f"{corpus.root / 'corpus.toml'}: {count} entries of {code} in [{split}] have the "
                f"name {name!r}; the files of a cleaned corpus need names of their own: add "
                'name = "..." to each entry'
            )


def _names(corpus: Corpus) -> list[tuple[str, str, str]]:
    """Returns split, FLORES code and name of each entry; the corpus's hash has no names."""
    return [
        (split, code, entry.name)
        for split in SPLITS
        for code in sorted(corpus.files[split])
        for entry in corpus.files[split][code]
    ]
