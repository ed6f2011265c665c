"""Kills builds of a cache at every file that they touch, and lets two build the same one at once.

    python tests/killed_builds.py FOLDER SOURCE_MODEL TARGET_MODEL EVERY

A program of its own, so that it can fork; kills at EVERY n-th. Prints how many moments there are.
"""

import itertools
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from mmt.data import cache

COUNTS = {"deu_Latn": 300, "swh_Latn": 20}
OLD, NEW = "old", "new"
TOUCHING = ("open", "os.", "shutil.", "tempfile.")


def build(directory: Path, corpus_hash: str) -> None:
    def stream(count: int) -> cache.Examples:
        return lambda: (([3, 10 + i % 100], [i % 500]) for i in range(count))

    cache.build(
        directory,
        {("train", code): stream(count) for code, count in COUNTS.items()},
        name="toy", target="eng_Latn", corpus_hash=corpus_hash, vocabularies=MODELS,
    )  # fmt: skip


def forked(work: Callable[[], None]) -> int:
    """The process id of a child that does it."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(moment: int, work: Callable[[], None]) -> Callable[[], None]:
    """`work`, killed when it touches a file for the so-manieth time."""
    touched = itertools.count()

    def watch(event: str, _: object) -> None:
        if event.startswith(TOUCHING) and next(touched) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched() -> None:
        sys.addaudithook(watch)
        work()

    return watched


def hash_of(directory: Path) -> str:
    """Of the corpus of a cache, which must be whole."""
    opened = cache.open_cache(directory)
    for code, count in COUNTS.items():
        records = opened.records(code, "train")
        assert [len(records[i]["inputs"]) for i in range(len(records))] == [2] * count
        assert opened.lengths(code, "train").tolist() == [[2, 1]] * count
    return opened.manifest.corpus_hash


def kill_everywhere(folder: Path, over_another: bool, every: int) -> int:
    """Returns the number of moments at which a build can be killed. Each kill leaves an old or a
    new cache or none; the next build makes a new one and removes the remains.
    """
    directory = folder / "made"
    for moment in itertools.count(step=every):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if over_another:
            build(directory, OLD)
        status = ended(forked(killed_at(moment, lambda: build(directory, NEW))))
        assert status in (0, -signal.SIGKILL), (moment, status)
        if directory.exists():
            assert hash_of(directory) == NEW or over_another and status, moment
        if status == 0:
            return moment
        assert ended(forked(lambda: build(directory, NEW))) == 0, moment
        assert hash_of(directory) == NEW and os.listdir(folder) == ["made"], moment
    raise AssertionError


def build_together(folder: Path, times: int) -> None:
    """Runs two builds of one cache at once: both succeed, and the cache is complete."""
    directory = folder / "made"
    for time in range(times):
        if time % 2:
            shutil.rmtree(folder)
            folder.mkdir()
        children = [forked(lambda: build(directory, NEW)) for _ in range(3)]
        assert [ended(child) for child in children] == [0, 0, 0]
        assert hash_of(directory) == NEW and os.listdir(folder) == ["made"]


if __name__ == "__main__":
    root, source, target = map(Path, sys.argv[1:4])
    MODELS = {"source": source, "target": target}
    step = int(sys.argv[4])
    print(kill_everywhere(root / "new", False, step), kill_everywhere(root / "over", True, step))
    build_together(root / "new", 30 // step)
