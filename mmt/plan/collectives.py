"""The collectives of a compiled program, read from its text (optimised HLO).

The text is what XLA prints for CPU and TPU; only what is needed here is understood of it.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

KINDS = ("all-to-all", "all-gather", "all-reduce", "reduce-scatter", "collective-permute")
_BYTES = {"pred": 1, "bf16": 2, "token": 0}  # else the digits of the type's name: f32, s4, u8, c64
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

    bytes: of one execution, on one device: what it receives of an all-to-all, all-gather,
        all-reduce or collective-permute; what it gives to a reduce-scatter.
    largest: those of its largest array.
    executed: how often a run of the program executes it.
    group: the devices that take part together.
    source: the operation of the model that it comes from, where the text says.
    """

    kind: str
    bytes: int
    largest: int
    executed: int
    group: int
    source: str = ""


def read(text: str) -> list[Collective]:
    """Every collective of the entry computation and what it calls, an asynchronous pair once.

    A loop's trips are its `known_trip_count` (CPU), else the constant that its condition compares
    its counter with (TPU prints no other; JAX's scans count from 0). A loop without either, such as
    one that ends by what it computes, counts as one trip. ValueError where the text is no program.
    """
    computations, entry = _computations(text)
    if entry is None:
        raise ValueError("no ENTRY computation: this is no text of a compiled program")
    devices = re.search(r"num_partitions=(\d+)", text[:100_000].split("\n", 1)[0])
    found: list[Collective] = []

    def visit(name: str, times: int) -> None:
        for rest in computations.get(name, {}).values():
            opcode = _opcode(rest)
            kind = opcode.removesuffix("-start")
            if kind in KINDS:
                found.append(_collective(kind, rest, times, int(devices[1]) if devices else 1))
            if opcode == "while":
                body, trips = _loop(rest, computations)
                visit(body, times * trips)
            elif opcode in ("call", "conditional", "fusion", "async-start"):
                for called in _called(rest):
                    visit(called, times)

    visit(entry, 1)
    return found


def summary(found: Iterable[Collective]) -> dict[str, dict[str, int]]:
    """By kind: `count` in the text, times `executed` in a run, and the `bytes` a device receives
    in all of these together; kinds that are not there are left out.
    """
    rows: dict[str, dict[str, int]] = {}
    for one in found:
        row = rows.setdefault(one.kind, {"count": 0, "executed": 0, "bytes": 0})
        row["count"] += 1
        row["executed"] += one.executed
        row["bytes"] += one.executed * one.bytes
    return {kind: rows[kind] for kind in KINDS if kind in rows}


def _computations(text: str) -> tuple[dict[str, dict[str, str]], str | None]:
    """By computation: instruction -> what stands right of its '='; and the entry's name."""
    found: dict[str, dict[str, str]] = {}
    entry, current = None, None
    for line in text.splitlines():
        if current is None:
            if (head := _HEAD.match(line)) and not line.startswith("HloModule"):
                current = found.setdefault(head[1], {})
                entry = head[1] if line.startswith("ENTRY") else entry
        elif line.startswith("}"):
            current = None
        elif instruction := _INSTRUCTION.match(line):
            current["ROOT" if instruction[1] else instruction[2]] = instruction[3]
    return found, entry


def _opcode(rest: str) -> str:
    """'(f32[2]{0}, u32[]) all-reduce-start(%x), …' -> 'all-reduce-start'."""
    shape, _ = _split_shape(rest)
    opcode = re.match(r"\s*([\w-]+)\(", rest[len(shape) :])
    return opcode[1] if opcode else ""


def _split_shape(rest: str) -> tuple[str, str]:
    """The result's shape at the beginning of an instruction, and the rest."""
    if not rest.startswith("("):
        shape = rest.split(" ", 1)[0]
        return shape, rest[len(shape) :]
    depth = 0
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if not depth:
            return rest[: place + 1], rest[place + 1 :]
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
    """Bytes of every array in a shape."""
    found = []
    for dtype, dims in re.findall(r"\b([a-z]\w*)\[([\d,<=]*)\]", _COMMENT.sub("", shape)):
        bits = re.search(r"\d+", dtype)
        size = _BYTES.get(dtype, int(bits[0]) / 8 if bits else 0)
        found.append(int(size * math.prod(int(n.strip("<=")) for n in dims.split(",") if n)))
    return found


def _group(after: str, devices: int) -> int:
    """How many devices exchange: of {{0,1},{2,3}}, [2,4]<=[8] or mesh['x'=2,'y'=4] {'y'}."""
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
    names = []
    for one, several in _CALLED.findall(rest):
        names += [one] if one else [name.strip(" %") for name in several.split(",")]
    return names


def _loop(rest: str, computations: dict[str, dict[str, str]]) -> tuple[str, int]:
    """A while loop's body and its trips."""
    named = dict(re.findall(r"(body|condition)=%?([\w.$-]+)", rest))
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', rest):
        return named["body"], int(known[1])
    return named["body"], _limit(computations.get(named["condition"], {}), computations) or 1


def _limit(condition: dict[str, str], computations: dict[str, dict[str, str]]) -> int | None:
    """The constant n of a condition that is only 'counter < n', also where XLA fused it."""
    root = condition.get("ROOT", "")
    constants = {name: _CONSTANT.match(rest) for name, rest in condition.items()}
    operands = re.findall(r"%([\w.$-]+)", re.sub(r"[\w-]+=%[\w.$-]+", "", _split_shape(root)[1]))
    numbers = [found for name in operands if (found := constants.get(name))]
    if _opcode(root) == "fusion":
        inner = computations.get(_called(root)[0], {})
        less = "direction=LT" in inner.get("ROOT", "")
        inner_numbers = [found for rest in inner.values() if (found := _CONSTANT.match(rest))]
        numbers = [*numbers, *inner_numbers]
    else:
        less = _opcode(root) == "compare" and "direction=LT" in root
    return int(numbers[0][1]) if less and len(numbers) == 1 else None
