"""The output of `mmt data stats`: counts, lengths, rates, and a table."""

import json

import pytest

from mmt.data import corpora, stats


@pytest.fixture
def folder(tmp_path):
    """Three languages; the pairs of the first are in two files."""
    (tmp_path / "corpus.toml").write_text(
        '[train]\nde = { source = "t.de", target = "t.en" }\nswh = "swh.tsv"\n'
        'zh-TW = ["swh.tsv", { source = "t.de", target = "t.en" }]\n[test]\nsw = "test.tsv"\n'
    )
    (tmp_path / "t.de").write_text("Hallo Welt\nschön!\n", "utf-8")
    (tmp_path / "t.en").write_text("Hello world\nnice!\n", "utf-8")
    (tmp_path / "swh.tsv").write_text("Habari\tHow are you?\nnyumba mbili\ttwo houses\n", "utf-8")
    (tmp_path / "test.tsv").write_text("moja\tone\n", "utf-8")
    return tmp_path


def test_stats_count_the_pairs_and_their_lengths(folder):
    rows = stats.stats(corpora.load(folder), temperature=1.0)
    assert [row["language"] for row in rows] == ["deu_Latn", "swh_Latn", "zho_Hant"]
    swahili = rows[1]
    assert swahili["name"] == "Swahili"
    assert [swahili[split] for split in corpora.SPLITS] == [2, 0, 1]
    assert (swahili["source_words"], swahili["target_words"]) == (3, 5)
    assert swahili["source_characters"] == len("Habari" + "nyumba mbili")
    assert swahili["target_characters"] == len("How are you?" + "two houses")
    assert swahili["length_ratio"] == pytest.approx((12 / 6 + 10 / 12) / 2)
    assert [row["share"] for row in rows] == pytest.approx([0.25, 0.25, 0.5])
    warmer = stats.stats(corpora.load(folder), temperature=5.0)
    assert 0.25 < float(warmer[0]["share"]) < 1 / 3
    assert json.loads(json.dumps(rows)) == rows


def test_the_table_shows_the_largest_first_and_a_total(folder):
    lines = stats.table(stats.stats(corpora.load(folder))).split("\n")
    assert [line.split()[0] for line in lines] == [
        "language", "zho_Hant", "deu_Latn", "swh_Latn", "all",
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split()[:3] == ["all", "3", "8"]


def test_entries_of_several_files_are_reported(folder):
    assert list(stats.describe_entries(corpora.load(folder))) == ["train zho_Hant: swh.tsv, t.de"]
    for number in range(9):
        (folder / f"{number}.tsv").write_text("a\tb\n")
    (folder / "corpus.toml").write_text('[train]\nde = "?.tsv"')
    (line,) = stats.describe_entries(corpora.load(folder))
    assert line.startswith("train deu_Latn: 0.tsv, 1.tsv, ") and line.endswith(", … (9 in total)")


def test_a_corpus_without_training_pairs_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("train\n")
    (tmp_path / "corpus.toml").write_text('name = "web"\n[monolingual]\neng = "a.txt"\n')
    with pytest.raises(ValueError, match=r"corpus web has no \[train\] pairs to count"):
        stats.stats(corpora.load(tmp_path))
