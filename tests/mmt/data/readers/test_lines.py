"""Lines with numbered columns; the default two, pairs of files and joins are in test_corpora.py."""

import gzip

import pytest

from mmt.data import corpora
from mmt.system import text_lines

TOML = '[train]\nde = { pairs = "a.tsv", columns = [3, 2] }\n'


def test_columns_are_swapped_and_chosen_among_many(tmp_path):
    (tmp_path / "a.tsv").write_text("0.9\tone\teins\n0.8\ttwo\tzwei\tx\n")
    (tmp_path / "corpus.toml").write_text(TOML)
    corpus = corpora.load(tmp_path)
    assert [pair[:2] for pair in corpus.pairs("de", "train")] == [("eins", "one"), ("zwei", "two")]
    assert corpus.count("de", "train") == 2
    before = corpus.hash()
    (tmp_path / "corpus.toml").write_text(TOML.replace("[3, 2]", "[2, 3]"))
    assert [pair.source for pair in corpora.load(tmp_path).pairs("de", "train")] == ["one", "two"]
    assert corpora.load(tmp_path).hash() != before


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("[3, 4]", r"a\.tsv:1: 3 columns; expected columns \('3', '4'\)"),
        ('["de", "en"]', r"a\.tsv: columns is \['de', 'en'\]; allowed: two numbers, from 1"),
        ("[0, 1]", r"a\.tsv: columns is \['0', '1'\]; allowed: two numbers, from 1"),
    ],
)
def test_missing_columns_are_named(tmp_path, columns, message):
    (tmp_path / "a.tsv").write_text("0.9\tone\teins\n")
    (tmp_path / "corpus.toml").write_text(TOML.replace("[3, 2]", columns))
    with pytest.raises(ValueError, match=message):
        corpora.load(tmp_path).validate()


def test_a_monolingual_tsv_of_several_columns_needs_the_number_of_one(tmp_path):
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"eins\nzwei\ttwo\n"))
    (tmp_path / "corpus.toml").write_text('[monolingual]\nde = "a.tsv.gz"\n')
    with pytest.raises(ValueError, match=r"a\.tsv\.gz:2: 2 columns; name that of the text in the"):
        corpora.load(tmp_path).validate()
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    assert [pair.target for pair in corpora.load(tmp_path).pairs("de", "monolingual")] == [
        "eins", "zwei",
    ]  # fmt: skip


def test_a_file_without_line_feeds_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 1 << 20)
    (tmp_path / "a.tsv").write_text("a\tb\n" + "a" * (2 << 20))
    with pytest.raises(ValueError, match=r"a\.tsv:2: a line of more than 1 MiB"):
        list(text_lines.read(tmp_path / "a.tsv"))
