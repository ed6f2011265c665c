"""Measures the cost of experts: a layer in training, decoding without dropping, a training step.

    python -m benchmarks.moe_layer [layer] [decode] [step]

Each table is one run. Timings alternate, and the best of many counts. "floor" is the experts'
products on a ready buffer, without routing. "dense" is a layer of equal active FLOPs (2 x d_ff for
top-2). The program restarts itself with large pages, as `mmt train` does, because they matter more
than any setting here.
"""

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import train
from mmt.model import dispatch, layers, moe, transformer
from mmt.system import environment

FEATURES, HIDDEN, TOKENS, GROUP = 256, 1024, 4096, 1024
F32 = jnp.dtype("float32")
ROUTERS = {1: moe.switch_top1, 2: moe.gshard_top2}
SECONDS = 0.6  # per measurement, without compilation
Runs = dict[str, Callable[[], object]]


def best_seconds(runs: Runs) -> dict[str, float]:
    """Returns the best time of each run, measured alternately."""
    for run in runs.values():
        jax.block_until_ready(run())
    best, rounds = dict.fromkeys(runs, math.inf), 0
    end = time.perf_counter() + SECONDS * len(runs)
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for name, run in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def forward_backward(function: Callable, inputs: tuple, gradient) -> Callable[[], object]:
    """Returns a compiled function for the output of `function` at `inputs` and all gradients.

    With gradients alone, the compiler would remove the last product of a plain MLP.
    """

    @jax.jit
    def run(inputs, gradient):
        y, back = jax.vjp(function, *inputs)
        return y, back(gradient)

    return lambda: run(inputs, gradient)


def expert_layer(experts: int, choices: int, way: str = "auto") -> tuple[moe.MoeMlp, Any]:
    """Returns a layer and its parameters."""
    c = moe.MoeConfig(experts, ROUTERS[choices], group_size=GROUP, dispatch=way)
    module = moe.MoeMlp(HIDDEN, ("relu",), F32, c)
    x = jnp.zeros((1, 1, FEATURES))
    return module, jax.jit(module.init)(jax.random.key(0), x, jnp.ones((1, 1), bool))


def dense_layer(choices: int) -> tuple[layers.Mlp, Any]:
    """Returns the dense layer of equal active FLOPs, and its parameters."""
    module = layers.Mlp(choices * HIDDEN, ("relu",), 0.0, F32)
    x = jnp.zeros((1, 1, FEATURES))
    return module, module.init(jax.random.key(0), x, jnp.ones((1, 1), bool))


