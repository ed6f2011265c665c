"""Bilingual baselines: one model per language on the same data, many trained simultaneously.

The report compares the multilingual model with them, language by language. A baseline trains on all
training data of its language, stops early by validation loss, and is evaluated at its best
checkpoint. tuning.py chooses the hyper-parameters.
"""

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval import evaluate, systems, testsets
from eval.analyses import cost
from eval.baselines import simultaneous
from eval.baselines.simultaneous import Diverged
from eval.baselines.tuning import CHOSEN, Class, Plan, grouped, tune
from eval.metrics import DEFAULT_METRICS, Metrics
from eval.records import analysis
from mmt import checkpoint, config, distributed, languages, train, translate
from mmt.data import cache, mixing, pipeline, recipe
from mmt.data.bilingual_vocabulary import bilingual_cache
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.data.modifiers import Rewriter
from mmt.data.stages import Stage
from mmt.run import Run

# Beginnings of bindings that do not change how a finished model was trained: limits of its steps,
# other models, places, and the evaluation.
_NO_TRAINING = (
    "BASELINE_EPOCHS", "BASELINE_LANGUAGES", "BASELINES_AT_ONCE", "CACHE_DIR", "RESULTS", "TESTSET",
    "TRAIN_STEPS", "baselines.Judge.", "baselines.Plan.at_once", "baselines.Plan.epochs",
    "baselines.Plan.memory", "baselines.Plan.steps", "baselines.baselines.", "decoding.Decoding.",
    "metrics.Metrics.", "recipe.default_directory.",
)  # fmt: skip


def baselines(
    languages: Sequence[str] | int,
    *,
    cache_dir: str,
    directory: str,
    judge: "Judge",
    classes: Sequence[Class] = (Class("all"),),
) -> None:
    """Trains a bilingual model per language in `directory/<language>` and evaluates it.

    A class is evaluated before the next one is trained. Run the same command again to resume.

    Args:
      languages: names or codes; or a maximum number, spread evenly over the languages by size.
      cache_dir: the token cache.
      directory: folder of the run directories.
      judge: evaluates a finished model and adds its rows to a results file.
      classes: hyper-parameters by number of training pairs.

    Raises:
      ValueError: before training, if the cache is from one language into others, if a language has
        no training or validation examples, test set or class, if settings cannot be trained, or if
        another process trains in `directory`. After the evaluation of the other models, if a model
        diverged.
    """
    opened = cache.open_cache(Path(cache_dir))
    counts = _training_pairs(opened)
    codes = choose(counts, languages)
    held_out = opened.manifest.counts.get("validation", {})
    if missing := [code for code in codes if not held_out.get(code)]:
        raise ValueError(
            f"no validation examples for {', '.join(missing)}: baselines need them for early "
            "stopping; add some or leave these out of BASELINE_LANGUAGES"
        )
    judge.check(codes, opened.manifest)
    groups = grouped({code: counts[code] for code in codes}, classes)
    for candidates, members in groups:
        for candidate in candidates:
            _check_settings(candidate, members, opened)
    trainer = _Trainer(opened)
    with distributed.held(directory):
        divergences: list[Diverged] = []
        for candidates, members in groups:
            best, chosen = tune(
                candidates, members, trainer=trainer, rate=trainer.rate, directory=Path(directory)
            )
            failed: Sequence[str] = ()
            try:
                trainer(best, members, Path(directory), chosen)
            except Diverged as error:
                divergences.append(error)
                failed = error.names
            for code in members:
                if code not in failed:
                    model_dir = Path(directory) / code
                    judge(translate.Translator.load(model_dir), model_dir, code)
        if divergences:
            raise ValueError("; ".join(map(str, divergences)))


