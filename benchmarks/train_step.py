"""Compares a training step of mmt, of T5X and of Hugging Face's T5 with torch in one run.

    T5X=<checkout of google-research/t5x> python -m benchmarks.train_step [SYSTEM ...]

Sizes, batch, dropout and optimiser class (Adafactor) are equal, with two threads, in float32 or,
where the name says so, in bfloat16 (torch: autocast) with float32 parameters. Each system has its
own process, which starts as its plain command does. mmt restarts itself with large pages, as
`mmt train` does; the others use the shell's environment without GLIBC_TUNABLES. Two more rows show
the effect of large pages: mmt without, Hugging Face with them. `unrolled` are the settings that
docs/training/configs.md gives for a CPU: all layers in one iteration of the scan, and no
rematerialisation.

The processes are timed alternately, and the best step of each counts, so other load affects all of
them. CPU seconds are those of the whole process. Systems that are not installed are `not run`. T5X
looks embeddings up by a product with one-hot vectors; `gather` is T5X with that line changed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from mmt.system import environment

ROUNDS, STEPS = 5, 2
RATE, DROPOUT = 0.01, 0.1


class Size(NamedTuple):
    """The size of a model and its batch: `rows` rows of `length` tokens per side."""

    width: int
    layers: int
    vocabulary: int
    rows: int
    length: int = 64

    def __str__(self) -> str:
        return (
            f"d {self.width}, {self.layers}+{self.layers} layers, vocabulary {self.vocabulary:,}, "
            f"{self.rows} x {self.length} source and target tokens"
        )


SIZES = Size(256, 4, 8192, rows=32), Size(512, 6, 32768, rows=16)
Step = Callable[[], None]  # makes a training step and waits for it


def ours(size: Size, *, dtype: str = "float32", unrolled: bool = False) -> Step:
    """Returns `Trainer.step` of `mmt train`; unrolled: with the settings for a CPU."""
    import jax
    import optax

    from mmt import losses, train
    from mmt.model import transformer

    for_cpu: dict[str, Any] = {"unroll": size.layers, "remat": "none"}
    config = transformer.Config(
        vocab_size=size.vocabulary, emb_dim=size.width, num_heads=size.width // 64, head_dim=64,
        mlp_dim=4 * size.width, encoder_layers=size.layers, decoder_layers=size.layers,
        dropout_rate=DROPOUT, dtype=dtype, **for_cpu if unrolled else {},
    )  # fmt: skip
    program = train.Trainer(
        transformer.Transformer(config), optax.adafactor(RATE), losses.Objective(label_smoothing=0)
    )
    batch = program.place(made_batch(size))
    state = program.init(languages=1)

    def step() -> None:
        nonlocal state
        state, loss = program.step(state, batch)
        jax.block_until_ready((state, loss))

    return step


def t5x(size: Size, *, one_hot: bool) -> Step:
    """Returns T5X's train step with its own network and Adafactor, without its loop and data."""
    sys.path += [str(path) for path in t5x_paths() if str(path) not in sys.path]
    import jax
    import jax.numpy as jnp
    import seqio
    from t5x import adafactor, models, train_state, trainer
    from t5x.examples.t5 import layers, network

    config = network.T5Config(
        vocab_size=size.vocabulary, dtype=jnp.float32, emb_dim=size.width,
        num_heads=size.width // 64, head_dim=64, mlp_dim=4 * size.width,
        num_encoder_layers=size.layers, num_decoder_layers=size.layers,
        mlp_activations=("gelu", "linear"), dropout_rate=DROPOUT,
    )  # fmt: skip
    vocabulary = seqio.PassThroughVocabulary(size.vocabulary)
    optimizer = adafactor.Adafactor(
        decay_rate=0.8, logical_factor_rules=adafactor.standard_logical_factor_rules()
    )
    model = models.EncoderDecoderModel(
        network.Transformer(config), vocabulary, vocabulary, optimizer
    )
    batch = {
        name: jnp.asarray(rows)
        for name, rows in made_batch(size).items() if "language" not in name
    }  # fmt: skip
    embed = layers.Embed

    def looked_up(**options: Any) -> Any:
        return embed(**options | {"one_hot": one_hot})

    with mock.patch.object(layers, "Embed", looked_up):
        shapes = {name: rows.shape for name, rows in batch.items()}
        types = {name: rows.dtype for name, rows in batch.items()}
        made = model.get_initial_variables(jax.random.key(0), shapes, types)
        state = train_state.FlaxOptimTrainState.create(optimizer, made)
        compiled = jax.jit(
            lambda state, batch, key: trainer.train_with_lr(
                state, batch, jnp.float32(RATE), key, model, None
            ),
            donate_argnums=0,
        )
        jax.block_until_ready(state)
        state, _ = compiled(state, batch, jax.random.key(0))

    def step() -> None:
        nonlocal state
        state, _ = compiled(state, batch, jax.random.key(0))
        jax.block_until_ready(state)

    return step


