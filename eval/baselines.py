"""Bilingual baselines: one model per language from the same cache, many trained side by side.

They answer the question whether a language is better off in the multilingual model. Each has the
whole of its language's training data and nothing else, stops early on its own validation loss and
is judged at its best checkpoint. A fair baseline is a strong one: languages fall into classes by
their training pairs, and of several settings of a class the best by validation loss is taken.
"""

import contextlib
import dataclasses
import functools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from eval import analysis, cost, evaluate, testsets
from eval.metrics import USUAL, Metrics
from mmt import checkpoint, config, languages, lock, metrics, side_by_side, train, translate
from mmt.data import cache, mixing, pipeline
from mmt.data.stages import Stage

CHOSEN = "chosen.txt"  # in a baseline's directory: how its settings were chosen
TUNING = "tuning"  # beside the baselines' directories: those of the settings that were tried


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the baselines of a class train.

    feature_lengths, batch_size: as in `pipeline.train_batches`.
    epochs: at most so many passes over a language's pairs, within `steps` (least, most).
    period: steps between validations, each with a checkpoint; patience: validations without
    improvement before it stops.
    memory: GiB for all that are trained side by side; at_once: at most so many of them, 0: as
    many as the memory holds.
    stages: of each one's training, as in `pipeline.train_batches`, of its language alone.
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


@dataclasses.dataclass(frozen=True)
class Class:
    """Settings for languages with `least` training pairs or more, up to the next class's `least`.

    bindings: of gin, by which it differs from the rest of the configuration: 'DROPOUT_RATE = 0.3',
    'transformer.Config.emb_dim = 256', 'baselines.Plan.epochs = 80'.
    tried_on: of several classes with the same `least`, each is first trained on so many of the
    languages, spread evenly by size; the one of the least mean validation loss trains them all.
    The same in all of them.
    """

    name: str
    least: int = 0
    bindings: Sequence[str] = ()
    tried_on: int = 4

    def __post_init__(self) -> None:
        if self.tried_on < 1:
            raise ValueError(f"baselines.Class {self.name}: tried_on {self.tried_on}; 1 or more")

    @contextlib.contextmanager
    def configured(self) -> Iterator[tuple[train.Program, Plan]]:
        """Its settings, for the time of a `with` block also those of the configuration."""
        with config.changed(self.bindings):
            yield config.configured(train.Program)(), config.configured(Plan)()

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.bindings) or 'as configured'})"


def baselines(
    languages: Sequence[str] | int,
    *,
    cache_dir: str,
    directory: str,
    judge: "Judge",
    describe_run: Callable[[Path, str, Sequence[str]], None],
    classes: Sequence[Class] = (Class("all"),),
) -> None:
    """Trains a bilingual model per language in `directory/<language>`, then has each judged.

    languages: names or codes; or a number: so many at most, spread evenly over them by size.
    judge adds rows of each finished model to a results file. describe_run(model_dir, cache_dir,
    [language]) makes a run directory of it. Started again, each goes on from its last checkpoint.
    Raises ValueError, before anything is trained, for a language that the cache has not, that has
    no validation examples or is in no test set, where no class is for a language or settings cannot
    be trained, and where another process trains in `directory`.
    """
    opened = cache.open_cache(Path(cache_dir))
    whole = opened.manifest.counts["train"]
    counts = {code: whole[code] for code in opened.manifest.translated if code in whole}
    codes = choose(counts, languages)
    held_out = opened.manifest.counts.get("validation", {})
    if without := [code for code in codes if not held_out.get(code)]:
        raise ValueError(
            f"no validation examples for {', '.join(without)}: a baseline stops by them; give some "
            "or leave these out of BASELINE_LANGUAGES"
        )
    groups = grouped({code: counts[code] for code in codes}, classes)
    for candidates, _ in groups:
        for one in candidates:
            with one.configured() as (program, _):
                own = program.model.config
                opened.manifest.check_ids(pad=own.pad_id, eos=own.eos_id, start=own.start_id)
    judge.check(codes)
    trainer = _Trainer(opened, describe_run)
    with lock.held(directory):
        for candidates, members in groups:
            best, chosen = tune(candidates, members, trainer=trainer, directory=Path(directory))
            trainer(best, members, Path(directory), chosen)
        for code in codes:
            model_dir = Path(directory) / code
            judge(translate.Translator.load(model_dir), model_dir, code)


