"""Lines for bulk translation, and a translator whose process dies once; for workers of Beam."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WORDS = "null eins zwei drei vier moja mbili un deux".split()


def write_lines(path: Path, count: int) -> list[str]:
    """Writes lines of one to three words; returns all different ones."""
    rng = random.Random(count)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 3))) for _ in range(count)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return sorted(set(lines))


def loaded(folder: Path, dies_at: int = -1) -> Callable:
    """Returns a slow translator into upper case that keeps a record in `folder`.

    There is a file for each process that loaded it, and one for each time that a shard was
    translated. The first process to reach the line `dies_at` kills itself.
    """
    (folder / f"loaded.{os.getpid()}.{time.monotonic_ns()}").touch()

    def translate(lines, first: int) -> Iterator[str]:
        for number, line in enumerate(lines, first):
            time.sleep(0.01)
            if number == dies_at and not (folder / "killed").exists():
                (folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if line == "fault":
                raise ValueError(f"line {number} cannot be translated")
            yield line.upper()
        (folder / f"shard.{first}.{os.getpid()}.{time.monotonic_ns()}").touch()

    return translate
