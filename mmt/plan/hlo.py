"""Reads optimised HLO of XLA for CPU or TPU: computations, instructions, shapes, loops.

It parses only as much of HLO as collectives and instructions need.
"""

import math
import re

Computations = dict[str, dict[str, str]]  # computation: {instruction: text after '='}

_BYTES = {"pred": 1, "bf16": 2, "token": 0}  # others have their bits in the name: f32, s4, u8, c64
_HEAD = re.compile(r"^(?:ENTRY )?%?([\w.$-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.$-]+) = (.*)$")
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.$-]+)"
    r"|(?:branch_computations|called_computations)=\{([^}]*)\}"
)
_CONSTANT = re.compile(r"^[su]\d+\[\]\S* constant\((\d+)\)")
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\]")


def read(text: str) -> tuple[Computations, str | None]:
    """Returns {computation: {instruction: text after '='}}, and the entry computation's name."""
    computations: Computations = {}
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


def opcode(rest: str) -> str:
    """Returns 'all-reduce-start' of '(f32[2]{0}, u32[]) all-reduce-start(%x), …'."""
    shape, _ = split_shape(rest)
    name = re.match(r"\s*([\w-]+)\(", rest[len(shape) :])
    return name[1] if name else ""


def split_shape(rest: str) -> tuple[str, str]:
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


def sizes(shape: str) -> list[int]:
    """Returns the bytes of every array in a shape."""
    array_bytes = []
    for dtype, dims in _ARRAY.findall(_COMMENT.sub("", shape)):
        bits = re.search(r"\d+", dtype)
        size = _BYTES.get(dtype, int(bits[0]) / 8 if bits else 0)
        array_bytes.append(int(size * math.prod(_dims(dims))))
    return array_bytes


def dimensions(shape: str) -> list[int]:
    """Returns [64, 128] of 'f32[64,128]{1,0:T(8,128)}', the first array of a shape."""
    array = _ARRAY.search(_COMMENT.sub("", shape))
    return _dims(array[2]) if array else []


def operands(rest: str) -> list[str]:
    """Returns the names of an instruction's operands."""
    attributes = _COMMENT.sub("", split_shape(rest)[1])
    arguments = re.search(r"\(([^()]*)\)", attributes)
    return re.findall(r"%?([\w.$-]+)(?:,|$)", arguments[1]) if arguments else []


def _dims(text: str) -> list[int]:
    return [int(size.strip("<=")) for size in text.split(",") if size]


def called(rest: str) -> list[str]:
    """Returns the names of the computations that an instruction calls."""
    names = []
    for single, listed in _CALLED.findall(rest):
        names += [single] if single else [name.strip(" %") for name in listed.split(",")]
    return names


def loop(rest: str, computations: Computations) -> tuple[str, int]:
    """Returns a while loop's body and its number of trips."""
    computation = dict(re.findall(r"(body|condition)=%?([\w.$-]+)", rest))
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"\}', rest):
        return computation["body"], int(known[1])
    condition = computations.get(computation["condition"], {})
    return computation["body"], _limit(condition, computations) or 1


def _limit(condition: dict[str, str], computations: Computations) -> int | None:
    """Returns the constant n of a condition 'counter < n', fused or not; None for others."""
    root = condition.get("ROOT", "")
    constants = {name: _CONSTANT.match(rest) for name, rest in condition.items()}
    numbers = [match for name in operands(root) if (match := constants.get(name))]
    if opcode(root) == "fusion":
        inner = computations.get(called(root)[0], {})
        less = "direction=LT" in inner.get("ROOT", "")
        inner_numbers = [match for rest in inner.values() if (match := _CONSTANT.match(rest))]
        numbers = [*numbers, *inner_numbers]
    else:
        less = opcode(root) == "compare" and "direction=LT" in root
    return int(numbers[0][1]) if less and len(numbers) == 1 else None