def training_runs(experts: int, choices: int, ways: tuple[str, ...]) -> Runs:
    """Returns runs of floor, dense layer and dispatch ways, forward and backward, with router
    losses.
    """
    keys = jax.random.split(jax.random.key(1), 4)
    x, dy = (jax.random.normal(key, (TOKENS // 64, 64, FEATURES)) for key in keys[:2])
    real = jnp.ones(x.shape[:2], bool)
    module, params = expert_layer(experts, choices)
    params = nn.meta.unbox(params)
    weights = params["params"]["wi_0"], params["params"]["wo"]
    rows = TOKENS // GROUP * math.ceil(choices * GROUP / experts)
    buffers, d_buffers = (jax.random.normal(k, (experts, rows, FEATURES)) for k in keys[2:])
    dense, dense_params = dense_layer(choices)

    def with_losses(way: str) -> Callable:
        module, _ = expert_layer(experts, choices, way)

        def run(params, x):
            rngs = {"dropout": keys[0]}
            y, state = module.apply(params, x, real, True, rngs=rngs, mutable=["intermediates"])
            measured = moe.summarize(state["intermediates"])
            return y, measured["moe_aux_loss"] + measured["moe_z_loss"]

        return forward_backward(run, (params, x), (dy, jnp.asarray(0.01)))

    runs = {
        "floor": forward_backward(
            lambda wi, wo, b: nn.relu(b @ wi) @ wo, (*weights, buffers), d_buffers
        ),
        "dense": forward_backward(
            lambda p, x: dense.apply(p, x, real), (nn.meta.unbox(dense_params), x), dy
        ),
    }
    return runs | {way: with_losses(way) for way in ways}


def layer_table() -> Table:
    """Returns the table of the layer in training.

    It has the way chosen for this backend and the others, slow ones only with few experts.
    """
    chosen = dispatch.fastest("auto")
    ways = tuple(name for name, way in dispatch.DISPATCHERS.items() if way is not chosen)
    columns = ["choices", "E", "floor ms", "dense ms", "auto ms", "auto/floor", "auto/dense"]
    table = Table(*columns, *(f"{way}/floor" for way in ways))
    for experts in (8, 32, 128, 512):
        for choices in (1, 2):
            tried = [way for way in ways if experts == 8 or way in ("gather", "in_turn")]
            times = best_seconds(training_runs(experts, choices, ("auto", *tried)))
            table.add_row(
                f"top-{choices}", str(experts),
                *(f"{times[name] * 1e3:.1f}" for name in ("floor", "dense", "auto")),
                f"{times['auto'] / times['floor']:.2f}", f"{times['auto'] / times['dense']:.2f}",
                *(f"{times[way] / times['floor']:.2f}" if way in times else "" for way in ways),
            )  # fmt: skip
    return table


def decode_table() -> Table:
    """Returns the table of a decoding step: batch tokens, nothing dropped."""
    table = Table("choices", "E", "tokens", "experts used", "ms", "ours/dense", "ours/all experts")
    for experts in (8, 32, 128):
        for choices in (1, 2):
            module, params = expert_layer(experts, choices)
            params = nn.meta.unbox(params)
            dense, dense_params = dense_layer(choices)
            dense_params = nn.meta.unbox(dense_params)
            wi, wo = params["params"]["wi_0"], params["params"]["wo"]
            for tokens in (1, 32, 256):
                x = jax.random.normal(jax.random.key(2), (tokens, 1, FEATURES))
                real = jnp.ones(x.shape[:2], bool)
                chosen = x[:, 0] @ params["params"]["router"]
                used = len(np.unique(jax.lax.top_k(chosen, choices)[1]))
                ours, twin = jax.jit(module.apply), jax.jit(dense.apply)
                every = jax.jit(lambda x, wi, wo: nn.relu(x[:, 0] @ wi) @ wo)
                times = best_seconds({
                    "ours": lambda: ours(params, x, real),  # noqa: B023
                    "dense": lambda: twin(dense_params, x, real),  # noqa: B023
                    "all": lambda: every(x, wi, wo),  # noqa: B023
                })  # fmt: skip
                table.add_row(
                    f"top-{choices}", str(experts), str(tokens), str(used),
                    f"{times['ours'] * 1e3:.2f}", f"{times['ours'] / times['dense']:.2f}",
                    f"{times['ours'] / times['all']:.2f}",
                )  # fmt: skip
    return table


def step_table() -> Table:
    """Returns the table of a training step of 4 + 4 layers, with experts in every other layer.

    Top-2 in half the layers is 1.5 x d_ff on average, as in the dense model, so active FLOPs are
    equal.
    """
    rows, length, vocabulary = TOKENS // 64, 64, 8000
    table = Table("model", "parameters", "ms", "ms of the twin", "ratio")
    tokens = np.random.default_rng(0).integers(3, vocabulary, (2, rows, length), dtype=np.int32)
    ones = np.ones((rows, length), np.int32)
    batch = {
        "encoder_input_tokens": tokens[0], "decoder_input_tokens": tokens[1],
        "encoder_segment_ids": ones, "decoder_segment_ids": ones,
        "decoder_target_tokens": tokens[1], "decoder_loss_weights": ones.astype(np.float32),
        "decoder_language_ids": np.zeros_like(ones),
    }  # fmt: skip
    sizes = transformer.Config(
        vocabulary, emb_dim=FEATURES, num_heads=4, mlp_dim=HIDDEN, encoder_layers=4,
        decoder_layers=4, mlp_activations=("relu",), dropout_rate=0.1,
    )  # fmt: skip
    for choices in (1, 2):
        experts = moe.MoeConfig(8, ROUTERS[choices], group_size=GROUP)
        configs = {
            "ours": dataclasses.replace(sizes, moe_period=2, moe=experts),
            "twin": dataclasses.replace(sizes, mlp_dim=HIDDEN * (1 + choices) // 2),
        }
        made = {name: _steps(config, batch) for name, config in configs.items()}
        times = best_seconds({name: run for name, (run, _) in made.items()})
        table.add_row(
            f"8 experts, top-{choices}", f"{made['ours'][1] / 1e6:.1f} M",
            f"{times['ours'] * 1e3:.0f}", f"{times['twin'] * 1e3:.0f}",
            f"{times['ours'] / times['twin']:.2f}",
        )  # fmt: skip
    return table


def _steps(
    config: transformer.Config, batch: dict[str, np.ndarray]
) -> tuple[Callable[[], object], int]:
    """Returns a function that makes a training step, and the number of parameters."""
    program = train.Trainer(transformer.Transformer(config), optax.adafactor(0.01))
    state, placed = program.init(1), program.place(batch)
    size = sum(leaf.size for leaf in jax.tree.leaves(state.params))

    def run() -> object:
        nonlocal state
        state, loss = program.step(state, placed)
        return loss

    return run, size


TABLES = {"layer": layer_table, "decode": decode_table, "step": step_table}


def main() -> None:
    """Prints the tables named, or all."""
    names = sys.argv[1:] or list(TABLES)
    if unknown := set(names) - set(TABLES):
        raise SystemExit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    print(header())
    print(f"float32, d {FEATURES}, ff {HIDDEN}, {TOKENS} tokens, groups of {GROUP}, capacity 1.0")
    for name in names:
        Console(width=110).print(TABLES[name]())


if __name__ == "__main__":
    environment.start_again_with_large_pages()
    main()
