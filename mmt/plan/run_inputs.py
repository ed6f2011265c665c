"""Builds the forecast of a run from gin files: conditions, corpus, and the compiled step.

Compiling takes minutes for the largest models. With a directory, the compiled step is stored there
as `program-KEY.json` and reused for the same model, run, mesh, topology and compiler.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from mmt import config
from mmt.checkpoint import Policy
from mmt.data.mixing import Mixing
from mmt.data.pipeline import train_batches
from mmt.plan import corpus_sizes, estimate, measured, step_time, topology
from mmt.plan.compile import AMOUNT, with_run
from mmt.plan.goodput import Failures
from mmt.plan.run_forecast import RunConditions, RunForecast
from mmt.system.atomic import write_json

# Bindings without effect on the compiled step.
_FORECAST_BINDINGS = ("run_forecast.", "goodput.", "mixing.", "checkpoint.", "pipeline.", "recipe.",
                    "hooks.", "validation.", "schedule.")  # fmt: skip
Settings = TypeVar("Settings", RunConditions, Failures)
_FORECAST_MACROS = ("TOKENS", "PRICE", "MEASURED", "CORPUS", "MIXTURE_OR_TASK_NAME", "MODEL_DIR",
           "TEMPERATURE", "TRAIN_STEPS", "CHECKPOINT_PERIOD", "EVAL_PERIOD",
           "CACHE_DIR")  # fmt: skip


def forecast(
    files: Sequence[str], bindings: Sequence[str], name: str, directory: Path | None = None
) -> RunForecast:
    """Returns the forecast of a run.

    Args:
        files: gin files, as for `plan`. CORPUS is a corpus, a cache, or a description with numbers
            (`corpus_sizes`); without it the forecast has no data.
        bindings: gin bindings, such as 'PRICE=2.0', 'TOKENS=5e11' or
            'goodput.Failures.spare_hosts=4'.
        name: name of the topology, such as 'v3:32x32'.
        directory: where the compiled step is kept; None: nowhere.

    With MEASURED, a run directory, rates of saving and restarting are those of that run, except
    where a binding sets them.

    Raises:
        ValueError: as `plan`; a run without measurements; a corpus without sizes; a rate or price
            below zero; a CPU.
    """
    machine = topology.parse(name)
    if not machine.tpu and machine.chip.flops is None:
        raise ValueError(f"{name}: no forecast for CPUs, whose rates are not known; known, of any "
                         f"size: {', '.join(topology.EXAMPLES[:-1])}")  # fmt: skip
    config.load([AMOUNT, *with_run(files)], bindings, may_leave_open=True)
    conditions, failures = config.configured(RunConditions)(), config.configured(Failures)()
    run_directory = config.macro("MEASURED")
    measured_run = measured.read(run_directory) if run_directory else None
    if measured_run:
        conditions, failures = (
            _with_measured(conditions, measured_run),
            _with_measured(failures, measured_run),
        )
    tokens = config.macro("TOKENS")
    if isinstance(tokens, bool) or not isinstance(tokens, int | float) or not tokens > 0:
        raise ValueError(f"TOKENS = {tokens!r}; allowed: above 0")
    corpus, mixture = config.macro("CORPUS"), config.configured(Mixing)()
    sizes = corpus_sizes.read(corpus) if corpus else None
    exposures = corpus_sizes.exposure(sizes, mixture, float(tokens)) if sizes else None
    if sizes and config.bound(train_batches, "schedule"):
        text = "shares and passes are planned ones, which pipeline.train_batches.schedule changes"
        sizes = dataclasses.replace(sizes, note="; ".join(filter(None, (sizes.note, text))))
    vocabulary = config.macro("VOCAB_SIZE", 32_000)
    target = config.macro("TARGET_VOCAB_SIZE", 0) or vocabulary
    policy = config.configured(Policy)()
    plan = _program(files, bindings, name, _key(name), directory)
    run_forecast = RunForecast(
        plan, step_time.forecast(plan), conditions, failures, sizes, exposures,
        vocabularies=(vocabulary, target), measured=measured_run,
    )  # fmt: skip
    return _with_interval(run_forecast, policy)


def _with_measured(settings: Settings, measured_run: measured.MeasuredRun) -> Settings:
    """Returns the settings with the measured values of those that no gin binding sets."""
    fields = {field.name for field in dataclasses.fields(settings)}
    names = fields & {field.name for field in dataclasses.fields(measured_run)}
    unbound = [name for name in names if config.bound(type(settings), name) is None]
    return dataclasses.replace(settings, **{name: getattr(measured_run, name) for name in unbound})


def _with_interval(run_forecast: RunForecast, policy: Policy) -> RunForecast:
    """Returns the forecast with the interval of the policy: of `minutes`, or of the checkpoints."""
    interval = policy.period * run_forecast.step_seconds
    if policy.minutes:
        min_interval = run_forecast.checkpoint["save_seconds"] / policy.saving_share
        interval = min(interval, max(policy.minutes * 60, min_interval))
    return dataclasses.replace(run_forecast, interval=interval)


def _key(name: str) -> str:
    """Returns a hash of everything that the compiled step depends on."""
    relevant = {
        binding: repr(value)
        for binding, value in config.flat().items()
        if binding not in _FORECAST_MACROS and not binding.startswith(_FORECAST_BINDINGS)
    }
    versions = [_version(package) for package in ("mmt", "jax", "libtpu")]
    level = os.environ.get("JAX_OPTIMIZATION_LEVEL", "")
    content = json.dumps([name, sorted(relevant.items()), versions, level])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _program(
    files: Sequence[str], bindings: Sequence[str], name: str, key: str, directory: Path | None
) -> estimate.TopologyPlan:
    """Returns the plan of the step, from the directory if it is stored there under this key."""
    file = directory / f"program-{key}.json" if directory else None
    if file and file.is_file():
        answer = {**_read(file), "tokens": float(config.macro("TOKENS"))}
        return estimate.TopologyPlan(topology.parse(name), answer)
    plan = estimate.plan(files, bindings, name)
    if file:
        write_json(file, dict(plan.answer))
    return plan


def _read(file: Path) -> dict[str, Any]:
    """Returns a stored answer of `compile`. Raises ValueError for another file."""
    try:
        stored_answer = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not a compiled step: {error}; remove it") from None
    if not isinstance(stored_answer, dict) or "work" not in stored_answer:
        raise ValueError(f"{file}: not a compiled step; remove it")
    return stored_answer
