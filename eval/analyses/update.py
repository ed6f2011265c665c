"""Updates analysis.jsonl from the rows of results files and the stored texts.

It computes intervals, output checks, test-set quality, paired tests and training overlap. Rows with
a current hash of their texts are not computed again, except comparisons with given training lines.
"""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from eval import metrics
from eval.analyses import output_checks, significance, testset_quality, train_overlap
from eval.analyses.significance import Judged
from eval.analyses.train_overlap import TrainingTargets
from eval.records import analysis, results
from eval.records.results import Row
from mmt.system.progress import track

SUFFIXES = ("src", "hyp", "ref")
ENGLISH = "eng_Latn"
_ROWS_PER_WRITE = 500  # rows per write of the file

_StoredRows: TypeAlias = dict[tuple[str, ...], analysis.Row]  # by key


def stem(results_file: Path, row: Row) -> Path:
    """Returns the path of a row's texts without suffix: `<stem>.src`, `.hyp`, `.ref`.

    It ends in the source, and in `<source>-<target>` for a target that is not English.
    """
    name = row.source if row.target == ENGLISH else f"{row.source}-{row.target}"
    return results_file.parent / "hypotheses" / row.system / row.testset / name


def update(files: Sequence[Path], *, training: TrainingTargets | None = None) -> int:
    """Adds missing and outdated rows to the `analysis.jsonl` of each file; returns their number.

    If rows of results differ only in checkpoint or decoding, the last one counts, because only its
    texts are stored. The added rows are:
    * `interval`, `guards`, `counts` and `trust` for each row with texts;
    * `overlap`, only with `training`;
    * `paired` for every multilingual system against the best bilingual one, which
      `comparison.compare` chooses, and against each other multilingual one with the same sentences.
      Systems of an ablation, `NAME:VALUE`, are paired among themselves.

    Texts that do not give a row's scores are ignored. If a row has no other ones, `paired` uses its
    `counts`. Raises ValueError for a broken row, for texts of unequal numbers of lines, and for
    counts that do not give their row's BLEU.
    """
    files = [file.resolve() for file in files]
    stored = {
        file: {row.key: row for row in analysis.read(analysis.path_for(file))} for file in files
    }
    languages: dict[tuple[str, ...], list[ScoredTexts]] = {}  # they cache their texts
    for scored in newest(files):
        counts = stored[scored.file].get(("counts", *scored.row.key))
        if isinstance(counts, analysis.SentenceCounts):
            scored = dataclasses.replace(scored, counts=counts)
        about = scored.row.testset, scored.row.target, scored.row.source
        languages.setdefault(about, []).append(scored)
    count, new_rows = 0, list[tuple[Path, analysis.Row]]()
    for key in track(list(languages), "intervals and output checks", disable=None, transient=True):
        of_language = languages.pop(key)
        for scored in of_language:
            scored.check()
        new_rows += _missing_rows(of_language, stored, training)
        if len(new_rows) >= _ROWS_PER_WRITE:
            count += _write(new_rows)
            new_rows = []
    return count + _write(new_rows)


def newest(files: Sequence[Path]) -> list["ScoredTexts"]:
    """Returns the rows of results files; of rows that differ only in checkpoint or decoding, the
    last one.
    """
    latest: dict[tuple[str, str, str, str], ScoredTexts] = {}
    for file in files:
        for row in results.read_rows(file):
            about = row.testset, row.target, row.source, row.system
            latest.pop(about, None)
            latest[about] = ScoredTexts(row, file)
    return list(latest.values())


