"""Devices and versions of a run, and the memory allocator's settings of long commands.

JAX is imported where it is used: the command line starts itself again before that.
"""

import importlib.metadata
import json
import os
import platform
import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("mmt", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "sentencepiece")
# The first asks the kernel for large pages; with the others freed memory stays with the process.
# Together they saved 14 % of a training step's CPU seconds on an AMD EPYC of two cores; the table
# of benchmarks/train_step.py has a row without them.
LARGE_PAGES = ":".join((
    "glibc.malloc.hugetlb=1", "glibc.malloc.arena_max=1", "glibc.malloc.mmap_max=0",
    "glibc.malloc.trim_threshold=8589934592", "glibc.malloc.top_pad=268435456",
))  # fmt: skip
TUNABLES, STARTED_AGAIN = "GLIBC_TUNABLES", "MMT_STARTED_AGAIN"  # environment variables
_KERNEL = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class Environment(NamedTuple):
    """devices: how many of `device`, on a CPU its cores, so that runs on one core and on several
    can be compared; versions: of Python and of PACKAGES, those installed; tunables: GLIBC_TUNABLES
    of the process, '' where it has none.
    """

    device: str
    devices: int
    versions: dict[str, str]
    tunables: str = ""


def here() -> Environment:
    """This process' own, with the devices of all processes of the run."""
    import jax  # not above: what describes a run is light to import

    tunables = os.environ.get(TUNABLES, "")
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if jax.default_backend() == "cpu":  # whether JAX sees one device or one per core
        count = cores() * jax.process_count()
        return Environment(f"{processor()} core", count, versions, tunables)
    return Environment(jax.devices()[0].device_kind, jax.device_count(), versions, tunables)


def write(file: Path) -> None:
    """Writes `here` to a file; for a run that moved, the last machine counts."""
    text = json.dumps(here()._asdict(), indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> Environment | None:
    """Reads what `write` wrote; None without the file. ValueError where it is broken."""
    if not file.exists():
        return None
    try:
        return Environment(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error


def start_again_with_large_pages() -> None:
    """Replaces this process with the same command under GLIBC_TUNABLES=LARGE_PAGES, once.

    The process keeps its id, files and arguments; whoever waits for it sees one process. Returns
    where that has been done, where the user has set GLIBC_TUNABLES (an empty value turns large
    pages off), where the C library has no such tunables, and where there is no program to start
    again, as in `python -c`. For the first lines of a program: what it has done is done again.
    """
    told = TUNABLES in os.environ or STARTED_AGAIN in os.environ
    program = getattr(sys.modules["__main__"], "__file__", None)
    if told or not program or not sys.executable or not has_large_page_tunables():
        return
    environment = {**os.environ, TUNABLES: LARGE_PAGES, STARTED_AGAIN: "1"}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    except OSError as error:
        warnings.warn(f"no large pages: cannot start again: {error}", stacklevel=2)


def has_large_page_tunables() -> bool:
    """Whether the C library is glibc 2.35 or later, as GLIBC_TUNABLES' malloc.hugetlb needs."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    except (AttributeError, ValueError, OSError):  # another system or C library
        return False


def large_pages() -> str:
    """Says whether a training command on this machine gets large pages."""
    if TUNABLES in os.environ:
        return f"as {TUNABLES}={os.environ[TUNABLES]!r} says"
    if not has_large_page_tunables():
        return "no: they need Linux with glibc 2.35 or later"
    if not _KERNEL.exists() or "[never]" in _KERNEL.read_text():
        return f"no: the kernel has them off ({_KERNEL})"
    return f"yes: training commands set {TUNABLES}={LARGE_PAGES.split(':')[0]}:…"


def processor() -> str:
    """The CPU's name."""
    cpus = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpus.read_text()) if cpus.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    own = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if own else os.cpu_count() or 1
