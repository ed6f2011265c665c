"""Checks that the files a command needs exist, within a second, before any heavy import."""

import argparse
import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmt.system.data_root import data_root


def check(args: argparse.Namespace) -> None:
    """Checks the files that the arguments name: model, test set, corpus, run directory.

    Raises:
      ValueError: one is missing, or the run directory cannot be written.
    """
    if getattr(args, "model", None):
        from mmt.run import Run

        run = Run(args.model)
        run.check_is_model(run.config)
    if args.run == "evaluate":
        from eval import testsets

        testsets.check_place(args.testset)
    if args.run in ("train", "distill", "baselines"):
        bindings = _bindings(args.bindings)
        if bindings.get("CORPUS") and not _may_have_cache(bindings):
            from mmt.data import corpora

            corpora.check_place(bindings["CORPUS"])
        if bindings.get("MODEL_DIR"):
            _check_writable(Path(bindings["MODEL_DIR"]))


def _bindings(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the bindings of the command line, without quotes; the last one of a name counts."""
    pairs = (binding.partition("=") for binding in arguments)
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


def _may_have_cache(bindings: Mapping[str, str]) -> bool:
    """Returns whether the run may train from a cache, which needs no corpus."""
    caches = data_root() / "caches"
    mixture = glob.escape(bindings.get("MIXTURE_OR_TASK_NAME", ""))
    return "CACHE_DIR" in bindings or any(caches.glob(f"{mixture}*"))


def _check_writable(directory: Path) -> None:
    """Raises ValueError if a run directory cannot be created or written."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"MODEL_DIR {directory} cannot be written: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"MODEL_DIR {directory} cannot be written: no permission in {existing}")