def _training_pairs(opened: cache.Cache) -> dict[str, int]:
    """Returns the training pairs of each language. Raises ValueError for pairs into many languages.
    """
    manifest = opened.manifest
    if manifest.source:
        raise ValueError(
            f"{opened.directory} has pairs from {manifest.source} into other languages, but "
            "baselines are evaluated on test sets into one language: set MIXTURE_OR_TASK_NAME to "
            "a mixture such as my_corpus_to_eng"
        )
    counts = manifest.counts["train"]
    return {code: counts[code] for code in manifest.translated if code in counts}


def _check_settings(candidate: Class, codes: Sequence[str], opened: cache.Cache) -> None:
    """Raises ValueError for settings that cannot train these languages."""
    with candidate.configured() as (program, plan):
        if left_out := config.value(pipeline.train_batches, "leave_out"):
            raise ValueError(
                f"pipeline.train_batches.leave_out = {left_out}: baselines are trained on all "
                "corpora of a language; allowed: []"
            )
        ids = program.model.config
        for code in codes:
            text = _cache_of(opened, program, plan, code)
            text.manifest.check_ids(pad=ids.pad_id, eos=ids.eos_id, start=ids.start_id)
            for stage in plan.stages or ():
                if stage.modifiers:
                    Rewriter(stage.modifiers, text, [code], program.seed)


@dataclasses.dataclass(frozen=True)
class Judge:
    """Evaluates a baseline on its language in each test set that has it; adds rows to `out`.

    `analysis.jsonl` in the folder of `out` gets the training cost and how the settings were chosen.
    The cost excludes candidates that were tried on other languages.

    Attributes:
        testset: name of a test set, or names.
        out: the results file.
        decoding: options of the search.
        scores: metrics in addition to BLEU and chrF++.
    """

    testset: str | Sequence[str]
    out: str
    decoding: translate.Decoding = translate.DEFAULT
    scores: Metrics = DEFAULT_METRICS

    def check(self, languages: Sequence[str], manifest: Manifest) -> None:
        """Raises ValueError for languages that no test set has; manifest: of the cache."""
        testset_languages = {code for testset in self._sets(manifest) for code in testset.languages}
        if missing := [code for code in languages if code not in testset_languages]:
            raise ValueError(
                f"no test set has {', '.join(missing)}: {self.testset}; add one that does or leave "
                "these out of BASELINE_LANGUAGES"
            )

    def _sets(self, manifest: Manifest) -> list[testsets.TestSet]:
        names = [self.testset] if isinstance(self.testset, str) else self.testset
        return [_testset(name, target=manifest.target or "eng") for name in names]

    def __call__(self, translator: translate.Translator, model_dir: Path, language: str) -> None:
        step = Run(model_dir).best_step()
        system = systems.system_of(model_dir, step=step, name="bilingual", kind="bilingual")
        for judged in self._sets(translator.manifest):
            if language not in judged.languages:
                continue
            evaluate.evaluate(
                translator, judged.only([language]), system=system, out=Path(self.out),
                decoding=self.decoding, scores=self.scores,
            )  # fmt: skip
        chosen = (model_dir / CHOSEN).read_text(encoding="utf-8").strip()
        analysis.add(analysis.path_for(Path(self.out)), cost.cost(model_dir, system, chosen=chosen))


_testset = functools.cache(testsets.load)  # cached: a hundred baselines share test sets


def choose(counts: Mapping[str, int], requested: Sequence[str] | int) -> list[str]:
    """Returns the requested codes, or a requested number of codes spread evenly by size.

    >>> choose({"deu_Latn": 9, "fra_Latn": 7, "swh_Latn": 5, "yor_Latn": 1}, 2)
    ['deu_Latn', 'yor_Latn']
    """
    by_size = sorted(counts, key=lambda code: (-counts[code], code))
    if isinstance(requested, str) or requested in ([], ()):
        raise ValueError(f"BASELINE_LANGUAGES: {requested!r}; allowed: a number or a list of names")
    if isinstance(requested, int):
        if requested < 1:
            raise ValueError(f"BASELINE_LANGUAGES: {requested} baselines; allowed: 1 or more")
        indices = np.linspace(0, len(by_size) - 1, min(requested, len(by_size))).round().astype(int)
        return [by_size[i] for i in indices]
    codes = [languages.find(name).code for name in requested]
    for code in codes:
        if code not in counts:
            raise ValueError(f"no baseline for {code}: the cache has only {', '.join(by_size)}")
    return codes


