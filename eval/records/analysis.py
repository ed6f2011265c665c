"""Rows of analysis.jsonl: all results of a report except the scores, which results.jsonl holds.

Both files are in one folder. Each line is a JSON object whose `kind` names one of the dataclasses
below. This module defines and checks rows; `eval/analyses` computes them. Shares are 0 to 1, scores
0 to 100; `source` and `target` are FLORES codes.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, get_args

from eval import metrics
from eval.records import results, rows
from eval.records.behaviour import BehaviourShares
from eval.records.contrastive import ContrastiveAccuracy
from eval.records.provenance import CorpusEffect, CorpusUses
from mmt.checked import HUGE, within

FILE = "analysis.jsonl"
MARKS = ("good", "fair", "poor")
_KEY = results.KEY


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Scored(rows.AnalysisRow):
    """A row that belongs to one row of results.jsonl and has its key."""

    about: ClassVar[tuple[str, ...]] = _KEY

    system: str
    testset: str
    source: str
    target: str
    checkpoint: str
    decode: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval(_Scored):
    """95 % intervals of BLEU and chrF++. hypotheses: hash of the texts."""

    kind: ClassVar[str] = "interval"

    bleu_low: float = dataclasses.field(metadata=rows.SCORE)
    bleu_high: float = dataclasses.field(metadata=rows.SCORE)
    chrf_low: float = dataclasses.field(metadata=rows.SCORE)
    chrf_high: float = dataclasses.field(metadata=rows.SCORE)
    resamples: int = dataclasses.field(metadata=rows.POSITIVE)
    seed: int
    hypotheses: str

    def _check(self) -> None:
        _check_order(self, "bleu_low", "bleu_high")
        _check_order(self, "chrf_low", "chrf_high")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputChecks(_Scored):
    """Shares of outputs that look wrong. recited: equal to a line of the training English.

    recited is None if the training data is unknown, not_english if the target is not English.
    hypotheses: hash of the texts.
    """

    kind: ClassVar[str] = "guards"

    copies: float = dataclasses.field(metadata=rows.SHARE)
    empty: float = dataclasses.field(metadata=rows.SHARE)
    short: float = dataclasses.field(metadata=rows.SHARE)
    long: float = dataclasses.field(metadata=rows.SHARE)
    looping: float = dataclasses.field(metadata=rows.SHARE)
    not_english: float | None = dataclasses.field(metadata=rows.SHARE)
    recited: float | None = dataclasses.field(metadata=rows.SHARE)
    sentences: int = dataclasses.field(metadata=rows.AMOUNT)
    hypotheses: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comet(_Scored):
    """The mean COMET of a row's sentences.

    model: name of its folder and hash of its checkpoint. hypotheses: hash of the texts.
    """

    kind: ClassVar[str] = "comet"

    score: float = dataclasses.field(metadata=within(-1e6, HUGE))
    model: str
    hypotheses: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paired(_Scored):
    """The difference of a system to another one (`against`) on the same sentences, with tests.

    delta: difference in BLEU; delta_low, delta_high: its 95 % interval. p_bootstrap,
    p_randomization: of BLEU, by paired bootstrap and by approximate randomisation. hypotheses,
    against_hypotheses: hashes of both systems' texts.
    """

    kind: ClassVar[str] = "paired"
    about: ClassVar[tuple[str, ...]] = (*_KEY, "against", "against_checkpoint")

    against: str
    against_checkpoint: str
    delta: float = dataclasses.field(metadata=rows.DIFFERENCE)
    delta_low: float = dataclasses.field(metadata=rows.DIFFERENCE)
    delta_high: float = dataclasses.field(metadata=rows.DIFFERENCE)
    p_bootstrap: float = dataclasses.field(metadata=rows.SHARE)
    p_randomization: float = dataclasses.field(metadata=rows.SHARE)
    chrf_delta: float = dataclasses.field(metadata=rows.DIFFERENCE)
    resamples: int = dataclasses.field(metadata=rows.POSITIVE)
    seed: int
    hypotheses: str
    against_hypotheses: str

    def _check(self) -> None:
        _check_order(self, "delta_low", "delta_high")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceCounts(_Scored):
    """BLEU's n-gram counts of every sentence.

    They allow comparison with other systems without the texts, which some test sets forbid to
    publish. packed: see `metrics.packed`. hypotheses: hash of all texts; references: hash of the
    references.
    """

    kind: ClassVar[str] = "counts"

    packed: str
    sentences: int = dataclasses.field(metadata=rows.AMOUNT)
    hypotheses: str
    references: str

    def _check(self) -> None:
        metrics.unpacked(self.packed, self.sentences)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TestsetDescription(rows.AnalysisRow):
    """Domain, licence and citation of a test set, as in `testsets.TestSet`; '' where unknown."""

    kind: ClassVar[str] = "texts"
    about: ClassVar[tuple[str, ...]] = ("testset", "target")

    system: str = ""
    testset: str
    target: str
    domain: str
    licence: str
    citation: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TestsetQuality(rows.AnalysisRow):
    """The quality of a test set in one language (`good`, `fair`, `poor`), and the reasons."""

    kind: ClassVar[str] = "trust"
    about: ClassVar[tuple[str, ...]] = ("testset", "source", "target")

    system: str = ""
    testset: str
    source: str
    target: str
    mark: str
    reasons: tuple[str, ...]
    sentences: int = dataclasses.field(metadata=rows.AMOUNT)

    def _check(self) -> None:
        rows.check_one_of("mark", self.mark, MARKS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bin(rows.Checked):
    """Test lines with an overlap of at least `low` and below `high`; the last bin includes 1.0.

    bleu: None for a bin without lines.
    """

    low: float = dataclasses.field(metadata=rows.SHARE)
    high: float = dataclasses.field(metadata=rows.SHARE)
    sentences: int = dataclasses.field(metadata=rows.AMOUNT)
    bleu: float | None = dataclasses.field(metadata=rows.SCORE)

    def _check(self) -> None:
        _check_order(self, "low", "high")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOverlap(_Scored):
    """BLEU by 4-gram overlap (0 to 1) of a test line's reference with the training English."""

    kind: ClassVar[str] = "overlap"

    bins: tuple[Bin, ...]
    hypotheses: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertLoad(rows.AnalysisRow):
    """The distribution of one language's tokens over the experts of one layer, on a test set.

    layer: `encoder.1` or `decoder.3`, with the number of the layer in its stack. load: every
    expert's share of the tokens; the sum is 1. entropy: of the load, from 0 (one expert) to 1
    (uniform). tokens: the number of tokens counted. gate: the mean gate of conditional routing, 0
    if the tokens use the shared MLP alone; None without a gate.
    """

    kind: ClassVar[str] = "routing"
    about: ClassVar[tuple[str, ...]] = ("system", "checkpoint", "testset", "layer", "source")

    system: str
    checkpoint: str
    testset: str
    layer: str
    source: str
    load: tuple[float, ...] = dataclasses.field(metadata=rows.SHARE)
    drop_rate: float = dataclasses.field(metadata=rows.SHARE)
    entropy: float = dataclasses.field(metadata=rows.SHARE)
    tokens: int = dataclasses.field(metadata=rows.AMOUNT)
    gate: float | None = dataclasses.field(default=None, metadata=rows.SHARE)

    def _check(self) -> None:
        if not re.fullmatch(r"(encoder|decoder)\.\d{1,4}", self.layer):
            raise ValueError(f"layer is {self.layer!r}; expected one like 'encoder.1'")
        if abs(math.fsum(self.load) - 1) > 1e-3:
            raise ValueError(f"load sums to {math.fsum(self.load)}; expected 1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve(rows.AnalysisRow):
    """A training run over time as parallel lists; None where not measured.

    tokens: target tokens so far. seconds: since the start. language_validation_loss: the last value
    of each language, where known. source_use: how much larger the validation loss is with another
    line's source, in nats per target token; empty in rows of older versions.
    """

    kind: ClassVar[str] = "curve"
    about: ClassVar[tuple[str, ...]] = ("system",)

    system: str
    steps: tuple[int, ...] = dataclasses.field(metadata=rows.AMOUNT)
    tokens: tuple[float | None, ...] = dataclasses.field(metadata=rows.AMOUNT)
    seconds: tuple[float | None, ...] = dataclasses.field(metadata=rows.AMOUNT)
    loss: tuple[float | None, ...] = dataclasses.field(metadata=rows.AMOUNT)
    validation_loss: tuple[float | None, ...] = dataclasses.field(metadata=rows.AMOUNT)
    bleu: tuple[float | None, ...] = dataclasses.field(metadata=rows.SCORE)
    language_validation_loss: Mapping[str, float] = dataclasses.field(default_factory=dict)
    source_use: tuple[float | None, ...] = dataclasses.field(default=(), metadata=rows.DIFFERENCE)

    def _check(self) -> None:
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            if not isinstance(values, tuple) or values == field.default:
                continue
            if len(values) != len(self.steps):
                raise ValueError(f"{field.name} has {len(values)} values, steps {len(self.steps)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost(rows.AnalysisRow):
    """The cost of training a system. source: of a bilingual system, else "".

    tokens: target tokens. device: name of the device. epochs: passes over the training pairs, by
    language.
    """

    kind: ClassVar[str] = "cost"
    about: ClassVar[tuple[str, ...]] = ("system", "source")

    system: str
    source: str = ""
    steps: int = dataclasses.field(metadata=rows.AMOUNT)
    tokens: float = dataclasses.field(metadata=rows.AMOUNT)
    seconds: float = dataclasses.field(metadata=rows.AMOUNT)
    devices: int = dataclasses.field(metadata=rows.POSITIVE)
    device: str
    parameters: int = dataclasses.field(metadata=rows.AMOUNT)
    active_parameters: int = dataclasses.field(metadata=rows.AMOUNT)
    device_hours: float = dataclasses.field(metadata=rows.AMOUNT)
    epochs: Mapping[str, float] = dataclasses.field(metadata=rows.AMOUNT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SystemRecipe(rows.AnalysisRow):
    """The recipe of a system. source: of a bilingual system, else "".

    config: hash, as in `results.Row`. text: its config.gin. versions: of the libraries. chosen: how
    a baseline's class was chosen, else "". teacher: the system it was distilled from, else "".
    initial: the system whose weights it started from, else "". corpus, vocabulary: hashes from the
    run's manifest, of 'source' and 'target' for the vocabulary; empty in rows of earlier versions.
    """

    kind: ClassVar[str] = "recipe"
    about: ClassVar[tuple[str, ...]] = ("system", "source")

    system: str
    source: str = ""
    config: str
    text: str
    seed: int
    versions: Mapping[str, str]
    chosen: str = ""
    teacher: str = ""
    initial: str = ""
    corpus: str = ""
    vocabulary: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Remark(rows.AnalysisRow):
    """A remark of a study's author: `text` under the heading `title`."""

    kind: ClassVar[str] = "remark"
    about: ClassVar[tuple[str, ...]] = ("title",)

    system: str = ""
    title: str
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reliability(rows.AnalysisRow):
    """The chrF of lines by the confidence of `mmt translate --risk`, in bins; both 0 to 1."""

    kind: ClassVar[str] = "reliability"
    about: ClassVar[tuple[str, ...]] = ("system",)

    system: str
    decode: str
    confidence: tuple[float, ...] = dataclasses.field(metadata=rows.SHARE)
    chrf: tuple[float, ...] = dataclasses.field(metadata=rows.SHARE)
    lines: tuple[int, ...] = dataclasses.field(metadata=rows.AMOUNT)


Row: TypeAlias = (
    Interval | OutputChecks | Comet | Paired | SentenceCounts | TestsetDescription
    | TestsetQuality | TrainOverlap | ExpertLoad | Curve | Cost | SystemRecipe | Remark
    | Reliability | BehaviourShares | CorpusUses | CorpusEffect | ContrastiveAccuracy
)  # fmt: skip
_CLASSES: dict[str, Any] = {cls.kind: cls for cls in get_args(Row)}


def read(path: Path) -> list[Row]:
    """Returns the rows of an analysis file in file order; [] if the file does not exist.

    Raises ValueError `file:line: reason`, with the nearest name, for a line that is not a complete
    row of a known kind.

    >>> [row for row in read(Path("no/such/analysis.jsonl")) if row.kind == "guards"]
    []
    """
    return [row for row, _ in rows.read(path, _row)] if path.exists() else []


def add(
    path: Path, new: Sequence[Row], *, outdated: Callable[[Row], bool] = lambda row: False
) -> None:
    """Appends rows to the file; each replaces an older row with the same key.

    outdated: whether an older row is removed. See `results.add_rows`: all other lines are
    unchanged, and an error leaves the file unchanged.
    """
    rows.add(
        path, new, _row, values=lambda row: {"kind": row.kind, **dataclasses.asdict(row)},
        outdated=outdated,
    )  # fmt: skip


def path_for(results_file: Path) -> Path:
    """Returns the path of the analysis file that belongs to a results file."""
    return results_file.with_name(FILE)


def _row(values: dict[str, Any]) -> Row:
    if "kind" not in values:
        raise ValueError("missing key 'kind'")
    kind = values["kind"]
    rows.check_one_of("kind", str(kind), tuple(_CLASSES))
    return rows.make(_CLASSES[kind], {k: v for k, v in values.items() if k != "kind"})


def _check_order(row: Any, low: str, high: str) -> None:
    if getattr(row, low) > getattr(row, high):
        raise ValueError(f"{low} is {getattr(row, low)}, above {high}, {getattr(row, high)}")
