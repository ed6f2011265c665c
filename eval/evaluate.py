"""Translates a test set, scores it per language, and adds the rows to results.jsonl.

The sentences of all languages are one stream for the translator. A language is scored and written
after its last sentence, so an interruption loses no finished language.
"""

import dataclasses
import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from eval import metrics
from eval.analyses import update
from eval.metrics import Metrics
from eval.records import analysis, results
from eval.records.results import Row
from eval.systems import System
from eval.testsets import TestSet, check_documents
from mmt.decoding import DEFAULT, Decoding
from mmt.system.progress import SENTENCES, progress_bar

GREEDY = Decoding(beam=1, alpha=0.0)


class Translates(Protocol):
    """The part of `mmt.translate.Translator` that an evaluation uses."""

    @property
    def tagged(self) -> bool:
        """Returns whether a tag names the target language; if not, lines are passed unchanged."""

    @property
    def routes_by_language(self) -> bool:
        """Returns whether `translate` also needs the language of every line, as `sources`."""

    def translate(self, lines: Iterable[str], *, target: str | None, decoding: Decoding) -> Any:
        """Yields for every line, in order, something with `.hypotheses[0].text`."""


def evaluate(
    translator: Translates,
    testset: TestSet,
    *,
    system: System,
    out: Path,
    decoding: Decoding = DEFAULT,
    scores: Metrics = metrics.DEFAULT_METRICS,
    decode: str = "",
    by_document: bool = False,
) -> list[Row]:
    """Scores `system` on every language of `testset` and adds the rows to `out`.

    The texts are written to `hypotheses/` in the folder of `out`, see `update.stem`.
    `analysis.jsonl` in this folder gets intervals and output checks for each row. A language is
    skipped if its last row has the same checkpoint, decoding, config and `scores`, and its texts
    are those of this test set. Progress is shown on stderr.

    Args:
        system: the system; rows have its name, kind, checkpoint and config.
        out: the results file.
        scores: metrics in addition to BLEU and chrF++.
        decode: text by which rows record the decoding; by default `str(decoding)`.
        by_document: whether the translator uses previous lines as context, and an empty line ends a
            document: it then gets one before each document.

    Returns the rows of all languages, in the order of the test set.

    Raises:
        ValueError: the results file is broken, or the translator routes by language and lacks one;
            or `by_document`, and the documents of a language are unknown.
        OSError: a file cannot be written. Both errors precede the first translation.
    """
    _check_names(system, testset, out)
    results.add_rows(out, [])
    _describe(testset, analysis.path_for(out))
    scorer = _LanguageScorer(testset, system, decode or str(decoding), out, scores)
    scorer.folder.mkdir(parents=True, exist_ok=True)
    finished = scorer.finished()
    update.update_rows(out, finished.values())
    remaining = [code for code in testset.languages if code not in finished]
    if notice := scorer.replacement_notice(remaining):
        print(f"{out}: {notice}", file=sys.stderr)
    inputs = {code: _inputs(testset, code, by_document) for code in remaining}
    stream = _Timed(line or "" for lines in inputs.values() for line in lines)
    options = _options(translator, testset, inputs)
    texts = stream.times(translator.translate(stream, decoding=decoding, **options))
    with progress_bar(*SENTENCES) as bar:
        total = sum(len(testset.languages[code].sources) for code in remaining)
        task = bar.add_task(system.name, total=total)
        for code in remaining:
            hypotheses, seconds = [], 0.0
            for line, (translation, cost) in zip(inputs[code], texts, strict=False):
                seconds += cost
                if line is not None:
                    hypotheses.append(_one_line(translation.hypotheses[0].text))
                    bar.advance(task)
            finished[code] = scorer.score(code, hypotheses, seconds)
            bar.update(task, description=f"{system.name} {code} {finished[code].bleu:.1f} BLEU")
    return [finished[code] for code in testset.languages]


def _check_names(system: System, testset: TestSet, out: Path) -> None:
    """Raises ValueError for names that rows, folders or a results file cannot have."""
    if system.kind == "bilingual":
        results.check_name(system.name, "system")
    else:
        results.check_system(system.name)
    results.check_name(testset.name, "testset")
    if out.name == analysis.path_for(out).name:
        raise ValueError(f"{out}: this name is reserved for analysis rows; choose another name")


