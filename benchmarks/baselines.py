"""Compares training bilingual baselines side by side with training them one after the other.

    python -m benchmarks.baselines [MODELS …]
    python -m benchmarks.baselines whole [MODELS]

The model, batch and optimizer are those of gin_configs/examples/demo_baselines.gin, with random
tokens. Both sides are timed alternately, so other load on the machine affects both. `wall` is the
median over rounds of the ratio of their times. `CPU` is the same ratio of CPU seconds: it shows
what mapping saves, independent of the cores in use. Compilation is reported separately, with the
number of programs. Alone, models of one kind share a program too, if one process trains them all.

`whole` measures what a user waits for, from the cache to the rows. It compares `mmt baselines` for
some languages with `mmt train` and `mmt evaluate` for one after the other. Each command is a
process whose start counts. The caches of data and of compiled programs are filled before.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from eval import baselines, study
from eval.baselines import stacked
from eval.records import results
from mmt import config, train
from mmt.data import cache
from mmt.system import environment

GIN = "gin_configs/examples/demo_baselines.gin"
MODELS = (1, 4, 12, 24)
WHOLE = 6
MODEL_STEPS = 96  # steps of each side, in ROUNDS rounds
ROUNDS = 4

Round = Callable[[], None]  # makes a step of every model and waits for it


class Side(NamedTuple):
    """A way to step several models.

    compile_s: seconds of its first round. programs: number compiled in that round.
    """

    step: Round
    compile_s: float
    programs: int


def made(name: str, step: Round) -> Side:
    """Returns the side after its first round, which compiles."""
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    jax.monitoring.clear_event_listeners()
    print(f"{name}: first round {seconds:.1f} s", file=sys.stderr)
    return Side(step, seconds, len(compiled))


def alone(program: train.Trainer, batches: list[dict[str, np.ndarray]]) -> Round:
    """Returns a round that steps one model after the other, as `mmt.train` does."""
    states = [program.init(1) for _ in batches]

    def step() -> None:
        for i, batch in enumerate(batches):
            states[i], loss = program.step(states[i], program.place(batch))
            jax.block_until_ready(loss)

    return step


def together(program: train.Trainer, batches: list[dict[str, np.ndarray]], mapped: int) -> Round:
    """Returns a round that steps all models in one program; `mapped` per device at once, 0: all."""
    slots = len(batches) + -len(batches) % jax.local_device_count()
    stack = stacked.ModelStack(program, 1, slots, mapped)
    states = stack.empty()
    for slot in range(len(batches)):
        states = stack.put(states, slot, program.init(1))
    filled = [*batches, *[None] * (slots - len(batches))]

    def step() -> None:
        nonlocal states
        states, losses = stack.step(states, filled)
        jax.block_until_ready(losses)

    return step


def made_batches(count: int, rows: int) -> list[dict[str, np.ndarray]]:
    """Returns full rows of random tokens, about six pairs packed in each."""
    random = np.random.default_rng(0)
    sizes, lengths = (config.macro("VOCAB_SIZE"), config.macro("TARGET_VOCAB_SIZE")), (64, 40)
    batches = []
    for _ in range(count):
        source, target = (
            random.integers(2, size, (rows, length)).astype(np.int32)
            for size, length in zip(sizes, lengths, strict=True)
        )
        pairs = [np.repeat(np.arange(1, 9), length // 8)[None] for length in lengths]
        segments = [np.repeat(row, rows, axis=0).astype(np.int32) for row in pairs]
        batches.append({
            "encoder_input_tokens": source, "encoder_segment_ids": segments[0],
            "decoder_input_tokens": target, "decoder_segment_ids": segments[1],
            "decoder_target_tokens": target, "decoder_language_ids": 0 * target,
            "decoder_loss_weights": np.ones(target.shape, np.float32),
        })  # fmt: skip
    return batches


def measure(sides: dict[str, Side], count: int) -> dict[str, np.ndarray]:
    """Returns [rounds, 2] for each side: seconds and CPU seconds per step of one model."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    steps = max(1, MODEL_STEPS // count // ROUNDS)
    for _ in range(ROUNDS):
        for name, side in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(steps):
                side.step()
            new = time.perf_counter() - wall, time.process_time() - cpu
            times[name].append((new[0] / count / steps, new[1] / count / steps))
    return {name: np.array(rounds) for name, rounds in times.items()}


