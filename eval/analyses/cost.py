"""Cost, learning curve and recipe of a run: its `cost`, `curve` and `recipe` rows.

They are computed from the run directory and, if it still exists, the cache it was trained on.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.records.analysis import Cost, Curve, SystemRecipe
from eval.systems import System
from mmt import config, distill, train
from mmt.data import cache, mixing
from mmt.data import recipe as recipes
from mmt.data.cache.manifest import read_manifest
from mmt.plan import parameters
from mmt.run import Run, read_metrics
from mmt.system import environment

_EVALUATED = ("validation_loss", "bleu", "source_use")
POINTS = 200  # most points of a curve, in addition to those of validation


def cost(model_dir: Path, system: System, *, chosen: str = "") -> list[Cost | Curve | SystemRecipe]:
    """Returns the rows of a run directory as `system`; a bilingual system gets no curve.

    chosen: how a baseline's settings were chosen. [] for an imported model, which has no metrics.
    Raises ValueError if the directory's files are broken.
    """
    rows = read_metrics(Run(model_dir).metrics)
    trained = [row for row in rows if "loss" in row]
    recorded = environment.read(Run(model_dir).environment)
    if not trained or recorded is None:
        return []
    source = next(iter(system.train_pairs)) if system.kind == "bilingual" else ""
    seconds = sum(row["seconds"] for row in trained)
    manifest = read_manifest(Run(model_dir).manifest)
    counted = parameters.count(Run(model_dir).model()).whole
    with config.isolated(Run(model_dir).config):
        seed, teacher = config.macro("SEED", 0), _teacher()
        initial = Path(config.value(train.Trainer, "initial_model_dir", ""))
    result: list[Cost | Curve | SystemRecipe] = [
        Cost(
            system=system.name, source=source, steps=trained[-1]["step"],
            tokens=sum(row["target_tokens"] for row in trained), seconds=round(seconds, 1),
            devices=recorded.devices, device=recorded.device, parameters=counted.total,
            active_parameters=counted.active,
            device_hours=round(seconds * recorded.devices / 3600, 5),
            epochs=epochs(model_dir, rows),
        ),
        SystemRecipe(
            system=system.name, source=source, config=system.config,
            text=Run(model_dir).config.read_text(encoding="utf-8"), seed=seed,
            versions=recorded.versions, chosen=chosen, teacher=teacher.name,
            initial=initial.name,
            corpus=manifest.corpus_hash, vocabulary=manifest.vocabulary_hash,
        ),
    ]  # fmt: skip
    return result if source else [*result, curve(system.name, rows)]


def _teacher() -> Path:
    """Returns the run that taught the configured one; a run made of a student has its TEACHER_DIR.
    """
    taught = (config.bound(train.Trainer, "teacher"), config.bound(distill.prepare, "translations"))
    return Path(config.macro("TEACHER_DIR", "") if any(taught) else "")


def curve(system: str, rows: Sequence[dict[str, Any]]) -> Curve:
    """Returns loss in nats per target token (without label smoothing) over steps and tokens."""
    tokens, seconds = 0.0, 0.0
    points: dict[int, dict[str, float]] = {}
    for row in rows:
        point = points.setdefault(row["step"], {})
        if "loss" in row:
            tokens, seconds = tokens + row["target_tokens"], seconds + row["seconds"]
            point["loss"] = row["nll"]
        # Again for each row, because a validation is logged before the tokens of its step.
        point |= {"tokens": tokens, "seconds": round(seconds, 1)}
        point |= {name: row[name] for name in _EVALUATED if name in row}
    every = max(1, -(-len(points) // POINTS))
    series = {
        step: point
        for i, (step, point) in enumerate(points.items())
        if (len(points) - 1 - i) % every == 0 or point.keys() & _EVALUATED
    }
    columns = {
        name: tuple(point.get(name) for point in series.values())
        for name in ("tokens", "seconds", "loss", *_EVALUATED)
    }
    of_each: dict[str, float] = {}
    for row in rows:
        of_each = row.get("language_validation_loss") or of_each
    return Curve(
        system=system, steps=tuple(series), **columns,
        language_validation_loss={code: round(loss, 4) for code, loss in of_each.items()},
    )  # fmt: skip


def epochs(model_dir: Path, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Returns passes over each language's training pairs, by target tokens; {} without the cache.
    """
    examples: Counter[str] = Counter()
    for row in rows:
        examples.update(row.get("language_tokens", {}))
    with config.isolated(Run(model_dir).config):
        directory = Path(config.configured(recipes.CacheConfig)().directory)
    if not Run(directory).manifest.is_file():
        return {}
    opened = cache.open_cache(directory)
    manifest = read_manifest(Run(model_dir).manifest)
    if opened.manifest.corpus_hash != manifest.corpus_hash:
        return {}
    trained_on = set(manifest.corpus_table)
    left_out = [
        number
        for number, entry in enumerate(opened.manifest.corpus_table if trained_on else ())
        if entry[0] in manifest.languages and entry not in trained_on
    ]
    passes = {}
    for code, tokens in examples.items():
        if mixing.is_monolingual(code):
            continue
        lengths = opened.lengths(code, "train")[:, 1] + 1
        if left_out:
            lengths = lengths[~np.isin(opened.manifest.corpus_ids(code), left_out)]
        passes[code] = round(tokens / int(lengths.sum()), 3)
    return passes