def update_rows(file: Path, rows: Iterable[Row]) -> None:
    """Adds missing `interval`, `guards`, `counts` and `trust` rows for rows of a results file."""
    stored = {file: {row.key: row for row in analysis.read(analysis.path_for(file))}}
    new_rows: list[tuple[Path, analysis.Row]] = []
    for row in rows:
        scored = ScoredTexts(row, file)
        if scored.has_texts:
            new_rows += _missing_single_rows(scored, stored[file], None)
    _write(new_rows)


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredTexts:
    """A row, its file, and its texts, which are read on first use.

    counts: the stored counts, for rows without texts.
    """

    row: Row
    file: Path
    counts: analysis.SentenceCounts | None = None

    @functools.cached_property
    def stem(self) -> Path:
        """Returns the path of the texts without suffix.

        Earlier versions stored those of all targets in one place, where they may be another row's.
        """
        path = stem(self.file, self.row)
        former = path.with_name(self.row.source)
        if not _are_stored(path) and _are_stored(former) and _counts_of(_read(former), self.row):
            return former
        return path

    @property
    def has_texts(self) -> bool:
        return _are_stored(self.stem)

    def path(self, suffix: str) -> Path:
        return _path(self.stem, suffix)

    @functools.cached_property
    def hash(self) -> str:
        """Returns the hash of the texts, `cat x.src x.hyp x.ref | sha256sum | head -c 12`."""
        return self._stand_in.hypotheses if self._stand_in else self._hash_of_texts

    @functools.cached_property
    def references(self) -> str | None:
        """Returns the hash of the references, or None if unknown."""
        if self._stand_in:
            return self._stand_in.references
        return _hash([self.path("ref").read_bytes()]) if self.has_texts else None

    @functools.cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        return _read(self.stem)

    @functools.cached_property
    def lines(self) -> list[tuple[str, str, str]]:
        return list(zip(*(self.texts[suffix] for suffix in SUFFIXES), strict=True))

    @functools.cached_property
    def judged(self) -> Judged | None:
        """Returns the row with its counts; None if the texts do not give the row's scores."""
        counts = _counts_of(self.texts, self.row)
        if counts is None:
            return None
        return Judged(counts.bleu, counts.chrf, self.row, self._hash_of_texts)

    @functools.cached_property
    def _hash_of_texts(self) -> str:
        return _hash(self.path(suffix).read_bytes() for suffix in SUFFIXES)

    @functools.cached_property
    def _stand_in(self) -> analysis.SentenceCounts | None:
        """Returns the stored counts if there are no texts, or only those of another row."""
        if not self.counts or not self.has_texts:
            return self.counts
        is_own = self.counts.hypotheses == self._hash_of_texts or self.judged is not None
        return None if is_own else self.counts

    def check(self) -> None:
        """Raises ValueError if there are no texts and the counts do not give the row's BLEU."""
        if not self.has_texts:
            _ = self.compared

    @functools.cached_property
    def compared(self) -> Judged | None:
        """Returns the row with BLEU's counts, from its texts or else from its stored counts."""
        if not self._stand_in:
            return self.judged if self.has_texts else None
        bleu = metrics.unpacked(self._stand_in.packed, self._stand_in.sentences)
        score = metrics.bleu(bleu.sum(axis=0))
        if len(bleu) != self.row.sentences or abs(score - self.row.bleu) > 1e-3:
            if self.has_texts:
                return None  # the row is not that of the texts either
            raise ValueError(
                f"{analysis.path_for(self.file)}: counts of {self.row.system}, {self.row.testset}, "
                f"{self.row.source} give {len(bleu)} sentences and BLEU {score:.4f}, its row in "
                f"{self.file.name} has {self.row.sentences} and {self.row.bleu:.4f}; one of them "
                "was changed: evaluate again"
            )
        return Judged(bleu, None, self.row, self.hash)


def _missing_rows(
    of_language: Sequence[ScoredTexts],
    stored: Mapping[Path, _StoredRows],
    training: TrainingTargets | None,
) -> Iterator[tuple[Path, analysis.Row]]:
    """Yields the missing rows of one language of one test set."""
    for scored in of_language:
        if scored.has_texts:
            yield from _missing_single_rows(scored, stored[scored.file], training)
    for first, second, both_directions in _pairs(of_language):
        directions = ((first, second), (second, first)) if both_directions else ((first, second),)
        stale = [pair for pair in directions if not _has_current_test(*pair, stored[pair[0].file])]
        if not stale or first.compared is None or second.compared is None:
            continue
        row = significance.paired(first.compared, second.compared)
        for owner, _ in stale:
            is_forward = owner is first
            yield (
                owner.file,
                row if is_forward else significance.mirrored(row, first.row, second.row),
            )


def _pairs(of_language: Sequence[ScoredTexts]) -> Iterator[tuple[ScoredTexts, ScoredTexts, bool]]:
    """Yields pairs of systems to compare, and whether to compare them in both directions."""
    multilingual = [scored for scored in of_language if scored.row.kind == "multilingual"]
    bilingual = [scored for scored in of_language if scored.row.kind == "bilingual"]
    best = max(bilingual, key=lambda scored: scored.row.bleu, default=None)
    candidates = [(scored, best, False) for scored in multilingual if best is not None]
    candidates += [
        (first, second, True)
        for first, second in itertools.combinations(multilingual, 2)
        if _ablation(first.row.system) == _ablation(second.row.system)
    ]
    for first, second, both_directions in candidates:
        if first.references is not None and first.references == second.references:
            yield first, second, both_directions


