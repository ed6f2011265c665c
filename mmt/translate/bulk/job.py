"""`BulkJob`: files of lines, divided into shards that are translated and written once each.

The file of a shard's translations gets its name when it is complete. When all shards of an input
exist, they are joined to one file and removed. This module knows no model: the caller passes the
function that translates. `mmt.translate.bulk.pipeline` runs a job with Apache Beam.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mmt.system import compression, lock, text_lines
from mmt.system.progress import COUNT, ELAPSED, REMAINING, progress_bar
from mmt.translate import output_log
from mmt.translate.bulk.storage import Storage

RECIPE = "translation.json"
SHARDS = ".shards"  # the folder of the shards, within that of the job
SHARD_LINES = 4096
LINES = (COUNT, "lines", ELAPSED, "elapsed,", REMAINING, "left")  # of a progress bar

# Arguments: lines, and the number of the first one in its file, from 0. Yields an output per line.
TranslateLines = Callable[[Iterable[str], int], Iterator[str]]


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive lines of an input file.

    Attributes:
        source: the input file.
        offset: where the lines begin, in bytes of the decompressed file.
        first: number of the first line, from 0.
        lines: number of lines.
        path: file of their translations.
    """

    source: str
    offset: int
    first: int
    lines: int
    path: str

    def write(
        self,
        translate: TranslateLines,
        storage: Storage,
        on_line: Callable[[], object] = lambda: None,
    ) -> None:
        """Writes the translations unless they exist.

        on_line: called after each line.

        Raises ValueError if the translations are not one per line.
        """
        if storage.exists(self.path):
            return
        chunks = storage.read(self.source, self.offset)
        lines = itertools.islice(
            text_lines.lines(chunks, self.source, first=self.first), self.lines
        )

        def rows() -> Iterator[bytes]:
            count = 0
            for row in translate(lines, self.first):
                count += 1
                yield f"{row}\n".encode()
                on_line()
            if count != self.lines:
                raise ValueError(
                    f"{self.source}:{self.first + 1}: {count} translations of {self.lines} lines; "
                    "has the file changed?"
                )

        storage.write(self.path, rows(), temporary=_temporary_path(self.path))


@dataclasses.dataclass(frozen=True)
class BulkFile:
    """An input file, its shards in order, and the file of its translations.

    Attributes:
        source: the input file.
        path: the file of its translations.
        lines: number of lines.
        digest: hash of the decompressed bytes.
        shards: at least one.
    """

    source: str
    path: str
    lines: int
    digest: str
    shards: tuple[Shard, ...]

    @property
    def folder(self) -> str:
        """Returns the folder of the shards."""
        return os.path.dirname(self.shards[0].path)

    def missing(self, storage: Storage) -> list[Shard]:
        """Returns the shards without translations; none if they have been joined."""
        if storage.exists(self.path):
            return []
        names = set(storage.names(self.folder))
        return [shard for shard in self.shards if os.path.basename(shard.path) not in names]

    def join(self, storage: Storage) -> None:
        """Writes the translations of all shards as one file, and removes the shards."""
        if not storage.exists(self.path):
            parts = (storage.read(shard.path) for shard in self.shards)
            temporary = _temporary_path(self.shards[0].path)
            storage.write(self.path, itertools.chain.from_iterable(parts), temporary=temporary)
        storage.remove(self.folder)


