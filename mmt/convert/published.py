"""Writes a published model: the part of a run directory that translates, with small weights."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

from mmt import checkpoint
from mmt.checkpoint import published
from mmt.convert.hf import staged
from mmt.data.cache.manifest import read_manifest
from mmt.model.transformer import parameter_shapes
from mmt.run import Run


def publish(
    model_dir: str | Path, out: str | Path, *, dtype: str, card: Callable[[str, int], str]
) -> None:
    """Writes the best checkpoint of a run directory as the published model `out`.

    card: called with the SHA-256 sum and the bytes of the weights; returns the text of README.md.

    Raises ValueError if `out` exists, or the run is incomplete. No partial output is left.
    """
    run = Run(model_dir)
    run.check_is_model()
    step = run.best_step()
    params = checkpoint.restore_params(run.directory, parameter_shapes(run.model()), step=step)
    with staged(Path(out)) as temporary:
        new = Run(temporary)
        optional = filter(Path.is_file, (run.identifier, run.risk))
        for file in {run.config, *run.vocabularies().values(), *optional}:
            shutil.copyfile(file, temporary / file.name)
        # The names of the corpus files are paths of the machine that trained.
        dataclasses.replace(read_manifest(run.manifest), corpora={}, origins=[]).write(temporary)
        published.write_weights(temporary, params, step=step, dtype=dtype)
        weights = new.weights(step)
        text = card(published.sha256(weights), weights.stat().st_size)
        new.card.write_text(text, encoding="utf-8")
        published.write_hashes(temporary)
