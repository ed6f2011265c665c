"""The command line: `mmt COMMAND …`; `mmt --help` lists the commands.

Results go to stdout, progress and messages to stderr. The exit status is 0 only if the command has
done all its work.
"""

import argparse
import contextlib
import hashlib
import os
import platform
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from mmt.cli import commands, inputs
from mmt.cli.arguments import parser
from mmt.system import environment, status

_TRAINING = ("train", "distill", "baselines")
_TRANSLATING = ("translate", "score", "serve", "evaluate", "behave", "calibrate")
_PROCESS_INDEX = (  # of several
    "JAX_PROCESS_ID", "SLURM_PROCID", "JOB_COMPLETION_INDEX", "OMPI_COMM_WORLD_RANK"
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    flags: list[str] = []  # `mmt launch` passes bindings to the command that it starts
    if arguments[:1] != ["launch"]:
        flags = [argument for argument in arguments if argument.startswith("--gin.")]
    bindings = [flag.removeprefix("--gin.") for flag in flags]
    args = parser().parse_args([argument for argument in arguments if argument not in flags])
    if bindings and not hasattr(args, "gin_file") and not getattr(args, "train", None):
        print(f"mmt: {args.command} takes no --gin.… bindings", file=sys.stderr)
        return 2
    args.bindings = bindings
    warnings.showwarning = lambda message, *_: print(f"mmt: {message}", file=sys.stderr)
    if argv is None and (args.run in _TRAINING or vars(args).get("train")):
        environment.start_again_with_large_pages()
    try:
        with _status(args) if argv is None else contextlib.nullcontext():
            inputs.check(args)
            if args.run in (*_TRAINING, *_TRANSLATING):
                _cache_programs()
            return commands.COMMANDS[args.run](args) or 0
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("MMT_TRACEBACK"):
            raise
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        message = str(error).split("\n  In call to configurable")[0]  # gin adds the place
        print(f"mmt {args.command}: {message}", file=sys.stderr)
        return getattr(error, "status", 1)
    except TypeError as error:  # gin bound a value of the wrong type
        fault = re.search(r"(.*)\n  In call to configurable '(\w+)'", str(error))
        if not fault or fault[2] in ("train", "baselines") or os.environ.get("MMT_TRACEBACK"):
            raise
        print(f"mmt {args.command}: {fault[2]}: {fault[1]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _status(args: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Shows the phases of training and of a server; of several processes the first one does."""
    is_first = all(os.environ.get(name, "0") in ("", "0") for name in _PROCESS_INDEX)
    has_phases = args.run in (*_TRAINING, "serve") and is_first
    return status.shown("starting") if has_phases else contextlib.nullcontext()


def _cache_programs() -> None:
    """Caches compiled programs under `$MMT_DATA`, by kind of machine, for later processes."""
    from mmt.system.data_root import data_root

    cpus = Path("/proc/cpuinfo")
    flags = re.search(rb"flags.*", cpus.read_bytes()) if cpus.exists() else None
    kind = hashlib.sha256((flags[0] if flags else b"") + platform.platform().encode())
    directory = data_root() / f"programs-{kind.hexdigest()[:8]}"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(directory))
    # By default JAX caches no program that compiles in under a second; a search has dozens of them.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
