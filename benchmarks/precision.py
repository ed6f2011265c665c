"""Measures the effect of low precision on a mixture of experts, as Switch Transformers' Table 2.

    python -m benchmarks.precision

A small Switch model learns the demo's corpus, which is built if missing (extra [data]). It trains
in float32; in bfloat16 with the router in float32, "selective precision" (section 2.4 of the
paper); and in bfloat16 with the router's logits and softmax in bfloat16 too. Parameters, optimizer,
norms, attention softmax and loss are always float32. A seed determines parameters and data order,
the same for each precision. Only losses are reported: CPUs emulate bfloat16, so their speed tells
nothing about accelerators.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import config, train
from mmt.cli.data_commands import make_cache
from mmt.data import pipeline

SEEDS, STEPS = 3, 300
DEMO = "gin_configs/examples/demo.gin"
SWITCH = (
    f"TRAIN_STEPS={STEPS}", "BATCH_SIZE=16",
    "transformer.Config.emb_dim=64", "transformer.Config.num_heads=2",
    "transformer.Config.mlp_dim=192",
    "moe.MoeConfig.router=@moe.switch_top1", "moe.MoeConfig.num_experts=32",
    "moe.MoeConfig.capacity_factor=1.25", "moe.MoeConfig.jitter=0.01",
)  # fmt: skip
BFLOAT16 = "transformer.Config.dtype='bfloat16'"
PRECISIONS: dict[str, tuple[str, ...]] = {
    "float32": (),
    "selective": (BFLOAT16,),
    "bfloat16": (BFLOAT16, "moe.MoeConfig.router_dtype='bfloat16'"),
}


def losses(bindings: Sequence[str]) -> list[float]:
    """Returns validation loss in nats per target token after STEPS steps, for each seed."""
    config.load([DEMO], bindings)
    make_cache()
    program = config.configured(train.Trainer)()
    held_out = config.configured(pipeline.eval_batches)(limit=4)
    return [_loss(program, held_out, seed) for seed in range(SEEDS)]


def _loss(program: train.Trainer, held_out: pipeline.EvalBatches, seed: int) -> float:
    batches = config.configured(pipeline.train_batches)(seed=seed)
    languages = len(batches.manifest.languages)
    state = dataclasses.replace(program, seed=seed).init(languages)
    for _ in range(STEPS):
        state, _ = program.step(state, program.place(next(batches)))
    batches.close()
    nll = tokens = 0.0
    for batch in held_out:
        sums = program.evaluate(state.params, program.place(batch), languages=languages).sums
        nll, tokens = nll + float(sums["nll"]), tokens + float(sums["target_tokens"])
    return nll / tokens


def verdict(reference: list[float], other: list[float]) -> str:
    """Returns whether two precisions differ by more than two standard errors, in words."""
    if not all(map(math.isfinite, [*reference, *other])):
        return "diverged"
    error = math.sqrt((np.var(reference, ddof=1) + np.var(other, ddof=1)) / SEEDS)
    difference = np.mean(other) - np.mean(reference)
    within = "within" if abs(difference) <= 2 * error else "BEYOND"
    return f"{difference:+.4f}, {within} seed noise (two standard errors: {2 * error:.4f})"


def main() -> None:
    """Prints the table."""
    print(header())
    print(f"2+2 layers of width 64, 32 experts, top-1; {STEPS} steps, {SEEDS} seeds")
    by_precision = {name: losses([*SWITCH, *bindings]) for name, bindings in PRECISIONS.items()}
    table = Table("precision", "-log ppl, mean ± sd", "its loss less float32's")
    for name, each in by_precision.items():
        against = "" if name == "float32" else verdict(by_precision["float32"], each)
        table.add_row(name, f"{-np.mean(each):.4f} ± {np.std(each, ddof=1):.4f}", against)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
