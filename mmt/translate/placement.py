"""What runs a model that translates: JAX on one device or by a layout, or CTranslate2."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from mmt import checkpoint, config, sharding, suggest
from mmt.convert import ctranslate2
from mmt.data.cache.manifest import read_manifest
from mmt.decoding.ctranslate2_search import CTranslate2Model
from mmt.model import inference
from mmt.model.transformer import Transformer, boxed_shapes, parameter_shapes
from mmt.run import Run

ENGINES = ("jax", "ctranslate2")


class EnsembleMember(NamedTuple):
    """A further model of an ensemble, its parameters, and the run and steps they are from."""

    model: Transformer
    params: Any
    directory: Path
    steps: tuple[int, ...]


def load(
    engine: str,
    run: Run,
    steps: Sequence[int],
    layout: sharding.Layout | None,
    weights: str | None,
) -> tuple[Transformer, Any, CTranslate2Model | None]:
    """Returns a run's model, its parameters, and the model of CTranslate2 if that is the engine.

    Args:
        engine: one of `ENGINES`. With 'ctranslate2' the parameters are a function that reads them.
        run: the run directory.
        steps: step of the checkpoint, or steps of those to average, in order.
        layout: placement of the parameters; None is the first device.
        weights: 'float32', 'bfloat16', 'int8' or None, the parameters as they were trained.

    Raises:
        ValueError: there is no such engine, or it does not have the model, weights or layout.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r}; {suggest.choices(engine, ENGINES)}")
    model = run.model()
    if engine == "ctranslate2":
        if layout is not None:
            raise ValueError(
                "the engine ctranslate2 translates on one CPU: a mesh or layout of devices "
                "(device_mesh, Layout) belongs to the engine jax"
            )
        directory = ctranslate2.exported(run.directory, steps)
        exported = CTranslate2Model.load(directory, weights or "float32")
        return model, functools.cache(lambda: _params(run, model, steps)), exported
    params = _params(run, model, steps, layout)
    if weights is not None and layout is None:
        model, params = inference.for_inference(model, params, weights)
    return model, params, None


def check_runs(ensemble: Sequence[str | Path]) -> None:
    """Raises ValueError for one directory in place of a list."""
    if isinstance(ensemble, str | Path):
        raise ValueError(f"ensemble: {str(ensemble)!r}; expected a list: ['{ensemble}']")


def checked_others(engine: str, directories: Sequence[str | Path], first: Run) -> list[Run]:
    """Returns the further runs of an ensemble.

    Raises:
        ValueError: a directory lacks a model, its vocabularies or languages are others than those
            of the first, or the engine is CTranslate2.
    """
    check_runs(directories)
    runs = [Run(directory) for directory in directories]
    if runs and engine == "ctranslate2":
        raise ValueError("the engine ctranslate2 has no ensembles; they need the engine jax")
    for run in runs:
        run.check_is_model()
        _check_fits(run, first)
    return runs


def load_others(
    engine: str,
    directories: Sequence[str | Path],
    first: Run,
    average: int,
    layout: sharding.Layout | None,
    weights: str | None,
) -> tuple[EnsembleMember, ...]:
    """Returns the models of more runs, which translate together with the first.

    average: number of checkpoints to average, the last ones; 1 is the best checkpoint.

    Raises ValueError as `checked_others`.
    """
    members = []
    for run in checked_others(engine, directories, first):
        chosen = steps(run, None, average)
        model, params, _ = load(engine, run, chosen, layout, weights)
        members.append(EnsembleMember(model, params, run.directory, tuple(chosen)))
    return tuple(members)


def _check_fits(run: Run, first: Run) -> None:
    """Raises ValueError for a run that cannot translate together with the first."""
    manifest, expected = read_manifest(run.manifest), read_manifest(first.manifest)
    configs = run.model().config, first.model().config
    facts: dict[str, tuple[Any, Any]] = {
        f"{side} vocabulary": (manifest.vocabulary_hash[side], expected.vocabulary_hash[side])
        for side in expected.vocabulary_hash
    }
    ids, of_first = ((each.pad_id, each.eos_id, each.start_id) for each in configs)
    facts["special tokens"] = ids, of_first
    facts["source language"] = manifest.source or "many", expected.source or "many"
    facts["target language"] = manifest.target or "many", expected.target or "many"
    if any(each.languages for each in configs):
        facts["languages"] = manifest.languages, expected.languages
    for name, (found, wanted) in facts.items():
        if found != wanted:
            raise ValueError(
                f"{run.directory} and {first.directory} cannot be an ensemble: they differ in the "
                f"{name}"
            )


def steps(run: Run, step: int | None, average: int) -> list[int]:
    """Returns the step of a checkpoint, the best by default, or those of the last `average` ones.
    """
    if average == 1:
        return [run.best_step() if step is None else step]
    keep = None
    if run.config.is_file():
        with config.isolated(run.config):
            keep = config.value(checkpoint.Policy, "keep", checkpoint.Policy.keep)
    return run.last_steps(average, step=step, keep=keep)


def source_length(run: Run, *others: str | Path, default: int) -> int:
    """Returns the most source tokens of a line that all runs were trained with."""
    lengths = []
    for each in (run, *map(Run, others)):
        with config.isolated(each.config):
            lengths.append(config.macro("TASK_FEATURE_LENGTHS", {"inputs": default})["inputs"])
    return min(lengths)


def _params(
    run: Run, model: Transformer, steps: Sequence[int], layout: sharding.Layout | None = None
) -> Any:
    """Returns the parameters of a checkpoint, or the mean of several."""
    shapes = layout.shapes(boxed_shapes(model)) if layout else parameter_shapes(model)
    if len(steps) == 1:
        return checkpoint.restore_params(run.directory, shapes, step=steps[0])
    return checkpoint.average(run.directory, shapes, last=len(steps), step=steps[-1])


def layout_of(model_dir: str | Path, engine: str = "jax") -> sharding.Layout | None:
    """Returns the layout that the loaded configuration binds, else that of the run.

    It is None for one device without such a binding, for a directory without a configuration, and
    for an engine that does not need the devices of JAX.
    """
    run = Run(model_dir)
    if config.binds(sharding.Layout) or config.binds(sharding.device_mesh):
        return _configured()
    if engine != "jax" or jax.device_count() == 1 or not run.config.is_file():
        return None
    with config.isolated(run.config):
        return _configured()


def _configured() -> sharding.Layout:
    mesh = config.configured(sharding.device_mesh)()
    return config.configured(sharding.Layout)(mesh=mesh)