def grouped(
    counts: Mapping[str, int], classes: Sequence[Class]
) -> list[tuple[list[Class], list[str]]]:
    """The languages of each `least`, largest first, with the classes of it.

    >>> low, high = Class("low"), Class("high", least=5)
    >>> grouped({"deu_Latn": 9, "swh_Latn": 5, "yor_Latn": 1}, [low, high])
    ... # doctest: +NORMALIZE_WHITESPACE
    [([Class(name='high', least=5, bindings=(), tried_on=4)], ['deu_Latn', 'swh_Latn']),
     ([Class(name='low', least=0, bindings=(), tried_on=4)], ['yor_Latn'])]
    """
    names = [one.name for one in classes]
    if not classes or len(set(names)) < len(names):
        raise ValueError(f"baselines.baselines.classes: {', '.join(names) or 'none'}; each once")
    found, left = [], dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    for least in sorted({one.least for one in classes}, reverse=True):
        members = [code for code in left if left[code] >= least]
        candidates = [one for one in classes if one.least == least]
        if len({one.tried_on for one in candidates}) > 1:
            tried = ", ".join(f"{one.name} {one.tried_on}" for one in candidates)
            raise ValueError(f"baselines.Class.tried_on differs at least = {least}: {tried}")
        if members:
            found.append((candidates, members))
        left = {code: count for code, count in left.items() if code not in members}
    if left:
        raise ValueError(
            f"no class of baselines for {', '.join(left)} with fewer than "
            f"{min(one.least for one in classes)} training pairs: give one of least = 0"
        )
    return found


def tune(
    candidates: Sequence[Class],
    members: Sequence[str],
    *,
    trainer: Callable[[Class, Sequence[str], Path, str], None],
    directory: Path,
) -> tuple[Class, str]:
    """The best of the candidates for these languages, and how it was chosen.

    trainer(class, languages, directory, text) trains them; what was tried stays in
    `directory/tuning`, with a table of it in `least_N.json`, and that of the best is also the
    language's own run, not trained again. One candidate is not tried.
    """
    if len(candidates) == 1:
        return candidates[0], f"class {candidates[0]} for {candidates[0].least} pairs or more"
    places = np.linspace(0, len(members) - 1, min(candidates[0].tried_on, len(members)))
    tried = [members[place] for place in places.round().astype(int)]
    losses: dict[str, dict[str, float]] = {}
    for one in candidates:
        trainer(one, tried, directory / TUNING / one.name, f"tried: {one}")
        losses[one.name] = {code: best_loss(directory / TUNING / one.name / code) for code in tried}
    means = {name: float(np.mean(list(by_code.values()))) for name, by_code in losses.items()}
    best = min(candidates, key=lambda one: means[one.name])
    table = Table("settings", *tried, "mean", title="validation loss, nats per token")
    for one in candidates:
        row = [*losses[one.name].values(), means[one.name]]
        table.add_row(str(one), *(f"{loss:.3f}" for loss in row), style="bold" * (one == best))
    Console(stderr=True).print(table)
    text = json.dumps({"losses": losses, "means": means, "chosen": best.name}, indent=1)
    (directory / TUNING / f"least_{best.least}.json").write_text(text + "\n", encoding="utf-8")
    others = ", ".join(f"{one} {means[one.name]:.3f}" for one in candidates)
    chosen = (
        f"class {best} for {best.least} pairs or more: the least mean validation loss on "
        f"{', '.join(tried)} of {others}"
    )
    for code in tried:
        _take(directory / TUNING / best.name / code, directory / code, chosen)
    return best, chosen


def _take(run: Path, model_dir: Path, chosen: str) -> None:
    """The run becomes that of its language, unless it has one."""
    if not model_dir.exists():
        begun = model_dir.with_name(model_dir.name + ".copy")
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(run, begun)
        (begun / CHOSEN).write_text(chosen + "\n", encoding="utf-8")
        begun.rename(model_dir)


def best_loss(model_dir: Path) -> float:
    """The least validation loss of a run, in nats per token."""
    rows = metrics.read(model_dir / "metrics.jsonl")
    return min(row["validation_loss"] for row in rows if "validation_loss" in row)


