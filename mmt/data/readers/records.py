"""Pairs from records: JSON lines, Parquet, and Hugging Face `datasets` saved to disk.

A record has `source` and `target`; or `translation`, the texts by language as Hugging Face's
translation sets have them; or what the entry's `columns` name (`translation.de`: a key in a key).
Tables need pyarrow, of the extra [formats], and nothing else: they are streamed, not loaded.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmt.data.readers.files import Files, Sides, one_line, sides_of
from mmt.system import compression, text_lines

ROWS = 1 << 12  # rows of a table that are in memory at once
_LONE = re.compile("[\ud800-\udfff]")


def jsonl(files: Files) -> Iterator[Sides]:
    """An object a line; in none is a key twice."""
    for number, line in enumerate(text_lines.read(files.source), 1):
        at = f"{files.source}:{number}"
        try:
            record = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{at}: no JSON: {error}") from None
        if not isinstance(record, dict):
            raise ValueError(f"{at}: {line[:40]!r} is no JSON object; one a line, as "
                             '{"source": …, "target": …}')  # fmt: skip
        yield _sides(record, files, number, at)


def parquet(files: Files) -> Iterator[Sides]:
    """Rows of a Parquet file."""
    path = files.source
    with _Arrow(path):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(
            _on_disk(path), buffer_size=1 << 20, pre_buffer=False
        ) as table:
            empty = table.schema_arrow.empty_table()
            wanted = _names(empty.schema, files)
            for name in wanted:
                _column(empty, name, path)
            there = set(empty.schema.names)
            columns = {name if name in there else name.split(".")[0] for name in wanted}
            batches = table.iter_batches(ROWS, columns=sorted(columns), use_threads=False)
            yield from _rows(batches, files)


def table(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet file with all their columns, as Python's values. ValueError for a damaged
    one.
    """
    with _Arrow(path):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(_on_disk(path)) as file:
            for batch in file.iter_batches(ROWS, use_threads=False):
                batch.validate(full=True)
                yield from batch.to_pylist()


def count_parquet(files: Files) -> int:
    """By the file's own account."""
    with _Arrow(files.source):
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(_on_disk(files.source)).num_rows)


def dataset(files: Files) -> Iterator[Sides]:
    """Rows of what `Dataset.save_to_disk` wrote: Arrow files, listed in a `state.json`."""
    with _Arrow(files.source):
        yield from _rows(_batches(files, mapped=False), files)


def count_dataset(files: Files) -> int:
    """By the lengths of the batches; the texts are not read."""
    with _Arrow(files.source):
        return sum(batch.num_rows for batch in _batches(files, mapped=True))


def is_dataset(folder: Path) -> bool:
    """Whether a folder is a `Dataset` or a `DatasetDict` saved to disk."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def dataset_of(folder: Path, split: str) -> Path:
    """The folder of a split of a `DatasetDict`; a `Dataset` is its own."""
    if (folder / "state.json").is_file():
        return folder
    if (folder / split / "state.json").is_file():
        return folder / split
    there = sorted(path.parent.name for path in folder.glob("*/state.json"))
    raise ValueError(
        f"{folder} has no split {split}; it has: {', '.join(there) or 'none'}. "
        f"Name one: {folder.name}/{(there or ['train'])[0]}"
    )


class _Arrow:
    """Whatever pyarrow says of a broken file is a ValueError that names it."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise ValueError(
                f"{self.path}: reading it needs pyarrow: pip install 'mmt[formats]'"
            ) from None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow

        broken = (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)
        if isinstance(error, broken) and not isinstance(error, FileNotFoundError):
            raise ValueError(f"{self.path}: damaged: {error}") from None


