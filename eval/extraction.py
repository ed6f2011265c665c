"""Compares a model with one that `mmt extract` took from it: size, speed and scores."""

import dataclasses
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval import evaluate, metrics, testsets
from eval.analyses import significance
from eval.analyses.significance import Counted
from eval.metrics import Scores
from eval.testsets import Sentences, TestSet
from mmt import languages
from mmt.data import corpora
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.decoding import DEFAULT, Decoding
from mmt.model import parameter_names
from mmt.run import Run
from mmt.translate import Translator, source_language

ORIGINAL, EXTRACTED, BASELINE = "original", "extracted", "baseline"
_TIMED_LINES = 128  # of all languages together
_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class ExtractionScores:
    """Sizes, times and scores of the models 'original', 'extracted' and, if given, 'baseline'.

    Attributes:
      parameters: number of parameters by model.
      seconds: of the same lines by model: the median of several rounds in turn, all warm. Empty
        without a test set.
      lines: the number of these lines.
      scores: model -> FLORES code -> scores. Empty without a test set.
      gain: of the original over the baseline, as `significance.mean_difference` returns it. Empty
        without a baseline or test set.
    """

    parameters: Mapping[str, int]
    seconds: Mapping[str, float]
    lines: int
    scores: Mapping[str, Mapping[str, Scores]]
    gain: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def mean(self, model: str, metric: str) -> float:
        """Returns the mean of a score ('bleu', 'chrf') over the languages."""
        return statistics.fmean(getattr(score, metric) for score in self.scores[model].values())

    def kept(self, metric: str) -> float | None:
        """Returns the share of the gain over the baseline that the extracted model keeps.

        It is (extracted - baseline) / (original - baseline), of means over the languages. None
        without a baseline, or if the 95 % interval of the gain is not above zero.
        """
        if not self.gain or self.gain[f"{metric}_low"] <= 0:
            return None
        return (self.mean(EXTRACTED, metric) - self.mean(BASELINE, metric)) / self.gain[metric]

    def table(self) -> str:
        """Returns a text table: a row per model, then a row per language if there are several."""
        rows = ["model\tparameters\tMB (float32)" + "\tseconds\tBLEU\tchrF++" * bool(self.scores)]
        for name, count in self.parameters.items():
            row = f"{name}\t{count:,}\t{count * 4 / 1e6:.1f}"
            if self.scores:
                row += f"\t{self.seconds[name]:.2f}"
                row += f"\t{self.mean(name, 'bleu'):.2f}\t{self.mean(name, 'chrf'):.2f}"
            rows.append(row)
        smaller = self.parameters[EXTRACTED] / self.parameters[ORIGINAL]
        size = f"extracted: {smaller:.0%} of the size"
        if not self.scores:
            return "\n".join([*rows, size])
        speed = self.seconds[ORIGINAL] / self.seconds[EXTRACTED]
        rows.append(f"{size}, {speed:.2f} times as fast ({self.lines} lines)")
        if self.gain:
            rows.append(f"the experts' gain: {self._gains()}")
            rows.append(f"share of it that is kept: {self._kept()}")
        if len(self.scores[ORIGINAL]) > 1:
            rows.append("language\tmodel\tBLEU\tchrF++")
            rows += [
                f"{code}\t{name}\t{scores[code].bleu:.2f}\t{scores[code].chrf:.2f}"
                for code in self.scores[ORIGINAL]
                for name, scores in self.scores.items()
            ]
        return "\n".join(rows)

    def _gains(self) -> str:
        return ", ".join(
            f"{name} {self.gain[metric]:+.2f} "
            f"({self.gain[f'{metric}_low']:+.2f} to {self.gain[f'{metric}_high']:+.2f})"
            for name, metric in (("BLEU", "bleu"), ("chrF++", "chrf"))
        )

    def _kept(self) -> str:
        shares = {"BLEU": self.kept("bleu"), "chrF++": self.kept("chrf")}
        return ", ".join(
            f"{name} {'- (no significant gain)' if share is None else f'{share:.0%}'}"
            for name, share in shares.items()
        )


