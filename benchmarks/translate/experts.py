"""Compares the decoding of models with experts and of dense models with as many active parameters.

    python -m benchmarks.translate.experts [--lines 64] [--rows 32] [--experts 16] [--repeats 2]

The weights are random; the model has d_model 512, 8 + 8 layers and 32,000 pieces, experts in every
other layer. Every source and translation has 24 tokens. Systems are timed alternately, best of
`--repeats`, in batches of `--rows` lines. Routers choose at random, so that nearly all experts are
used in each step.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt.decoding import Decoding
from mmt.decoding.bucketing import BucketedBatches, Source
from mmt.model.inference import WEIGHTS, for_inference
from mmt.model.moe import MoeConfig
from mmt.model.routing import gshard_top2, switch_top1
from mmt.model.transformer import Config, Transformer
from mmt.translate.model_search import TransformerSearch

PIECES, LENGTH = 32_000, 24


def make_search(
    mlp_dim: int, moe: MoeConfig | None, weights: str, beam: int, rows: int
) -> Callable:
    """Returns the search of a random model; `mlp_dim` is that of a layer or of an expert."""
    config = Config(
        vocab_size=PIECES, emb_dim=512, num_heads=8, head_dim=64, mlp_dim=mlp_dim,
        encoder_layers=8, decoder_layers=8, moe_period=2 if moe else 0, moe=moe or MoeConfig(),
    )  # fmt: skip
    model, tokens = Transformer(config), jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens)["params"])
    search = TransformerSearch(*for_inference(model, params, weights), vocabulary=PIECES)
    decoding = Decoding(beam=beam, min_length_ratio=1.0, max_length_ratio=1.0)
    return BucketedBatches(search, decoding, batch_size=rows, longest=64, fixed=False).search


def main() -> None:
    """Times all systems and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=64)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=WEIGHTS)
    parser.add_argument("--beam", type=int, default=4)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows = random.integers(3, PIECES, (options.lines, LENGTH - 1))
    sources = [Source([*row.tolist(), 1]) for row in rows]
    forms = {
        "dense": (1024, None),
        "top-1": (1024, MoeConfig(num_experts=options.experts, router=switch_top1)),
        "top-2, half as wide": (512, MoeConfig(num_experts=options.experts, router=gshard_top2)),
    }
    sizes = f"beam {options.beam}, batches of {options.rows}, {options.experts} experts"
    table = Table("model", "weights", title=f"seconds, {sizes}; {header()}")
    counts = (options.lines, 1)
    for count in counts:
        table.add_column(f"{count} lines", justify="right")
        table.add_column("x dense", justify="right")
    for weights in options.weights:
        searches = {
            name: make_search(*form, weights, options.beam, options.rows)
            for name, form in forms.items()
        }
        best = {name: dict.fromkeys(counts, float("inf")) for name in forms}
        for count in counts:
            for repeat in range(options.repeats + 1):
                for name, search in searches.items():
                    begin = time.perf_counter()
                    search(sources[:count])
                    if repeat:  # the first compiles
                        seconds = time.perf_counter() - begin
                        best[name][count] = min(best[name][count], seconds)
        for name, seconds_of in best.items():
            cells = [
                f"{value:.2f}"
                for count, seconds in seconds_of.items()
                for value in (seconds, seconds / best["dense"][count])
            ]
            table.add_row(name, weights, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
