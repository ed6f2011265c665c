"""A piece of a run, which ends after a number of seconds: trains or resumes, then evaluates.

    python -m benchmarks.mix150.gpu.piece --gin_file FILE [--seconds 540] [--testset DIR ...]

Training that does not end in time gets a SIGTERM, saves a checkpoint, and the next piece resumes
it. Test sets are evaluated once it is trained; an evaluation resumes too, language by language. The
exit status is 0 unless something failed; stdout says what is left.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from mmt import config
from mmt.system import termination


def piece(
    gin_file: str,
    bindings: Sequence[str] = (),
    *,
    seconds: float,
    saving: float = 60,
    testsets: Sequence[str] = (),
) -> str:
    """Trains and evaluates for at most `seconds`; returns what is left to do, '' if nothing is.

    Args:
      gin_file: the run's gin file.
      bindings: gin bindings, such as `TRAIN_STEPS=100`.
      saving: the part of `seconds` that is kept for writing the checkpoint.
      testsets: the test sets, as for `mmt evaluate`; decoding is greedy.

    Raises:
      ValueError: `saving` is not between 0 and `seconds`, or the gin file has a fault.
      subprocess.CalledProcessError: a command failed.
      subprocess.TimeoutExpired: the checkpoint took longer than `saving`; the former one stays.
    """
    if not 0 < saving < seconds:
        raise ValueError(f"saving is {saving}; allowed: between 0 and the {seconds} seconds")
    stop = time.monotonic() + seconds - saving
    config.load([gin_file], bindings)
    model = config.macro("MODEL_DIR")
    given = [f"--gin.{binding}" for binding in bindings]
    if not _finishes(["train", f"--gin_file={gin_file}", *given], stop, saving):
        return "training"
    for number, testset in enumerate(testsets):
        judge = ["evaluate", "--model", model, "--testset", testset, "--beam", "1"]
        if not _finishes(judge, stop, saving):
            return f"evaluation on {', '.join(testsets[number:])}"
    return ""


def _finishes(arguments: Sequence[str], stop: float, saving: float) -> bool:
    """Runs an `mmt` command until the time `stop`; returns whether it has finished."""
    left = stop - time.monotonic()
    if left <= 0:
        return False
    command = [sys.executable, "-m", "mmt.cli", *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=sys.stderr, env=environment) as child:
        try:
            status = child.wait(left)
            stopped = False
        except subprocess.TimeoutExpired:
            child.terminate()
            stopped = True
            try:
                status = child.wait(saving)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
    if stopped and status in (termination.STATUS, -signal.SIGTERM):
        return False
    if status:
        raise subprocess.CalledProcessError(status, command)
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a piece and prints what is left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gin_file", required=True)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--saving", type=float, default=60, help="of these, to save and stop")
    parser.add_argument("--testset", action="append", default=[], help="repeatable")
    given, others = parser.parse_known_args(arguments)
    if wrong := [one for one in others if not one.startswith("--gin.")]:
        parser.error(f"unknown argument {wrong[0]!r}; bindings are --gin.NAME=VALUE")
    bindings = [one.removeprefix("--gin.") for one in others]
    try:
        left = piece(
            given.gin_file, bindings,
            seconds=given.seconds, saving=given.saving, testsets=given.testset,
        )  # fmt: skip
    except (ValueError, subprocess.SubprocessError) as error:
        raise SystemExit(str(error)) from error
    print(f"left: {left}; run the same command again" if left else "done")


if __name__ == "__main__":
    main()
