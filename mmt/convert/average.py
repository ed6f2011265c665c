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
from mmt.model.config import Config
from mmt.run import Run

# Options that do not change a translation, or only by rounding. `mlp_dim`: the shapes decide.
_FREE = {
    "dropout_rate", "activation_dropout", "source_word_dropout", "target_word_dropout", "dtype",
    "remat", "unroll", "scan_layers",
}  # fmt: skip
_FREE_OF_EXPERTS = {
    "mlp_dim", "group_size", "capacity_factor", "jitter", "expert_dropout", "gate_budget",
    "gate_dropout", "balance_rate", "init_scale", "router_dtype", "dispatch",
}  # fmt: skip


def average(
    model_dirs: Sequence[str | Path], out: str | Path, weights: Sequence[float] | None = None
) -> None:
    """Writes the run directory `out` with the weighted mean of the best checkpoints of runs.

    Configuration, languages and vocabularies are those of the first run.

    Args:
        model_dirs: two or more run directories with models of one architecture and direction, and
            the same vocabularies.
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
    """Raises ValueError if two runs differ in data, parameters, or what is computed with them."""
    _check_data(first, other)
    models = [run.model() for run in (first, other)]
    try:
        parameter_names.check(parameter_names.shapes(models[1]), models[0])
        _check_options(*(model.config for model in models))
    except ValueError as error:
        raise ValueError(
            f"{other.directory} has another model than {first.directory}: {error}"
        ) from None


def _check_data(first: Run, other: Run) -> None:
    """Raises ValueError if two runs differ in vocabularies, direction, or routed languages."""
    manifests = [read_manifest(run.manifest) for run in (first, other)]
    hashes = [manifest.vocabulary_hash for manifest in manifests]
    for side in hashes[0]:
        if hashes[0][side] != hashes[1][side]:
            raise ValueError(
                f"{other.directory} has another {side} vocabulary ({hashes[1][side]}) than "
                f"{first.directory} ({hashes[0][side]}): their pieces have no common mean"
            )
    sides = [(manifest.source, manifest.target) for manifest in manifests]
    if sides[0] != sides[1] and all(map(any, sides)):  # an imported model names no language
        names = [f"from {source}" if source else f"into {target}" for source, target in sides]
        raise ValueError(
            f"{other.directory} translates {names[1]}, {first.directory} {names[0]}: their "
            "weights have no common mean"
        )
    if first.model().config.languages and manifests[0].languages != manifests[1].languages:
        raise ValueError(
            f"{other.directory} has other languages than {first.directory}, which routes by them"
        )


def _check_options(first: Config, other: Config) -> None:
    wanted, found = map(_options, (first, other))
    if differences := [name for name in wanted if found[name] != wanted[name]]:
        raise ValueError(
            ", ".join(f"{name} is {found[name]}, there {wanted[name]}" for name in differences)
        )


def _options(c: Config) -> dict[str, str]:
    """Returns the options that change what a model computes, by their names in gin."""
    parts: list[tuple[object, set[str]]] = [(c, _FREE | {"moe"})]
    parts += [(c.moe, _FREE_OF_EXPERTS)] if c.moe_period else []
    return {
        f"{type(part).__name__}.{name}": str(getattr(value, "__name__", value))
        for part, free in parts
        for name, value in vars(part).items()
        if name not in free
    }
