"""Where a key of a TOML file stands."""

from pathlib import Path

import pytest

from mmt.system.toml_place import located

TEXT = """name = "a"
target = "eng"

[train]
deu = "x.tsv"
"swh" = "y.tsv"

[train . fra]
pairs = "z.tsv"

[test]
deu = "t.tsv"
"""


@pytest.mark.parametrize(
    ("key", "table", "line"),
    [
        ("target", "", 2),
        ("train", "", 4),
        ("deu", "train", 5),
        ("swh", "train", 6),
        ("fra", "train", 8),
        ("deu", "test", 12),
    ],
)
def test_a_key_or_a_table_is_found_where_it_is_written(key, table, line):
    assert located(TEXT, Path("corpus.toml"), key, table) == f"corpus.toml:{line}"


def test_a_missing_key_is_located_by_its_file():
    assert located(TEXT, Path("corpus.toml"), "swh", "test") == "corpus.toml"
