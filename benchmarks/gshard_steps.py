"""Compares the roofline's steps per second with GShard's own (Table 1, TPU v3 cores).

    python -m benchmarks.gshard_steps

It compiles the six sizes for the paper's number of v3 cores. It needs the extra [plan], but no TPU.
The roofline assumes every unit at its peak. It includes neither vector-unit work (softmax, norms,
dropout, sorting, Adafactor) nor waiting.

The roofline is no bound on the paper's program, which is faster on 128 cores. Ours recomputes
activations ('full'). The paper reports neither target tokens per batch nor rematerialisation. Its
dispatch multiplied by one-hot masks, ours does not. It takes about 5 minutes on 2 free cores.
"""

import os

from rich.console import Console
from rich.table import Table

from benchmarks.header import header
from mmt import plan

RUNS = {  # file: topology, steps/s
    "gshard_600b": ("v3:32x32", 0.72), "gshard_200b": ("v3:32x32", 2.15),
    "gshard_150b": ("v3:16x16", 1.05), "gshard_50b": ("v3:16x16", 3.28),
    "gshard_37b": ("v3:8x8", 0.67), "gshard_12b": ("v3:8x8", 2.16),
}  # fmt: skip


def main() -> None:
    """Compiles, and prints the table."""
    os.environ["JAX_OPTIMIZATION_LEVEL"] = "O1"
    table = Table("model", "cores", "GiB a core", "compute s", "memory s", "interconnect s",
                  "steps/s at best", "paper", "ratio")  # fmt: skip
    for name, (topology, paper) in RUNS.items():
        planned = plan.plan([f"gin_configs/models/{name}.gin"], [], topology)
        total, seconds = planned.bytes_per_device["total"], planned.step_seconds
        assert total is not None and seconds is not None
        parts = [f"{value:.3f}" if value else "-" for value in planned.roofline.values()]
        table.add_row(
            name, str(planned.answer["devices"]),
            f"{total / 2**30:.2f}{'' if planned.fits else ' (no)'}",
            *parts, f"{1 / seconds:.2f}", f"{paper:.2f}", f"{1 / seconds / paper:.2f}",
        )  # fmt: skip
    print(header())
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
