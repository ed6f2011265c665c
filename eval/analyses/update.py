"""Updates analysis.jsonl from the rows of results files and the stored texts.

The rows are intervals, output checks, test-set quality, paired tests and training overlap. A row
with a current hash of the texts is not computed again.
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
_AT_ONCE = 500  # rows per write of the file

_Known: TypeAlias = dict[tuple[str, ...], analysis.Row]  # by key


def stem(results_file: Path, system: str, testset: str, source: str) -> Path:
    """Returns the path of a row's texts without suffix: `<stem>.src`, `.hyp`, `.ref`."""
    return results_file.parent / "hypotheses" / system / testset / source


def update(files: Sequence[Path], *, training: TrainingTargets | None = None) -> int:
    """Adds missing and outdated rows to `analysis.jsonl` beside each file; returns their number.

    If rows differ only in checkpoint or decoding, the last one counts, because its texts are
    stored. The rows are:
    * `interval`, `guards`, `counts` and `trust` for each row with texts;
    * `overlap`, only with `training`;
    * `paired` for every multilingual system against the best bilingual one, which
      `comparison.compare` chooses, and against each other multilingual one with the same sentences.
      Systems of an ablation, `NAME:VALUE`, are paired among themselves.

    Texts that do not give a row's scores are ignored. If a row has no texts, `paired` uses its
    `counts`. Raises ValueError for a broken row, for texts of unequal numbers of lines, and for
    counts that do not give their row's BLEU.
    """
    files = [file.resolve() for file in files]
    known = {
        file: {row.key: row for row in analysis.read(analysis.beside(file))} for file in files
    }
    languages: dict[tuple[str, ...], list[ScoredTexts]] = {}  # items cache their texts
    for item in newest(files):
        counts = known[item.file].get(("counts", *item.row.key))
        if isinstance(counts, analysis.SentenceCounts):
            item = dataclasses.replace(item, counts=counts)
        about = item.row.testset, item.row.target, item.row.source
        languages.setdefault(about, []).append(item)
    count, waiting = 0, list[tuple[Path, analysis.Row]]()
    for key in track(list(languages), "intervals and output checks", disable=None, transient=True):
        items = languages.pop(key)
        for item in items:
            item.check()
        waiting += _missing(items, known, training)
        if len(waiting) >= _AT_ONCE:
            count += _write(waiting)
            waiting = []
    return count + _write(waiting)


def newest(files: Sequence[Path]) -> list["ScoredTexts"]:
    """Returns the rows of results files; of those with other checkpoint or decoding, the last."""
    items: dict[tuple[str, str, str, str], ScoredTexts] = {}
    for file in files:
        for row in results.read_rows(file):
            about = row.testset, row.target, row.source, row.system
            items.pop(about, None)
            items[about] = ScoredTexts(row, file)
    return list(items.values())


