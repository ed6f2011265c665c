"""Hyper-parameters of bilingual baselines, per class of training size.

Several candidates for a class are tried on a few languages; the best by validation loss is used. A
fair baseline is a strong one.
"""

import contextlib
import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

from eval.baselines.simultaneous import Diverged
from eval.records import rows
from mmt import config, train
from mmt.data import stages
from mmt.data.stages import Stage
from mmt.run import Run, read_metrics

CHOSEN = "chosen.txt"  # in a baseline's directory: how its settings were chosen
TUNING = "tuning"  # beside the baselines' directories: the tried runs

# Trains languages with the settings of a class in a directory, and writes a text to CHOSEN.
Trains: TypeAlias = Callable[["Class", Sequence[str], Path, str], None]
# Returns own tokens per token of the shared vocabulary, on a language's validation set.
Rate: TypeAlias = Callable[["Class", str], float]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The training settings of the baselines of a class.

    Attributes:
        feature_lengths, batch_size: see `pipeline.train_batches`.
        epochs: maximum passes over a language's pairs in the last stage.
        steps: (minimum, maximum) of the number of steps, which limits `epochs`.
        period: steps between validations, each with a checkpoint.
        patience: validations without improvement before training stops.
        memory: GiB for the models that are trained simultaneously.
        at_once: maximum number of these models; 0: as many as fit in memory.
        stages: stages of each training, see `pipeline.train_batches`, with its language only; all
            but the last end after a number of steps.
        own_vocabulary: whether each language has its own vocabulary, trained on its pairs, with at
            most the model's size (`VOCAB_SIZE`).
    """

    feature_lengths: Mapping[str, int]
    batch_size: int
    epochs: float
    steps: tuple[int, int]
    period: int
    patience: int
    memory: float = 4.0
    at_once: int = 0
    stages: Sequence[Stage] | None = None
    own_vocabulary: bool = False

    def __post_init__(self) -> None:
        if self.stages is not None and not stages.planned_stages(self.stages, None):
            raise ValueError("baselines.Plan.stages is empty; allowed: one Stage or more, or None")
        if self.epochs <= 0:
            raise ValueError(f"BASELINE_EPOCHS: {self.epochs}; allowed: more than 0")
        for name in ("batch_size", "period", "patience"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"baselines.Plan.{name}: {value}; allowed: 1 or more")
        for stage in (self.stages or ())[:-1]:
            if "steps" not in (stage.until or {}):
                raise ValueError(
                    f"baselines.Plan.stages: until = {stage.until}; allowed: {{'steps': N}}, and "
                    "nothing else before the last stage, because epochs are counted from there"
                )
        if self.before_last >= self.steps[1]:
            raise ValueError(
                f"baselines.Plan.stages: the last one begins after {self.before_last} steps, but "
                f"there are at most {self.steps[1]} (TRAIN_STEPS)"
            )

    @property
    def before_last(self) -> int:
        """Returns the steps before the last stage begins."""
        ends = [stage.until["steps"] for stage in self.stages or () if stage.until]
        return max(map(int, ends), default=0)


@dataclasses.dataclass(frozen=True)
class Class:
    """Settings for languages with `least` training pairs or more, up to the next class's `least`.

    Several classes with the same `least` are candidates. Each is first trained on `tried_on` of the
    languages, spread evenly by size. The candidate with the lowest mean validation loss trains all
    languages.

    Attributes:
        name: name of the class.
        least: minimum number of training pairs.
        bindings: settings as text, 'DROPOUT_RATE = 0.3', applied after the file; configurations of
            earlier versions have them.
        tried_on: number of languages to try candidates on; the same for all candidates.
        gin_file: file of the settings that differ from the rest of the configuration, such as
            `gin_configs/baselines/low.gin`; "" for none.
    """

    name: str
    least: int = 0
    bindings: Sequence[str] = ()
    tried_on: int = 4
    gin_file: str = ""

    def __post_init__(self) -> None:
        if self.tried_on < 1:
            raise ValueError(f"baselines.Class {self.name}: tried_on {self.tried_on}; 1 or more")

    @contextlib.contextmanager
    def configured(self) -> Iterator[tuple[train.Trainer, Plan]]:
        """Applies the settings to the configuration for the time of a `with` block."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(config.changed(self.bindings, self.gin_file))
                program, plan = config.configured(train.Trainer)(), config.configured(Plan)()
            except ValueError as error:
                raise ValueError(f"baselines.Class {self.name}: {error}") from None
            yield program, plan

    def __str__(self) -> str:
        settings = [*(config.statements(self.gin_file) if self.gin_file else ()), *self.bindings]
        return f"{self.name} ({', '.join(settings) or 'as configured'})"


