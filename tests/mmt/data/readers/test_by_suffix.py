"""Readers of pairs: joining by id, and sampling; the other readers are in test_corpora.py."""

import gzip

import pytest

from mmt.data import corpora

TOML = """
[train]
deu = { source = "deu.tsv.gz", target = "eng.tsv", join = "id" }
swh = { source = "swh.tsv", target = "eng.tsv", join = "id", sample = 2 }
fra = { pairs = "fra.tsv", sample = 3 }
"""


@pytest.fixture
def folder(tmp_path):
    """A multi-way corpus: English, and two languages in another order; and a TSV."""
    (tmp_path / "corpus.toml").write_text(TOML)
    (tmp_path / "eng.tsv").write_text("b.1\tone\nb.2\ttwo\nb.3\tthree\n")
    (tmp_path / "deu.tsv.gz").write_bytes(gzip.compress(b"b.3\tdrei\nb.1\teins\n"))
    (tmp_path / "swh.tsv").write_text("b.2\tmbili\nb.1\tmoja\nb.3\ttatu\n")
    (tmp_path / "fra.tsv").write_text("".join(f"f{i}\te{i}\n" for i in range(50)))
    return tmp_path


def test_pairs_of_equal_id_are_joined_in_the_order_of_the_source(folder):
    pairs = list(corpora.load(folder).pairs("de", "train"))
    assert [(p.source, p.target, p.line, p.id) for p in pairs] == [
        ("drei", "three", 1, "b.3"), ("eins", "one", 2, "b.1"),
    ]  # fmt: skip


def test_a_sample_is_the_same_every_time_and_within_a_larger_one(folder):
    def french(size):
        text = TOML.replace("sample = 3", f"sample = {size}")
        (folder / "corpus.toml").write_text(text)
        corpus = corpora.load(folder)
        pairs = [(p.source, p.target, p.line) for p in corpus.pairs("fr", "train")]
        assert len(pairs) == corpus.count("fr", "train") == size
        assert pairs == [(f"f{line - 1}", f"e{line - 1}", line) for *_, line in pairs]
        return pairs

    assert french(3) == french(3)
    assert set(french(3)) < set(french(20)) < set(french(50))
    assert [line for *_, line in french(20)] != list(range(1, 21))
    assert {p.source for p in corpora.load(folder).pairs("sw", "train")} < {"moja", "mbili", "tatu"}


def test_the_hash_knows_how_files_are_read(folder):
    hashes = {corpora.load(folder).hash()}
    for old, new in ((", sample = 2", ""), ("sample = 2", "sample = 1"), (', join = "id"', "")):
        (folder / "corpus.toml").write_text(TOML.replace(old, new, 1))
        hashes.add(corpora.load(folder).hash())
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("swh.tsv", "b.2\tmbili\nb.9\tx\n", r"swh\.tsv:2: .*eng\.tsv has no line with id 'b\.9'"),
        ("swh.tsv", "b.2\tmbili\nb.2\tx\n", r"swh\.tsv:2: the id 'b\.2' is repeated"),
        ("eng.tsv", "b.1\tone\nb.1\tuno\n", r"eng\.tsv:2: the id 'b\.1' is repeated"),
        ("eng.tsv", "b.1\tone\nb.2\n", r"eng\.tsv:2: 1 columns; a line is id<TAB>text"),
        ("swh.tsv", "\tmoja\nb.2\tx\n", r"swh\.tsv:1: 2 columns; a line is id<TAB>text"),
        ("swh.tsv", "b.1\t \nb.2\tx\n", r"swh\.tsv: b\.1: the source side is empty"),
        ("swh.tsv", "b.1\tmoja\n", r"swh\.tsv: sample is 2, of 1 lines"),
        ("swh.tsv", "", r"swh\.tsv: no lines"),
    ],
)
def test_faults_are_named_with_file_and_line(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        list(corpora.load(folder).pairs("swh", "train"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('join = "id"', 'join = "line"', r"toml:3: join is 'line'; allowed: 'id'"),
        ('pairs = "fra.tsv"', 'pairs = "fra.tsv", join = "id"', r"toml:5: join is 'id'"),
        ('pairs = "fra.tsv"', 'pairs = "fra.tsv", target = "eng.tsv"', "target cannot be"),
        ("sample = 2", "sample = 0", r"toml:4: sample is 0; allowed: a number of pairs, 1 or"),
        ("sample = 2", 'sample = "2"', r"toml:4: sample is '2'"),
        ("sample = 2", "samples = 2", r"toml:4: unknown key 'samples'; nearest: sample"),
    ],
)
def test_faults_of_the_description_are_named(folder, old, new, message):
    (folder / "corpus.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        corpora.load(folder)


def test_an_empty_side_in_a_document_is_counted_and_left_to_cleaning(tmp_path):
    (tmp_path / "a.de").write_text("eins\nzwei\n\ndrei\n")
    (tmp_path / "a.en").write_text("one\n \n\nthree\n")
    entry = '{ source = "a.de", target = "a.en", documents = true }'
    (tmp_path / "corpus.toml").write_text(f"[train]\nde = {entry}\n")
    corpus = corpora.load(tmp_path)
    assert corpus.count("de", "train") == 3
    with pytest.raises(ValueError, match=r"a\.en:2: the target side is empty"):
        list(corpus.pairs("de", "train"))
