"""Pairs from records: JSON lines, Parquet, and Hugging Face `datasets` saved to disk.

A record has `source` and `target`; or `translation`, the texts by language as in Hugging Face's
translation data sets; or the entry's `columns` (`translation.de`: a key in a key). Tables need
pyarrow, from the extra [formats]: they are streamed, not loaded.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmt.data.readers.files import Files, Sides, one_line, sides_of
from mmt.system import compression, text_lines

ROWS = 1 << 12  # number of rows of a table in memory at once
_LONE = re.compile("[\ud800-\udfff]")


def jsonl(files: Files) -> Iterator[Sides]:
    """Yields the pair of each line, a JSON object without repeated keys."""
    for number, line in enumerate(text_lines.read(files.source), 1):
        location = f"{files.source}:{number}"
        try:
            record = json.loads(line, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{location}: no JSON: {error}; expected an object on each line, as in JSONL"
            ) from None
        if not isinstance(record, dict):
            raise ValueError(f"{location}: {line[:40]!r} is no JSON object; expected one per "
                             'line, such as {"source": …, "target": …}')  # fmt: skip
        yield _sides(record, files, number, location)


def parquet(files: Files) -> Iterator[Sides]:
    """Yields the pairs of a Parquet file's rows."""
    path = files.source
    with _Arrow(path):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(
            _on_disk(path), buffer_size=1 << 20, pre_buffer=False
        ) as table:
            empty = table.schema_arrow.empty_table()
            names = _names(empty.schema, files)
            for name in names:
                _column(empty, name, path)
            names_of_table = set(empty.schema.names)
            columns = {name if name in names_of_table else name.split(".")[0] for name in names}
            batches = table.iter_batches(ROWS, columns=sorted(columns), use_threads=False)
            yield from _rows(batches, files)


def table(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file with all columns, as Python values. ValueError if damaged.
    """
    with _Arrow(path):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(_on_disk(path)) as file:
            for batch in file.iter_batches(ROWS, use_threads=False):
                batch.validate(full=True)
                yield from batch.to_pylist()


def count_parquet(files: Files) -> int:
    """Returns the number of rows that the file's metadata state."""
    with _Arrow(files.source):
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(_on_disk(files.source)).num_rows)


def dataset(files: Files) -> Iterator[Sides]:
    """Yields the pairs of an output of `Dataset.save_to_disk`: Arrow files listed in `state.json`.
    """
    with _Arrow(files.source):
        yield from _rows(_batches(files, mapped=False), files)


def count_dataset(files: Files) -> int:
    """Returns the number of rows, from the lengths of the batches; texts are not read."""
    with _Arrow(files.source):
        return sum(batch.num_rows for batch in _batches(files, mapped=True))


def is_dataset(folder: Path) -> bool:
    """Returns whether a folder is a `Dataset` or a `DatasetDict` saved to disk."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def dataset_of(folder: Path, split: str) -> Path:
    """Returns the folder of a split of a `DatasetDict`; for a `Dataset` the folder itself."""
    if (folder / "state.json").is_file():
        return folder
    if (folder / split / "state.json").is_file():
        return folder / split
    splits = sorted(path.parent.name for path in folder.glob("*/state.json"))
    raise ValueError(
        f"{folder} has no split {split}; it has: {', '.join(splits) or 'none'}. "
        f"Name one: {folder.name}/{(splits or ['train'])[0]}"
    )


class _Arrow:
    """Turns pyarrow's errors about a damaged file into a ValueError that names it."""

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
        names = [str(file_entry["filename"]) for file_entry in content["_data_files"]]
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
        batch.validate(full=True)  # else offsets of a damaged file may point outside the buffers
        side_columns = [_column(batch, name, files.source) for name in _names(batch.schema, files)]
        for start in range(0, batch.num_rows, ROWS):
            columns = (column.slice(start, ROWS).to_pylist() for column in side_columns)
            for texts in zip(*columns, strict=True):
                number += 1
                yield _check_sides(texts, number, f"{files.source}: row {number}")


def _names(schema: Any, files: Files) -> tuple[str, str]:
    """Returns the columns of both sides; a field of a struct is written with a dot."""
    if files.columns:
        return files.columns
    if "translation" not in schema.names:
        return ("source", "target")
    columns = {name: f"translation.{name}" for name in _fields(schema.field("translation").type)}
    return sides_of(columns, files, f"{files.source}: translation")


def _column(batch: Any, name: str, path: Path) -> Any:
    """Returns a column, or a field of a struct."""
    from pyarrow import compute

    names = batch.schema.names
    key, *keys = [name] if name in names else name.split(".")
    column: Any = batch.column(key) if key in names else None
    for key in keys:
        names = _fields(column.type) if column is not None else names
        column = compute.struct_field(column, key) if key in names else None
    if column is None:
        raise ValueError(
            f"{path}: no column {name!r}; available: {', '.join(names) or 'none'}. "
            'The entry can name them: columns = ["SOURCE", "TARGET"]'
        )
    return column


def _fields(kind: Any) -> list[str]:
    from pyarrow import types

    return [kind.field(n).name for n in range(kind.num_fields)] if types.is_struct(kind) else []


def _sides(record: Mapping[str, Any], files: Files, number: int, location: str) -> Sides:
    if files.columns:
        texts = tuple(_look_up(record, column, location) for column in files.columns)
    elif "translation" in record:
        by_language = record["translation"]
        if not isinstance(by_language, dict):
            raise ValueError(f"{location}: translation is {by_language!r:.60}; texts by language")
        texts = sides_of(by_language, files, location)
    else:
        texts = tuple(_look_up(record, side, location) for side in ("source", "target"))
    return _check_sides(texts, number, location)


def _check_sides(texts: tuple[Any, ...], number: int, location: str) -> Sides:
    for side, text in zip(("source", "target"), texts, strict=True):
        if not isinstance(text, str):
            raise ValueError(f"{location}: the {side} is {text!r:.60}, no text")
        if not text.isascii() and _LONE.search(text):
            raise ValueError(f"{location}: the {side} has half of a surrogate pair")
    return Sides(number, one_line(texts[0]), one_line(texts[1]))


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(members)
    if len(record) < len(members):
        keys = [key for key, _ in members]
        repeated_key = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated_key!r} is repeated")
    return record


def _look_up(record: Mapping[str, Any], column: str, location: str) -> Any:
    """Returns the value of a key, or of a key in a key; keys themselves may contain dots."""
    if column in record:
        return record[column]
    value: Any = record
    for key in column.split("."):
        if not isinstance(value, dict) or key not in value:
            raise ValueError(
                f"{location}: no key {column!r}; available: "
                f"{', '.join(map(str, record)) or 'none'}. "
                'The entry can name them: columns = ["SOURCE", "TARGET"]'
            )
        value = value[key]
    return value


def _on_disk(path: Path) -> Path:
    if compression.file(path) != path or compression.name(path) != path.name:
        raise ValueError(f"{path}: Parquet is compressed inside and read in place; unpack it")
    return path