@dataclasses.dataclass(frozen=True)
class Judge:
    """Scores a baseline on its language of `testset`, of each that has it where they are several,
    and adds the rows to the results file `out`, and beside it what its training took (without what
    was tried for others of its class) and how its settings were chosen.

    scores: what is asked for beside BLEU and chrF++.
    """

    testset: str | Sequence[str]
    out: str
    decoding: translate.Decoding = translate.USUAL
    scores: Metrics = USUAL

    def check(self, languages: Sequence[str]) -> None:
        """ValueError for languages that no test set has."""
        known = {code for one in self._sets() for code in one.languages}
        if without := [code for code in languages if code not in known]:
            raise ValueError(
                f"no test set has {', '.join(without)}: {self.testset}; add one that does or leave "
                "these out of BASELINE_LANGUAGES"
            )

    def _sets(self) -> list[testsets.TestSet]:
        names = [self.testset] if isinstance(self.testset, str) else self.testset
        return list(map(_testset, names))

    def __call__(self, translator: translate.Translator, model_dir: Path, language: str) -> None:
        step = checkpoint.best_step(model_dir)
        system = evaluate.system_of(model_dir, step=step, name="bilingual", kind="bilingual")
        for judged in [one for one in self._sets() if language in one.languages]:
            evaluate.evaluate(
                translator, judged.only([language]), system=system, out=Path(self.out),
                decoding=self.decoding, scores=self.scores,
            )  # fmt: skip
        chosen = (model_dir / CHOSEN).read_text(encoding="utf-8").strip()
        analysis.add(analysis.beside(Path(self.out)), cost.cost(model_dir, system, chosen=chosen))


_testset = functools.cache(testsets.load)  # the same for a hundred baselines


def choose(counts: Mapping[str, int], wanted: Sequence[str] | int) -> list[str]:
    """The codes named by `wanted`, or at most so many, spread evenly by size, largest first.

    >>> choose({"deu_Latn": 9, "fra_Latn": 7, "swh_Latn": 5, "yor_Latn": 1}, 2)
    ['deu_Latn', 'yor_Latn']
    """
    by_size = sorted(counts, key=lambda code: (-counts[code], code))
    if isinstance(wanted, int):
        if wanted < 1:
            raise ValueError(f"BASELINE_LANGUAGES: {wanted} baselines; allowed: 1 or more")
        places = np.linspace(0, len(by_size) - 1, min(wanted, len(by_size))).round().astype(int)
        return [by_size[place] for place in places]
    codes = [languages.find(name).code for name in wanted]
    for code in codes:
        if code not in counts:
            raise ValueError(f"no baseline for {code}: the cache has only {', '.join(by_size)}")
    return codes


@dataclasses.dataclass(frozen=True)
class _Trainer:
    """Trains languages with the settings of a class, each in its directory."""

    opened: cache.Cache
    describe_run: Callable[[Path, str, Sequence[str]], None]

    def __call__(self, one: Class, codes: Sequence[str], directory: Path, chosen: str) -> None:
        with one.configured() as (program, plan):
            train.check(program, self.opened.manifest, directory / codes[0])
            shapes = program.shapes(len(self.opened.manifest.languages)).items()
            for code in codes:
                checkpoint.check_model(directory / code, shapes)
            jobs = [self._job(program, plan, code, directory / code) for code in codes]
            for job in jobs:
                if not job.finished():  # what is done keeps the words it was done by
                    self.describe_run(job.model_dir, str(self.opened.directory), [job.name])
                    (job.model_dir / CHOSEN).write_text(chosen + "\n", encoding="utf-8")
            side_by_side.train(program, jobs, memory=plan.memory, at_once=plan.at_once)

    def _job(
        self, program: train.Program, plan: Plan, code: str, model_dir: Path
    ) -> side_by_side.Job:
        same: dict[str, Any] = {
            "feature_lengths": plan.feature_lengths, "batch_size": plan.batch_size
        }  # fmt: skip
        where = self.opened.directory

        def data() -> Any:
            eval_batches = config.configured(pipeline.eval_batches)  # how many of them: by gin
            held_out = eval_batches(cache_dir=where, languages=(code,), **same)
            if not len(held_out):
                raise ValueError(f"{code}: no validation example fits in {plan.feature_lengths}")
            own = mixing.Mixing(languages=(code,), monolingual=0.0)
            stages = [dataclasses.replace(one, mixing=own) for one in plan.stages or [Stage()]]
            return pipeline.train_batches(where, stages=stages, seed=program.seed, **same), held_out

        steps = _steps(plan, self.opened.lengths(code, "train"))
        period = min(plan.period, steps)
        return side_by_side.Job(code, model_dir, data, steps, period, plan.patience)


def _steps(plan: Plan, lengths: np.ndarray) -> int:
    """Steps of `plan.epochs` passes over examples of these lengths, were all rows filled up."""
    room = np.array([plan.feature_lengths["inputs"], plan.feature_lengths["targets"]])
    epoch = ((lengths + 1).sum(axis=0) / (plan.batch_size * room)).max()
    return int(np.clip(plan.epochs * epoch, *plan.steps))
