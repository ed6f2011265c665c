"""Reads the work of a compiled program's instructions from its text: a `Profile`.

Matrix products are counted by FLOPs and by bytes of memory. For all other instructions the
compiler for TPUs writes its own estimate of cycles into the text, which includes the vector unit,
the memory and the layout of arrays.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator

from mmt.plan import hlo

MXU = 128  # rows and columns of a matrix unit: shorter sizes are padded
_CYCLES = re.compile(r'"estimated_cycles":"(\d{1,15})"')  # longer numbers mean: not estimated
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "call",
         "conditional", "partition-id", "replica-id", "after-all", "iota"}  # fmt: skip
_DONE = ("-done", "-update")  # the second half of an asynchronous pair
_COLLECTIVE = re.compile(r"all-|reduce-scatter|collective-permute")
# Parts of the model by the names of operations, the first that matches.
PARTS = (
    ("routing", re.compile(r"_route|gsk|gsec|/moe/|dispatch|combine")),
    ("attention", re.compile(r"attention|cross_kv")),
    ("MLPs and experts", re.compile(r"/mlp")),
    ("logits and loss", re.compile(r"logits|loss|softmax")),
    ("optimizer", re.compile(r"^jit\(\w+\)/(?!.*(?:jvp|transpose)\()")),
)  # fmt: skip
OTHER = "all else"


@dataclasses.dataclass
class Products:
    """Matrix products of one arithmetic intensity.

    Attributes:
        part: one of PARTS, or OTHER.
        flops: 2·m·n·k on one device in a step.
        padded: the same with sizes padded to the matrix unit.
        bytes: bytes of operands and results.
        executed: the number of products.
    """

    part: str
    flops: float = 0.0
    padded: float = 0.0
    bytes: float = 0.0
    executed: int = 0


@dataclasses.dataclass
class Profile:
    """The work of one device in a step, without collectives.

    Attributes:
        products: products, by part and power of two of their FLOPs per byte, so that each row is
            limited either by the matrix unit or by memory.
        cycles: {part: cycles} of other instructions, as the compiler estimates them.
        bytes: {part: bytes} of other instructions without such an estimate.
    """

    products: list[Products]
    cycles: dict[str, float]
    bytes: dict[str, float]


def read(text: str) -> Profile:
    """Returns the profile of a program.

    Loops count once per trip, see `collectives.read`. Of a stacked array that an instruction
    slices or updates, only the slice counts.

    Raises:
        ValueError: the text is not a compiled program.
    """
    computations, entry = hlo.read(text)
    if entry is None:
        raise ValueError("no ENTRY computation: this is not the text of a compiled program")
    reader = _Reader(computations)
    rows: dict[tuple[str, int], Products] = {}
    cycles: dict[str, float] = defaultdict(float)
    other_bytes: dict[str, float] = defaultdict(float)
    for computation, rest, times in reader.executed(entry, 1):
        opcode = hlo.opcode(rest)
        if opcode in _FREE or opcode.endswith(_DONE) or _COLLECTIVE.match(opcode):
            continue
        part = _part(rest)
        if flops := reader.flops(computation, rest):
            bytes_moved = reader.memory_bytes(computation, rest)
            intensity = round(math.log2(max(flops[1], 1.0) / max(bytes_moved, 1)))
            row = rows.setdefault((part, intensity), Products(part))
            row.flops += times * flops[0]
            row.padded += times * flops[1]
            row.bytes += times * bytes_moved
            row.executed += times
        elif estimate := _CYCLES.search(rest):
            cycles[part] += times * int(estimate[1])
        else:
            other_bytes[part] += times * reader.memory_bytes(computation, rest)
    return Profile([rows[key] for key in sorted(rows)], dict(cycles), dict(other_bytes))


def _part(rest: str) -> str:
    name = re.search(r'op_name="([^"]*)"', rest)
    return next((part for part, words in PARTS if name and words.search(name[1])), OTHER)


class _Reader:
    """Looks up shapes and called computations."""

    def __init__(self, computations: hlo.Computations) -> None:
        self.computations = computations

    def executed(self, name: str, times: int) -> Iterator[tuple[str, str, int]]:
        """Yields (computation, instruction, executions) of all but fused instructions."""
        for rest in self.computations.get(name, {}).values():
            yield name, rest, times
            opcode = hlo.opcode(rest)
            if opcode == "while":
                body, trips = hlo.loop(rest, self.computations)
                yield from self.executed(body, times * trips)
            elif opcode in ("call", "conditional"):
                for called in hlo.called(rest):
                    yield from self.executed(called, times)

    def flops(self, computation: str, rest: str) -> tuple[float, float] | None:
        """Returns FLOPs and padded FLOPs of an instruction; None if it has no product."""
        opcode = hlo.opcode(rest)
        if opcode in ("convolution", "dot"):
            shapes = [self._shape(computation, name) for name in hlo.operands(rest)[:2]]
            count = _convolution if opcode == "convolution" else _dot
            return count(rest, *map(hlo.dimensions, shapes))
        if opcode != "fusion":
            return None
        inner = self._fused(hlo.called(rest)[0])
        return (inner[0], inner[1]) if inner else None

    @functools.cache  # noqa: B019 -- a reader lives as long as its text
    def _fused(self, computation: str) -> tuple[float, float] | None:
        inner_flops = [
            flops
            for rest in self.computations.get(computation, {}).values()
            if (flops := self.flops(computation, rest))
        ]
        return (
            (sum(f for f, _ in inner_flops), sum(p for _, p in inner_flops))
            if inner_flops
            else None
        )

    def memory_bytes(self, computation: str, rest: str) -> int:
        """Returns the bytes of memory that an instruction reads and writes."""
        opcode, names = hlo.opcode(rest), hlo.operands(rest)
        written = sum(hlo.sizes(hlo.split_shape(rest)[0]))
        if opcode in ("dynamic-slice", "gather", "slice"):
            return 2 * written
        if opcode in ("dynamic-update-slice", "scatter"):
            return 2 * self._size(computation, names[-1 if opcode == "scatter" else 1])
        if opcode == "fusion":
            inner = hlo.called(rest)[0]
            read = sum(
                self._read(inner, index, self._size(computation, name))
                for index, name in enumerate(names)
            )
            return read + self._written(inner, written)
        return written + sum(self._size(computation, name) for name in names)

    @functools.cache  # noqa: B019
    def _read(self, computation: str, index: int, parameter_bytes: int) -> int:
        """Returns the bytes that a fused computation reads of its parameter `index`."""
        instructions = self.computations.get(computation, {})
        pattern = re.compile(rf" parameter\({index}\)")
        name = next((name for name, rest in instructions.items() if pattern.search(rest)), None)
        if name is None or name == "ROOT":
            return parameter_bytes
        total, aliases = 0, {name}
        for rest in instructions.values():
            operand_indices = [
                i for i, operand in enumerate(hlo.operands(rest)) if operand in aliases
            ]
            if not operand_indices:
                continue
            opcode = hlo.opcode(rest)
            if opcode == "dynamic-slice":
                total += sum(hlo.sizes(hlo.split_shape(rest)[0]))
            elif opcode == "dynamic-update-slice" and operand_indices == [0]:
                continue  # updated in place
            elif opcode == "fusion":
                total += sum(
                    self._read(hlo.called(rest)[0], i, parameter_bytes) for i in operand_indices
                )
            else:
                return parameter_bytes
        return min(total, parameter_bytes)

    def _written(self, computation: str, result_bytes: int) -> int:
        """Returns the bytes that a fused computation writes: of an update in place, its slice."""
        instructions = self.computations.get(computation, {})
        root = instructions.get("ROOT", "")
        results = [root]
        if hlo.opcode(root) == "tuple":
            results = [instructions.get(name, "") for name in hlo.operands(root)]
        if not all(results):
            return result_bytes
        return sum(self._result(computation, result) for result in results)

    def _result(self, computation: str, rest: str) -> int:
        """Returns the bytes of a fused result: of an update in place, its slice."""
        names = hlo.operands(rest)
        if hlo.opcode(rest) == "dynamic-update-slice":
            return self._size(computation, names[1])
        if hlo.opcode(rest) in ("bitcast", "copy") and names:
            return self._result(computation, self.computations[computation].get(names[0], rest))
        return sum(hlo.sizes(hlo.split_shape(rest)[0]))

    def _shape(self, computation: str, name: str) -> str:
        rest = self.computations[computation].get(name, "")
        return hlo.split_shape(rest)[0] if rest else ""

    def _size(self, computation: str, name: str) -> int:
        return sum(hlo.sizes(self._shape(computation, name)))


def _convolution(rest: str, left: list[int], right: list[int]) -> tuple[float, float]:
    """Returns the FLOPs of a product of matrices that is written as a convolution.

    Batch dimensions are spatial dimensions whose windows meet one element only.
    """
    labels = _LABELS.search(rest)
    assert labels, rest[:200]
    output = hlo.dimensions(hlo.split_shape(rest)[0])
    shapes = (left, right, output)
    by_label = [dict(zip(*pair, strict=True)) for pair in zip(labels.groups(), shapes, strict=True)]
    depth, features = by_label[1]["i"], by_label[2]["f"]
    window = re.search(r"window=\{([^}]*)\}", rest)
    window_elements = 1.0
    for axis, size in enumerate(_per_axis(window[1] if window else "", "size", "1")):
        options = {
            name: _per_axis(window[1] if window else "", name, default)[axis]
            for name, default in (("stride", "1"), ("pad", "0_0"), ("lhs_dilate", "1"),
                                  ("rhs_dilate", "1"))
        }  # fmt: skip
        window_elements *= _mean_window(
            int(size), by_label[0][str(axis)], by_label[2][str(axis)], options
        )
    flops = 2.0 * math.prod(output) * depth * window_elements
    return flops, flops * padding(depth) * padding(features)


def _per_axis(window: str, name: str, default: str) -> list[str]:
    """Returns the values of a window's option, one for each spatial dimension."""
    axes = re.search(r"size=(\S+)", window)
    count = len(axes[1].split("x")) if axes else 0
    values = re.search(rf"{name}=(\S+)", window)
    return values[1].split("x") if values else [default] * count


def _mean_window(size: int, left: int, output_size: int, options: dict[str, str]) -> float:
    """Returns the mean number of elements that a position of the window's output reads."""
    stride, lower = int(options["stride"]), int(options["pad"].split("_")[0])
    lhs_dilation, rhs_dilation = int(options["lhs_dilate"]), int(options["rhs_dilate"])
    positions = (
        o * stride + k * rhs_dilation - lower
        for o, k in itertools.product(range(output_size), range(size))
    )
    window_hits = sum(
        position % lhs_dilation == 0 and 0 <= position // lhs_dilation < left
        for position in positions
    )
    return window_hits / output_size


def _dot(rest: str, left: list[int], right: list[int]) -> tuple[float, float]:
    """Returns the FLOPs of a dot, as programs for CPUs and GPUs have it."""
    axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)
    depth = math.prod(left[int(axis)] for axis in axes[1].split(",") if axis) if axes else 1
    flops = 2.0 * math.prod(hlo.dimensions(hlo.split_shape(rest)[0])) * depth
    return flops, flops


def padding(size: int | float) -> float:
    """Returns the growth of a size that is padded to the matrix unit."""
    return math.ceil(size / MXU) * MXU / size
