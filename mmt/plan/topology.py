"""Machines that `mmt plan` knows by name: their chips, and how much these compute, hold and send.

Figures are per JAX device: a v3 chip is two of them, a v4 chip one (megacore). Nothing here loads a
compiler. Peaks are bfloat16 with float32 sums; a TPU takes float32 products through the same units.

Sources. Peaks, HBM bandwidth and links: v3 and v4 from Jouppi et al. 2023 (arXiv 2304.01433, Table
4: 4 links of 70 and 6 of 50 GB/s) and cloud.google.com/tpu/docs/v3, /v4; v5e, v5p and v6e from
cloud.google.com/tpu/docs/v5e, /v5p and /v6e (1,600, 4,800 and 3,200 Gbit/s a chip over 4, 6 and 4
links); GPU: NVIDIA's H100 SXM data sheet (989 TFLOP/s dense, 3.35 TB/s, 80 GB, NVLink 450 GB/s a
direction) and DGX H100's (400 Gbit/s InfiniBand a GPU beyond eight). Usable HBM of TPUs is what
libtpu 0.0.51 states when a program does not fit it, less than the 16, 32 or 95 GB of the sheets.
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
    """One JAX device. Rates in FLOP/s and bytes/s; None where a host's CPU has no such figure."""

    flops: float | None  # peak, bfloat16
    memory: float  # usable, bytes
    bandwidth: float | None  # of the memory
    link: float | None  # of one link, one direction
    links: int  # of a device
    dimensions: int  # of the torus that the links make; 0: every device reaches every other
    devices: int = 1  # of a chip


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
    """So many chips, in this shape."""

    name: str
    kind: str  # of CHIPS, or cpu
    shape: tuple[int, ...]  # in chips
    chip: Chip

    @property
    def chips(self) -> int:
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """As JAX counts them."""
        return self.chips * self.chip.devices

    @property
    def tpu(self) -> bool:
        return self.chip.dimensions > 0

    def rate(self, *, all_to_all: bool, devices: int) -> float | None:
        """Bytes/s that a device sends to the others of a group of `devices`; None for a CPU.

        Rings use all links. An all-to-all crosses the torus's middle: a half of the devices sends a
        half of its bytes over the two faces of the longest dimension of L, so that a device has at
        most 8 / L links of it (and what all cores of a chip share).
        """
        if self.chip.link is None:
            return None
        if not self.tpu:
            return self.chip.link if devices <= 8 else 50e9
        links: float = self.chip.links
        if all_to_all:
            longest = max(self.shape)
            if devices < self.devices:  # a part of the torus, as near a cube as can be
                longest = min(longest, math.ceil(devices ** (1 / self.chip.dimensions)))
            links = min(links, 8 / longest / self.chip.devices)
        return links * self.chip.link


def parse(name: str) -> Topology:
    """'v4:8x16x16', 'gpu:8', ... Raises ValueError with the nearest name and all kinds."""
    kind, _, sizes = name.strip().partition(":")
    known = ", ".join(EXAMPLES)
    if kind not in (*CHIPS, "cpu"):
        near = suggest.hint(name, EXAMPLES, cutoff=0.3)
        raise ValueError(f"unknown topology {name!r}{near}; known, of any size: {known}")
    chip = CHIPS[kind] if kind != "cpu" else Chip(None, _memory(), None, None, 0, dimensions=0)
    dimensions = chip.dimensions or 1
    if not re.fullmatch(r"[1-9]\d{0,5}" + r"x[1-9]\d{0,5}" * (dimensions - 1), sizes):
        example = next(one for one in EXAMPLES if one.startswith(f"{kind}:"))
        raise ValueError(
            f"topology {name!r}: {kind} is {'x'.join('NNN'[:dimensions])}, as in {example}; "
            f"known, of any size: {known}"
        )
    shape = tuple(int(size) for size in sizes.split("x"))
    if kind == "cpu":  # made-up devices share this machine's memory
        chip = Chip(None, _memory() / math.prod(shape), None, None, 0, dimensions=0)
    return Topology(f"{kind}:{sizes}", kind, shape, chip)


def _memory() -> float:
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