def grouped(
    counts: Mapping[str, int], classes: Sequence[Class]
) -> list[tuple[list[Class], list[str]]]:
    """Returns the languages of each `least`, largest first, with their classes.

    >>> low, high = Class("low"), Class("high", least=5)
    >>> groups = grouped({"deu_Latn": 9, "swh_Latn": 5, "yor_Latn": 1}, [low, high])
    >>> [([candidate.name for candidate in candidates], members) for candidates, members in groups]
    [(['high'], ['deu_Latn', 'swh_Latn']), (['low'], ['yor_Latn'])]
    """
    names = [settings.name for settings in classes]
    if not classes or len(set(names)) < len(names):
        raise ValueError(f"baselines.baselines.classes: {', '.join(names) or 'none'}; each once")
    groups, remaining = [], dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    for least in sorted({settings.least for settings in classes}, reverse=True):
        members = [code for code in remaining if remaining[code] >= least]
        candidates = [settings for settings in classes if settings.least == least]
        if len({settings.tried_on for settings in candidates}) > 1:
            tried = ", ".join(f"{settings.name} {settings.tried_on}" for settings in candidates)
            raise ValueError(f"baselines.Class.tried_on differs at least = {least}: {tried}")
        if members:
            groups.append((candidates, members))
        remaining = {code: count for code, count in remaining.items() if code not in members}
    if remaining:
        raise ValueError(
            f"no class of baselines for {', '.join(remaining)} with fewer than "
            f"{min(settings.least for settings in classes)} training pairs: add one with least = 0"
        )
    return groups


def tune(
    candidates: Sequence[Class],
    members: Sequence[str],
    *,
    trainer: Trains,
    rate: Rate,
    directory: Path,
) -> tuple[Class, str]:
    """Returns the best candidate for these languages, and a text on how it was chosen.

    `trainer(class, languages, directory, text)` trains them. Tried runs are in `directory/tuning`,
    with a table in `least_N.json`. The run of the best candidate becomes the language's run. An
    earlier choice among the same candidates is reused, even for other languages. A single candidate
    is not tried; a candidate that diverges is not chosen.

    Losses are in nats per token of the shared vocabulary: losses per own token are multiplied by
    `rate`. Raises ValueError if all candidates diverge, and for an existing run with other
    settings.
    """
    if len(candidates) == 1:
        return candidates[0], f"class {candidates[0]} for {candidates[0].least} pairs or more"
    file = directory / TUNING / f"least_{candidates[0].least}.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if stored.get("candidates") == [*map(str, candidates)]:
        chosen_before = {candidate.name: candidate for candidate in candidates}[stored["chosen"]]
        return chosen_before, stored["text"]
    indices = np.linspace(0, len(members) - 1, min(candidates[0].tried_on, len(members)))
    languages = [members[i] for i in indices.round().astype(int)]
    losses = {}
    for candidate in candidates:
        by_language = _try_candidate(candidate, languages, trainer, directory / TUNING)
        losses[candidate.name] = {
            code: loss * rate(candidate, code) for code, loss in by_language.items()
        }
    mean_losses = {name: float(np.mean(list(by_code.values()))) for name, by_code in losses.items()}
    best = min(candidates, key=lambda candidate: mean_losses[candidate.name])
    if not np.isfinite(mean_losses[best.name]):
        raise ValueError(f"no settings for {best.least} pairs or more can be trained: all diverge")
    title = "validation loss, nats per token of the shared vocabulary"
    table = Table("settings", *languages, "mean", title=title)
    for candidate in candidates:
        row = [*losses[candidate.name].values(), mean_losses[candidate.name]]
        style = "bold" * (candidate == best)
        table.add_row(str(candidate), *(f"{loss:.3f}" for loss in row), style=style)
    Console(stderr=True).print(table)
    summary = ", ".join(
        f"{candidate} {mean_losses[candidate.name]:.3f}" for candidate in candidates
    )
    chosen = (
        f"class {best} for {best.least} pairs or more: the least mean validation loss on "
        f"{', '.join(languages)} of {summary}"
    )
    for code in languages:
        _copy_run(directory / TUNING / best.name / code, directory / code, chosen)
    record = {"candidates": [*map(str, candidates)], "losses": losses, "means": mean_losses}
    text = json.dumps(record | {"chosen": best.name, "text": chosen}, indent=1)
    rows.write_atomically(file, f"{text}\n".encode())
    return best, chosen


def _try_candidate(
    candidate: Class, codes: Sequence[str], trainer: Trains, directory: Path
) -> dict[str, float]:
    """Returns the best validation loss of each language, infinity if it diverged."""
    description = f"tried: {candidate}"
    diverged: tuple[str, ...] = ()
    runs = {code: directory / candidate.name / code for code in codes}
    for run in runs.values():
        file = run / CHOSEN
        if file.is_file() and (existing := file.read_text(encoding="utf-8").strip()) != description:
            raise ValueError(
                f"{run} has other settings ({existing}) than {candidate}: remove it or rename the "
                "class"
            )
    try:
        trainer(candidate, codes, directory / candidate.name, description)
    except Diverged as error:
        diverged = error.names
    return {code: math.inf if code in diverged else best_loss(run) for code, run in runs.items()}


def _copy_run(run: Path, model_dir: Path, chosen: str) -> None:
    """Copies a tried run to the run directory of its language, unless that exists."""
    if not model_dir.exists():
        copy = model_dir.with_name(model_dir.name + ".copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        (copy / CHOSEN).write_text(chosen + "\n", encoding="utf-8")
        copy.rename(model_dir)


def best_loss(model_dir: Path) -> float:
    """Returns the least validation loss of a run, in nats per token; infinity without a finite one.
    """
    logged = read_metrics(Run(model_dir).metrics)
    losses = [row["validation_loss"] for row in logged if "validation_loss" in row]
    return min(filter(math.isfinite, losses), default=math.inf)
