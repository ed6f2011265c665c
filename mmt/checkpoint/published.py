"""Published weights: one file in bfloat16 or int8, read only with its card and equal SHA-256 sums.

The file is `checkpoints/<step>/weights.npz` of a run directory. An int8 matrix has a float32 scale
per row (all axes but the last one). Vectors and narrow matrices stay in float32.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np

from mmt.checkpoint.streaming import path_name
from mmt.run import Run

DTYPES = ("bfloat16", "int8")
_NARROW = 8  # narrower rows (relative biases) are few, and their scales would take half the gain
_SCALE = ":scale"


def write_weights(model_dir: Path, params: Any, *, step: int, dtype: str) -> None:
    """Writes the parameters of a step as published weights. Raises ValueError for other dtypes."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype: {dtype!r}; allowed: {', '.join(DTYPES)}")
    stored: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name, array = path_name(path), np.asarray(leaf, np.float32)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite: it has NaN or infinite numbers")
        if array.ndim < 2 or array.shape[-1] < _NARROW:
            stored[name] = array
        elif dtype == "bfloat16":
            stored[name] = array.astype(ml_dtypes.bfloat16).view(np.uint16)
        else:
            scale = np.abs(array).max(-1, keepdims=True) / 127
            scale[scale == 0] = 1
            stored[name] = np.rint(array / scale).astype(np.int8)
            stored[name + _SCALE] = scale.astype(np.float32)
    file = Run(model_dir).weights(step)
    file.parent.mkdir(parents=True)
    with file.open("wb") as stream:
        np.savez(stream, **stored)  # type: ignore[arg-type]


def read_weights(model_dir: Path, step: int) -> dict[str, np.ndarray]:
    """Returns the float32 arrays of published weights by path, after `check`."""
    check(model_dir)
    file = Run(model_dir).weights(step)
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    params = {}
    for name, array in arrays.items():
        if name.endswith(_SCALE):
            continue
        if array.dtype == np.uint16:
            array = array.view(ml_dtypes.bfloat16)
        params[name] = array.astype(np.float32) * arrays.get(name + _SCALE, np.float32(1))
    return params


def write_hashes(model_dir: Path) -> None:
    """Writes the SHA-256 sums of all files but exports, as `sha256sum -c` reads them."""
    run = Run(model_dir)
    exports = run.exports
    _write_sums(run, (f for f in _files(run) if not f.absolute().is_relative_to(exports)))


def _files(run: Run) -> set[Path]:
    return {path for path in run.directory.rglob("*") if path.is_file() and path != run.hashes}


def _write_sums(run: Run, files: Iterable[Path]) -> None:
    names = sorted(file.relative_to(run.directory).as_posix() for file in files)
    text = "".join(f"{sha256(run.directory / name)}  {name}\n" for name in names)
    run.hashes.write_text(text, encoding="utf-8")


def check(model_dir: Path) -> None:
    """Raises ValueError if the card or the sums are missing, or a file differs from its sum."""
    run = Run(model_dir)
    for file in (run.card, run.hashes):
        if not file.is_file():
            raise ValueError(
                f"{model_dir}: weights without their card: it has no {file.name}; published "
                "weights are used only with the files that name their data, licences and hashes"
            )
    sums = _sums(run)
    weights = filter(Path.is_file, map(run.weights, run.checkpoint_steps()))
    for file in (run.card.absolute(), *weights):
        if file.relative_to(model_dir.absolute()).as_posix() not in sums:
            raise ValueError(f"{run.hashes} has no sum of {file}")
    for name, expected in sums.items():
        file = model_dir / name
        if not file.is_file():
            raise ValueError(f"{file} is missing, but {run.hashes.name} names it")
        if (digest := sha256(file)) != expected:
            raise ValueError(f"{file} has other bytes: sha256 {digest}, expected {expected}")


def _sums(run: Run) -> dict[str, str]:
    try:
        lines = run.hashes.read_text(encoding="utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError as error:
        raise ValueError(f"{run.hashes} is no file of sha256sum") from error


@contextlib.contextmanager
def updated(model_dir: Path) -> Iterator[None]:
    """Writes the sums again after files of a published model are replaced or added.

    The model is checked first. Files that lay there without a sum, such as rows of an evaluation,
    get none: they change with the next one. Other run directories have no sums.
    """
    run = Run(model_dir)
    if not run.hashes.is_file():
        yield
        return
    check(model_dir)
    named = {run.directory / name for name in _sums(run)}
    without = _files(run) - named
    yield
    _write_sums(run, _files(run) - without)


def sha256(file: Path) -> str:
    """Returns the SHA-256 sum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
