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
# The first setting requests large pages; with the others the process keeps freed memory.
# Together they saved 14 % of a training step's CPU seconds on two cores of an AMD EPYC. The table
# of benchmarks/train_step.py has a row without them.
LARGE_PAGES = ":".join((
    "glibc.malloc.hugetlb=1", "glibc.malloc.arena_max=1", "glibc.malloc.mmap_max=0",
    "glibc.malloc.trim_threshold=8589934592", "glibc.malloc.top_pad=268435456",
))  # fmt: skip
TUNABLES, STARTED_AGAIN = "GLIBC_TUNABLES", "MMT_STARTED_AGAIN"  # environment variables
_KERNEL = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class Environment(NamedTuple):
    """The devices and versions of a run.

    devices: the number of devices of kind `device`; on a CPU the number of cores, so that runs on
        one core and on several can be compared.
    versions: of Python and of the installed PACKAGES.
    tunables: GLIBC_TUNABLES of the process, '' if it is not set.
    """

    device: str
    devices: int
    versions: dict[str, str]
    tunables: str = ""


def here() -> Environment:
    """Returns the environment of this process, with the devices of all processes of the run."""
    import jax  # imported late: modules that describe a run import fast

    tunables = os.environ.get(TUNABLES, "")
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if jax.default_backend() == "cpu":  # JAX may see one device or one per core
        count = cores() * jax.process_count()
        return Environment(f"{processor()} core", count, versions, tunables)
    return Environment(jax.devices()[0].device_kind, jax.device_count(), versions, tunables)


def write(file: Path) -> None:
    """Writes `here()` to a file. If a run moves to another machine, the last one is recorded."""
    text = json.dumps(here()._asdict(), indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> Environment | None:
    """Reads a file of `write`; returns None without the file. Raises ValueError if it is damaged.
    """
    if not file.exists():
        return None
    try:
        return Environment(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from error


def start_again_with_large_pages() -> None:
    """Replaces this process with the same command under GLIBC_TUNABLES=LARGE_PAGES, once.

    The process keeps its id, files and arguments, so its parent sees one process. Call it first in
    a program, because the program starts again from the beginning.

    It does nothing in the new process, if the user has set GLIBC_TUNABLES (an empty value turns
    large pages off), if the C library has no such tunables, or without a program file, as in
    `python -c`.
    """
    is_set = TUNABLES in os.environ or STARTED_AGAIN in os.environ
    program = getattr(sys.modules["__main__"], "__file__", None)
    if is_set or not program or not sys.executable or not has_large_page_tunables():
        return
    environment = {**os.environ, TUNABLES: LARGE_PAGES, STARTED_AGAIN: "1"}
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    except OSError as error:
        warnings.warn(f"no large pages: cannot start again: {error}", stacklevel=2)


def has_large_page_tunables() -> bool:
    """Returns whether the C library is glibc 2.35 or later, as malloc.hugetlb needs."""
    try:
        name, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    except (AttributeError, ValueError, OSError):  # another system or C library
        return False


def large_pages() -> str:
    """Returns a text on whether training commands on this machine use large pages."""
    if TUNABLES in os.environ:
        return f"set by {TUNABLES}={os.environ[TUNABLES]!r}"
    if not has_large_page_tunables():
        return "no: they need Linux with glibc 2.35 or later"
    if not _KERNEL.exists() or "[never]" in _KERNEL.read_text():
        return f"no: turned off in the kernel ({_KERNEL})"
    return f"yes: training commands set {TUNABLES}={LARGE_PAGES.split(':')[0]}:…"


def target_platform() -> str:
    """Returns the platform of the active mesh's devices; without a mesh, JAX's default backend.

    They differ where `mmt plan` compiles a program for devices that are not present.
    """
    import jax

    device = jax.sharding.get_abstract_mesh().abstract_device
    return getattr(device, "platform", None) or jax.default_backend()


def processor() -> str:
    """Returns the name of the CPU."""
    cpus = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*: (.+)", cpus.read_text()) if cpus.exists() else None
    return match[1] if match else platform.processor() or platform.machine()


def cores() -> int:
    """Returns the number of cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
