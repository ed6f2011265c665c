"""The first line of every table in `benchmarks`: machine, versions and allocator settings.

It has no date, so two runs on one machine can be compared as text.
"""

import os
import platform
from importlib.metadata import version

import jax

from mmt.system import environment


def header() -> str:
    """Returns 'AMD EPYC, 2 cores, cpu x 1; Python 3.11.2, jax 0.10.2, jaxlib 0.10.2, flax 0.12.8'.
    """
    machine = f"{environment.processor()}, {environment.cores()} cores"
    device = f"{jax.devices()[0].device_kind} x {jax.device_count()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("jax", "jaxlib", "flax"))
    tunables = os.environ.get(environment.TUNABLES)
    settings = f"; {environment.TUNABLES}={tunables}" if tunables else ""
    return f"{machine}, {device}; Python {platform.python_version()}, {versions}{settings}"


if __name__ == "__main__":
    print(header())
