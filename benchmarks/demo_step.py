"""Measures a training step of the demo, and the effect of its settings, in one run.

    python -m benchmarks.demo_step

Each row changes one setting of `gin_configs/examples/demo.gin`; the ratio is to the demo itself. A
missing cache of the demo is built (needs the extra [data]).
"""

import time

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import config, train
from mmt.cli.data_commands import make_cache
from mmt.data import pipeline
from mmt.system import environment

DEMO = "gin_configs/examples/demo.gin"
STEPS = 10
VARIANTS = {
    "the demo": [],
    "dense": ["transformer.Config.moe_period=0"],
    "Switch top-1": ["moe.MoeConfig.router=@moe.switch_top1"],
    "AdamW": ["OPTIMIZER=@optax.adamw()", "optax.adamw.learning_rate=0.001"],
    "one vocabulary of 6,000": ["TARGET_VOCAB_SIZE=0"],
    "64 target tokens a row": ["TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 64}"],
}


def measure(bindings: list[str]) -> dict[str, float]:
    """Returns best and median seconds of a step, seconds of compilation, and pairs per batch."""
    config.load([DEMO], bindings)
    make_cache()
    program = config.configured(train.Trainer)()
    batches = config.configured(pipeline.train_batches)()
    drawn = [next(batches) for _ in range(4)]
    batches.close()
    pairs = float(np.mean([batch["decoder_segment_ids"].max(axis=1).sum() for batch in drawn]))
    placed = [program.place(batch) for batch in drawn]
    state = program.init(len(batches.manifest.languages))
    seconds = []
    for number in range(STEPS + 1):
        start = time.perf_counter()
        state, loss = program.step(state, placed[number % len(placed)])
        jax.block_until_ready(loss)
        seconds.append(time.perf_counter() - start)
    return {
        "compile": seconds[0], "best": min(seconds[1:]),
        "median": float(np.median(seconds[1:])), "pairs": pairs,
    }  # fmt: skip


def main() -> None:
    """Prints the table."""
    print(f"{header()}; {STEPS} steps each")
    columns = ["variant", "compile s", "best s", "median s", "pairs a step", "pairs/s", "ratio"]
    table = Table(*columns)
    reference = None
    for name, bindings in VARIANTS.items():
        measured = measure(bindings)
        speed = measured["pairs"] / measured["best"]
        reference = reference or speed
        table.add_row(
            name, f"{measured['compile']:.1f}", f"{measured['best']:.3f}",
            f"{measured['median']:.3f}", f"{measured['pairs']:.0f}", f"{speed:,.0f}",
            f"{speed / reference:.2f}",
        )  # fmt: skip
    Console(width=100).print(table)


if __name__ == "__main__":
    environment.start_again_with_large_pages()
    main()
