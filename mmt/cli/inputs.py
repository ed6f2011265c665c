"""Checks that the files a command needs exist, within a second, before any heavy import."""

import argparse
import ast
import errno
import glob
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmt.system.data_root import data_root

_INSTALL_ROOT = Path(__file__).resolve().parents[2]  # holds gin_configs/
_INCLUDE = re.compile(r"include\s+['\"](.+?)['\"]")
_MACRO = re.compile(r"([A-Z][A-Z0-9_]*)\s*=\s*(.+)")
_DISK_FULL = errno.ENOSPC, errno.EDQUOT  # not an error here: training waits for free space


def check(args: argparse.Namespace) -> None:
    """Checks the files that the arguments name: model, test set, corpus, run directory.

    Raises:
      ValueError: one is missing, or the run directory cannot be written.
    """
    models = [args.model] if getattr(args, "model", None) else []
    others = getattr(args, "ensemble", None) or []
    for directory in [*getattr(args, "models", models), *others]:
        from mmt.run import Run

        run = Run(directory)
        run.check_is_model(run.config)
    if args.run == "evaluate":
        from eval import testsets

        testsets.check_place(args.testset)
    if args.run in ("train", "distill", "baselines"):
        bindings = macros(args.gin_file) | _bindings(args.bindings)
        # `mmt distill` may write its corpus first: the translations by the teacher.
        teacher = args.run == "distill" and "TEACHER_CORPUS" in bindings
        corpus = bindings.get("TEACHER_CORPUS" if teacher else "CORPUS")
        if corpus and not _may_have_cache(bindings):
            from mmt.data import corpora

            corpora.check_place(corpus)
        if model_dir := bindings.get("MODEL_DIR"):
            _check_writable(Path(model_dir))


def macros(files: Sequence[str]) -> dict[str, str | None]:
    """Returns the macros of gin files and their includes, the last value of each.

    It reads the lines itself, so nothing is imported. Values other than text, such as `%NAME`, are
    None. A file that does not exist is omitted: gin reports it.

    >>> macros(["gin_configs/examples/demo.gin"])["CORPUS"]
    'cldr'
    """
    values: dict[str, str | None] = {}
    for file in files:
        _read_macros(file, values, ())
    return values


def _read_macros(file: str, values: dict[str, str | None], includers: tuple[str, ...]) -> None:
    path = next((path for path in (Path(file), _INSTALL_ROOT / file) if path.is_file()), None)
    if path is None or file in includers:
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if include := _INCLUDE.match(line):
            _read_macros(include[1], values, (*includers, file))
        elif macro := _MACRO.match(line):
            try:
                value = ast.literal_eval(macro[2])
            except (ValueError, SyntaxError):
                value = None
            values[macro[1]] = value if isinstance(value, str) else None


def _bindings(arguments: Sequence[str]) -> dict[str, str | None]:
    """Returns the bindings of the command line, without quotes; the last one of a name counts."""
    pairs = (binding.partition("=") for binding in arguments)
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}


def _may_have_cache(bindings: Mapping[str, str | None]) -> bool:
    """Returns whether the run may train from a cache, which needs no corpus."""
    caches = data_root() / "caches"
    mixture = glob.escape(bindings.get("MIXTURE_OR_TASK_NAME") or "")
    return bool(bindings.get("CACHE_DIR")) or any(caches.glob(f"{mixture}*"))


def _check_writable(directory: Path) -> None:
    """Raises ValueError if a run directory cannot be created or written.

    A file is created for a moment: the kernel may refuse what the permissions allow.
    """
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"MODEL_DIR {directory} cannot be written: {existing} is a file")
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except PermissionError:
        reason = f"no permission in {existing}"
    except OSError as error:
        reason = "" if error.errno in _DISK_FULL else f"{error.strerror} ({existing})"
    else:
        reason = ""
    if reason:
        raise ValueError(f"MODEL_DIR {directory} cannot be written: {reason}")
