"""The machines that `mmt plan` knows by name, with the peaks, memory and links of their chips.

Figures are per JAX device: a v3 chip is two devices, a v4 chip one (megacore). Peaks are bfloat16
with float32 sums; a TPU computes float32 products in the same units. Nothing here loads a compiler.

Sources. Peaks, HBM bandwidth and links: v3 and v4 from Jouppi et al. 2023 (arXiv 2304.01433, Table
4: 4 links of 70 and 6 of 50 GB/s) and cloud.google.com/tpu/docs/v3, /v4; v5e, v5p and v6e from
cloud.google.com/tpu/docs/v5e, /v5p and /v6e (1,600, 4,800 and 3,200 Gbit/s a chip over 4, 6 and 4
links). GPU: NVIDIA's H100 SXM data sheet (989 TFLOP/s dense, 3.35 TB/s, 80 GB, NVLink 450 GB/s a
direction) and DGX H100's (400 Gbit/s InfiniBand a GPU beyond eight). Usable HBM of TPUs is what
libtpu 0.0.51 reports when a program does not fit; it is less than the sheets' 16, 32 or 95 GB.
"""

import math
import os
import re
from dataclasses import dataclass

from mmt import suggest

EXAMPLES = (
    "v3:32x32", "v4:8x16x16", "v5e:16x16", "v5p:8x16x16", "v6e:16x16", "gpu:8", "cpu:8",
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """One JAX device. Rates are in FLOP/s and bytes/s; None for a CPU, which has no such figure.

    Attributes:
        flops: peak in bfloat16.
        memory: usable bytes.
        bandwidth: of the memory.
        link: of one link in one direction.
        links: links of a device.
        dimensions: of the torus of links; 0 where every device reaches every other.
        devices: JAX devices per chip.
    """

    flops: float | None
    memory: float
    bandwidth: float | None
    link: float | None
    links: int
    dimensions: int
    devices: int = 1


_GIB = 2.0**30
CHIPS = {
    "v3": Chip(61.5e12, 15.48 * _GIB, 450e9, 70e9, 2, dimensions=2, devices=2),
    "v4": Chip(275e12, 30.75 * _GIB, 1200e9, 50e9, 6, dimensions=3),
    "v5e": Chip(197e12, 15.75 * _GIB, 819e9, 50e9, 4, dimensions=2),
    "v5p": Chip(459e12, 95.73 * _GIB, 2765e9, 100e9, 6, dimensions=3),
    "v6e": Chip(918e12, 31.24 * _GIB, 1600e9, 100e9, 4, dimensions=2),
    "gpu": Chip(989e12, 80e9, 3350e9, 450e9, 1, dimensions=0),
}


@dataclass(frozen=True)
class Topology:
    """A number of chips of one kind, arranged in `shape`."""

    name: str
    kind: str  # one of CHIPS, or 'cpu'
    shape: tuple[int, ...]  # chips in each dimension
    chip: Chip

    @property
    def chips(self) -> int:
        """Returns the number of chips."""
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """Returns the number of JAX devices."""
        return self.chips * self.chip.devices

    @property
    def tpu(self) -> bool:
        """Returns whether the chips are TPUs."""
        return self.chip.dimensions > 0

    def rate(self, *, all_to_all: bool, devices: int) -> float | None:
        """Returns the bytes/s that a device sends to its group of `devices`; None for a CPU.

        Rings use all links. An all-to-all crosses the middle of the torus: half of the devices send
        half of their bytes over the two faces of the longest dimension, of length L. So a device
        has at most 8 / L links, which the devices of a chip share.
        """
        if self.chip.link is None:
            return None
        if not self.tpu:
            return self.chip.link if devices <= 8 else 50e9
        links: float = self.chip.links
        if all_to_all:
            longest = max(self.shape)
            if devices < self.devices:  # a part of the torus, as nearly a cube as possible
                longest = min(longest, math.ceil(devices ** (1 / self.chip.dimensions)))
            links = min(links, 8 / longest / self.chip.devices)
        return links * self.chip.link


def parse(name: str) -> Topology:
    """Returns the topology named like 'v4:8x16x16' or 'gpu:8'.

    Raises:
        ValueError: the name is unknown. The message has the nearest name and all kinds.
    """
    kind, _, sizes = name.strip().partition(":")
    known = ", ".join(EXAMPLES)
    if kind not in (*CHIPS, "cpu"):
        near = suggest.hint(name, EXAMPLES, cutoff=0.3)
        raise ValueError(f"unknown topology {name!r}{near}; known, of any size: {known}")
    chip = CHIPS[kind] if kind != "cpu" else Chip(None, _memory(), None, None, 0, dimensions=0)
    dimensions = chip.dimensions or 1
    if not re.fullmatch(r"[1-9]\d{0,5}" + r"x[1-9]\d{0,5}" * (dimensions - 1), sizes):
        example = next(name for name in EXAMPLES if name.startswith(f"{kind}:"))
        raise ValueError(
            f"topology {name!r}: {kind} is {'x'.join('NNN'[:dimensions])}, as in {example}; "
            f"known, of any size: {known}"
        )
    shape = tuple(int(size) for size in sizes.split("x"))
    if kind == "cpu":  # simulated devices share this machine's memory
        chip = Chip(None, _memory() / math.prod(shape), None, None, 0, dimensions=0)
    return Topology(f"{kind}:{sizes}", kind, shape, chip)


def _memory() -> float:
    """Returns the bytes of this machine's memory."""
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