def _ablation(system: str) -> str:
    """Returns NAME of a system called `NAME:VALUE`, else ""."""
    name, _, value = system.partition(":")
    return name if value else ""


def _has_current_test(first: ScoredTexts, second: ScoredTexts, stored: _StoredRows) -> bool:
    about = ("paired", *first.row.key, second.row.system, second.row.checkpoint)
    row = stored.get(about)
    return isinstance(row, analysis.Paired) and (row.hypotheses, row.against_hypotheses) == (
        first.hash,
        second.hash,
    )


def _missing_single_rows(
    scored: ScoredTexts, stored: _StoredRows, training: TrainingTargets | None
) -> Iterator[tuple[Path, analysis.Row]]:
    """Yields the missing rows about one row of results, without paired tests."""
    row = scored.row

    def is_current(kind: str) -> bool:
        return getattr(stored.get((kind, *row.key)), "hypotheses", None) == scored.hash

    no_interval, no_counts = not is_current("interval"), not is_current("counts")
    # The rows do not name the training lines they were compared with, which may be others now.
    no_checks = not is_current("guards") or training is not None
    no_quality = ("trust", row.testset, row.source, row.target) not in stored
    if not (no_interval or no_counts or no_checks or no_quality) or scored.judged is None:
        return
    if no_interval:
        yield scored.file, significance.interval(scored.judged)
    if no_counts:
        yield scored.file, _counts(scored, scored.judged)
    if no_checks:
        checks: list[analysis.Row] = [
            output_checks.check(row, scored.lines, scored.hash, training=training)
        ]
        if training is not None:
            checks.append(train_overlap.measure(scored.judged, scored.texts["ref"], training))
        yield from ((scored.file, each) for each in checks if stored.get(each.key) != each)
    lines = [(source, reference) for source, _, reference in scored.lines]
    quality = testset_quality.rate(row.testset, row.source, row.target, lines)
    if stored.get(quality.key) != quality:
        stored[quality.key] = quality
        yield scored.file, quality


def _counts(scored: ScoredTexts, judged: Judged) -> analysis.SentenceCounts:
    return analysis.SentenceCounts(
        **significance.key_of(scored.row),
        packed=metrics.packed(judged.bleu),
        sentences=scored.row.sentences,
        hypotheses=scored.hash,
        references=scored.references or "",
    )


def _write(pairs: Sequence[tuple[Path, analysis.Row]]) -> int:
    for file in dict.fromkeys(file for file, _ in pairs):
        analysis.add(analysis.path_for(file), [row for path, row in pairs if path == file])
    return len(pairs)


def _hash(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def _path(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


def _are_stored(stem: Path) -> bool:
    return all(_path(stem, suffix).is_file() for suffix in SUFFIXES)


def _read(stem: Path) -> dict[str, tuple[str, ...]]:
    """Returns the lines of stored texts by suffix."""
    lines = {suffix: _lines(_path(stem, suffix)) for suffix in SUFFIXES}
    for suffix in ("src", "hyp"):
        if len(lines[suffix]) != len(lines["ref"]):
            raise ValueError(
                f"{_path(stem, suffix)} has {len(lines[suffix])} lines, {_path(stem, 'ref')} has "
                f"{len(lines['ref'])}: they must be parallel; evaluate again"
            )
    return lines


def _counts_of(texts: Mapping[str, tuple[str, ...]], row: Row) -> metrics.Statistics | None:
    """Returns the counts of texts; None if they do not give the row's scores."""
    if len(texts["ref"]) != row.sentences:
        return None
    statistics = _references(texts["ref"]).statistics(texts["hyp"])
    scores = (
        (metrics.bleu(statistics.bleu.sum(axis=0)), row.bleu),
        (metrics.chrf(statistics.chrf.sum(axis=0)), row.chrf),
    )
    is_of_row = all(abs(computed - written) <= 1e-3 for computed, written in scores)
    return statistics if is_of_row else None


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_bytes().decode().removesuffix("\n").split("\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte {error.start + 1}") from error


@functools.lru_cache(maxsize=2)
def _references(lines: tuple[str, ...]) -> metrics.References:
    """Returns the references of a language, cached for all systems."""
    return metrics.References(lines)
