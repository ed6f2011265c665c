"""The machines that `mmt plan` knows by name. Nothing here loads a compiler."""

import math
import os
import re
from dataclasses import dataclass

from mmt import suggest
from mmt.plan.chips import CHIPS, Chip

EXAMPLES = (
    "v3:32x32", "v4:8x16x16", "v5e:16x16", "v5p:8x16x16", "v6e:16x16", "gpu:8", "cpu:8",
)  # fmt: skip


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
    def hosts(self) -> int:
        """Returns the number of hosts."""
        return math.ceil(self.chips / self.chip.host_chips)

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

        A ring over all devices uses all links, one over a part those of the dimensions that the
        part covers (`_ring_links`). An all-to-all crosses the middle of the torus: half of the
        devices send half of their bytes over the two faces of the longest dimension, of length L.
        So a device has at most 8 / L links, which the devices of a chip share.
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
        elif devices < self.devices:
            links = min(links, self._ring_links(devices))
        return links * self.chip.link

    def _ring_links(self, devices: int) -> int:
        """Returns the links of a device to the other devices of its group.

        As JAX places them, a group covers whole dimensions where it can, with two links each, and
        of another one a line, with one link in each direction of its rings.
        """
        remaining, links = max(1, devices // self.chip.devices), 0
        for side in sorted(self.shape, reverse=True):
            if side > 1 and remaining % side == 0:
                remaining, links = remaining // side, links + 2
        return max(1, links + (remaining > 1))


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
