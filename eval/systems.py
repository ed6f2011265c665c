"""The systems that are evaluated, as their rows name them."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmt.data.cache.manifest import read_manifest
from mmt.run import Run


@dataclasses.dataclass(frozen=True)
class System:
    """What is judged, as its rows name it: see `results.Row`. train_pairs: by FLORES code."""

    name: str
    kind: str
    checkpoint: str
    config: str
    train_pairs: Mapping[str, int]


def system_of(
    model_dir: Path, *, step: int | Sequence[int], name: str = "", kind: str = ""
) -> System:
    """The system that a run directory holds at a step, or by the average of several.

    name: the directory's name unless given. kind: `bilingual` for a run with one source language,
    else `multilingual`, unless given. Raises ValueError where the directory is no run.
    """
    run = Run(model_dir)
    run.check_is_model(run.manifest, run.config)
    manifest = read_manifest(run.manifest)
    whole = manifest.counts.get("train", {})  # none of an import
    counts = {code: whole[code] for code in manifest.translated if code in whole}
    folder = model_dir.resolve().name
    steps = [step] if isinstance(step, int) else step
    return System(
        name=name or folder,
        kind=kind or ("bilingual" if len(counts) == 1 else "multilingual"),
        checkpoint=f"{folder}/{'+'.join(map(str, steps))}",
        config=hashlib.sha256(run.config.read_bytes()).hexdigest()[:12],
        train_pairs=counts,
    )
