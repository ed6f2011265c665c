"""Reads and writes safetensors files, several files as one mapping of tensors.

One tensor is in memory at a time. Nothing here knows parameter names or models.

The format (https://huggingface.co/docs/safetensors) is: 8 bytes with the length of a JSON header,
the header, then the tensors' bytes, row by row, little-endian, without gaps.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import ml_dtypes  # noqa: F401  (it registers 'bfloat16' with NumPy)
import numpy as np
import safetensors

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD_BYTES = 5_000_000_000  # maximum size of a file, as at Hugging Face
PIECE_BYTES = 1 << 24  # bytes that are read or written at once
_FLOATS = ("F32", "BF16", "F16", "F64")
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "tf_model.h5", "flax_model.msgpack")


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of a directory: `model.safetensors`, or shards with their index.

    A tensor is read on access, as float32, and is not kept.

    Raises:
        ValueError: a file, shard or tensor is missing or damaged, the format is another one
            (pickles are not read: they can run any code), or tensors are integers. On access: the
            tensor is not finite.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._paths: dict[str, Path] = {}  # tensor -> file
        self._open: dict[Path, Any] = {}
        self._mapped = 0  # upper bound of the bytes read since the files were opened
        for path, indexed in _files(directory).items():
            try:
                file = self._file(path)
                missing = sorted(indexed - set(file.keys()))
                if missing:
                    raise ValueError(f"{path}: missing, but in {INDEX}: {', '.join(missing)}")
                for name in file.keys():  # noqa: SIM118  (it is not a mapping)
                    part = file.get_slice(name)
                    if part.get_dtype() not in _FLOATS:
                        raise ValueError(
                            f"{path}: {name} is {part.get_dtype()}; allowed: {', '.join(_FLOATS)}"
                        )
                    self._paths[name] = path
                    self.shapes[name] = tuple(part.get_shape())
            except safetensors.SafetensorError as error:
                raise ValueError(f"{path} is damaged, or no safetensors file: {error}") from error

    def __getitem__(self, name: str) -> np.ndarray:
        shape, path = self.shapes[name], self._paths[name]
        whole = np.empty(shape, np.float32)
        for rows in _pieces(shape):
            whole[rows] = _finite(self._read(name, _bytes(whole[rows].shape), rows), name, path)
        return whole

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def _read(self, name: str, size: int, rows: Any) -> np.ndarray:
        """Returns rows of a tensor, `size` bytes in float32.

        Files are mapped into memory, and pages that were read stay until the file is closed.
        Therefore files are closed every PIECE_BYTES.
        """
        if self._mapped + size > PIECE_BYTES:
            self._open.clear()
            self._mapped = 0
        self._mapped += size
        part = self._file(self._paths[name]).get_slice(name)[rows]
        return np.asarray(part, np.float32)

    def _file(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = safetensors.safe_open(path, framework="numpy")
        return self._open[path]


class TensorWriter:
    """A context manager that writes float32 tensors of known shapes, in any order.

    Files have at most SHARD_BYTES and Hugging Face's names; a larger tensor has a separate file.
    Leaving the context raises ValueError if a tensor was not written.
    """

    def __init__(self, directory: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._shapes = dict(shapes)
        self._missing = set(shapes)
        self._positions: dict[str, tuple[BinaryIO, int]] = {}
        shards = _shards(shapes)
        for number, names in enumerate(shards, start=1):
            single = len(shards) == 1
            file = SINGLE if single else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            self._begin(directory / file, names)
        if len(shards) > 1:
            files = {name: Path(file.name).name for name, (file, _) in self._positions.items()}
            index = {"metadata": {"total_size": sum(map(_bytes, shapes.values()))}}
            text = json.dumps(index | {"weight_map": files}, indent=2)
            (directory / INDEX).write_text(text + "\n", encoding="utf-8")

    def __setitem__(self, name: str, tensor: np.ndarray) -> None:
        if tensor.shape != self._shapes[name]:
            raise ValueError(f"{name} has the shape {tensor.shape}, not {self._shapes[name]}")
        file, start = self._positions[name]
        file.seek(start)
        for rows in _pieces(tensor.shape):
            file.write(np.ascontiguousarray(tensor[rows], "<f4").data)
        self._missing.discard(name)

    def __enter__(self) -> "TensorWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        for file in {id(file): file for file, _ in self._positions.values()}.values():
            file.close()
        if kind is None and self._missing:
            raise ValueError(f"not written: {', '.join(sorted(self._missing))}")

    def _begin(self, path: Path, names: Sequence[str]) -> None:
        """Writes the header of a file and stores the positions of its tensors."""
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # required by transformers
        offsets = [0, *itertools.accumulate(_bytes(self._shapes[name]) for name in names)]
        for name, start, end in zip(names, offsets, offsets[1:], strict=False):
            shape = list(self._shapes[name])
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)  # aligns the tensors
        file = path.open("wb")
        file.write(len(text).to_bytes(8, "little") + text)
        for name, start in zip(names, offsets, strict=False):
            self._positions[name] = file, 8 + len(text) + start


def _bytes(shape: Sequence[int]) -> int:
    return 4 * math.prod(shape)


def _pieces(shape: Sequence[int]) -> Iterator[Any]:
    """Yields slices of a tensor's rows of at most PIECE_BYTES; `...` for a scalar."""
    if not shape:
        yield ...
        return
    step = max(1, PIECE_BYTES // max(_bytes(shape[1:]), 1))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def _finite(part: np.ndarray, name: str, path: Path) -> np.ndarray:
    """Returns `part`. Raises ValueError if it contains NaN or infinite numbers."""
    if not np.isfinite(part).all():
        bad = int(np.size(part) - np.isfinite(part).sum())
        raise ValueError(f"{path}: {name} is not finite: {bad} of its numbers are NaN or infinite")
    return part


def _shards(shapes: Mapping[str, tuple[int, ...]]) -> list[list[str]]:
    """Returns the tensor names of every file, in order."""
    shards: list[list[str]] = [[]]
    room = SHARD_BYTES
    for name, shape in shapes.items():
        if shards[-1] and _bytes(shape) > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(name)
        room -= _bytes(shape)
    return shards


def _files(directory: Path) -> dict[Path, set[str]]:
    """Returns {safetensors file: its tensors by the index}; an empty set without an index.

    Raises:
        ValueError: the directory has no safetensors files, or a file of the index is missing.
    """
    if (directory / INDEX).is_file():
        index = directory / INDEX
        try:
            files = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"].items())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{index} is no index of safetensors files: {error}") from error
        for name, file in files.items():
            if not isinstance(file, str) or Path(file).name != file:
                raise ValueError(
                    f"{index}: the file of {name} is {file!r}; allowed: the name of a file in "
                    "the index's directory"
                )
        names = sorted(set(files.values()))
        missing = [name for name in names if not (directory / name).is_file()]
        if missing:
            raise ValueError(
                f"{directory}: {len(missing)} of {len(names)} files named in {INDEX} are missing: "
                f"{', '.join(missing)}"
            )
        return {
            directory / name: {tensor for tensor, file in files.items() if file == name}
            for name in names
        }
    if (directory / SINGLE).is_file():
        return {directory / SINGLE: set()}
    pickles = sorted(path.name for pattern in _PICKLES for path in directory.glob(pattern))
    if pickles:
        raise ValueError(
            f"{directory} has {', '.join(pickles)} but no {SINGLE}: mmt reads safetensors only, "
            "because a pickle can run any code. Convert it with torch and transformers: "
            "AutoModelForSeq2SeqLM.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        )
    raise ValueError(f"{directory} has no {SINGLE} and no {INDEX}")