@dataclasses.dataclass(frozen=True)
class BulkJob:
    """The translation of files into a folder.

    Attributes:
        directory: the folder.
        files: the files, in order.
        storage: where they are.

    >>> job = BulkJob.plan(["news.de.gz", "web.de"], "english")                  # doctest: +SKIP
    >>> job.begin({"model": "runs/demo/multilingual"})                           # doctest: +SKIP
    >>> job.run(lambda: lambda lines, first: map(str.upper, lines))              # doctest: +SKIP
    """

    directory: str
    files: tuple[BulkFile, ...]
    storage: Storage = dataclasses.field(default_factory=Storage)

    @classmethod
    def plan(
        cls,
        inputs: Sequence[str],
        directory: str,
        *,
        storage: Storage | None = None,
        shard_lines: int = SHARD_LINES,
    ) -> "BulkJob":
        """Reads the inputs once, and divides them into shards. Writes nothing.

        Args:
            inputs: files, plain or compressed, and folders of files.
            directory: the folder of the translations. A file in it is named as the input, without
                `.gz` and the like.
            storage: where these files are; the default is the local disk.
            shard_lines: lines of a shard; the last one of a file may have fewer.

        Raises:
            ValueError: there is no input, two inputs have the same name, or an input would be
                overwritten or is not UTF-8.
        """
        storage = storage or Storage()
        if shard_lines < 1:
            raise ValueError(f"shard_lines: {shard_lines}; allowed: 1 or more")
        sources = [
            file for name in inputs for file in storage.files(name)
            if file == name or os.path.basename(file) not in (RECIPE, lock.FILE)
        ]  # fmt: skip
        if not sources:
            raise ValueError("there are no input files")
        paths: dict[str, str] = {}
        for source in sources:
            path = _output_path(source, directory)
            if path in paths:
                raise ValueError(f"{paths[path]} and {source} would both be written to {path}")
            paths[path] = source
        inputs_on_disk = {os.path.realpath(source) for source in sources}
        for path, source in paths.items():
            if path in sources or os.path.realpath(path) in inputs_on_disk:
                raise ValueError(f"{source} would be written to {path}, which is an input")
        return cls(
            directory,
            tuple(
                _split_into_shards(source, path, storage, shard_lines)
                for path, source in paths.items()
            ),
            storage,
        )

    def begin(self, recipe: dict[str, Any]) -> None:
        """Writes `translation.json`: the recipe, lines and hash of each file.

        A job with the same recipe is resumed, and may have further files. The recipe of a folder
        without any translation is replaced.

        Raises:
            ValueError: the folder holds something else, or translations of another recipe; or an
                input has changed.
        """
        file = _path_in(self.directory, RECIPE)
        files = {
            os.path.basename(each.path): {"lines": each.lines, "digest": each.digest}
            for each in self.files
        }
        begun: dict[str, Any] = {}
        if self.storage.exists(file):
            existing = json.loads(b"".join(self.storage.read(file)))
            if not isinstance(existing, dict) or "files" not in existing:
                raise ValueError(f"{file} is not of `mmt translate --in`; name another directory")
            if self._holds_translations(existing["files"]):
                output_log.check_recipe(self.directory, existing, recipe)
                begun = existing["files"]
        elif set(self.storage.names(self.directory)) - {lock.FILE, SHARDS}:
            raise ValueError(
                f"{self.directory} holds something else; translations go to a new directory"
            )
        for each in self.files:
            name = os.path.basename(each.path)
            if name not in begun and self.storage.exists(each.path):
                raise ValueError(f"{each.path} exists, and is not of this job; rename it")
            new = files[name]
            old = begun.get(name, new)
            if old != new:
                raise ValueError(
                    f"{each.source} is not the file that {file} was begun with: it has "
                    f"{new['lines']} lines and the hash {new['digest']}, not {old['lines']} and "
                    f"{old['digest']}; name another directory"
                )
        text = json.dumps(recipe | {"files": begun | files}, indent=1, ensure_ascii=False) + "\n"
        temporary = _temporary_path(_path_in(self.directory, SHARDS, RECIPE))
        self.storage.write(file, [text.encode()], temporary=temporary)

    def _holds_translations(self, names: Iterable[str]) -> bool:
        """Returns whether the folder has a translation, or a shard, of files with these names."""
        paths = [_path_in(self.directory, name) for name in names]
        shards = (
            shard
            for name in names
            for shard in self.storage.names(_path_in(self.directory, SHARDS, name))
        )
        return any(map(self.storage.exists, paths)) or any(
            not shard.endswith(".tmp") for shard in shards
        )

    def run(self, load: Callable[[], TranslateLines]) -> None:
        """Translates the missing shards in this process, and joins those of each file.

        load: returns the function that translates; called if a shard is missing.
        """
        missing = {file: file.missing(self.storage) for file in self.files}
        translate = load() if any(missing.values()) else None
        total = sum(file.lines for file in self.files)
        with progress_bar(*LINES) as bar:
            task = bar.add_task("translating", total=total, completed=total - _lines(missing))
            for file, shards in missing.items():
                bar.update(task, description=f"translating {os.path.basename(file.source)}")
                for shard in shards:
                    assert translate is not None
                    shard.write(translate, self.storage, lambda: bar.advance(task))
                file.join(self.storage)
        self.finish()

    def lines_done(self) -> int:
        """Returns the number of lines whose translations exist."""
        missing = {file: file.missing(self.storage) for file in self.files}
        return sum(file.lines for file in self.files) - _lines(missing)

    def finish(self) -> None:
        """Removes the folder of shards if it is empty. Raises OSError if the job is not complete.
        """
        for file in self.files:
            if not self.storage.exists(file.path):
                raise OSError(f"{file.path} is missing; run the same command again to resume")
        self.storage.remove_empty(_path_in(self.directory, SHARDS))


def _lines(shards: dict[BulkFile, list[Shard]]) -> int:
    return sum(shard.lines for of_file in shards.values() for shard in of_file)


def _path_in(directory: str, *names: str) -> str:
    return "/".join((directory.rstrip("/") or "/", *names))


def _temporary_path(path: str) -> str:
    return f"{path}.{uuid.uuid4().hex[:12]}.tmp"


def _output_path(source: str, directory: str) -> str:
    """Returns the file of the translations of `source`."""
    name = compression.name(Path(source))
    if name in (RECIPE, SHARDS, lock.FILE):
        raise ValueError(f"{source}: {_path_in(directory, name)} is a file of the job; rename it")
    return _path_in(directory, name)


def _split_into_shards(source: str, path: str, storage: Storage, shard_lines: int) -> BulkFile:
    """Reads an input, and returns it with its shards."""
    digest = hashlib.blake2b(digest_size=8)

    def hashed() -> Iterator[bytes]:
        for chunk in storage.read(source):
            digest.update(chunk)
            yield chunk

    offsets, total = text_lines.offsets(hashed(), source, shard_lines)
    count = max(len(offsets), 1)  # an empty file has one empty shard
    folder, name = os.path.split(path)
    shards = tuple(
        Shard(
            source, offset, first := index * shard_lines, min(shard_lines, total - first),
            _path_in(folder, SHARDS, name, f"{index:06}-of-{count:06}"),
        )
        for index, offset in enumerate(offsets or [0])
    )  # fmt: skip
    return BulkFile(source, path, total, digest.hexdigest(), shards)