def of_rows(file: Path, rows: Iterable[Row]) -> None:
    """Adds missing `interval`, `guards`, `counts` and `trust` rows for some rows of a results file.
    """
    known = {file: {row.key: row for row in analysis.read(analysis.beside(file))}}
    waiting: list[tuple[Path, analysis.Row]] = []
    for row in rows:
        item = ScoredTexts(row, file)
        if item.is_there:
            waiting += _alone(item, known[file], None)
    _write(waiting)


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
        return stem(self.file, self.row.system, self.row.testset, self.row.source)

    @property
    def is_there(self) -> bool:
        return all(self.path(suffix).is_file() for suffix in SUFFIXES)

    def path(self, suffix: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{suffix}")

    @functools.cached_property
    def hash(self) -> str:
        """Returns the hash of the texts, `cat x.src x.hyp x.ref | sha256sum | head -c 12`."""
        if not self.is_there and self.counts:
            return self.counts.hypotheses
        return _hash(self.path(suffix).read_bytes() for suffix in SUFFIXES)

    @functools.cached_property
    def references(self) -> str | None:
        """Returns the hash of its references, or None if unknown."""
        if self.is_there:
            return _hash([self.path("ref").read_bytes()])
        return self.counts.references if self.counts else None

    @functools.cached_property
    def texts(self) -> dict[str, tuple[str, ...]]:
        lines = {suffix: _lines(self.path(suffix)) for suffix in SUFFIXES}
        for suffix in ("src", "hyp"):
            if len(lines[suffix]) != len(lines["ref"]):
                raise ValueError(
                    f"{self.path(suffix)} has {len(lines[suffix])} lines, {self.path('ref')} has "
                    f"{len(lines['ref'])}: they must be parallel; evaluate again"
                )
        return lines

    @functools.cached_property
    def lines(self) -> list[tuple[str, str, str]]:
        return list(zip(*(self.texts[suffix] for suffix in SUFFIXES), strict=True))

    @functools.cached_property
    def judged(self) -> Judged | None:
        """Returns the row with its counts; None if the texts do not give the row's scores."""
        if len(self.texts["ref"]) != self.row.sentences:
            return None
        statistics = _references(self.texts["ref"]).statistics(self.texts["hyp"])
        scores = (
            (metrics.bleu(statistics.bleu.sum(axis=0)), self.row.bleu),
            (metrics.chrf(statistics.chrf.sum(axis=0)), self.row.chrf),
        )
        if any(abs(computed - written) > 1e-3 for computed, written in scores):
            return None
        return Judged(self.row, statistics.bleu, statistics.chrf, self.hash)

    def check(self) -> None:
        """Raises ValueError if there are no texts and the counts do not give the row's BLEU."""
        if not self.is_there:
            _ = self.compared

    @functools.cached_property
    def compared(self) -> Judged | None:
        """Returns the row with BLEU's counts, from its texts or else from its stored counts."""
        if self.is_there:
            return self.judged
        if not self.counts:
            return None
        bleu = metrics.unpacked(self.counts.packed, self.counts.sentences)
        score = metrics.bleu(bleu.sum(axis=0))
        if len(bleu) != self.row.sentences or abs(score - self.row.bleu) > 1e-3:
            raise ValueError(
                f"{analysis.beside(self.file)}: counts of {self.row.system}, {self.row.testset}, "
                f"{self.row.source} give {len(bleu)} sentences and BLEU {score:.4f}, its row in "
                f"{self.file.name} has {self.row.sentences} and {self.row.bleu:.4f}; one of them "
                "was changed: evaluate again"
            )
        return Judged(self.row, bleu, None, self.hash)


def _missing(
    items: Sequence[ScoredTexts],
    known: Mapping[Path, _Known],
    training: TrainingTargets | None,
) -> Iterator[tuple[Path, analysis.Row]]:
    """Yields the missing rows of one language of one test set."""
    for item in items:
        if item.is_there:
            yield from _alone(item, known[item.file], training)
    for ours, theirs, both in _pairs(items):
        directions = ((ours, theirs), (theirs, ours)) if both else ((ours, theirs),)
        stale = [pair for pair in directions if not _is_paired(*pair, known[pair[0].file])]
        if not stale or ours.compared is None or theirs.compared is None:
            continue
        row = significance.paired(ours.compared, theirs.compared)
        for side, _ in stale:
            forward = side is ours
            yield side.file, row if forward else significance.mirrored(row, ours.row, theirs.row)


def _pairs(items: Sequence[ScoredTexts]) -> Iterator[tuple[ScoredTexts, ScoredTexts, bool]]:
    """Yields the systems to compare, and whether in both directions."""
    many = [item for item in items if item.row.kind == "multilingual"]
    bilingual = [item for item in items if item.row.kind == "bilingual"]
    best = max(bilingual, key=lambda item: item.row.bleu, default=None)
    candidates = [(item, best, False) for item in many if best is not None]
    candidates += [
        (first, second, True)
        for first, second in itertools.combinations(many, 2)
        if _ablation(first.row.system) == _ablation(second.row.system)
    ]
    for first, second, both in candidates:
        if first.references is not None and first.references == second.references:
            yield first, second, both


def _ablation(system: str) -> str:
    """Returns NAME of a system called `NAME:VALUE`, else ""."""
    name, _, value = system.partition(":")
    return name if value else ""


def _is_paired(ours: ScoredTexts, theirs: ScoredTexts, known: _Known) -> bool:
    about = ("paired", *ours.row.key, theirs.row.system, theirs.row.checkpoint)
    row = known.get(about)
    return isinstance(row, analysis.Paired) and (row.hypotheses, row.against_hypotheses) == (
        ours.hash,
        theirs.hash,
    )


def _alone(
    item: ScoredTexts, known: _Known, training: TrainingTargets | None
) -> Iterator[tuple[Path, analysis.Row]]:
    """Yields the missing rows of one result row, except pairs."""
    row, key = item.row, item.row.key
    interval, guard = known.get(("interval", *key)), known.get(("guards", *key))
    counts = known.get(("counts", *key))
    old = not (isinstance(interval, analysis.Interval) and interval.hypotheses == item.hash)
    uncounted = not (isinstance(counts, analysis.SentenceCounts) and counts.hypotheses == item.hash)
    unguarded = not (isinstance(guard, analysis.OutputChecks) and guard.hypotheses == item.hash)
    if training is not None and isinstance(guard, analysis.OutputChecks):
        shared = known.get(("overlap", *key))
        unguarded |= guard.recited is None or getattr(shared, "hypotheses", "") != item.hash
    unmarked = ("trust", row.testset, row.source, row.target) not in known
    if not (old or uncounted or unguarded or unmarked) or item.judged is None:
        return
    if old:
        yield item.file, significance.interval(item.judged)
    if uncounted:
        yield item.file, _counts(item, item.judged)
    if unguarded:
        yield item.file, output_checks.check(row, item.lines, item.hash, training=training)
        if training is not None:
            yield item.file, train_overlap.measure(item.judged, item.texts["ref"], training)
    lines = [(source, reference) for source, _, reference in item.lines]
    mark = testset_quality.rate(row.testset, row.source, row.target, lines)
    if known.get(mark.key) != mark:
        known[mark.key] = mark
        yield item.file, mark


def _counts(item: ScoredTexts, judged: Judged) -> analysis.SentenceCounts:
    return analysis.SentenceCounts(
        **significance.key_of(item.row),
        packed=metrics.packed(judged.bleu),
        sentences=item.row.sentences,
        hypotheses=item.hash,
        references=item.references or "",
    )


def _write(pairs: Sequence[tuple[Path, analysis.Row]]) -> int:
    for file in dict.fromkeys(file for file, _ in pairs):
        analysis.add(analysis.beside(file), [row for where, row in pairs if where == file])
    return len(pairs)


def _hash(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_bytes().decode().removesuffix("\n").split("\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8 at byte {error.start + 1}") from error


@functools.lru_cache(maxsize=2)
def _references(lines: tuple[str, ...]) -> metrics.References:
    """Returns the references of a language, cached for all systems."""
    return metrics.References(lines)
