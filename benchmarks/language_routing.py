"""Measures how many tokens an expert's capacity drops with routing by language.

    python -m benchmarks.language_routing CACHE_DIR [ROWS] [SOURCE_LENGTH TARGET_LENGTH]

It packs the batches of a training (temperature 1.5) and routes the target tokens by fresh tables of
languages, as at the start of a training. A token is dropped if no expert processes it. Groups have
at most `group_size` tokens.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt.data import pipeline
from mmt.data.mixing import Mixing
from mmt.model import moe

BATCHES = 20
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
ROUTERS = {"gshard_top2": moe.gshard_top2, "switch_top1": moe.switch_top1}


def dropped(
    batch: dict[str, Any], table: np.ndarray, router: moe.Router, *, group_size: int, factor: float
) -> float:
    """Returns the share of a batch's target tokens that no expert processes."""
    ids, padding_mask = batch["decoder_language_ids"], batch["decoder_segment_ids"] > 0
    count = moe.groups(*ids.shape, size=group_size)
    shape = (count, ids.size // count)
    uniform = jax.random.uniform(jax.random.key(0), shape)
    routing = router(
        jnp.asarray(table[ids].reshape(*shape, -1)), jnp.asarray(padding_mask.reshape(shape)),
        capacity_factor=factor, uniform=uniform,
    )  # fmt: skip
    return float(routing.measures["moe_dropped"])


def main(cache_dir: str, rows: int = 12, source: int = 160, target: int = 128) -> None:
    """Prints the share of dropped tokens by router, experts, group size and capacity factor."""
    batches = pipeline.train_batches(
        cache_dir, feature_lengths={"inputs": source, "targets": target}, batch_size=rows,
        mixing=Mixing(temperature=1.5), virtual_shards=rows,
    )  # fmt: skip
    some = [dict(next(batches)) for _ in range(BATCHES)]
    batches.close()
    languages = len(batches.manifest.languages)
    console = Console(width=100)
    console.print(header())
    title = f"dropped tokens, {languages} languages, batches of {rows} x {target} target tokens"
    shown = Table("router", "experts", "group_size", *map(str, FACTORS), title=title)
    for name, router in ROUTERS.items():
        for experts in (8, 16):
            tables = np.random.default_rng(0).normal(0, 0.1**0.5, (BATCHES, languages, experts))
            for size in (512, 1024, rows * target):
                shares = [
                    np.mean([
                        dropped(batch, table, router, group_size=size, factor=factor)
                        for batch, table in zip(some, tables.astype(np.float32), strict=True)
                    ])
                    for factor in FACTORS
                ]  # fmt: skip
                shown.add_row(name, str(experts), str(size), *(f"{x:.1%}" for x in shares))
    console.print(shown)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