@dataclasses.dataclass(frozen=True)
class _Trainer:
    """Trains a model per language with the settings of a class, each in its run directory."""

    opened: cache.Cache

    def __call__(self, settings: Class, codes: Sequence[str], directory: Path, chosen: str) -> None:
        with settings.configured() as (program, plan):
            texts = {code: _cache_of(self.opened, program, plan, code) for code in codes}
            manifest = texts[codes[0]].manifest
            train.check(program, manifest, directory / codes[0])
            shapes = program.shapes(len(manifest.languages)).items()
            for code in codes:
                checkpoint.check_model(directory / code, shapes)
            jobs = [self._job(program, plan, text, directory) for text in texts.items()]
            finished = {job.name for job in jobs if job.finished()}
            _warn_of_changes(settings, {code: texts[code] for code in finished}, directory)
            for job in jobs:
                if job.name not in finished:  # finished runs keep their text
                    self._describe(settings, job, texts[job.name])
                    (job.model_dir / CHOSEN).write_text(chosen + "\n", encoding="utf-8")
            simultaneous.train(program, jobs, memory=plan.memory, at_once=plan.at_once)
        at_limit = [
            job.name for job in jobs
            if job.period < job.steps == Run(job.model_dir).best_step()  # of several validations
        ]  # fmt: skip
        if at_limit:
            warnings.warn(
                f"class {settings.name}: {len(at_limit)} of {len(jobs)} models have their lowest "
                f"validation loss at their maximum number of steps ({_few(at_limit)}), and need "
                f"more: BASELINE_EPOCHS is {plan.epochs:g}, TRAIN_STEPS {plan.steps[1]}",
                stacklevel=2,
            )

    def _describe(self, settings: Class, job: simultaneous.BaselineJob, text: cache.Cache) -> None:
        """Writes the configuration and other files of the run directory.

        The configuration names the cache if it has its own vocabulary, without a path of this
        machine if the cache is in the default directory.
        """
        directory = str(text.directory)
        cache_bindings = []
        if text is not self.opened:
            name = text.directory.name
            is_default = directory == recipe.default_directory("", name=name)
            cache_bindings = [
                f"CACHE_DIR = {'@recipe.default_directory()' if is_default else repr(directory)}"
            ]
            cache_bindings += [f"recipe.default_directory.name = {name!r}"] if is_default else []
        with dataclasses.replace(
            settings, bindings=[*settings.bindings, *cache_bindings]
        ).configured():
            Run(job.model_dir).describe(text, [job.name])

    def rate(self, settings: Class, code: str) -> float:
        """Returns tokens of the own vocabulary per token of the shared one, in held-out targets.

        End tokens are included. Warns if different examples fit the model, because the losses are
        then of different texts. Raises ValueError if none fits with both vocabularies.
        """
        with settings.configured() as (program, plan):
            own_cache = _cache_of(self.opened, program, plan, code)
        lengths = [text.lengths(code, "validation") + 1 for text in (own_cache, self.opened)]
        max_lengths = [plan.feature_lengths["inputs"], plan.feature_lengths["targets"]]
        fit = [(pairs <= max_lengths).all(axis=1) for pairs in lengths]
        if (fit[0] != fit[1]).any():
            warnings.warn(
                f"{settings.name}: {fit[0].sum()} of {fit[0].size} validation examples of {code} "
                f"fit, but {fit[1].sum()} in the shared vocabulary: losses are of different text",
                stacklevel=2,
            )
        fit_both = fit[0] & fit[1]
        if not fit_both.any():
            raise ValueError(
                f"{settings.name}: no validation example of {code} fits TASK_FEATURE_LENGTHS = "
                f"{plan.feature_lengths} with both vocabularies, so that losses do not compare; "
                "allowed: greater lengths, or no vocabulary of its own"
            )
        own_tokens, shared_tokens = (pairs[fit_both, 1].sum() for pairs in lengths)
        return float(own_tokens / shared_tokens)

    def _job(
        self, program: train.Trainer, plan: Plan, text: tuple[str, cache.Cache], directory: Path
    ) -> simultaneous.BaselineJob:
        code, opened = text
        shapes: dict[str, Any] = {
            "feature_lengths": plan.feature_lengths, "batch_size": plan.batch_size
        }  # fmt: skip
        cache_directory = opened.directory

        def data() -> Any:
            eval_batches = config.configured(pipeline.eval_batches)  # gin binds their number
            held_out = eval_batches(cache_dir=cache_directory, languages=(code,), **shapes)
            if not len(held_out):
                raise ValueError(f"{code}: no validation example fits in {plan.feature_lengths}")
            mixture = mixing.Mixing(languages=(code,), monolingual=0.0)
            stages = [
                dataclasses.replace(stage, mixing=mixture) for stage in plan.stages or [Stage()]
            ]
            batches = pipeline.train_batches(
                cache_directory, stages=stages, seed=program.seed,
                alignment=program.objective.guided_alignment > 0, **shapes,
            )  # fmt: skip
            return batches, held_out

        steps = _steps(plan, opened.lengths(code, "train"))
        period = min(plan.period, steps)
        since = plan.before_last  # losses of earlier stages are not comparable
        return simultaneous.BaselineJob(
            code, directory / code, data, steps, period, plan.patience, since
        )


