"""Measures memory and time of a training step by remat and microbatches.

    python -m benchmarks.memory

"state" is the size of parameters and optimizer state. "kept" is the computed size of the outputs of
all matrix products of the forward pass, which `remat="dots"` keeps. "temporary" is the compiler's
allocation for the step in addition to the state, including gradients.
"""

import dataclasses
import statistics
import time

import jax
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt.model.config import REMAT, Config
from mmt.model.transformer import Transformer
from mmt.system import environment
from mmt.trainer import Program

ROWS, LENGTH = 64, 128
SIZES = Config(
    8192, emb_dim=256, num_heads=4, mlp_dim=1024, encoder_layers=4, decoder_layers=4,
    dropout_rate=0.1,
)  # fmt: skip
LANGUAGES, ROUNDS, MIB = 1, 3, 2**20


def kept_bytes(config: Config, rows: int, length: int) -> int:
    """Returns bytes of matrix product outputs of all layers, for rows x length tokens per side."""
    heads = config.num_heads * config.head_dim
    attention = 3 * heads + config.emb_dim + config.num_heads * length + heads
    mlp = len(config.mlp_activations) * config.mlp_dim + config.emb_dim
    layers = config.encoder_layers * (attention + mlp)
    layers += config.decoder_layers * (2 * attention + mlp)
    return 4 * rows * length * (layers + config.target_vocabulary)


def batch() -> dict[str, np.ndarray]:
    """Returns rows full of tokens."""
    tokens = np.random.default_rng(0).integers(3, SIZES.vocab_size, (2, ROWS, LENGTH), np.int32)
    ones = np.ones((ROWS, LENGTH), np.int32)
    return {
        "encoder_input_tokens": tokens[0], "decoder_input_tokens": tokens[1],
        "encoder_segment_ids": ones, "decoder_segment_ids": ones,
        "decoder_target_tokens": tokens[1], "decoder_loss_weights": ones.astype(np.float32),
        "decoder_language_ids": np.zeros_like(ones),
    }  # fmt: skip


def program(remat: str, microbatches: int) -> Program:
    """Returns a dense model with Adafactor."""
    model = Transformer(dataclasses.replace(SIZES, remat=remat))
    return Program(model, optax.adafactor(0.01), microbatches=microbatches)


def size(tree: object) -> int:
    """Returns the bytes of all leaves, from their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def seconds(programs: dict[tuple[str, int], Program]) -> dict[tuple[str, int], float]:
    """Returns the median step time of each program, measured alternately."""
    placed, states = {}, {}
    taken: dict[tuple[str, int], list[float]] = {name: [] for name in programs}
    for name, trainer in programs.items():
        placed[name] = trainer.place(batch())
        states[name] = trainer.step(trainer.init(LANGUAGES), placed[name])[0]
    for _ in range(ROUNDS):
        for name, trainer in programs.items():
            start = time.perf_counter()
            states[name], loss = trainer.step(states[name], placed[name])
            loss.block_until_ready()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    """Prints the table."""
    programs = {(r, m): program(r, m) for m in (1, 4) for r in REMAT}
    columns = ("remat", "microbatches", "state MiB", "kept MiB", "temporary MiB", "ms", "time")
    table = Table(*columns, title=f"{ROWS} x {LENGTH} tokens a side, {SIZES.emb_dim} wide")
    times = seconds(programs)
    shapes = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in batch().items()}
    for (remat, microbatches), trainer in programs.items():
        state = trainer.shapes(LANGUAGES)
        compiled = trainer.trace(LANGUAGES, shapes).lower().compile().memory_analysis()
        rows, spent = ROWS // microbatches, times[remat, microbatches]
        table.add_row(
            remat, str(microbatches), f"{size([state.params, state.opt_state]) / MIB:.0f}",
            f"{kept_bytes(SIZES, rows, LENGTH) / MIB:.0f}",
            f"{compiled.temp_size_in_bytes / MIB:.0f}", f"{spent * 1e3:.0f}",
            f"{spent / times['dots', 1]:.2f}",
        )  # fmt: skip
    print(header())
    Console(width=100).print(table)


if __name__ == "__main__":
    environment.start_again_with_large_pages()
    main()
