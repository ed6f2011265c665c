"""The constants of the chips that `mmt plan` knows, with their sources.

Figures are per JAX device, except power: a v3 chip is two devices, a v4 chip one (megacore). Peaks
are bfloat16 with float32 sums; a TPU computes float32 products in the same units.

Peaks, memory and links. v3 and v4: Jouppi et al. 2023 (arXiv 2304.01433, Table 4: 4 links of 70 and
6 of 50 GB/s; 940 and 1,050 MHz) and cloud.google.com/tpu/docs/v3, /v4. v5e, v5p and v6e:
cloud.google.com/tpu/docs/v5e, /v5p, /v6e (1,600, 4,800 and 3,200 Gbit/s a chip over 4, 6 and 4
links); 1.5 GHz of v5e: jax-ml.github.io/scaling-book/tpus. GPU: NVIDIA's H100 SXM data sheet (989
TFLOP/s dense, 3.35 TB/s, 80 GB, NVLink 450 GB/s a direction, 700 W) and DGX H100's (400 Gbit/s
InfiniBand a GPU beyond eight). Usable memory of TPUs is what libtpu 0.0.51 reports when a program
does not fit; it is less than the sheets' 16, 32 or 95 GB.

Power: mean measured watts of v3 (220) and v4 (170) in the same documents; no figure is published
for v5e, v5p and v6e. The GPU's is its limit. Hosts are not included.

Achievable shares. Matrix units: GShard (arXiv 2006.16668, section 5.2) measured more than 85 % of a
v3's peak in feed-forward layers and projections. The same share is assumed for the other chips.
Memory and links: 80 % is assumed, for lack of a published measurement.
"""

from dataclasses import dataclass


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
        clock: cycles per second of the vector unit; None where the compiler estimates no cycles.
        watts: mean power of a chip; None where none is published.
        host_chips: chips of a host.
        product_share, memory_share, link_share: the achievable parts of `flops`, `bandwidth` and
            `link`.
    """

    flops: float | None
    memory: float
    bandwidth: float | None
    link: float | None
    links: int
    dimensions: int
    devices: int = 1
    clock: float | None = None
    watts: float | None = None
    host_chips: int = 4
    product_share: float = 0.85
    memory_share: float = 0.8
    link_share: float = 0.8


_GIB = 2.0**30
CHIPS = {
    "v3": Chip(61.5e12, 15.48 * _GIB, 450e9, 70e9, 2, 2, devices=2, clock=940e6, watts=220.0),
    "v4": Chip(275e12, 30.75 * _GIB, 1200e9, 50e9, 6, 3, clock=1050e6, watts=170.0),
    "v5e": Chip(197e12, 15.75 * _GIB, 819e9, 50e9, 4, 2, clock=1.5e9, host_chips=8),
    "v5p": Chip(459e12, 95.73 * _GIB, 2765e9, 100e9, 6, 3),
    "v6e": Chip(918e12, 31.24 * _GIB, 1600e9, 100e9, 4, 2, host_chips=8),
    "gpu": Chip(989e12, 80e9, 3350e9, 450e9, 1, 0, watts=700.0, host_chips=8),
}
