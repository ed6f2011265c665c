"""The origins of a corpus's training examples: hashes of its files, and the counts of cleaning.

`tasks.build` writes them into the manifest of a cache.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from mmt.data import mixing, readers
from mmt.data.cache.origins import CorpusOrigin
from mmt.data.cleaning import overlap_list
from mmt.data.cleaning.report import REPORT, Report
from mmt.data.cleaning.rulebook import Rulebook
from mmt.data.corpora import Corpus
from mmt.data.entries import MONOLINGUAL
from mmt.data.readers.files import Files

EntryKey = tuple[str, str]  # FLORES code and name of an entry
_DIGITS = 16


def _hashes(entries: Iterable[Files], root: Path) -> dict[str, str]:
    """Returns file -> the first 16 hex digits that `sha256sum` prints for it.

    A file is named by its path in the folder `root`, or by its name if it is elsewhere; files that
    would have equal names, by as many of their folders as tell them apart.
    """
    names: dict[Path, str] = {}
    for path in dict.fromkeys(path for entry in entries for path in entry.paths):
        is_inside = path.is_relative_to(root)
        names[path] = path.relative_to(root).as_posix() if is_inside else path.name
    for depth in range(2, max((len(path.parts) for path in names), default=0) + 1):
        common = {name for name, count in Counter(names.values()).items() if count > 1}
        for path in (path for path, name in names.items() if name in common):
            names[path] = Path(*path.parts[-depth:]).as_posix()
    hashes = {}
    for path, name in names.items():
        stat = path.stat()
        hashes[name] = _hash(path, stat.st_mtime_ns, stat.st_size)
    return hashes


def origins(corpora: Sequence[Corpus]) -> list[CorpusOrigin]:
    """Returns the origins of the training examples of corpora, as `prepare.cleaned` returns them.

    The counts are those of `report.json` in the folder of a cleaned corpus. Counts of an entry that
    has another number of pairs by now are left out, because the corpus was changed after cleaning.

    Raises ValueError for a report that is damaged.
    """
    all_origins = [origin for corpus in corpora for origin in _of_corpus(corpus)]
    return sorted(all_origins, key=lambda origin: origin.language)


def of_entries(
    corpus: Corpus, book: Rulebook, tests: Iterable[str]
) -> tuple[dict[EntryKey, dict[str, str]], dict[EntryKey, list[str]]]:
    """Returns the hashes of the files of each training entry, and the test sets of its rules.

    Both are by FLORES code and entry name.
    """
    entries_of_key: dict[EntryKey, list[Files]] = {}
    test_sets: dict[EntryKey, list[str]] = {}
    for code, entries in corpus.files["train"].items():
        for entry in entries:
            entry_key = code, entry.name
            entries_of_key.setdefault(entry_key, []).append(entry)
            test_sets[entry_key] = list(tests) if "overlap" in book.settings(*entry_key) else []
    files = {key: _hashes(entries, corpus.root) for key, entries in entries_of_key.items()}
    return files, test_sets


def _of_corpus(corpus: Corpus) -> list[CorpusOrigin]:
    report, overlap_file = _report(corpus.root / REPORT), ""
    if report and (corpus.root / overlap_list.FILE).is_file():
        overlap_file = f"{corpus.root.absolute().name}/{overlap_list.FILE}"
    corpus_origins = []
    for code in corpus.languages:
        entries: dict[str, list[Files]] = {}
        for entry in corpus.files.get("train", {}).get(code, ()):
            if not (corpus.reverse and entry.back_translated):
                entries.setdefault(entry.name, []).append(entry)
        for name, same_name in entries.items():
            files = _hashes(same_name, corpus.root)
            corpus_origins.append(_origin((code, name), same_name, files, report, overlap_file))
    for code in corpus.monolingual:
        for entry in corpus.files[MONOLINGUAL][code]:
            text = mixing.monolingual(code)
            corpus_origins.append(
                CorpusOrigin(text, entry.name, files=_hashes([entry], corpus.root))
            )
    return corpus_origins


def _origin(
    key: EntryKey,
    entries: Sequence[Files],
    files: dict[str, str],
    report: Report | None,
    listed: str,
) -> CorpusOrigin:
    """Returns the origin of one corpus of a language, with its entries and hashes of their files.
    """
    tally = report.tallies.get(key) if report else None
    pairs = sum(readers.count(entry._replace(sample=0)) for entry in entries) if tally else 0
    if report is None or tally is None or pairs != tally.kept:
        return CorpusOrigin(*key, files=files)
    return CorpusOrigin(
        *key, files=dict(report.files.get(key, files)), read=tally.read, kept=tally.kept,
        dropped=dict(tally.dropped), changed=dict(tally.changed),
        tests=list(report.tests.get(key, ())), listed=listed,
    )  # fmt: skip


def _report(file: Path) -> Report | None:
    """Returns the report of a cleaned corpus, or None without one."""
    return Report.read_from(file) if file.is_file() else None


@functools.lru_cache(maxsize=1 << 16)  # languages often share the English file
def _hash(path: Path, _modified: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