def _describe(testset: TestSet, file: Path) -> None:
    """Writes the test set's domain, licence and citation to an analysis file."""
    description = analysis.TestsetDescription(
        testset=testset.name,
        target=testset.target,
        domain=testset.domain,
        licence=testset.licence,
        citation=testset.citation,
    )
    stored = {row.key: row for row in analysis.read(file)}
    has_facts = description.domain or description.licence or description.citation
    if description != stored.get(description.key) and (description.key in stored or has_facts):
        analysis.add(file, [description])


def validation_translations(
    translator: Translates, testset: TestSet, *, decoding: Decoding = GREEDY
) -> dict[str, list[str]]:
    """Returns translations per language, for validation during training.

    testset: a few sentences per language, for example of `testsets.from_cache`. Nothing is written.
    """
    inputs = {code: sentences.sources for code, sentences in testset.languages.items()}
    options = _options(translator, testset, inputs)
    lines = itertools.chain.from_iterable(inputs.values())
    stream = translator.translate(lines, decoding=decoding, **options)
    return {
        code: [next(stream).hypotheses[0].text for _ in sentences.sources]
        for code, sentences in testset.languages.items()
    }


def validation_bleu(
    testset: TestSet, translations: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Returns BLEU per language of `validation_translations`.

    N-gram orders that short lines lack are omitted (sacreBLEU's effective order).
    """
    return {
        code: metrics.score(
            translations[code], sentences.references, effective_order=True
        ).bleu
        for code, sentences in testset.languages.items()
    }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _LanguageScorer:
    """Scores one system on one test set; writes its texts and rows."""

    testset: TestSet
    system: System
    decode: str
    out: Path
    scores: Metrics

    @property
    def folder(self) -> Path:
        return self.out.parent / "hypotheses" / self.system.name / self.testset.name

    def score(
        self, code: str, hypotheses: list[str], seconds: float, stored: Row | None = None
    ) -> Row:
        """Writes texts and row of a language. It keeps the metrics of `stored`, its former row."""
        lines = self.testset.languages[code]
        references = [_one_line(line) for line in lines.references]
        if stored:
            names = [field.name for field in dataclasses.fields(metrics.Scores)]
            former = metrics.Scores(**{name: getattr(stored, name) for name in names})
            scores = metrics.score_again(hypotheses, references, former, also=self.scores)
        else:
            scores = metrics.score(hypotheses, references, also=self.scores)
        row = Row(
            system=self.system.name,
            kind=self.system.kind,
            testset=self.testset.name,
            source=code,
            target=self.testset.target,
            sentences=len(references),
            train_pairs=self.system.train_pairs.get(code, 0),
            checkpoint=self.system.checkpoint,
            decode=self.decode,
            seconds=round(seconds, 3),
            config=self.system.config,
            testset_version=self.testset.version(code),
            weights=stored.weights if stored else self.system.weights,
            **dataclasses.asdict(scores),
        )
        # References are written last: their presence marks a complete language (see `finished`).
        self._path(row, "ref").unlink(missing_ok=True)
        results.write_atomically(self._path(row, "hyp"), _joined(hypotheses))
        results.add_rows(self.out, [row])
        for suffix, text in self._texts(code).items():
            results.write_atomically(self._path(row, suffix), text)
        update.update_rows(self.out, [row])
        return row

    def finished(self) -> dict[str, Row]:
        """Returns the rows that need no new translation, by language.

        A row without a requested metric, or with one of another sacreBLEU version, is scored again
        from the stored texts. It keeps its other metrics.
        """
        required = {
            "kind": self.system.kind,
            "checkpoint": self.system.checkpoint,
            "decode": self.decode,
            "config": self.system.config,
        }
        # Only the last row has its texts and counts in a report, so an earlier one is not finished.
        last_rows = {
            row.source: row
            for row in results.read_rows(self.out)
            if (row.system, row.testset, row.target)
            == (self.system.name, self.testset.name, self.testset.target)
        }
        finished = {
            code: row
            for code, row in last_rows.items()
            if all(getattr(row, name) == value for name, value in required.items())
            and row.weights in (None, self.system.weights)
            and code in self.testset.languages
            and self._has_current_texts(row)
        }
        signatures = {
            name: value for name, value in metrics.signatures(self.scores).items() if value
        }
        lost = []
        for code, row in list(finished.items()):
            if any(getattr(row, name) != value for name, value in signatures.items()):
                del finished[code]
                stored = update.ScoredTexts(row, self.out).path("hyp")
                hypotheses = stored.read_bytes().decode().split("\n")[:-1]
                if len(hypotheses) == row.sentences:
                    finished[code] = self.score(code, hypotheses, row.seconds, stored=row)
                    if row.spbleu is not None and finished[code].spbleu is None:
                        lost.append(row)
        if lost:
            print(
                f"{self.out}: {len(lost)} rows of {self.system.name} on {self.testset.name} no "
                f"longer have spBLEU ({lost[0].spbleu_signature}): its model is missing and "
                "sacreBLEU has changed; --gin.Metrics.spbleu names the place of the model",
                file=sys.stderr,
            )
        return finished

    def replacement_notice(self, codes: Sequence[str]) -> str:
        """Returns a message about replaced rows of another model or other sentences, else ''."""
        reasons = []
        candidates = [
            row for row in results.read_rows(self.out)
            if (row.system, row.testset) == (self.system.name, self.testset.name)
            and (row.checkpoint, row.decode) == (self.system.checkpoint, self.decode)
            and row.target == self.testset.target and row.source in codes
        ]  # fmt: skip
        if other_models := [row for row in candidates if row.config != self.system.config]:
            reasons.append(
                f"{len(other_models)} from a different model with this name (config "
                f"{other_models[0].config}, now {self.system.config})"
            )
        elif retrained := [
            row for row in candidates if row.weights not in (None, self.system.weights)
        ]:
            reasons.append(f"{len(retrained)} from a model with this name and other weights")
        version = self.testset.version
        if other_versions := [
            row for row in candidates if row.testset_version not in (None, version(row.source))
        ]:
            reasons.append(f"{len(other_versions)} of another version of the test set")
        if not reasons:
            return ""
        subject = f"rows of {self.system.name} on {self.testset.name} are replaced"
        return f"{subject}: {', '.join(reasons)}"

    def _has_current_texts(self, row: Row) -> bool:
        """Returns whether the translations exist and their sources and references are unchanged."""
        stored = update.ScoredTexts(row, self.out)
        return stored.has_texts and all(
            stored.path(suffix).read_bytes() == text
            for suffix, text in self._texts(row.source).items()
        )

    def _path(self, row: Row, suffix: str) -> Path:
        stem = update.stem(self.out, row)
        return stem.with_name(f"{stem.name}.{suffix}")

    def _texts(self, code: str) -> dict[str, bytes]:
        lines = self.testset.languages[code]
        return {"src": _joined(lines.sources), "ref": _joined(lines.references)}


class _Timed:
    """Divides a translator's time among its lines, although it reads ahead.

    Time is divided among the lines that the translator has read but not yet returned, in proportion
    to their characters. The times of all lines add up to the total.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._held: deque[tuple[int, float]] = deque()  # characters; rate at reading
        self._characters = 0
        self._rate = 0.0  # total seconds per character

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._held.append((len(line) + 1, self._rate))
            self._characters += len(line) + 1
            yield line

    def times(self, outputs: Iterable[Any]) -> Iterator[tuple[Any, float]]:
        """Yields every output with its seconds."""
        iterator = iter(outputs)
        while True:
            start = time.perf_counter()
            try:
                output = next(iterator)
            except StopIteration:
                return
            self._rate += (time.perf_counter() - start) / self._characters
            characters, before = self._held.popleft()
            self._characters -= characters
            yield output, characters * (self._rate - before)


def _inputs(testset: TestSet, code: str, by_document: bool) -> Sequence[str | None]:
    """Returns the lines of a language; `by_document`, None precedes each document.

    Raises ValueError if its documents are unknown.
    """
    sentences = testset.languages[code]
    if not by_document:
        return sentences.sources
    check_documents(testset, code)
    return [
        each
        for line, follows in zip(sentences.sources, sentences.follows, strict=True)
        for each in ((line,) if follows else (None, line))
    ]


def _options(
    translator: Any, testset: TestSet, inputs: Mapping[str, Sequence[str | None]]
) -> dict[str, Any]:
    """Returns the language arguments of `translate` for the lines of languages.

    `target` is None if the model uses no tags. `sources` is given if it routes by language.
    """
    options: dict[str, Any] = {"target": testset.target if translator.tagged else None}
    if translator.routes_by_language:
        for code in inputs:
            translator.language_id(code, testset.target)
        options["sources"] = (code for code, lines in inputs.items() for _ in lines)
    return options


def _one_line(text: str) -> str:
    """Returns the text without line breaks."""
    return text.replace("\r", " ").replace("\n", " ")


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(_one_line(line) + "\n" for line in lines).encode()