def scoring_set(
    name: str | None, corpus: str | None, codes: Sequence[str], manifest: Manifest
) -> TestSet | None:
    """Returns the sentences of languages in a test set, by default the test split of a corpus.

    If there is no corpus, or none of its test lines are of a language, prints a message on stderr
    and returns None. It does so, too, for a model from one language: test sets are into one.

    Args:
        name: a test set as for `testsets.load`, or None.
        corpus: a corpus as for `corpora.load`; None: the run names none.
        codes: FLORES codes.
        manifest: of the model.

    Raises:
        ValueError: there is no such test set or corpus, the test set lacks a language, or the
            model translates from one language and a test set is given.
    """
    if manifest.source:
        direction = f"the model translates from {manifest.source}, test sets are into one language"
        if name is not None:
            raise ValueError(f"--testset {name}: {direction}")
        print(f"no scores: {direction}", file=sys.stderr)
        return None
    if name is not None:
        return testsets.for_model(name, manifest).only(codes)
    if corpus is None:
        reason = "the run names no corpus that is here"
    else:
        read = corpora.load(corpus)
        missing = [code for code in codes if not read.count(code, "test")]
        reason = f"the corpus {read.name} has no test lines of {', '.join(missing)}"
        if not missing:
            return testsets.load(corpus).only(codes)
    print(f"no scores: {reason}; --testset names a test set", file=sys.stderr)
    return None


def check_baseline(directory: str | Path, names: Sequence[str]) -> None:
    """Raises ValueError unless a run directory has a model that was trained on the languages.

    A model whose languages are not known is not checked for them.
    """
    run = Run(directory)
    run.check_is_model()
    run.best_step()
    known = read_manifest(run.manifest).translated
    for language in map(languages.find, names):
        try:
            source_language.check_trained(language, known, "source")
        except ValueError as error:
            raise ValueError(f"the baseline {directory}: {error}") from error


def compare(
    original: str | Path, extracted: str | Path, testset: TestSet | None,
    *, baseline: str | Path | None = None, decoding: Decoding = DEFAULT,
) -> ExtractionScores:  # fmt: skip
    """Returns sizes, times and scores of run directories on a test set, in float32.

    Args:
        original: the model with all experts.
        extracted: the extracted model.
        testset: sentences of the extracted languages; None: sizes alone are compared.
        baseline: a dense model, to measure the gain of the experts.
        decoding: options of the search.

    Raises:
        ValueError: a directory holds no model. See `check_baseline` for the languages.
    """
    directories = {ORIGINAL: original, EXTRACTED: extracted}
    if baseline is not None:
        directories[BASELINE] = baseline
    parameters = {name: _parameters(directory) for name, directory in directories.items()}
    if testset is None:
        return ExtractionScores(parameters, {}, 0, {})
    translators = {
        name: Translator.load(directory, weights="float32")
        for name, directory in directories.items()
    }
    texts = {
        name: evaluate.validation_translations(translator, testset, decoding=decoding)
        for name, translator in translators.items()
    }
    scores = {
        name: {
            code: metrics.score(of_model[code], sentences.references)
            for code, sentences in testset.languages.items()
        }
        for name, of_model in texts.items()
    }
    timed = _timed(testset)
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(_ROUNDS):
        for name, translator in translators.items():
            start = time.perf_counter()
            evaluate.validation_translations(translator, timed, decoding=decoding)
            seconds[name].append(time.perf_counter() - start)
    return ExtractionScores(
        parameters,
        {name: statistics.median(of_model) for name, of_model in seconds.items()},
        sum(len(sentences.sources) for sentences in timed.languages.values()),
        scores,
        _gain(texts, testset),
    )


def _gain(texts: Mapping[str, Mapping[str, Sequence[str]]], testset: TestSet) -> dict[str, float]:
    """Returns the gain of the original over the baseline. texts: by model and FLORES code."""
    if BASELINE not in texts:
        return {}
    pairs = []
    for code, sentences in testset.languages.items():
        references = metrics.References(sentences.references)
        original, baseline = (
            references.statistics(texts[name][code]) for name in (ORIGINAL, BASELINE)
        )
        pairs.append(
            (Counted(original.bleu, original.chrf), Counted(baseline.bleu, baseline.chrf))
        )
    return significance.mean_difference(pairs)


def _parameters(model_dir: str | Path) -> int:
    shapes = parameter_names.shapes(Run(model_dir).model())
    return sum(map(math.prod, shapes.values()))


def _timed(testset: TestSet) -> TestSet:
    """Returns the first lines of each language, which `compare` has translated before."""
    max_lines = max(_TIMED_LINES // len(testset.languages), 1)
    first_lines = {
        code: Sentences(sentences.sources[:max_lines], sentences.references[:max_lines])
        for code, sentences in testset.languages.items()
    }
    return TestSet(testset.name, testset.target, first_lines)
