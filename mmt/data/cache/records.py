"""The examples of one language on disk: wire format, shards, random access.

A record is a `tf.train.Example` with the int64 features `inputs`, `language`, `targets`, in this
order. The functions below encode and decode it without TensorFlow or protobuf. `cache.py` combines
such files into a cache.
"""

import contextlib
import functools
import resource
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from jaxtyping import Int32, Integer

from mmt.data.cache import longest
from mmt.system.atomic import disk_errors

SHARD_RECORDS = 1 << 20
# A reader holds 11 bytes of memory per chunk, and a chunk takes 50 bytes of the file. A read takes
# 2 us with one record per chunk, 4 with 32. Without the thread pool it takes 3 us, not 60.
_WRITER_OPTIONS = "group_size:32,uncompressed"
_READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
# Tags of the wire format: field number << 3 | 2, where 2 means that length and bytes follow.
_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A

Ids = Sequence[int] | Integer[np.ndarray, "_"]


class Decoded(NamedTuple):
    """Records as flat arrays: the tokens of record i follow those of record i - 1."""

    inputs: Int32[np.ndarray, "S"]
    input_lengths: Int32[np.ndarray, "n"]
    targets: Int32[np.ndarray, "T"]
    target_lengths: Int32[np.ndarray, "n"]
    languages: Int32[np.ndarray, "n"]


def encode(inputs: Ids, targets: Ids, language: int) -> bytes:
    """Returns the `tf.train.Example` of one example; ids are 0 ... 2^31 - 1.

    >>> encode([5], [300], 2).hex(" ")[:74]
    '0a 37 0a 0f 0a 06 69 6e 70 75 74 73 12 05 1a 03 0a 01 05 0a 11 0a 08 6c 61'
    """
    entries = (("inputs", inputs), ("language", [language]), ("targets", targets))
    return _field(_FIRST, b"".join(_entry(name, values) for name, values in entries))


def decode(records: Sequence[bytes]) -> Decoded:
    """Returns the tokens of many records at once.

    Raises ValueError for a record that `encode` did not write.
    """
    try:
        features = [_features(record) for record in records]
        inputs, input_lengths = _integers([feature[b"inputs"] for feature in features])
        targets, target_lengths = _integers([feature[b"targets"] for feature in features])
        languages, per_record = _integers([feature[b"language"] for feature in features])
    except (IndexError, KeyError) as error:
        raise ValueError(f"a record is broken or not written by mmt: {error}") from error
    if not (per_record == 1).all():
        raise ValueError("a record was not written by mmt: it must have exactly one language")
    return Decoded(inputs, input_lengths, targets, target_lengths, languages)


class RecordReader:
    """Random access to the records of one language; a file is opened at the first read from it."""

    def __init__(self, directory: Path, language: str, count: int):
        self._path = directory / language
        self._count = count
        self._shards: list[Path] = []
        self._readers: dict[int, ArrayRecordReader] = {}  # by shard
        self._lock = threading.Lock()  # all reads of a file share one position

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Int32[np.ndarray, "_"]]:
        """Returns {'inputs': int32 [S], 'targets': int32 [T]}, without EOS."""
        decoded = decode([self.raw(index)])
        return {"inputs": decoded.inputs, "targets": decoded.targets}

    def raw(self, index: int) -> bytes:
        """Returns record `index` as stored, for `decode`."""
        if not 0 <= index < self._count:
            raise IndexError(f"{self._path}: no record {index}; it has {self._count}")
        shard, record = divmod(index, SHARD_RECORDS)
        with self._lock:
            reader = self._readers[shard] if shard in self._readers else self._open(shard)
            reader.seek(record)
            return reader.read()

    def _open(self, shard: int) -> ArrayRecordReader:
        """Returns the reader of a shard. All shards but the last have SHARD_RECORDS records."""
        last_shard = (self._count - 1) // SHARD_RECORDS
        if not self._shards:
            _allow_open_files()
            self._shards = sorted(self._path.parent.glob(f"{self._path.name}-*-of-*.arrayrecord"))
            if len(self._shards) != last_shard + 1:
                self._raise_damaged(
                    f"{len(self._shards)} files", f"{self._count}: {last_shard + 1}"
                )
            if shard != last_shard:
                self._open(last_shard)  # its length shows whether the cache is the manifest's
        reader = ArrayRecordReader(str(self._shards[shard]), options=_READER_OPTIONS)
        end = shard * SHARD_RECORDS + reader.num_records()
        expected = min(self._count, (shard + 1) * SHARD_RECORDS)
        if end != expected:
            scope = "" if shard == last_shard else f" in files 0 to {shard}"
            self._raise_damaged(f"{end} records{scope}", str(expected))
        self._readers[shard] = reader
        return reader

    def _raise_damaged(self, actual: str, expected: str) -> NoReturn:
        raise ValueError(
            f"{self._path}-*.arrayrecord: {actual}, the manifest says {expected}; delete the cache "
            "and build it again"
        )


