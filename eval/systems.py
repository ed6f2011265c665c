"""Systems under evaluation, and the fields that identify them in result rows."""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mmt.checkpoint import digests
from mmt.data.cache.manifest import read_manifest
from mmt.run import Run


@dataclasses.dataclass(frozen=True)
class System:
    """A system under evaluation. The fields are those of `results.Row`; `train_pairs` is by FLORES
    code. A run that is trained anew has other `weights` under the same names.
    """

    name: str
    kind: str
    checkpoint: str
    config: str
    train_pairs: Mapping[str, int]
    weights: str = ""


def system_of(
    model_dir: Path, *, step: int | Sequence[int], name: str = "", kind: str = ""
) -> System:
    """Returns the system of a run directory at a step, or of the average of several steps.

    name: default, the directory's name. kind: default, `bilingual` for a run with one source
    language, else `multilingual`. Raises ValueError if the directory is no run.
    """
    run = Run(model_dir)
    run.check_is_model(run.manifest, run.config)
    manifest = read_manifest(run.manifest)
    train_counts = manifest.counts.get("train", {})  # an imported model has none
    counts = {code: train_counts[code] for code in manifest.translated if code in train_counts}
    folder = model_dir.resolve().name
    steps = [step] if isinstance(step, int) else step
    return System(
        name=name or folder,
        kind=kind or ("bilingual" if len(counts) == 1 else "multilingual"),
        checkpoint=f"{folder}/{'+'.join(map(str, steps))}",
        config=hashlib.sha256(run.config.read_bytes()).hexdigest()[:12],
        train_pairs=counts,
        weights=digests.of_steps(run, steps),
    )


def ensemble_of(*systems: System) -> System:
    """Returns the system of models that translate together; its name is that of all, joined by `+`.

    A language has the pairs of the model that was trained on most of it. The kind is `bilingual` if
    all models are: with a multilingual one, the ensemble is no baseline.
    """
    pairs: dict[str, int] = {}
    for system in systems:
        pairs |= {code: max(n, pairs.get(code, 0)) for code, n in system.train_pairs.items()}
    return System(
        name="+".join(system.name for system in systems),
        kind="bilingual" if {each.kind for each in systems} == {"bilingual"} else "multilingual",
        checkpoint=", ".join(system.checkpoint for system in systems),
        config=_hash(each.config for each in systems),
        train_pairs=pairs,
        weights=_hash(each.weights for each in systems),
    )


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()[:12]
