"""On what a run was trained: the devices and the versions, as `environment.json` in its directory.

What was trained is in `config.gin`; how it went, in `metrics.jsonl`.
"""

import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

import jax

FILE = "environment.json"
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
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if jax.default_backend() == "cpu":  # whether JAX sees one device or one per core
        return Environment(f"{processor()} core", cores() * jax.process_count(), versions)
    return Environment(jax.devices()[0].device_kind, jax.device_count(), versions)


def write(model_dir: Path) -> None:
    """Notes `here` in a run directory; of a run that moved, the last place counts."""
    text = json.dumps(here()._asdict(), indent=1)
    (model_dir / FILE).write_text(text + "\n", encoding="utf-8")


def read(model_dir: Path) -> Environment | None:
    """What was noted; None where nothing was, as in an imported model. ValueError where broken."""
    file = model_dir / FILE
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
