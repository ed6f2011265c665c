"""`mmt plan`: memory and time of a training or decoding step on a machine that need not exist.

`mmt.plan.compile` compiles the real step in a separate process. This module turns its answer into
bytes per device, a roofline estimate of the step time, days and chip-years. The estimate assumes
every unit at its peak, and counts matrix products and collectives only.
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
from mmt.system.text_table import aligned

Number = int | float | None  # None: not known
_GIB = 2**30
_RING_FACTOR = {"all-reduce": 2.0}  # bytes that a ring sends per byte of the result; others send 1
_NEEDED_BYTES = re.compile(r"(?:Used |temporaries \()([\d.]+)([KMGT])")
_UNITS = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}
_SHARD_ALL = "cut every parameter (--gin_file=gin_configs/meshes/fully_sharded.gin)"
TRAINING_CHANGES = (
    "recompute (transformer.Config.remat = 'full')",
    _SHARD_ALL,
    "a smaller BATCH_SIZE",
    "train.Trainer.microbatches = 2 or more",
)
DECODING_CHANGES = (
    "cut heads, mlp and vocabulary (--gin_file=gin_configs/meshes/model.gin)",
    _SHARD_ALL,
)


@dataclasses.dataclass(frozen=True)
class TopologyPlan:
    """The plan for a topology, computed from the answer of `mmt.plan.compile`.

    None stands for unknown values.
    """

    machine: topology.Topology
    answer: Mapping[str, Any]

    @property
    def decodes(self) -> bool:
        """Returns whether the step is one of decoding: without gradients, optimizer and tokens."""
        return self.answer["tokens_per_step"] is None

    @property
    def bytes_per_device(self) -> dict[str, Number]:
        """Returns the bytes of parameters, optimizer, temporary, total and limit.

        'temporary' contains activations, gradients, buffers and the program itself. Where the
        program does not fit, the sizes come from the compiler's message, which states either the
        total or the temporary part.
        """
        temporary: Number = None
        total: Number = None
        if memory := self.answer.get("memory"):
            program = memory["generated_code"] if self.machine.tpu else 0
            temporary = memory["temp"] + program
            resident_bytes = memory["argument"] + memory["output"] - memory["alias"]
            total = resident_bytes + temporary
        elif (exhausted := self.answer.get("exhausted")) and (stated := needed(exhausted)):
            resident = self.answer["parameter_bytes"] + self.answer["optimizer_bytes"]
            if "temporaries (" in exhausted:
                temporary, total = stated, resident + stated
            else:
                total = stated
        return {
            "parameters": self.answer["parameter_bytes"],
            "optimizer": self.answer["optimizer_bytes"],
            "temporary": temporary,
            "total": total,
            "limit": self.machine.chip.memory,
        }

    @property
    def fits(self) -> bool | None:
        """Returns whether the program fits; None if unknown.

        It is unknown where nothing was compiled, and parameters, gradients and optimizer state
        alone would fit. Decoding has parameters only.
        """
        sizes = self.bytes_per_device
        if "exhausted" in self.answer:
            return False
        if sizes["total"] is not None:
            return sizes["total"] <= self.machine.chip.memory
        copies = 1 if self.decodes else 2  # the parameters, and their gradients
        least_bytes = copies * self.answer["parameter_bytes"] + self.answer["optimizer_bytes"]
        return False if least_bytes > self.machine.chip.memory else None

    @property
    def exchanges(self) -> list[collectives.Collective] | None:
        """Returns the collectives of the compiled program."""
        rows = self.answer.get("collectives")
        return None if rows is None else [collectives.Collective(**row) for row in rows]

    @property
    def roofline(self) -> dict[str, Number]:
        """Returns the seconds of a step that compute, memory and interconnect take.

        compute: FLOPs over the peak rate. memory: bytes of the products' operands and results, and
        of the state that a training step reads and writes, over the bandwidth. interconnect: bytes
        that a device sends by each collective, over the rate of the links it can use.
        """
        chip, devices = self.machine.chip, self.answer["devices"]
        seconds: dict[str, Number] = dict.fromkeys(("compute", "memory", "interconnect"))
        if chip.flops is None or chip.bandwidth is None:
            return seconds
        work, replicated = self.answer["work"], self.answer["replicated_bytes"]
        bytes_moved = work["bytes"] / devices + replicated
        if not self.decodes:  # the products of both gradients, and the update
            state = 3 * self.answer["parameter_bytes"] + 2 * self.answer["optimizer_bytes"]
            bytes_moved += 2 * replicated + state
        seconds |= {
            "compute": work["flops"] / devices / chip.flops, "memory": bytes_moved / chip.bandwidth
        }  # fmt: skip
        if self.exchanges is not None:
            seconds["interconnect"] = sum(self.collective_seconds().values())
        return seconds

    @property
    def step_seconds(self) -> float | None:
        """Returns the larger of compute and memory, plus the interconnect if it is known."""
        parts = self.roofline
        if parts["compute"] is None or parts["memory"] is None:
            return None
        return max(parts["compute"], parts["memory"]) + (parts["interconnect"] or 0.0)

    @property
    def days(self) -> float | None:
        """Returns the days of training on `TOKENS` source tokens; None for decoding."""
        if self.step_seconds is None or self.decodes:
            return None
        steps = self.answer["tokens"] / self.answer["tokens_per_step"]
        return float(steps * self.step_seconds / 86400)

    def to_json(self) -> dict[str, Any]:
        """Returns the plan as JSON: sizes in bytes, times in seconds.

        `bytes` of a collective are those that a device receives by it in a step.
        """
        exchanges = self.exchanges
        return {
            "devices": self.answer["devices"],
            "mesh": self.answer["mesh"],
            "fits": self.fits,
            "bytes_per_device": self.bytes_per_device,
            "parameters": self.answer["parameters"],
            "flops_per_step": self.answer["work"]["flops"],
            "collectives": None if exchanges is None else collectives.summary(exchanges),
            "compile_seconds": self.answer.get("compile_seconds"),
            "compile_cpu_seconds": self.answer.get("compile_cpu_seconds"),
            "compile_peak_bytes": self.answer.get("peak_rss"),
            "step_seconds_estimate": self.step_seconds,
            "roofline_seconds": self.roofline,
            "tokens": self.answer["tokens"],
            "days": self.days,
            "chip_years": None if self.days is None else self.days / 365.25 * self.machine.chips,
            "notes": self.notes,
        }

    @property
    def notes(self) -> list[str]:
        """Returns notes: choices, unknown values with reasons, and remedies if it does not fit."""
        notes = list(self.answer["notes"])
        if reason := self.answer.get("collectives_unknown"):
            notes.append(f"collectives unknown, since the compiler prints no program: {reason}")
        if self.fits is False:
            sizes = self.bytes_per_device
            total = _gib(sizes["total"]) if sizes["total"] else "more than all"
            changes = "; ".join(DECODING_CHANGES if self.decodes else TRAINING_CHANGES)
            notes.append(
                f"does not fit: needs {total} of {_gib(sizes['limit'])}; change one of: {changes}"
            )
        if self.exchanges is None and self.step_seconds is not None:
            notes.append("the step time excludes collectives, which are unknown")
        return notes

    def table(self) -> str:
        """Returns the plan as text, one fact per line."""
        sizes, parts = self.bytes_per_device, self.roofline
        mesh = " x ".join(f"{name} {size}" for name, size in self.answer["mesh"].items())
        counts, fits = self.answer["parameters"], {True: "yes", False: "NO", None: "not known"}
        lines = [
            ("devices", f"{self.answer['devices']:,} ({self.machine.name}), mesh {mesh}"),
            ("parameters", f"{readable(counts['total'])}, {readable(counts['active'])} active"),
            ("fits", fits[self.fits]),
            *((f"  {name}", f"{_gib(size)} per device") for name, size in sizes.items()),
            ("FLOPs per step", f"{self.answer['work']['flops']:.4g}"),
            *((f"  {kind}", f"{row['count']} in the program, {row['executed']} executed, "
               f"{row['bytes'] / 1e6:,.1f} MB per device")
              for kind, row in collectives.summary(self.exchanges or []).items()),
            ("compiled in", readable_seconds(self.answer.get("compile_seconds"))),
            ("step, at best", readable_seconds(self.step_seconds)),
            *((f"  {name}", readable_seconds(value)) for name, value in parts.items()),
        ]  # fmt: skip
        if (days := self.days) is not None:
            years = days / 365.25 * self.machine.chips
            lines.append(("training", f"{days:,.2f} days, {years:,.2f} chip-years for "
                          f"{self.answer['tokens']:.3g} source tokens"))  # fmt: skip
        if self.machine.kind == "cpu":
            lines.append(("large pages", environment.large_pages()))
        rows = [f"{name:<20}{value}" for name, value in lines]
        return "\n".join([*rows, *(f"note: {note}" for note in self.notes)])

    def collective_seconds(self) -> dict[str, float]:
        """Returns the seconds of a step by kind of collective, at the peak of the links."""
        seconds: dict[str, float] = {}
        for collective in self.exchanges or []:
            kind = collective.kind
            seconds[kind] = seconds.get(kind, 0.0) + self._seconds_of(collective)
        return seconds

    def _seconds_of(self, collective: collectives.Collective) -> float:
        """Returns the seconds of a step that a collective takes."""
        kind, group = collective.kind, collective.group
        if group == 1:
            return 0.0
        rate = self.machine.rate(all_to_all=kind == "all-to-all", devices=group)
        assert rate is not None
        sent = collective.bytes * _RING_FACTOR.get(kind, 1.0) * (group - 1) / group
        return collective.executed * sent / rate


def plan(
    files: Sequence[str], bindings: Sequence[str], name: str, *, decode: bool = False
) -> TopologyPlan:
    """Returns the plan of a gin configuration for a topology.

    Without a run in the files, gin_configs/runs/train.gin is added. Without a mesh, one axis over
    all devices carries batch, groups and experts; a second axis is added where these do not divide,
    and a note says so.

    Args:
        files: gin files.
        bindings: gin bindings.
        name: name of the topology, such as 'v4:8x16x16'.
        decode: plans the first decoding step instead of a training step.

    Raises:
        ValueError: the topology is unknown, or the program or the compiler rejects the
            configuration.
    """
    machine = topology.parse(name)
    request = {
        "files": list(files), "bindings": list(bindings), "topology": name, "decode": decode
    }  # fmt: skip
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    child = subprocess.run(
        [sys.executable, "-m", "mmt.plan.compile"], input=json.dumps(request), env=variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if child.returncode:
        raise ValueError(_failure(machine, child.returncode, child.stderr))
    answer = json.loads(child.stdout.splitlines()[-1])
    if "error" in answer:
        raise ValueError(answer["error"])
    return TopologyPlan(machine, answer)


def meshes() -> list[str]:
    """Returns the gin files of gin_configs/meshes, as `plan` and `--gin_file` take them."""
    folder = Path(__file__).resolve().parents[2] / "gin_configs/meshes"
    return sorted(f"gin_configs/meshes/{path.name}" for path in folder.glob("*.gin"))


@dataclasses.dataclass(frozen=True)
class MeshComparison:
    """Plans of one model by mesh; a ValueError where a mesh has no plan."""

    plans: Mapping[str, TopologyPlan | ValueError]

    def to_json(self) -> dict[str, Any]:
        """Returns {mesh: the plan as JSON, or {"error": "..."}}."""
        return {
            name: {"error": str(plan)} if isinstance(plan, ValueError) else plan.to_json()
            for name, plan in self.plans.items()
        }

    def table(self) -> str:
        """Returns a text table: per mesh, bytes that a device holds and receives, and step time.

        Unknown values are '?'. Errors of meshes and the notes of all plans follow.
        """
        head = ("mesh", "fits", "GiB", "all-to-all MB", "all-gather MB", "all-reduce MB", "step")
        rows: list[tuple[str, ...]] = [head]
        errors, notes = [], dict[str, None]()  # in order, each note once
        for name, plan in self.plans.items():
            if isinstance(plan, ValueError):
                rows.append((name, *["-"] * 6))
                errors.append(f"{name}: {plan}")
                continue
            sent = collectives.summary(plan.exchanges or [])
            absent = "?" if plan.exchanges is None else "0"
            megabytes = [
                f"{sent[kind]['bytes'] / 1e6:,.0f}" if kind in sent else absent
                for kind in ("all-to-all", "all-gather", "all-reduce")
            ]
            notes |= dict.fromkeys(f"note: {note}" for note in plan.notes)
            total = plan.bytes_per_device["total"]
            fits = {True: "yes", False: "NO", None: "?"}[plan.fits]
            size = "?" if total is None else f"{total / _GIB:.2f}"
            rows.append((name, fits, size, *megabytes, readable_seconds(plan.step_seconds)))
        return "\n".join([*aligned(rows), *errors, *notes])


def compare_meshes(
    files: Sequence[str], bindings: Sequence[str], name: str, *, decode: bool = False
) -> MeshComparison:
    """Returns `plan` with each file of gin_configs/meshes, one after another."""
    topology.parse(name)
    plans: dict[str, TopologyPlan | ValueError] = {}
    for mesh in track(meshes(), "compiling for each mesh"):
        try:
            plans[Path(mesh).stem] = plan([*files, mesh], bindings, name, decode=decode)
        except ValueError as error:
            plans[Path(mesh).stem] = error
    return MeshComparison(plans)


def needed(message: str) -> float | None:
    """Returns the needed bytes per device that a RESOURCE_EXHAUSTED message states."""
    match = _NEEDED_BYTES.search(message)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _failure(machine: topology.Topology, status: int, stderr: str) -> str:
    """Returns why the compiling process ended without an answer."""
    check_failure = re.search(r"(Check failed: .*)", stderr)
    exceptions = re.findall(r"^\w+(?:\.\w+)*(?:Error|Exception): .*", stderr, re.MULTILINE)
    reason = (
        check_failure[1]
        if check_failure
        else (exceptions or stderr.strip().splitlines() or [""])[-1]
    )
    if status < 0:
        name = signal.Signals(-status).name
        return f"the compiler gave up on {machine.name} ({name}): {reason}"
    return f"the compiling process failed ({status}): {reason}"


def _gib(size: Number) -> str:
    return "not known" if size is None else f"{size / _GIB:.2f} GiB"


def readable_seconds(value: Number) -> str:
    """Formats seconds with three significant digits."""
    if value is None:
        return "not known"
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 6)}f} s"