def torch_t5(size: Size, *, compiled: bool = False, bfloat16: bool = False) -> Step:
    """Returns a step of Hugging Face's T5 with torch's Adafactor."""
    import torch
    import transformers

    torch.set_num_threads(2)
    model: Any = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=size.vocabulary, d_model=size.width, d_kv=64, d_ff=4 * size.width,
        num_layers=size.layers, num_decoder_layers=size.layers, num_heads=size.width // 64,
        dropout_rate=DROPOUT, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        decoder_start_token_id=0, use_cache=False,
    )).train()  # fmt: skip
    optimizer = torch.optim.Adafactor(model.parameters(), lr=RATE)
    batch = {name: torch.as_tensor(rows).long() for name, rows in made_batch(size).items()}
    run = torch.compile(model) if compiled else model

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = run(
                input_ids=batch["encoder_input_tokens"], labels=batch["decoder_target_tokens"],
                attention_mask=batch["encoder_segment_ids"],
            ).loss  # fmt: skip
        loss.backward()
        optimizer.step()

    return step


class System(NamedTuple):
    """A function that makes a step, and whether its process restarts with large pages."""

    make: Callable[[Size], Step]
    large_pages: bool = False


SYSTEMS = {
    "ours": System(ours, large_pages=True),
    "ours, bfloat16": System(lambda size: ours(size, dtype="bfloat16"), large_pages=True),
    "ours, unrolled": System(lambda size: ours(size, unrolled=True), large_pages=True),
    "ours, bfloat16, unrolled": System(
        lambda size: ours(size, dtype="bfloat16", unrolled=True), large_pages=True
    ),
    "ours, no large pages": System(ours),
    "T5X (one-hot)": System(lambda size: t5x(size, one_hot=True)),
    "T5X (gather)": System(lambda size: t5x(size, one_hot=False)),
    "HF torch, eager": System(torch_t5),
    "HF torch, eager, bfloat16": System(lambda size: torch_t5(size, bfloat16=True)),
    "HF torch, eager, large pages": System(torch_t5, large_pages=True),
    "HF torch.compile": System(lambda size: torch_t5(size, compiled=True)),
}


def made_batch(size: Size) -> dict[str, np.ndarray]:
    """Returns rows of random tokens without padding."""
    random = np.random.default_rng(0)
    shape = (2, size.rows, size.length)
    source, target = random.integers(2, size.vocabulary, shape).astype(np.int32)
    ones = np.ones_like(source)
    return {
        "encoder_input_tokens": source, "encoder_segment_ids": ones,
        "decoder_input_tokens": np.pad(target, ((0, 0), (1, 0)))[:, :-1],
        "decoder_target_tokens": target, "decoder_segment_ids": ones,
        "decoder_loss_weights": ones.astype(np.float32), "decoder_language_ids": 0 * ones,
    }  # fmt: skip


