"""Averages the parameters of several runs of one model ("model soup").

Runs that were trained further from the same weights in different ways often have a mean that keeps
what each has learnt, at the cost of one model (Wortsman et al. 2022, arXiv 2203.05482; between a
model and its fine-tuned one: WiSE-FT, arXiv 2109.01903). Runs that were initialised apart have a
mean that is of no use.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmt.convert import derived
from mmt.data.cache.manifest import read_manifest
from mmt.model import parameter_names
from mmt.run import Run


def average(
    model_dirs: Sequence[str | Path], out: str | Path, weights: Sequence[float] | None = None
) -> None:
    """Writes the run directory `out` with the weighted mean of the best checkpoints of runs.

    Configuration, languages and vocabularies are those of the first run.

    Args:
        model_dirs: two or more run directories with models of one shape and the same vocabularies.
        out: a new directory.
        weights: of the runs, above 0 with the sum 1; default: equal.

    Raises:
        ValueError: one run only, other weights, models that differ, or `out` exists.
    """
    runs = [Run(directory) for directory in model_dirs]
    if len(runs) < 2:
        raise ValueError(f"{model_dirs[0]}: one run has no mean; allowed: two or more")
    weights = [1 / len(runs)] * len(runs) if weights is None else weights
    valid = all(weight > 0 for weight in weights) and abs(sum(weights) - 1) <= 1e-3  # NaN is not
    if len(weights) != len(runs) or not valid:
        raise ValueError(
            f"weights {', '.join(map(str, weights))} of {len(runs)} runs; allowed: one per run, "
            "above 0, with the sum 1"
        )
    first = runs[0]
    for run in runs:
        run.check_is_model()
    for run in runs[1:]:
        _check_same(first, run)
    mean: dict[str, np.ndarray] = {}
    for run, weight in zip(runs, weights, strict=True):
        for name, leaf in derived.parameters(run).items():
            part = leaf.astype(np.float32) * np.float32(weight / sum(weights))
            mean[name] = mean[name] + part if name in mean else part
    derived.write_run(first, out, (), read_manifest(first.manifest), mean)


def _check_same(first: Run, other: Run) -> None:
    """Raises ValueError if two runs differ in vocabularies, parameters, or routed languages."""
    manifests = [read_manifest(run.manifest) for run in (first, other)]
    hashes = [manifest.vocabulary_hash for manifest in manifests]
    for side in hashes[0]:
        if hashes[0][side] != hashes[1][side]:
            raise ValueError(
                f"{other.directory} has another {side} vocabulary ({hashes[1][side]}) than "
                f"{first.directory} ({hashes[0][side]}): their pieces have no common mean"
            )
    models = [run.model() for run in (first, other)]
    try:
        parameter_names.check(parameter_names.shapes(models[1]), models[0])
    except ValueError as error:
        raise ValueError(
            f"{other.directory} has another model than {first.directory}: {error}"
        ) from None
    if models[0].config.languages and manifests[0].languages != manifests[1].languages:
        raise ValueError(
            f"{other.directory} has other languages than {first.directory}, which routes by them"
        )
