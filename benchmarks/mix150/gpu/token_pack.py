"""A token cache as one small file, to be carried to another machine, and back to a cache.

`pack` stores every distinct target line once, then per language the sources and the numbers of
their target lines, all compressed with LZMA. It holds tokens, not text. `unpack` writes the same
cache again: the same examples in the same order, so that a run may go on from either.

    python -m benchmarks.mix150.gpu.token_pack pack CACHE FILE [--splits train validation]
    python -m benchmarks.mix150.gpu.token_pack unpack FILE CACHE [--processes 16]
"""

import argparse
import dataclasses
import functools
import itertools
import json
import lzma
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from mmt.data.cache import Cache, Tokens, build, open_cache, records
from mmt.data.cache.manifest import Manifest, read_manifest
from mmt.run import Run
from mmt.system.atomic import disk_errors

LIMIT = 64 * 2**20  # bytes that travel
VERSION = 1
_CONTENT = "content.json"
_LARGEST = 2**16  # ids are stored in two bytes


def pack(cache: Cache, file: Path, splits: Sequence[str] = ("train", "validation")) -> int:
    """Writes the pack of some splits of a cache and returns its size in bytes.

    Raises:
      ValueError: the cache has no such split, or ids of more than 16 bits.
    """
    manifest = cache.manifest
    if unknown := [split for split in splits if split not in manifest.counts]:
        raise ValueError(f"{cache.directory} has no split {unknown[0]!r}: {list(manifest.counts)}")
    if (largest := max(manifest.vocabulary_size.values())) > _LARGEST:
        raise ValueError(f"{cache.directory}: {largest} pieces; allowed: {_LARGEST} or fewer")
    numbers: dict[bytes, int] = {}  # distinct target lines
    unfinished = file.with_name(f"{file.name}.part")
    with disk_errors(file), zipfile.ZipFile(unfinished, "w") as archive:
        for split, language in _parts(manifest, splits):
            decoded = _decoded(cache, language, split)
            targets = decoded.targets.astype("<u2")
            ends = np.cumsum(decoded.target_lengths)
            lines = [piece.tobytes() for piece in np.split(targets, ends[:-1])]
            which = [numbers.setdefault(line, len(numbers)) for line in lines]
            _add(archive, f"{split}/{language}.sources", decoded.inputs.astype("<u2"))
            _add(archive, f"{split}/{language}.lengths", _small(decoded.input_lengths))
            _add(archive, f"{split}/{language}.targets", np.asarray(which, "<u4"))
        _add(archive, "targets", np.frombuffer(b"".join(numbers), "<u2"))
        _add(archive, "targets.lengths", _small(np.array([len(line) // 2 for line in numbers])))
        content = {"version": VERSION, "manifest": dataclasses.asdict(manifest),
                   "splits": list(splits)}  # fmt: skip
        archive.writestr(_CONTENT, json.dumps(content), zipfile.ZIP_DEFLATED)
        for path in set(cache.vocabulary_files().values()):
            archive.write(path, path.name, zipfile.ZIP_DEFLATED)
    unfinished.replace(file)
    return file.stat().st_size


def unpack(file: Path, directory: Path, processes: int = 1) -> Manifest:
    """Writes the cache of a pack to `directory` and returns its manifest.

    Raises:
      ValueError: `file` is no pack, or one of another version.
    """
    with _opened(file) as archive, tempfile.TemporaryDirectory() as temporary:
        content = json.loads(archive.read(_CONTENT))
        manifest = _manifest(content["manifest"], Path(temporary))
        models = {
            side: Path(archive.extract(name, temporary))
            for side, name in manifest.model_files.items()
        }
        ends = np.cumsum(_read(archive, "targets.lengths"))
        lines = np.split(_read(archive, "targets"), ends[:-1])

        def examples(split: str, language: str) -> Iterator[Tokens]:
            ends = np.cumsum(_read(archive, f"{split}/{language}.lengths"))
            sources = np.split(_read(archive, f"{split}/{language}.sources"), ends[:-1])
            which = _read(archive, f"{split}/{language}.targets")
            names = _names(manifest.corpora.get(split, {}).get(language, []))
            for source, number, name in zip(sources, which, names, strict=False):
                yield source.tolist(), lines[number].tolist(), *name

        return build(
            directory,
            {
                (split, language): functools.partial(examples, split, language)
                for split, language in _parts(manifest, content["splits"])
            },
            name=manifest.name,
            target=manifest.target,
            source=manifest.source,
            corpus_hash=manifest.corpus_hash,
            vocabularies=models,
            pad=manifest.pad,
            start=manifest.start,
            processes=processes,
        )


def _parts(manifest: Manifest, splits: Iterable[str]) -> list[tuple[str, str]]:
    return [(s, code) for s in splits for code, n in manifest.counts[s].items() if n]


def _decoded(cache: Cache, language: str, split: str) -> records.Decoded:
    """Returns all examples of a language as flat arrays."""
    reader = cache.records(language, split)
    return records.decode([reader.raw(index) for index in range(len(reader))])


def _names(runs: Iterable[Sequence[Any]]) -> Iterator[tuple[str, ...]]:
    """Yields the corpus of each example as a tuple; empty tuples where the names are not known."""
    named = (itertools.repeat((name,), count) for name, count in runs)
    return itertools.chain(itertools.chain.from_iterable(named), itertools.repeat(()))


def _small(values: Integer[np.ndarray, "n"]) -> Integer[np.ndarray, "n"]:
    return values.astype("u1" if values.max(initial=0) < 256 else "<u4")


def _add(archive: zipfile.ZipFile, name: str, values: Integer[np.ndarray, "n"]) -> None:
    """Writes an array with the filter for its width: ids of two bytes, planes of larger ones."""
    width = values.dtype.itemsize
    planes = values.view("u1").reshape(-1, width).T if width == 4 else values
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2**26,
                "lc": 0, "lp": int(width == 2), "pb": int(width == 2)}]  # fmt: skip
    compressed = lzma.compress(planes.tobytes(), lzma.FORMAT_XZ, filters=filters)
    archive.writestr(f"{name}.u{width}", compressed)


def _read(archive: zipfile.ZipFile, name: str) -> Integer[np.ndarray, "n"]:
    """Returns an array of `_add`."""
    member = next(one for one in archive.namelist() if one.rpartition(".")[0] == name)
    content = lzma.decompress(archive.read(member))
    if (width := int(member[-1])) < 4:
        return np.frombuffer(content, f"<u{width}")
    planes = np.frombuffer(content, "u1").reshape(width, -1)
    return np.ascontiguousarray(planes.T).view("<u4").reshape(-1)


def _opened(file: Path) -> zipfile.ZipFile:
    """Returns the archive of a pack. Raises ValueError if it is none, or of another version."""
    try:
        archive = zipfile.ZipFile(file)
        version = json.loads(archive.read(_CONTENT))["version"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} is no pack of tokens: {error}") from error
    if version != VERSION:
        raise ValueError(f"{file}: a pack of version {version}, expected {VERSION}: pack it again")
    return archive


def _manifest(content: dict[str, Any], folder: Path) -> Manifest:
    """Returns the manifest of the packed cache, checked as one in a file is."""
    path = Run(folder).manifest
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_manifest(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Packs or unpacks, as the first argument says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    doors = parser.add_subparsers(dest="door", required=True)
    one = doors.add_parser("pack", help="write a cache as one file")
    one.add_argument("cache", type=Path)
    one.add_argument("file", type=Path)
    one.add_argument("--splits", nargs="+", default=["train", "validation"])
    two = doors.add_parser("unpack", help="write the cache of a pack")
    two.add_argument("file", type=Path)
    two.add_argument("cache", type=Path)
    two.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        if given.door == "unpack":
            unpack(given.file, given.cache, given.processes)
            return
        size = pack(open_cache(given.cache), given.file, given.splits)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    print(f"{given.file}: {size:,} bytes, {size / LIMIT:.0%} of what travels ({LIMIT:,})")


if __name__ == "__main__":
    main()