def t5x_paths() -> Iterator[Path]:
    """Returns the checkout, and those of T5X's dependencies beside it."""
    if not os.environ.get("T5X"):
        raise ImportError("set T5X to a checkout")
    checkout = Path(os.environ["T5X"]).absolute()
    return iter([checkout, checkout.parent / "jestimator", checkout.parent / "airio"])


class Worker:
    """The process of a system. why: the reason if it is not installed, else ''."""

    def __init__(self, name: str, size: Size) -> None:
        ours = (environment.TUNABLES, environment.STARTED_AGAIN)
        variables = {key: value for key, value in os.environ.items() if key not in ours}
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
        command = "-m", "benchmarks.train_step", "--serve", str(SIZES.index(size)), name
        self.process = subprocess.Popen(
            [sys.executable, *command], env=variables, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self.why: str = self._answer()["missing"]

    def steps(self) -> tuple[float, float]:
        """Returns the best seconds and CPU seconds of STEPS steps."""
        assert self.process.stdin
        self.process.stdin.write("steps\n")
        self.process.stdin.flush()
        answer = self._answer()
        return answer["wall"], answer["cpu"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended with {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()


def serve(name: str, size: Size) -> None:
    """Runs a worker: makes the step, then runs STEPS steps for each line of stdin."""
    if SYSTEMS[name].large_pages:
        environment.start_again_with_large_pages()
    try:
        step = SYSTEMS[name].make(size)
        step()  # compiles
    except ImportError as error:
        print(json.dumps({"missing": str(error).splitlines()[0]}), flush=True)
        return
    print(json.dumps({"missing": ""}), flush=True)
    for _ in sys.stdin:
        walls, cpus = [], []
        for _ in range(STEPS):
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        print(json.dumps({"wall": min(walls), "cpu": min(cpus)}), flush=True)


def measure(size: Size, names: Sequence[str]) -> dict[str, tuple[float, float] | str]:
    """Returns best seconds and CPU seconds of a step; or why a system was not run."""
    workers = {name: Worker(name, size) for name in names}
    times_by_system: dict[str, tuple[float, float] | str] = {
        name: worker.why for name, worker in workers.items() if worker.why
    }
    running = [name for name in names if name not in times_by_system]
    rounds = [[workers[name].steps() for name in running] for _ in range(ROUNDS)]
    for name, times in zip(running, zip(*rounds, strict=True), strict=True):
        walls, cpus = zip(*times, strict=True)
        times_by_system[name] = min(walls), min(cpus)
    for worker in workers.values():
        worker.close()
    return times_by_system


def main(arguments: list[str]) -> None:
    """Prints a table for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(SYSTEMS)}; default: all")
    parser.add_argument("--serve", type=int, metavar="SIZE", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if unknown := set(args.systems) - set(SYSTEMS):
        parser.error(f"no system {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    if args.serve is not None:
        return serve(args.systems[0], SIZES[args.serve])
    from benchmarks.header import header

    print(f"{header()}; {ROUNDS} rounds of {STEPS} steps each, the best counts")
    names = [name for name in SYSTEMS if not args.systems or name in args.systems]
    for size in SIZES:
        Console(width=110).print(table_of(size, names, measure(size, names)))


def table_of(
    size: Size, names: Sequence[str], times_by_system: dict[str, tuple[float, float] | str]
) -> Table:
    """Returns a row for each system."""
    columns = "system", "tokens/s", "s a step", "CPU s a step", "ours is", ""
    table = Table(*columns, title=str(size))
    our_times = times_by_system.get("ours")
    for name in names:
        times = times_by_system[name]
        if isinstance(times, str):
            table.add_row(name, "not run", "", "", "", times)
            continue
        tokens = 2 * size.rows * size.length / times[0]
        ratio = f"{times[0] / our_times[0]:.2f} x" if isinstance(our_times, tuple) else ""
        table.add_row(name, f"{tokens:,.0f}", f"{times[0]:.3f}", f"{times[1]:.2f}", ratio, "")
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
