"""A tiny run with injected faults, and its data, for benchmarks/faults.py."""

import functools
import os
import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

STEPS, PERIOD, SKIPS = 60, 3, 4
PIECES, LENGTH, ROWS = 320, 12, 8


class Options(NamedTuple):
    """The options of a run in a separate process."""

    directory: Path
    cache: Path
    steps: int = STEPS
    stderr: str = ""  # path of its file
    poisoned: tuple[int, ...] = ()  # positions of batches with a NaN weight
    pause: float = 0.0  # seconds after each step
    full: tuple[int, int] = (0, 0)  # steps at which the disk becomes full, and free again
    back: bool = False  # each reading of the clock is an hour earlier


def make_cache(directory: Path) -> None:
    """Builds a cache of two made-up languages; a translation is the source with ids increased by 1.
    """
    from mmt.data import cache, vocabulary

    rng = random.Random(0)

    def examples(count: int) -> list[tuple[list[int], list[int]]]:
        pairs = []
        for _ in range(count):
            ids = [rng.randrange(10, PIECES - 1) for _ in range(rng.randint(2, LENGTH - 2))]
            pairs.append((ids, [piece + 1 for piece in ids]))
        return pairs

    lines = ("".join(rng.choices("abcdefgh ", k=30)) for _ in range(500))
    model = directory.parent / "pieces.model"
    vocabulary.train(lines, model, size=PIECES, tags=())
    made = {
        (split, code): examples(count)
        for split, count in (("train", 400), ("validation", 20))
        for code in ("deu_Latn", "swh_Latn")
    }  # fmt: skip
    cache.build(
        directory, {key: functools.partial(iter, pairs) for key, pairs in made.items()},
        name="made_up", target="eng_Latn", corpus_hash="0",
        vocabularies={"source": model, "target": model},
    )  # fmt: skip


def run(options: Options) -> None:
    """Trains in this process; exits with 143 after a SIGTERM, and with 1 after an error."""
    if options.stderr:
        os.dup2(os.open(options.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    import optax

    from mmt import checkpoint, train
    from mmt.data import pipeline
    from mmt.model import transformer

    if options.back:
        clock, hours = time.time, iter(range(10**9))
        time.time = lambda: clock() - 3600 * next(hours)
    config = transformer.Config(
        vocab_size=PIECES, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, encoder_layers=1,
        decoder_layers=1, dropout_rate=0.1,
    )  # fmt: skip
    program = train.Trainer(
        transformer.Transformer(config), optax.adafactor(0.01), log_every=1, languages_every=10
    )
    given = pipeline.train_batches(
        options.cache, feature_lengths={"inputs": LENGTH, "targets": LENGTH}, batch_size=ROWS
    )
    batches = Poisoned(given, options.poisoned) if options.poisoned else given
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def hook(now: Any) -> None:
        time.sleep(options.pause)
        if now.number == options.full[0]:
            written = (options.directory / "metrics.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (written, hard))
        if now.number == options.full[1]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    try:
        train.train(
            program, batches, model_dir=str(options.directory), steps=options.steps,
            policy=checkpoint.Policy(period=PERIOD, keep=2, max_skipped_steps=SKIPS), hooks=[hook],
        )  # fmt: skip
    except train.Terminated as error:
        print(error, file=sys.stderr)
        sys.exit(143)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    finally:
        given.close()


class Poisoned:
    """Batches, some of which have a weight that is NaN."""

    def __init__(self, given: Any, places: Sequence[int]) -> None:
        self._given, self._places, self._place = given, set(places), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)

    def __next__(self) -> Any:
        batch = next(self._given)
        if self._place in self._places:
            batch["decoder_loss_weights"][0, 0] = float("nan")
        self._place += 1
        return batch

    def get_state(self) -> Any:
        return {"place": self._place, "given": self._given.get_state()}

    def set_state(self, state: Any) -> None:
        self._place = state["place"]
        self._given.set_state(state["given"])

    def ledger(self) -> None:
        """Returns None: its positions are not those that the cache's ledger counts."""
