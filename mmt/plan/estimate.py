"""`mmt plan`: what a training step needs of a machine that need not be there.

`mmt.plan.compile` compiles the real step in a process of its own. This module turns its answer
into bytes that fit or do not, a time by roofline, days and chip-years. The time is an estimate:
every unit at its peak, matrix products and collectives only.
"""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmt.plan import collectives, topology
from mmt.plan.parameters import readable
from mmt.system import environment
from mmt.system.progress import track

Number = int | float | None  # None: not known
_GIB = 2**30
_SENT = {"all-reduce": 2.0}  # of a ring, bytes sent for each byte of the result; else 1
_NEEDED = re.compile(r"(?:Used |temporaries \()([\d.]+)([KMGT])")
_UNITS = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}
CHANGES = (
    "recompute (transformer.Config.remat = 'full')",
    "cut every parameter (--gin_file=gin_configs/meshes/fully_sharded.gin)",
    "a smaller BATCH_SIZE",
    "train.Program.microbatches = 2 or more",
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What `mmt.plan.compile` found for a topology, and what follows. None is what is not known."""

    machine: topology.Topology
    found: Mapping[str, Any]

    @property
    def bytes_per_device(self) -> dict[str, Number]:
        """parameters, optimizer, temporary (activations, gradients, buffers, the program itself),
        total, limit. Where the program does not fit, what the compiler says it needs, for which
        it counts either all or the temporary part.
        """
        temporary: Number = None
        total: Number = None
        if memory := self.found.get("memory"):
            program = memory["generated_code"] if self.machine.tpu else 0
            temporary = memory["temp"] + program
            kept = memory["argument"] + memory["output"] - memory["alias"]
            total = kept + temporary
        elif (exhausted := self.found.get("exhausted")) and (stated := needed(exhausted)):
            own = self.found["parameter_bytes"] + self.found["optimizer_bytes"]
            if "temporaries (" in exhausted:
                temporary, total = stated, own + stated
            else:
                total = stated
        return {
            "parameters": self.found["parameter_bytes"],
            "optimizer": self.found["optimizer_bytes"],
            "temporary": temporary,
            "total": total,
            "limit": self.machine.chip.memory,
        }

    @property
    def fits(self) -> bool | None:
        """None where it was not compiled and the parameters alone do not decide."""
        sizes = self.bytes_per_device
        if "exhausted" in self.found:
            return False
        if sizes["total"] is not None:
            return sizes["total"] <= self.machine.chip.memory
        least = 2 * self.found["parameter_bytes"] + self.found["optimizer_bytes"]  # and gradients
        return False if least > self.machine.chip.memory else None

    @property
    def exchanges(self) -> list[collectives.Collective] | None:
        rows = self.found.get("collectives")
        return None if rows is None else [collectives.Collective(**row) for row in rows]

    @property
    def roofline(self) -> dict[str, Number]:
        """Seconds of a step: compute, memory, interconnect.

        compute: FLOPs over the peak. memory: operands and results of the products, and the state
        that a step reads and writes, over HBM's rate. interconnect: for every collective the bytes
        that a device sends, over the links it can use for it.
        """
        chip, devices = self.machine.chip, self.found["devices"]
        seconds: dict[str, Number] = dict.fromkeys(("compute", "memory", "interconnect"))
        if chip.flops is None or chip.bandwidth is None:
            return seconds
        work, replicated = self.found["work"], self.found["replicated_bytes"]
        state = 3 * self.found["parameter_bytes"] + 2 * self.found["optimizer_bytes"]
        moved = work["bytes"] / devices + 3 * replicated + state
        seconds |= {
            "compute": work["flops"] / devices / chip.flops, "memory": moved / chip.bandwidth
        }  # fmt: skip
        if (found := self.exchanges) is not None:
            seconds["interconnect"] = sum(self._sending(one) for one in found)
        return seconds

    @property
    def step_seconds(self) -> float | None:
        """The larger of compute and memory, and the interconnect after it; where collectives are
        not known, without them.
        """
        parts = self.roofline
        if parts["compute"] is None or parts["memory"] is None:
            return None
        return max(parts["compute"], parts["memory"]) + (parts["interconnect"] or 0.0)

    @property
    def days(self) -> float | None:
        """Of training with `TOKENS` source tokens; None for decoding."""
        a_step = self.found["tokens_per_step"]
        if self.step_seconds is None or a_step is None:
            return None
        return self.found["tokens"] / a_step * self.step_seconds / 86400

    def to_json(self) -> dict[str, Any]:
        """Sizes in bytes, times in seconds. `bytes` of a collective: what a device receives by it
        in a step.
        """
        found = self.exchanges
        return {
            "devices": self.found["devices"],
            "mesh": self.found["mesh"],
            "fits": self.fits,
            "bytes_per_device": self.bytes_per_device,
            "parameters": self.found["parameters"],
            "flops_per_step": self.found["work"]["flops"],
            "collectives": None if found is None else collectives.summary(found),
            "compile_seconds": self.found.get("compile_seconds"),
            "compile_cpu_seconds": self.found.get("compile_cpu_seconds"),
            "compile_peak_bytes": self.found.get("peak_rss"),
            "step_seconds_estimate": self.step_seconds,
            "roofline_seconds": self.roofline,
            "tokens": self.found["tokens"],
            "days": self.days,
            "chip_years": None if self.days is None else self.days / 365.25 * self.machine.chips,
            "notes": self.notes,
        }

    @property
    def notes(self) -> list[str]:
        """What was chosen, what is not known and why, and what to change where it does not fit."""
        notes = list(self.found["notes"])
        if untold := self.found.get("untold"):
            notes.append(f"collectives not known, the compiler prints no text here: {untold}")
        if self.fits is False:
            sizes = self.bytes_per_device
            total = _gib(sizes["total"]) if sizes["total"] else "more than all"
            notes.append(f"does not fit: needs {total} of {_gib(sizes['limit'])}; change one of: "
                         + "; ".join(CHANGES))  # fmt: skip
        if self.exchanges is None and self.step_seconds is not None:
            notes.append("the step's time is without collectives, which are not known")
        return notes

    def table(self) -> str:
        """For people: a line a fact."""
        sizes, parts = self.bytes_per_device, self.roofline
        mesh = " x ".join(f"{name} {size}" for name, size in self.found["mesh"].items())
        whole, fits = self.found["parameters"], {True: "yes", False: "NO", None: "not known"}
        lines = [
            ("devices", f"{self.found['devices']:,} ({self.machine.name}), mesh {mesh}"),
            ("parameters", f"{readable(whole['total'])}, {readable(whole['active'])} active"),
            ("fits", fits[self.fits]),
            *((f"  {name}", f"{_gib(size)} a device") for name, size in sizes.items()),
            ("FLOPs a step", f"{self.found['work']['flops']:.4g}"),
            *((f"  {kind}", f"{row['count']} in the program, {row['executed']} executed, "
               f"{row['bytes'] / 1e6:,.1f} MB a device")
              for kind, row in collectives.summary(self.exchanges or []).items()),
            ("compiled in", _seconds(self.found.get("compile_seconds"))),
            ("step, at best", _seconds(self.step_seconds)),
            *((f"  {name}", _seconds(value)) for name, value in parts.items()),
        ]  # fmt: skip
        if (days := self.days) is not None:
            years = days / 365.25 * self.machine.chips
            lines.append(("training", f"{days:,.2f} days, {years:,.2f} chip-years for "
                          f"{self.found['tokens']:.3g} source tokens"))  # fmt: skip
        if self.machine.kind == "cpu":
            lines.append(("large pages", environment.large_pages()))
        rows = [f"{name:<20}{value}" for name, value in lines]
        return "\n".join([*rows, *(f"note: {note}" for note in self.notes)])

    def _sending(self, one: collectives.Collective) -> float:
        """Seconds of a step that a collective takes."""
        if one.group == 1:
            return 0.0
        exchange = one.kind == "all-to-all"
        rate = self.machine.rate(all_to_all=exchange, devices=one.group)
        assert rate is not None
        sent = one.bytes * _SENT.get(one.kind, 1.0) * (one.group - 1) / one.group
        return one.executed * sent / rate


def plan(
    files: Sequence[str], bindings: Sequence[str], name: str, *, decode: bool = False
) -> Plan:
    """The plan of a gin configuration for the topology of that name.

    Where the files bind no run, gin_configs/runs/train.gin is added; where they bind no mesh, one
    axis over all devices carries batch, groups and experts, or a second one is chosen and told.
    Raises ValueError for an unknown topology, and for what the program or the compiler refuses.
    """
    machine = topology.parse(name)
    asked = {
        "files": list(files), "bindings": list(bindings), "topology": name, "decode": decode
    }  # fmt: skip
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    child = subprocess.run(
        [sys.executable, "-m", "mmt.plan.compile"], input=json.dumps(asked), env=variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if child.returncode:
        raise ValueError(_ended(machine, child.returncode, child.stderr))
    found = json.loads(child.stdout.splitlines()[-1])
    if "error" in found:
        raise ValueError(found["error"])
    return Plan(machine, found)


def meshes() -> list[str]:
    """The gin files of gin_configs/meshes, as `plan` and `--gin_file` take them."""
    folder = Path(__file__).resolve().parents[2] / "gin_configs/meshes"
    return sorted(f"gin_configs/meshes/{path.name}" for path in folder.glob("*.gin"))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Plans of one model by mesh, or why there is none."""

    plans: Mapping[str, Plan | ValueError]

    def to_json(self) -> dict[str, Any]:
        """{mesh: a plan's keys, or {"error": "..."}}"""
        return {
            name: {"error": str(one)} if isinstance(one, ValueError) else one.to_json()
            for name, one in self.plans.items()
        }

    def table(self) -> str:
        """A row for each mesh: what a device holds, what it receives, and the step's time."""
        head = ("mesh", "fits", "GiB", "all-to-all MB", "all-gather MB", "all-reduce MB", "step")
        rows: list[tuple[str, ...]] = [head]
        told = []
        for name, one in self.plans.items():
            if isinstance(one, ValueError):
                rows.append((name, *["-"] * 6))
                told.append(f"{name}: {one}")
                continue
            sent = collectives.summary(one.exchanges or [])
            megabytes = [
                f"{sent[kind]['bytes'] / 1e6:,.0f}" if kind in sent else "0"
                for kind in ("all-to-all", "all-gather", "all-reduce")
            ]
            total = one.bytes_per_device["total"]
            fits = {True: "yes", False: "NO", None: "?"}[one.fits]
            size = "?" if total is None else f"{total / _GIB:.2f}"
            rows.append((name, fits, size, *megabytes, _seconds(one.step_seconds)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*map(str.rstrip, lines), *told])


def compared(
    files: Sequence[str], bindings: Sequence[str], name: str, *, decode: bool = False
) -> Comparison:
    """`plan` with each file of gin_configs/meshes in turn, one after another."""
    topology.parse(name)
    plans: dict[str, Plan | ValueError] = {}
    for mesh in track(meshes(), "compiling for each mesh"):
        try:
            plans[Path(mesh).stem] = plan([*files, mesh], bindings, name, decode=decode)
        except ValueError as error:
            plans[Path(mesh).stem] = error
    return Comparison(plans)


def needed(message: str) -> float | None:
    """Bytes of a device that a RESOURCE_EXHAUSTED message says are needed."""
    found = _NEEDED.search(message)
    return float(found[1]) * _UNITS[found[2]] if found else None


def _ended(machine: topology.Topology, status: int, stderr: str) -> str:
    """Why the compiling process ended without an answer."""
    failed = re.search(r"(Check failed: .*)", stderr)
    raised = re.findall(r"^\w+(?:\.\w+)*(?:Error|Exception): .*", stderr, re.MULTILINE)
    why = failed[1] if failed else (raised or stderr.strip().splitlines() or [""])[-1]
    if status < 0:
        name = signal.Signals(-status).name
        return f"the compiler gave up on {machine.name} ({name}): {why}"
    return f"the compiling process failed ({status}): {why}"


def _gib(size: Number) -> str:
    return "not known" if size is None else f"{size / _GIB:.2f} GiB"


def _seconds(value: Number) -> str:
    if value is None:
        return "not known"
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 6)}f} s"
