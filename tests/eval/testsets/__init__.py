"""Made-up files of test sets."""

import json

import pytest


def as_parquet(folder):
    """The same rows as Parquet, in the place of their .jsonl."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra [formats]")
    import pyarrow.parquet

    for path in folder.glob("**/*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
        path.unlink()
