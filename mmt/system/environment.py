"""The devices and library versions that a run was trained with, as a small JSON file."""

import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("mmt", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "sentencepiece")


class Environment(NamedTuple):
    """devices: how many of `device`, on a CPU its cores, so that runs on one core and on several
    can be compared; versions: of Python and of PACKAGES, those installed.
    """

    device: str
    devices: int
    versions: dict[str, str]


def here() -> Environment:
    """This process' own, with the devices of all processes of the run."""
    import jax  # not above: what describes a run is light to import

    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if jax.default_backend() == "cpu":  # whether JAX sees one device or one per core
        return Environment(f"{processor()} core", cores() * jax.process_count(), versions)
    return Environment(jax.devices()[0].device_kind, jax.device_count(), versions)


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


def processor() -> str:
    """The CPU's name."""
    cpus = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpus.read_text()) if cpus.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    own = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if own else os.cpu_count() or 1