def whole(count: int) -> None:
    """Prints the time of training and evaluating `count` baselines in both ways."""
    config.load([GIN])
    study.mmt("data", "prepare", f"--gin_file={GIN}")
    opened = cache.open_cache(Path(config.macro("CACHE_DIR")))
    codes = baselines.choose(opened.manifest.counts["train"], count)
    print(f"{header()}; {', '.join(codes)}, {config.macro('TRAIN_STEPS')} steps each")

    def one_by_one(folder: Path) -> None:
        for code in codes:
            settings = {
                "MODEL_DIR": str(folder / code), "mixing.Mixing.languages": [code],
                "BATCH_SIZE": config.macro("BASELINE_BATCH_SIZE"),
                "EVAL_PERIOD": config.macro("TRAIN_STEPS"),
            }  # fmt: skip
            bindings = [f"--gin.{name}={value!r}" for name, value in settings.items()]
            hooks = "--gin.train.train.hooks=[@hooks.ValidationLoss()]"
            study.mmt("train", f"--gin_file={GIN}", *bindings, hooks)
            study.mmt("evaluate", "--model", str(folder / code), "--testset", "cldr",
                      "--languages", code, "--out", str(folder / "results.jsonl"))  # fmt: skip

    def side_by_side(folder: Path) -> None:
        settings = {
            "MODEL_DIR": str(folder), "RESULTS": str(folder / "results.jsonl"),
            "BASELINE_LANGUAGES": codes,
        }  # fmt: skip
        bindings = [f"--gin.{name}={value!r}" for name, value in settings.items()]
        study.mmt("baselines", f"--gin_file={GIN}", *bindings)

    table = Table("way", "s", "CPU s", "wall", "CPU", "mean BLEU")
    taken: dict[str, tuple[float, float]] = {}
    for way in (one_by_one, side_by_side):
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = time.perf_counter(), _children()
            way(Path(folder))
            taken[way.__name__] = time.perf_counter() - wall, _children() - cpu
            rows = results.read_rows(Path(folder, "results.jsonl"))
        ours, alone = taken[way.__name__], taken["one_by_one"]
        gains = [f"{a / b:.2f} x" for a, b in zip(alone, ours, strict=True)]
        bleu = f"{sum(row.bleu for row in rows) / len(codes):.1f}"
        table.add_row(way.__name__, *(f"{seconds:.0f}" for seconds in ours), *gains, bleu)
    Console(width=100).print(table)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> None:
    """Prints a table for each number of models."""
    if arguments[:1] == ["whole"]:
        return whole(int(arguments[1]) if arguments[1:] else WHOLE)
    stacked.one_device_per_core()
    config.load([GIN])
    program = stacked.on_one_device(config.configured(train.Trainer)())
    rows = config.macro("BASELINE_BATCH_SIZE")
    print(f"{header()}; {rows} rows of 64 + 40 tokens a step, {ROUNDS} rounds, medians")
    for count in map(int, arguments or MODELS):
        batches = made_batches(count, rows)
        sides = {
            "one after the other": made("alone", alone(program, batches)),
            "side by side, in turn": made("in turn", together(program, batches, 1)),
            "side by side, mapped": made("mapped", together(program, batches, 0)),
        }
        columns = "way", "tokens/s", "ms a step", "CPU ms", "wall", "CPU", "first s", "programs"
        table = Table(*columns, title=f"{count} models")
        times = measure(sides, count)
        reference = times["one after the other"]
        for name, side in sides.items():
            wall, cpu = np.median(times[name], axis=0)
            gain = np.median(reference / times[name], axis=0)
            table.add_row(
                name, f"{rows * 104 / wall:,.0f}", f"{1000 * wall:.1f}", f"{1000 * cpu:.1f}",
                f"{gain[0]:.2f} x", f"{gain[1]:.2f} x", f"{side.compile_s:.1f}", str(side.programs),
            )  # fmt: skip
        Console(width=100).print(table)


if __name__ == "__main__":
    environment.start_again_with_large_pages()
    main(sys.argv[1:])