def _batches(files: Files, *, mapped: bool) -> Iterator[Any]:
    import pyarrow

    state = files.source / "state.json"
    try:
        content = json.loads(compression.whole(state))
        names = [str(one["filename"]) for one in content["_data_files"]]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ValueError(f"{state}: no list of data files: {error!r}") from None
    if content.get("_indices_data_files"):
        raise ValueError(f"{state}: rows are chosen by indices; flatten_indices() before saving")
    for name in names:
        path = files.source / name
        if Path(name).name != name or not path.is_file():
            raise ValueError(f"{state}: {name!r} is no file beside it")
        with pyarrow.memory_map(str(path)) if mapped else pyarrow.OSFile(str(path)) as file:
            yield from pyarrow.ipc.open_stream(file)


def _rows(batches: Iterator[Any], files: Files) -> Iterator[Sides]:
    number = 0
    for batch in batches:
        batch.validate(full=True)  # else offsets of a damaged file point anywhere in memory
        both = [_column(batch, name, files.source) for name in _names(batch.schema, files)]
        for start in range(0, batch.num_rows, ROWS):
            for found in zip(*(one.slice(start, ROWS).to_pylist() for one in both), strict=True):
                number += 1
                yield _checked(found, number, f"{files.source}: row {number}")


def _names(schema: Any, files: Files) -> tuple[str, str]:
    """The columns of both sides; that of a struct and a field of it have a dot between them."""
    if files.columns:
        return files.columns
    if "translation" not in schema.names:
        return ("source", "target")
    there = {name: f"translation.{name}" for name in _fields(schema.field("translation").type)}
    return sides_of(there, files, f"{files.source}: translation")


def _column(batch: Any, name: str, path: Path) -> Any:
    """A column, or a field of one that is a struct."""
    from pyarrow import compute

    names = batch.schema.names
    key, *keys = [name] if name in names else name.split(".")
    found: Any = batch.column(key) if key in names else None
    for key in keys:
        names = _fields(found.type) if found is not None else names
        found = compute.struct_field(found, key) if key in names else None
    if found is None:
        raise ValueError(
            f"{path}: no column {name!r}; there: {', '.join(names) or 'none'}. "
            'The entry can name them: columns = ["SOURCE", "TARGET"]'
        )
    return found


def _fields(kind: Any) -> list[str]:
    from pyarrow import types

    return [kind.field(n).name for n in range(kind.num_fields)] if types.is_struct(kind) else []


def _sides(record: Mapping[str, Any], files: Files, number: int, at: str) -> Sides:
    if files.columns:
        found = tuple(_inside(record, column, at) for column in files.columns)
    elif "translation" in record:
        by_language = record["translation"]
        if not isinstance(by_language, dict):
            raise ValueError(f"{at}: translation is {by_language!r:.60}; texts by language")
        found = sides_of(by_language, files, at)
    else:
        found = tuple(_inside(record, side, at) for side in ("source", "target"))
    return _checked(found, number, at)


def _checked(found: tuple[Any, ...], number: int, at: str) -> Sides:
    for side, text in zip(("source", "target"), found, strict=True):
        if not isinstance(text, str):
            raise ValueError(f"{at}: the {side} is {text!r:.60}, no text")
        if not text.isascii() and _LONE.search(text):
            raise ValueError(f"{at}: the {side} has half of a surrogate pair, no character")
    return Sides(number, one_line(found[0]), one_line(found[1]))


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        keys = [key for key, _ in members]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return found


def _inside(record: Mapping[str, Any], column: str, at: str) -> Any:
    """The value of a key, or of a key in a key; a key may have dots itself."""
    if column in record:
        return record[column]
    here: Any = record
    for key in column.split("."):
        if not isinstance(here, dict) or key not in here:
            raise ValueError(
                f"{at}: no key {column!r}; there: {', '.join(map(str, record)) or 'none'}. The "
                'entry can name them: columns = ["SOURCE", "TARGET"]'
            )
        here = here[key]
    return here


def _on_disk(path: Path) -> Path:
    if compression.file(path) != path or compression.name(path) != path.name:
        raise ValueError(f"{path}: Parquet is packed by itself and read in place; unpack it")
    return path