def _warn_of_changes(settings: Class, finished: Mapping[str, cache.Cache], directory: Path) -> None:
    """Warns of settings and text that differ from those of finished models, which keep theirs.

    finished: the cache of each finished model. Call it in the configuration of the class.
    """
    changes: dict[str, list[str]] = {}
    for code, text in sorted(finished.items()):
        run = Run(directory / code)
        different = config.unlike(run.config) if run.config.is_file() else []
        of_model = [
            change for change in different
            if not change.startswith(_NO_TRAINING) and "baselines.Class." not in change
        ]  # fmt: skip
        if run.manifest.is_file():
            trained = read_manifest(run.manifest)
            for name in ("corpus_hash", "vocabulary_hash"):
                if getattr(trained, name) != getattr(text.manifest, name):
                    of_model.append(f"another {name.replace('_hash', '')}")
        for change in of_model:
            changes.setdefault(change, []).append(code)
    if changes:
        shown = "; ".join(f"{change} ({_few(codes)})" for change, codes in changes.items())
        warnings.warn(
            f"class {settings.name}: models in {directory} are trained with other settings or "
            f"text; without effect on them now: {shown}. Set another MODEL_DIR to train them anew",
            stacklevel=2,
        )


def _few(codes: Sequence[str]) -> str:
    """Returns up to five codes as text."""
    return ", ".join(codes[:5]) + (", …" if codes[5:] else "")


def _cache_of(opened: cache.Cache, program: train.Trainer, plan: Plan, code: str) -> cache.Cache:
    """Returns the shared cache, or a cache with the language's own vocabulary."""
    if not plan.own_vocabulary:
        return opened
    model = program.model.config
    sizes = {"source": model.vocab_size, "target": model.target_vocabulary}
    return bilingual_cache(opened, code, sizes)


def _steps(plan: Plan, lengths: np.ndarray) -> int:
    """Returns the number of steps: those before the last stage plus `plan.epochs` epochs.

    lengths: of the examples; rows are assumed full.
    """
    max_lengths = np.array([plan.feature_lengths["inputs"], plan.feature_lengths["targets"]])
    epoch = ((lengths + 1).sum(axis=0) / (plan.batch_size * max_lengths)).max()
    return int(np.clip(plan.before_last + plan.epochs * epoch, *plan.steps))
