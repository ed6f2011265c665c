"""Forecasts training steps on this CPU from two microbenchmarks, and measures them.

    python -m benchmarks.forecast.small_runs

The microbenchmarks are a product of matrices (FLOP/s) and a softmax-like function of one array
(bytes/s of memory). They take the place of a chip's constants; the step is compiled and forecast as
`mmt plan --run` does it. Microbenchmarks and steps are timed alternately, and the best of each
counts, so other load affects all of them. The goal is a forecast within 25 % of the measured step.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import plan, sharding, trainer
from mmt.plan import compile, step_time
from mmt.plan.chips import Chip
from mmt.system import environment

GOAL = 0.25
ROUNDS, STEPS = 5, 3
PRODUCT = (2048, 512, 2048)  # rows, depth and columns: a layer of an MLP
ELEMENTS = (2048, 1024)  # float32 values: an activation of an MLP, 8 MiB
TINY, TINY_MOE = "gin_configs/models/tiny.gin", "gin_configs/models/tiny_moe.gin"


class SmallRun(NamedTuple):
    """A model as gin files and bindings, with its batch."""

    file: str
    bindings: tuple[str, ...]


def run(file: str, rows: int, length: int, **options: object) -> SmallRun:
    """Returns a run with `rows` rows of `length` tokens a side; `options` are fields of Config."""
    sizes = [f"transformer.Config.{name}={value!r}" for name, value in options.items()]
    lengths = f"TASK_FEATURE_LENGTHS={{'inputs': {length}, 'targets': {length}}}"
    return SmallRun(file, (f"BATCH_SIZE={rows}", lengths, *sizes))


WIDE = {"emb_dim": 256, "num_heads": 4, "head_dim": 64, "mlp_dim": 1024}
MIDDLE = {"emb_dim": 384, "num_heads": 6, "head_dim": 64, "mlp_dim": 1536}
WIDER = {"emb_dim": 512, "num_heads": 8, "head_dim": 64, "mlp_dim": 2048}
RUNS = {
    "d 128, 2+2 layers, 32 x 64": run(TINY, 32, 64),
    "d 128, 2+2 layers, 8 x 256": run(TINY, 8, 256),
    "d 128, 2+2 layers, 8 experts, 32 x 64": run(TINY_MOE, 32, 64),
    "d 256, 4+2 layers, 16 x 128": run(TINY, 16, 128, encoder_layers=4, **WIDE),
    "d 256, 4+2 layers, 8 experts, 16 x 64": run(TINY_MOE, 16, 64, encoder_layers=4, **WIDE),
    "d 384, 6+2 layers, 8 x 128": run(TINY, 8, 128, encoder_layers=6, **MIDDLE),
    "d 512, 4+4 layers, 16 x 64": run(TINY, 16, 64, encoder_layers=4, decoder_layers=4, **WIDER),
}  # fmt: skip


class Rates(NamedTuple):
    """The two microbenchmarks: FLOP/s of products, bytes/s of other instructions."""

    flops: float
    bandwidth: float


def microbenchmarks() -> tuple[Callable[[], float], Callable[[], float]]:
    """Returns functions that measure FLOP/s and bytes/s once."""
    rows, depth, columns = PRODUCT
    left, right = jnp.ones((rows, depth)), jnp.ones((depth, columns))
    values = jnp.ones(ELEMENTS)
    product = jax.jit(jnp.matmul)
    pointwise = jax.jit(lambda x: jax.nn.softmax(x) * x)

    def flops() -> float:
        return 2.0 * rows * depth * columns / _seconds(lambda: product(left, right))

    def bandwidth() -> float:
        return 4.0 * 2 * math.prod(ELEMENTS) / _seconds(lambda: pointwise(values))

    return flops, bandwidth


def _seconds(work: Callable[[], object]) -> float:
    jax.block_until_ready(work())
    began = time.perf_counter()
    for _ in range(STEPS):
        jax.block_until_ready(work())
    return (time.perf_counter() - began) / STEPS


def step_of(run: SmallRun) -> Callable[[], tuple[trainer.TrainState, jax.Array]]:
    """Returns a training step of `mmt train`, with random tokens."""
    layout = sharding.Layout()
    made, _ = compile.trainer_of([run.file], run.bindings, layout)
    random = np.random.default_rng(0)

    def filled(name: str, shape: jax.ShapeDtypeStruct) -> np.ndarray:
        if name.endswith("tokens"):
            return random.integers(2, made.model.config.vocab_size, shape.shape, dtype=np.int32)
        count = np.arange(shape.shape[1], dtype=np.int32)
        whole = count if name.endswith("positions") else 0 * count + ("language" not in name)
        return np.broadcast_to(whole, shape.shape).astype(shape.dtype)

    shapes = compile.batch_shapes(layout)
    batch = made.place({name: filled(name, shape) for name, shape in shapes.items()})
    state: trainer.TrainState = made.init(compile.LANGUAGES)

    def step() -> tuple[trainer.TrainState, jax.Array]:
        nonlocal state
        state, loss = made.step(state, batch)
        return state, loss

    return step


def forecast(answer: plan.TopologyPlan, rates: Rates) -> float:
    """Returns the seconds of a step on a chip with these rates, all of them achievable."""
    chip = Chip(
        rates.flops, answer.machine.chip.memory, rates.bandwidth, link=None, links=0, dimensions=0,
        product_share=1.0, memory_share=1.0,
    )  # fmt: skip
    machine = dataclasses.replace(answer.machine, chip=chip)
    return step_time.forecast(dataclasses.replace(answer, machine=machine)).seconds


def main() -> None:
    """Compiles and times every run, and prints the table."""
    environment.start_again_with_large_pages()
    print(header())
    flops, bandwidth = microbenchmarks()
    table = Table("run", "GFLOP/s", "GB/s", "forecast, s", "measured, s", "ratio")
    ratios = []
    for name, small in RUNS.items():
        answer, step = plan.plan([small.file], small.bindings, "cpu:1"), step_of(small)
        rounds = [(flops(), bandwidth(), _seconds(step)) for _ in range(ROUNDS)]
        rates = Rates(*(max(values) for values in list(zip(*rounds, strict=True))[:2]))
        measured, expected = min(seconds for *_, seconds in rounds), forecast(answer, rates)
        ratios.append(expected / measured)
        table.add_row(
            name, f"{rates.flops / 1e9:.0f}", f"{rates.bandwidth / 1e9:.1f}", f"{expected:.3f}",
            f"{measured:.3f}", f"{ratios[-1]:.2f}",
        )  # fmt: skip
    Console(width=110).print(table)
    inside = sum(abs(ratio - 1) <= GOAL for ratio in ratios)
    print(f"{inside} of {len(ratios)} within {GOAL:.0%}")


if __name__ == "__main__":
    main()
