"""Makes a forecast from the flags of `mmt data forecast` and a run's gin files.

It determines corpus, mixture, steps and batch. `mmt.data.forecast.forecast` makes the forecast,
`mmt.data.forecast.fitting` finds mixtures within bounds.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmt.data import pipeline, recipe
from mmt.data.cache import Cache
from mmt.data.forecast import fitting, forecast
from mmt.data.mixing import Mixing


class ForecastArguments(NamedTuple):
    """The arguments of `mmt data forecast`; None for arguments that are not given."""

    corpus: str | None = None
    steps: int | None = None
    batch: int | None = None
    temperature: float | None = None
    max_epochs: float | None = None
    fit: str | None = None


def make_forecast(
    arguments: ForecastArguments, gin_files: Sequence[str] = (), bindings: Sequence[str] = ()
) -> tuple[forecast.Forecast, Mixing | None]:
    """Returns the forecast, and the mixture that `arguments.fit` leads to.

    Gin files give stages, lengths, packing and seed, and all values that `arguments` leave open.
    Without gin files the lengths are those of `runs/train.gin`. A cache has exact lengths; those of
    a corpus description are estimates.

    Raises:
      ValueError: steps, batch or corpus are missing; the cache of the gin files is that of another
        mixture, or its corpus has changed; a mixture is given although the stages have mixtures, or
        by both --fit and --max_epochs.
    """
    if arguments.fit is not None and arguments.max_epochs is not None:
        raise ValueError("--fit and --max_epochs exclude each other; allowed: --fit 'epochs<=N'")
    if gin_files:
        source, mixture, run_options, make = _from_gin(arguments, gin_files, bindings)
    else:
        run_options, mixture = {"steps": arguments.steps, "batch": arguments.batch}, Mixing()
        source = forecast.open_source(arguments.corpus) if arguments.corpus else None
        make = functools.partial(pipeline.train_batches, feature_lengths=forecast.LENGTHS)
    missing = [f"--{name}" for name, value in run_options.items() if value is None]
    if source is None or missing:
        names = ["CORPUS"] * (source is None) + missing
        raise ValueError(f"missing: {', '.join(names)}; add them, or the run's --gin_file")
    if arguments.temperature is not None:
        mixture = dataclasses.replace(mixture, temperature=arguments.temperature)
    if arguments.max_epochs is not None:
        mixture = dataclasses.replace(mixture, max_epochs=arguments.max_epochs, examples=None)
    steps, batch = int(run_options["steps"] or 0), int(run_options["batch"] or 0)

    def make_batches(mixture: Mixing) -> pipeline.TrainBatches:
        return make(cache_dir=source, batch_size=batch, mixing=mixture)

    if arguments.fit is not None:
        mixture, result = fitting.fit(make_batches, arguments.fit, mixture, steps)
        return result, mixture
    batches = make_batches(fitting.cap_mixture(make_batches, mixture, steps))
    batches.close()
    return forecast.forecast(batches, steps), None


def _from_gin(
    arguments: ForecastArguments, gin_files: Sequence[str], bindings: Sequence[str]
) -> tuple[Cache | None, Mixing, dict[str, int | None], Callable[..., pipeline.TrainBatches]]:
    from mmt import config

    if arguments.steps is not None:  # a schedule depends on them too
        bindings = [*bindings, f"TRAIN_STEPS={arguments.steps}"]
    config.load(gin_files, bindings, may_leave_open=True)
    if arguments.corpus is not None and config.bound(pipeline.train_batches, "cache_dir"):
        # gin would evaluate the cache's name, which may be missing
        without_cache = [*bindings, "pipeline.train_batches.cache_dir=''"]
        config.load(gin_files, without_cache, may_leave_open=True)

    def or_macro(value: Any, name: str) -> Any:
        return config.macro(name) if value is None else value

    mixture_arguments = arguments.temperature, arguments.max_epochs, arguments.fit
    changes_mixture = any(value is not None for value in mixture_arguments)
    if changes_mixture and config.bound(pipeline.train_batches, "stages"):
        raise ValueError(
            "the gin files have stages with separate mixtures: --temperature, --max_epochs and "
            "--fit are for runs without stages; bind their values, as in --gin.TEMPERATURE=3"
        )
    corpus = arguments.corpus
    if corpus is None and config.macro("MIXTURE_OR_TASK_NAME"):
        cache_dir = config.macro("CACHE_DIR")
        has_cache = bool(cache_dir) and Path(cache_dir).is_dir()
        if has_cache and config.bound(recipe.CacheConfig, "directory"):
            has_cache = config.configured(recipe.CacheConfig)().present()
        corpus = cache_dir if has_cache else config.macro("CORPUS")
    return (
        forecast.open_source(corpus, config.macro("MIXTURE_OR_TASK_NAME") or "")
        if corpus
        else None,
        config.configured(Mixing)(),
        {
            "steps": or_macro(arguments.steps, "TRAIN_STEPS"),
            "batch": or_macro(arguments.batch, "BATCH_SIZE"),
        },
        config.configured(pipeline.train_batches),
    )
