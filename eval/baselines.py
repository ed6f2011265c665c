"""Bilingual baselines: one model per language from the same cache, trained by the same trainer.

They answer the question whether a language is better off in the multilingual model. Each has the
whole of its language's training data and nothing else, stops early on its own validation loss and
is judged at its best checkpoint.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval import evaluate, testsets
from mmt import checkpoint, hooks, languages, train, translate
from mmt.data import cache, mixing, pipeline


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which baselines, and how each trains.

    languages: names or codes; or a number: so many at most, spread evenly over them by size.
    feature_lengths, batch_size: as in `pipeline.train_batches`.
    epochs: at most so many passes over a language's pairs, within `steps` (least, most).
    period: steps between validations; patience: validations without improvement before it stops.
    """

    languages: Sequence[str] | int
    feature_lengths: Mapping[str, int]
    batch_size: int
    epochs: float
    steps: tuple[int, int]
    period: int
    patience: int


def baselines(
    program: train.Program,
    plan: Plan,
    *,
    cache_dir: str,
    directory: str,
    judge: Callable[[translate.Translator, Path, str], None],
    describe_run: Callable[[Path, str, Sequence[str]], None],
) -> None:
    """Trains a bilingual model per language in `directory/<language>` and has it judged.

    judge(translator, model_dir, language) is called with each finished model; `Judge` adds rows to
    a results file. describe_run(model_dir, cache_dir, [language]) makes a run directory of it.
    Started again, it goes on with the language where it was. Raises ValueError for a language that
    the cache has not.
    """
    opened = cache.open_cache(Path(cache_dir))
    own = program.model.config
    opened.manifest.check_ids(pad=own.pad_id, eos=own.eos_id, start=own.start_id)
    for code in choose(opened.manifest.counts["train"], plan.languages):
        model_dir = Path(directory) / code
        train.check(program, opened.manifest, model_dir)
        describe_run(model_dir, cache_dir, [code])
        train_one(program, plan, code=code, opened=opened, model_dir=model_dir)
        judge(translate.Translator.load(model_dir), model_dir, code)


@dataclasses.dataclass(frozen=True)
class Judge:
    """Scores a baseline on its language of `testset` and adds the row to the results file `out`."""

    testset: str
    out: str
    decoding: translate.Decoding = translate.USUAL

    def __call__(self, translator: translate.Translator, model_dir: Path, language: str) -> None:
        step = checkpoint.best_step(model_dir)
        system = evaluate.system_of(model_dir, step=step, name="bilingual", kind="bilingual")
        judged = testsets.load(self.testset).only([language])
        evaluate.evaluate(
            translator, judged, system=system, out=Path(self.out), decoding=self.decoding
        )


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


def train_one(
    program: train.Program, plan: Plan, *, code: str, opened: cache.Cache, model_dir: Path
) -> None:
    """Trains the model of one language, or goes on with it."""
    same: dict[str, Any] = {"feature_lengths": plan.feature_lengths, "batch_size": plan.batch_size}
    steps = _steps(plan, opened.lengths(code, "train"))
    period = min(plan.period, steps)
    validation = pipeline.eval_batches(opened.directory, languages=(code,), **same)
    batches = pipeline.train_batches(
        opened.directory, mixing=mixing.Mixing(languages=(code,)), seed=program.seed, **same
    )
    try:
        train.train(
            program, batches, model_dir=str(model_dir), steps=steps,
            policy=checkpoint.Policy(period=period, keep=1),
            hooks=[hooks.ValidationLoss(validation, period), hooks.EarlyStop(plan.patience)],
        )  # fmt: skip
    finally:
        batches.close()


def _steps(plan: Plan, lengths: np.ndarray) -> int:
    """Steps of `plan.epochs` passes over examples of these lengths, were all rows filled up."""
    room = np.array([plan.feature_lengths["inputs"], plan.feature_lengths["targets"]])
    epoch = ((lengths + 1).sum(axis=0) / (plan.batch_size * room)).max()
    return int(np.clip(plan.epochs * epoch, *plan.steps))
