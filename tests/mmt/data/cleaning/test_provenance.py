"""Origins: hashes are those of sha256sum, counts are those of the cleaned corpus's report."""

import subprocess

import pytest

from mmt.data import corpora
from mmt.data.cleaning import overlap_list, prepare, provenance
from mmt.system import text_lines

TEXT = """
name = "numbers"
[clean]
duplicates = true
[train]
deu = [{ pairs = "web.tsv", name = "web" }, { pairs = "books.tsv", name = "books" }]
swh = { pairs = "swh.tsv", name = "web" }
[test]
deu = "test.tsv"
[clean.corpus.books]
overlap = false
"""
WEB = ["eins\tone", "zwei\ttwo", "drei\tthree", "drei\tthree"]


@pytest.fixture
def cleaned(tmp_path):
    """A corpus of three entries, and its cleaned folder."""
    for name, lines in (("web", WEB), ("books", ["zwei\ttwo", "vier\tfour"]),
                        ("swh", ["moja\tuno"]), ("test", ["zwei\ttwo"])):  # fmt: skip
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "corpus.toml").write_text(TEXT)
    corpus = corpora.load(tmp_path)
    prepare.prepare(corpus, tmp_path / "clean", processes=1)
    return corpus, tmp_path / "clean"


def test_each_corpus_of_a_language_has_its_files_and_what_was_dropped(cleaned):
    corpus, out = cleaned
    origins = {(o.language, o.corpus): o for o in provenance.origins([corpora.load(out)])}
    assert list(origins) == [("deu_Latn", "web"), ("deu_Latn", "books"), ("swh_Latn", "web")]
    web, books = origins["deu_Latn", "web"], origins["deu_Latn", "books"]
    assert (web.read, web.kept) == (4, 2)
    assert web.dropped == {"overlap: numbers test": 1, "duplicates": 1}
    assert web.overlap == {"numbers test": 1}
    assert (books.read, books.kept, books.overlap) == (2, 2, {})  # its rules compare no test set
    assert origins["swh_Latn", "web"].overlap == {"numbers test": 0}
    for origin in origins.values():
        for name, digest in origin.files.items():
            done = subprocess.run(["sha256sum", corpus.root / name], capture_output=True, text=True)
            assert done.stdout.startswith(digest) and len(digest) == 16
    listed = [line.split("\t") for line in text_lines.read(out / overlap_list.FILE)]
    assert [row[:4] for row in listed[1:]] == [["deu_Latn", "web", "2", "numbers test"]]
    assert web.listed == "clean/overlap.tsv.zst"


def test_a_corpus_without_rules_has_only_its_files(cleaned):
    corpus, _ = cleaned
    for origin in provenance.origins([corpus]):
        assert origin.files and (origin.read, origin.kept, origin.listed) == (-1, -1, "")


def test_files_of_one_name_in_two_folders_have_both_hashes(tmp_path):
    for place, text in (("a/de", "eins"), ("a/en", "one"), ("b/de", "zwei"), ("b/en", "two")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "train.txt").write_text(f"{text}\n")
    (tmp_path / "corpus").mkdir()
    entries = ", ".join(
        f'{{ source = "{tmp_path}/{part}/de/train.txt", '
        f'target = "{tmp_path}/{part}/en/train.txt", '
        f'name = "{name}" }}'
        for part, name in (("a", "web"), ("b", "books"))
    )
    (tmp_path / "corpus/corpus.toml").write_text(f"[train]\ndeu = [{entries}]\n")
    web, books = provenance.origins([corpora.load(tmp_path / "corpus")])
    assert list(web.files) == list(books.files) == ["de/train.txt", "en/train.txt"]
    assert len({*web.files.values(), *books.files.values()}) == 4


def test_counts_of_a_corpus_that_was_changed_after_cleaning_are_left_out(cleaned):
    _, out = cleaned
    (file,) = out.glob("train/deu_Latn.0-web.tsv.zst")
    file.rename(file.with_name("x"))
    text = (out / "corpus.toml").read_text().replace(f"train/{file.name}", "more.tsv")
    (out / "corpus.toml").write_text(text)
    (out / "more.tsv").write_text("neun\tnine\n")
    web, books, _ = provenance.origins([corpora.load(out)])
    assert (web.read, list(web.files)) == (-1, ["more.tsv"]) and books.read == 2


def test_a_damaged_report_is_named(cleaned):
    _, out = cleaned
    (out / "report.json").write_text("{}")
    with pytest.raises(ValueError, match=r"report\.json is damaged .*: clean the corpus again"):
        provenance.origins([corpora.load(out)])


def test_a_report_of_an_earlier_version_has_counts_but_no_test_sets(cleaned):
    _, out = cleaned
    import json

    content = json.loads((out / "report.json").read_text())
    for entry in content["entries"]:
        del entry["files"], entry["tests"]
    (out / "report.json").write_text(json.dumps(content))
    (out / overlap_list.FILE).unlink()
    web, *_ = provenance.origins([corpora.load(out)])
    assert web.overlap == {"numbers test": 1} and web.listed == ""
    assert all(name.startswith("train/") for name in web.files)  # those that were read
