"""Reads the collectives of a compiled program from its text, optimised HLO of XLA for CPU or TPU.

It parses only as much of HLO as collectives need.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

KINDS = ("all-to-all", "all-gather", "all-reduce", "reduce-scatter", "collective-permute")
_BYTES = {"pred": 1, "bf16": 2, "token": 0}  # others have their bits in the name: f32, s4, u8, c64
_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.$-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.$-]+) = (.*)$")
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.$-]+)"
    r"|(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_CONSTANT = re.compile(r"^[su]\d+\[\]\S* constant\((\d+)\)")
_COMMENT = re.compile(r"/\*.*?\*/")


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
    computations, entry = _computations(text)
    if entry is None:
        raise ValueError("no ENTRY computation: this is not the text of a compiled program")
    devices = re.search(r"num_partitions=(\d+)", text[:100_000].split("\n", 1)[0])
    collectives: list[Collective] = []

    def visit(name: str, times: int) -> None:
        for rest in computations.get(name, {}).values():
            opcode = _opcode(rest)
            kind = opcode.removesuffix("-start")
            if kind in KINDS:
                count = int(devices[1]) if devices else 1
                collectives.append(_collective(kind, rest, times, count))
            if opcode == "while":
                body, trips = _loop(rest, computations)
                visit(body, times * trips)
            elif opcode in ("call", "conditional", "fusion", "async-start"):
                for called in _called(rest):
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


def _computations(text: str) -> tuple[dict[str, dict[str, str]], str | None]:
    """Returns {computation: {instruction: text after '='}}, and the entry computation's name."""
    computations: dict[str, dict[str, str]] = {}
    entry, current = None, None
    for line in text.splitlines():
        if current is None:
            if (head := _HEAD.match(line)) and not line.startswith("HloModule"):
                current = computations.setdefault(head[1], {})
                entry = head[1] if line.startswith("ENTRY") else entry
        elif line.startswith("}"):
            current = None
        elif instruction := _INSTRUCTION.match(line):
            current["ROOT" if instruction[1] else instruction[2]] = instruction[3]
    return computations, entry


def _opcode(rest: str) -> str:
    """Returns 'all-reduce-start' of '(f32[2]{0}, u32[]) all-reduce-start(%x), …'."""
    shape, _ = _split_shape(rest)
    opcode = re.match(r"\s*([\w-]+)\(", rest[len(shape) :])
    return opcode[1] if opcode else ""


def _split_shape(rest: str) -> tuple[str, str]:
    """Splits an instruction into its result's shape and the text after it."""
    if not rest.startswith("("):
        shape = rest.split(" ", 1)[0]
        return shape, rest[len(shape) :]
    depth = 0
    for index, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if not depth:
            return rest[: index + 1], rest[index + 1 :]
    raise ValueError(f"unbalanced shape in {rest[:80]!r}")


def _collective(kind: str, rest: str, times: int, devices: int) -> Collective:
    shape, after = _split_shape(rest)
    sizes = _sizes(shape)
    if f"{kind}-start(" in after[: len(kind) + 10] and kind in ("all-gather", "collective-permute"):
        sizes = [size for size in sizes if size > 4 or len(sizes) == 2]  # without u32[] contexts
        sizes = sizes[len(sizes) // 2 :]  # (operands, results, contexts)
    group = _group(after, devices)
    if kind == "reduce-scatter":
        sizes = [size * group for size in sizes]
    source = re.search(r'op_name="([^"]*)"', after)
    return Collective(
        kind, sum(sizes), max(sizes, default=0), times, group, source[1] if source else ""
    )


def _sizes(shape: str) -> list[int]:
    """Returns the bytes of every array in a shape."""
    sizes = []
    for dtype, dims in re.findall(r"\b([a-z]\w*)\[([\d,<=]*)\]", _COMMENT.sub("", shape)):
        bits = re.search(r"\d+", dtype)
        size = _BYTES.get(dtype, int(bits[0]) / 8 if bits else 0)
        sizes.append(int(size * math.prod(int(n.strip("<=")) for n in dims.split(",") if n)))
    return sizes


def _group(after: str, devices: int) -> int:
    """Returns the size of a replica group, in any notation of XLA:

    {{0,1},{2,3}} is 2; [2,4]<=[8] is 4; mesh['x'=2,'y'=4] {'y'} is 4.
    """
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", after):
        return listed[1].count(",") + 1
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]", after):
        return int(iota[2])
    if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\]\s*\{([^}]*)\}", after):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
        axes = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", mesh[2])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    return devices


def _called(rest: str) -> list[str]:
    """Returns the names of the computations that an instruction calls."""
    names = []
    for single, several in _CALLED.findall(rest):
        names += [single] if single else [name.strip(" %") for name in several.split(",")]
    return names


def _loop(rest: str, computations: dict[str, dict[str, str]]) -> tuple[str, int]:
    """Returns a while loop's body and its number of trips."""
    computation = dict(re.findall(r"(body|condition)=%?([\w.$-]+)", rest))
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', rest):
        return computation["body"], int(known[1])
    condition = computations.get(computation["condition"], {})
    return computation["body"], _limit(condition, computations) or 1


def _limit(condition: dict[str, str], computations: dict[str, dict[str, str]]) -> int | None:
    """Returns the constant n of a condition 'counter < n', fused or not; None for others."""
    root = condition.get("ROOT", "")
    constants = {name: _CONSTANT.match(rest) for name, rest in condition.items()}
    operands = re.findall(r"%([\w.$-]+)", re.sub(r"[\w-]+=%[\w.$-]+", "", _split_shape(root)[1]))
    numbers = [match for name in operands if (match := constants.get(name))]
    if _opcode(root) == "fusion":
        inner = computations.get(_called(root)[0], {})
        less = "direction=LT" in inner.get("ROOT", "")
        inner_numbers = [match for rest in inner.values() if (match := _CONSTANT.match(rest))]
        numbers = [*numbers, *inner_numbers]
    else:
        less = _opcode(root) == "compare" and "direction=LT" in root
    return int(numbers[0][1]) if less and len(numbers) == 1 else None