class RecordWriter:
    """Writes the examples of one language, whose id is `number`; a context manager.

    It writes `<language>-00000-of-00001.arrayrecord` (more files for more than SHARD_RECORDS) and
    `<language>.lengths.npy`, int32 [n, 2]: the tokens of source and target of every example; also
    the file of longest.py. A failed write raises an OSError with the path.
    """

    def __init__(self, directory: Path, language: str, language_id: int):
        self.count = 0
        self._path = directory / language
        self._language_id = language_id
        self._shards: list[Path] = []
        self._open_shard: ArrayRecordWriter | None = None
        self._lengths = (directory / f"{language}.lengths.npy").open("wb")
        self._write_header()

    def add(self, inputs: Ids, targets: Ids) -> None:
        lengths = np.array([[len(inputs), len(targets)]], np.int32)
        self.add_all([encode(inputs, targets, self._language_id)], lengths)

    def add_all(self, encoded: Sequence[bytes], lengths: Int32[np.ndarray, "n 2"]) -> None:
        """Adds this language's examples, encoded by `encode`, and their lengths."""
        with disk_errors(self._path):
            for record in encoded:
                if self.count % SHARD_RECORDS == 0:
                    self._next_shard()
                assert self._open_shard is not None
                self._open_shard.write(record)
                self.count += 1
            self._lengths.write(lengths.astype("<i4").tobytes())

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
            self._close()
        if not kind and self.count:
            lengths = np.load(self._lengths.name, mmap_mode="r")
            longest.write(longest.path_of(self._path.parent, self._path.name), lengths)

    def _next_shard(self) -> None:
        if self._open_shard is not None:
            self._open_shard.close()
        self._shards.append(self._path.with_name(f"{self._path.name}.{len(self._shards)}.part"))
        self._open_shard = ArrayRecordWriter(str(self._shards[-1]), _WRITER_OPTIONS)

    def _close(self) -> None:
        with disk_errors(self._path), self._lengths:
            if self._open_shard is not None:
                self._open_shard.close()
            self._lengths.seek(0)
            self._write_header()
            for index, shard in enumerate(self._shards):
                suffix = f"{index:05d}-of-{len(self._shards):05d}.arrayrecord"
                shard.rename(self._path.with_name(f"{self._path.name}-{suffix}"))

    def _write_header(self) -> None:
        """Writes the .npy header, which NumPy pads to the same size for every number of rows."""
        shape = {"descr": "<i4", "fortran_order": False, "shape": (self.count, 2)}
        np.lib.format.write_array_header_1_0(self._lengths, shape)


@functools.cache
def _allow_open_files() -> None:
    """Raises the soft limit of open files, usually 1,024: a thousand languages need thousands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


class _Varints(dict[int, bytes]):
    """A cache of number -> bytes, which halves the time of `encode`."""

    def __missing__(self, value: int) -> bytes:
        if not 0 <= value < 1 << 31:
            raise ValueError(f"an id must be in 0 ... 2^31 - 1, got {value}")
        groups, remaining = [], value
        while remaining > 127:
            groups.append(remaining & 127 | 128)
            remaining >>= 7
        self[value] = bytes([*groups, remaining])
        return self[value]


_varint = _Varints().__getitem__


def _field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def _entry(name: str, values: Ids) -> bytes:
    """Returns an entry of the map of features: key, Feature{int64_list{packed values}}."""
    ids = values.tolist() if isinstance(values, np.ndarray) else values
    packed = b"".join(map(_varint, ids))
    int64_list = _field(_FIRST, packed) if packed else b""
    return _field(
        _FIRST,
        _field(_FIRST, name.encode()) + _field(_SECOND, _field(_THIRD, int64_list)),
    )


def _features(record: bytes) -> dict[bytes, bytes]:
    """Returns the packed values of every feature by name."""
    features = {}
    size, position = _open_field(record, 0, _FIRST)
    if position + size != len(record):
        raise IndexError(f"{len(record)} bytes instead of {position + size}")
    while position < len(record):
        _, position = _open_field(record, position, _FIRST)
        size, position = _open_field(record, position, _FIRST)
        name = record[position : position + size]
        _, position = _open_field(record, position + size, _SECOND)
        size, position = _open_field(record, position, _THIRD)
        if size:
            size, position = _open_field(record, position, _FIRST)
        features[name] = record[position : position + size]
        position += size
    return features


def _open_field(record: bytes, position: int, tag: int) -> tuple[int, int]:
    """Returns the length of the field that starts at `position`, and the start of its content."""
    if record[position] != tag:
        raise IndexError(f"tag {record[position]} instead of {tag} at byte {position}")
    size = record[position + 1]
    position += 2
    if size > 127:
        size, shift = size & 127, 7
        while record[position] > 127:
            size |= (record[position] & 127) << shift
            shift += 7
            position += 1
        size |= record[position] << shift
        position += 1
    return size, position


def _integers(
    packed: Sequence[bytes],
) -> tuple[Int32[np.ndarray, "values"], Int32[np.ndarray, "n"]]:
    """Returns all varints of `packed` in one array, and the number in each item."""
    data = np.frombuffer(b"".join(packed), np.uint8)
    is_last = data < 128
    ends = np.flatnonzero(is_last) + 1
    starts = np.concatenate([[0], ends[:-1]])
    shifts = np.arange(len(data)) - np.repeat(starts[: len(ends)], np.diff(ends, prepend=0))
    values = (data & 127).astype(np.int64) << 7 * shifts
    flat = np.add.reduceat(values, starts) if len(ends) else values
    counts_before = np.concatenate([[0], np.cumsum(is_last)])
    edges = np.cumsum([0, *map(len, packed)])
    return flat.astype(np.int32), np.diff(counts_before[edges]).astype(np.int32)
