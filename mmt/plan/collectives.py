"""Reads the collectives of a compiled program from its text, see `mmt.plan.hlo`."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mmt.plan import hlo

KINDS = ("all-to-all", "all-gather", "all-reduce", "reduce-scatter", "collective-permute")


@dataclass(frozen=True)
class Collective:
    """One collective instruction of a program.

    Attributes:
        kind: one of KINDS.
        bytes: bytes of one execution on one device: received, or sent for a reduce-scatter.
        largest: bytes of the largest array.
        executed: number of executions in a run of the program.
        group: number of devices that exchange data.
        source: the model's operation, where the text names it.
    """

    kind: str
    bytes: int
    largest: int
    executed: int
    group: int
    source: str = ""


def read(text: str) -> list[Collective]:
    """Returns every collective of the entry computation and of the computations it calls.

    An asynchronous pair counts once. The trips of a loop are its `known_trip_count` (CPU), else the
    constant with which its condition compares the counter (TPU; JAX's scans count from 0). A loop
    with neither, which ends by a computed value, counts as one trip.

    Raises:
        ValueError: the text is not a compiled program.
    """
    computations, entry = hlo.read(text)
    if entry is None:
        raise ValueError("no ENTRY computation: this is not the text of a compiled program")
    devices = re.search(r"num_partitions=(\d+)", text[:100_000].split("\n", 1)[0])
    collectives: list[Collective] = []

    def visit(name: str, times: int) -> None:
        for rest in computations.get(name, {}).values():
            opcode = hlo.opcode(rest)
            kind = opcode.removesuffix("-start")
            if kind in KINDS:
                count = int(devices[1]) if devices else 1
                collectives.append(_collective(kind, rest, times, count))
            if opcode == "while":
                body, trips = hlo.loop(rest, computations)
                visit(body, times * trips)
            elif opcode in ("call", "conditional", "fusion", "async-start"):
                for called in hlo.called(rest):
                    visit(called, times)

    visit(entry, 1)
    return collectives


def summary(collectives: Iterable[Collective]) -> dict[str, dict[str, int]]:
    """Returns the totals of each kind that occurs.

    `count` is the number of instructions, `executed` their executions in a run, and `bytes` the
    bytes that a device receives by all executions.
    """
    rows: dict[str, dict[str, int]] = {}
    for collective in collectives:
        row = rows.setdefault(collective.kind, {"count": 0, "executed": 0, "bytes": 0})
        row["count"] += 1
        row["executed"] += collective.executed
        row["bytes"] += collective.executed * collective.bytes
    return {kind: rows[kind] for kind in KINDS if kind in rows}


def _collective(kind: str, rest: str, times: int, devices: int) -> Collective:
    shape, attributes = hlo.split_shape(rest)
    sizes = hlo.sizes(shape)
    if f"{kind}-start(" in attributes[: len(kind) + 10] and kind in (
        "all-gather",
        "collective-permute",
    ):
        sizes = [size for size in sizes if size > 4 or len(sizes) == 2]  # without u32[] contexts
        sizes = sizes[len(sizes) // 2 :]  # (operands, results, contexts)
    group = _group(attributes, devices)
    if kind == "reduce-scatter":
        sizes = [size * group for size in sizes]
    source = re.search(r'op_name="([^"]*)"', attributes)
    return Collective(
        kind, sum(sizes), max(sizes, default=0), times, group, source[1] if source else ""
    )


def _group(attributes: str, devices: int) -> int:
    """Returns the size of a replica group, in any notation of XLA:

    {{0,1},{2,3}} is 2; [2,4]<=[8] is 4; mesh['x'=2,'y'=4] {'y'} is 4.
    """
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", attributes):
        return listed[1].count(",") + 1
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]", attributes):
        return int(iota[2])
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\]\s*\{([^}]*)\}", attributes):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
        axes = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", mesh[2])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    return devices
