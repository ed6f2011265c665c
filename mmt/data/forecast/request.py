"""From the flags of `mmt data forecast`, and a run's gin files, to a forecast.

It determines corpus, mixture, steps and batch. `mmt.data.forecast.forecast` makes the forecast,
`mmt.data.forecast.fitting` finds mixtures within bounds.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmt.data import pipeline
from mmt.data.cache import Cache
from mmt.data.forecast import fitting, forecast
from mmt.data.mixing import Mixing


class Asked(NamedTuple):
    """The arguments of `mmt data forecast`; None for arguments that are not given."""

    corpus: str | None = None
    steps: int | None = None
    batch: int | None = None
    temperature: float | None = None
    max_epochs: float | None = None
    fit: str | None = None


def foresee(
    asked: Asked, gin_files: Sequence[str] = (), bindings: Sequence[str] = ()
) -> tuple[forecast.Forecast, Mixing | None]:
    """Returns the forecast, and the mixture that `asked.fit` leads to.

    Gin files give stages, lengths, packing and seed, and all values that `asked` leaves open.
    Without gin files the lengths are those of `runs/train.gin`. A cache has exact lengths; those of
    a corpus description are estimates.

    Raises:
      ValueError: steps, batch or corpus are missing; a mixture is given although the stages have
        mixtures, or by both --fit and --max_epochs.
    """
    if asked.fit is not None and asked.max_epochs is not None:
        raise ValueError("--fit and --max_epochs exclude each other; allowed: --fit 'epochs<=N'")
    if gin_files:
        source, mixture, given, make = _from_gin(asked, gin_files, bindings)
    else:
        given, mixture = {"steps": asked.steps, "batch": asked.batch}, Mixing()
        source = forecast.open_source(asked.corpus) if asked.corpus else None
        make = functools.partial(pipeline.train_batches, feature_lengths=forecast.LENGTHS)
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if source is None or missing:
        lacking = ["CORPUS"] * (source is None) + missing
        raise ValueError(f"missing: {', '.join(lacking)}; add them, or the run's --gin_file")
    if asked.temperature is not None:
        mixture = dataclasses.replace(mixture, temperature=asked.temperature)
    if asked.max_epochs is not None:
        mixture = dataclasses.replace(mixture, max_epochs=asked.max_epochs, examples=None)
    steps, batch = int(given["steps"] or 0), int(given["batch"] or 0)

    def made(mixture: Mixing) -> pipeline.TrainBatches:
        return make(cache_dir=source, batch_size=batch, mixing=mixture)

    if asked.fit is not None:
        mixture, result = fitting.fit(made, asked.fit, mixture, steps)
        return result, mixture
    batches = made(fitting.capped(made, mixture, steps))
    batches.close()
    return forecast.forecast(batches, steps), None


def _from_gin(
    asked: Asked, gin_files: Sequence[str], bindings: Sequence[str]
) -> tuple[Cache | None, Mixing, dict[str, int | None], Callable[..., pipeline.TrainBatches]]:
    from mmt import config

    config.load(gin_files, bindings, may_leave_open=True)
    if asked.corpus is not None and config.bound(pipeline.train_batches, "cache_dir"):
        # gin would evaluate the cache's name, which may be missing
        without_cache = [*bindings, "pipeline.train_batches.cache_dir=''"]
        config.load(gin_files, without_cache, may_leave_open=True)

    def given(value: Any, name: str) -> Any:
        return config.macro(name) if value is None else value

    of_mixture = asked.temperature, asked.max_epochs, asked.fit
    changes_mixture = any(value is not None for value in of_mixture)
    if changes_mixture and config.bound(pipeline.train_batches, "stages"):
        raise ValueError(
            "the gin files have stages with separate mixtures: --temperature, --max_epochs and "
            "--fit are for runs without stages; bind their values, as in --gin.TEMPERATURE=3"
        )
    corpus = asked.corpus
    if corpus is None and config.macro("MIXTURE_OR_TASK_NAME"):
        cache_dir = config.macro("CACHE_DIR")
        corpus = cache_dir if cache_dir and Path(cache_dir).is_dir() else config.macro("CORPUS")
    return (
        forecast.open_source(corpus, config.macro("MIXTURE_OR_TASK_NAME") or "")
        if corpus
        else None,
        config.configured(Mixing)(),
        {"steps": given(asked.steps, "TRAIN_STEPS"), "batch": given(asked.batch, "BATCH_SIZE")},
        config.configured(pipeline.train_batches),
    )
