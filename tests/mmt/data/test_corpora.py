"""Corpus folders: their pairs, and an error for every fault of a description or text."""

import functools
import gzip
import re
import shutil

import pytest

from mmt.data import corpora

GOOD = """
target = "English"
[train]
German = { source = "t.de.gz", target = "t.en" }
swh = "swh.tsv"
"zh-TW" = ["swh.tsv", { source = "t.de.gz", target = "t.en" }]
[test]
sw = "test.tsv"
"""


@pytest.fixture
def folder(tmp_path):
    """A good corpus of three languages."""
    root = tmp_path / "my-corpus"
    root.mkdir()
    (root / "corpus.toml").write_text(GOOD, "utf-8")
    (root / "t.de.gz").write_bytes(gzip.compress("Hallo Welt\nschön\u2028!\n".encode()))
    (root / "t.en").write_text("Hello world\r\nnice!", "utf-8", newline="")
    (root / "swh.tsv").write_text("Habari\tHow are you?\nnyumba mbili\ttwo houses\n", "utf-8")
    (root / "test.tsv").write_text("moja\tone\n", "utf-8")
    return root


def test_a_folder_is_read_as_described(folder):
    corpus = corpora.load(folder)
    assert (corpus.name, corpus.target, corpus.root) == ("my_corpus", "eng_Latn", folder)
    assert corpus.languages == ("deu_Latn", "swh_Latn", "zho_Hant")
    german = [
        ("Hallo Welt", "Hello world", "deu_Latn", "t.de.gz", 1, "", False, False),
        ("schön\u2028!", "nice!", "deu_Latn", "t.de.gz", 2, "", False, False),
    ]
    assert list(corpus.pairs("de", "train")) == german
    assert [pair.target for pair in corpus.pairs("zho_Hant", "train")] == [
        "How are you?", "two houses", "Hello world", "nice!",
    ]  # fmt: skip
    assert [pair.line for pair in corpus.pairs("zho_Hant", "train")] == [1, 2, 1, 2]
    assert list(corpus.pairs("swa", "test"))[0].source == "moja"
    corpus.validate()


def test_domain_and_licence_are_read_and_change_nothing_else(folder):
    plain = corpora.load(folder)
    assert (plain.domain, plain.licence) == ("", "")
    description = 'domain = "news\N{NO-BREAK SPACE}text"\nlicence = "CC BY-SA 4.0"\n'
    (folder / "corpus.toml").write_text(GOOD.replace("target", description + "target", 1), "utf-8")
    corpus = corpora.load(folder)
    assert (corpus.domain, corpus.licence) == ("news\N{NO-BREAK SPACE}text", "CC BY-SA 4.0")
    assert corpus.hash() == plain.hash() and corpus.files == plain.files


def test_a_folder_is_named_by_itself_its_file_or_a_string(folder, monkeypatch):
    whole = corpora.load(folder)
    assert corpora.load(str(folder)) == corpora.load(folder / "corpus.toml") == whole
    monkeypatch.chdir(folder)
    assert corpora.load("corpus.toml").name == corpora.load(".").name == whole.name
    assert corpora.load(".").hash() == whole.hash()


def test_counts_are_those_of_the_pairs_or_0(folder):
    corpus = corpora.load(folder)
    for code in corpus.languages:
        assert corpus.count(code, "train") == len(list(corpus.pairs(code, "train")))
    assert corpus.count("swh", "test") == 1
    assert corpus.count("deu", "test") == corpus.count("French", "train") == 0


def test_a_file_without_lines_is_a_fault_also_for_count(folder):
    (folder / "test.tsv").write_text("")
    with pytest.raises(ValueError, match=r"test\.tsv: no lines"):
        corpora.load(folder).count("swh", "test")


def test_a_missing_file_is_an_error_before_the_first_pair(folder):
    corpus = corpora.load(folder)
    with pytest.raises(ValueError, match=r"no test pairs of deu_Latn; .*swh_Latn"):
        corpus.pairs("German", "test")
    with pytest.raises(ValueError, match="unknown split 'valid'; nearest: validation"):
        corpus.pairs("German", "valid")
    with pytest.raises(ValueError, match="unknown language 'Germn'; nearest: German"):
        corpus.count("Germn", "train")


def test_the_hash_is_of_the_content_and_not_of_the_place(folder, tmp_path):
    before = corpora.load(folder).hash()
    assert re.fullmatch("[0-9a-f]{16}", before)
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    (copy / "corpus.toml").write_text("# a comment\n" + GOOD.replace("German", "deu"), "utf-8")
    assert corpora.load(copy).hash() == before
    hashes = {before}
    for name, old, new in [
        ("swh.tsv", "Habari", "habari"),
        ("test.tsv", "one", "One"),
        ("corpus.toml", "[test]", "[validation]"),
        ("corpus.toml", "swh =", "som ="),
        ("corpus.toml", "target = ", 'name = "other"\ntarget = '),
        ("corpus.toml", '= "swh.tsv"', '= ["swh.tsv", "test.tsv"]'),
    ]:
        changed = shutil.copytree(folder, tmp_path / str(len(hashes)) / folder.name)
        text = (changed / name).read_text("utf-8").replace(old, new, 1)
        (changed / name).write_text(text.replace("sw = ", "som = ") if "som" in new else text)
        hashes.add(corpora.load(changed).hash())
    assert len(hashes) == 7


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[test]", "[tset]", r"corpus\.toml:7: unknown key 'tset'; nearest: test"),
        ("target =", "taget =", r"corpus\.toml:2: unknown key 'taget'; nearest: target"),
        ('"English"', '"Englsh"', r"corpus\.toml:2: target: unknown .*'Englsh'.*eng_Latn"),
        ("German", "Germna", r"corpus\.toml:4: .*'Germna'; nearest: German \(deu_Latn\)"),
        ("German", "Norwegian", r"corpus\.toml:4: .*nob_Latn"),
        ("German", "swa", r"corpus\.toml:5: swh \(swh_Latn\) is listed already"),
        ("German", "en", r"corpus\.toml:4: en \(eng_Latn\) is the target"),
        ('swh = "swh.tsv"', 'swh = "sw.tsv"', r"corpus\.toml:5: no file .*nearest: swh\.tsv"),
        ('swh = "swh.tsv"', "swh = []", r"corpus\.toml:5: swh has no files"),
        ('swh = "swh.tsv"', "swh = 3", r"corpus\.toml:5: 3 is no file"),
        ('swh = "swh.tsv"', "swh = [[]]", r"corpus\.toml:5: \[\] is no file"),
        ('swh = "swh.tsv"', 'swh = "sub/"', r"corpus\.toml:5: no file"),
        (', target = "t.en" }\nswh', " }\nswh", r"corpus\.toml:4: target is missing"),
        ('target = "t.en" }\nswh', 'tgt = "t.en" }\nswh', r"corpus\.toml:4: unknown key 'tgt'"),
        ('sw = "test.tsv"', 'om = "test.tsv"', r"corpus\.toml:8: om \(gaz_Latn\) has no \[train\]"),
        ("target =", "name = 'a b'\ntarget =", r"corpus\.toml:2: name is 'a b'; allowed"),
        ("target =", "licence = 3\ntarget =", r"corpus\.toml:2: licence is 3; expected text"),
        ("target =", 'domain = "a\\u2028b"\ntarget =', r"domain is .* one line"),
        ("target =", 'domain = "a\\nb"\ntarget =', r"domain is 'a\\nb'; expected .* one line"),
        ("target =", "license = 'CC0'\ntarget =", r"'license'; nearest: licence"),
        ("[train]", "train = 3\n[validation]", r"corpus\.toml:3: train must be a table"),
        ("[train]", "[train]\n[validation]", r"corpus\.toml:3: no languages"),
        ("[train]", "[train", r"corpus\.toml: .*line 3"),
    ],
)
def test_faults_of_the_description_are_named_with_file_line_and_nearest(folder, old, new, message):
    assert GOOD.count(old)
    (folder / "corpus.toml").write_text(GOOD.replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=message):
        corpora.load(folder)


def test_a_description_without_training_data_is_a_test_set(folder):
    (folder / "corpus.toml").write_text('[test]\nsw = "test.tsv"\nde = "swh.tsv"')
    corpus = corpora.load(folder)
    assert corpus.languages == ("deu_Latn", "swh_Latn")
    assert corpus.count("sw", "test") == 1 and corpus.count("sw", "train") == 0


def test_a_description_that_is_not_utf8_or_empty_is_an_error(folder):
    (folder / "corpus.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ValueError, match=r"corpus\.toml: it must be UTF-8: .*0xff"):
        corpora.load(folder)
    (folder / "corpus.toml").write_text("")
    with pytest.raises(ValueError, match="no languages"):
        corpora.load(folder)


def test_an_unknown_corpus_is_an_error_with_the_nearest_name(folder):
    for name, nearest in [(folder.parent / "my-copus", "my-corpus"), ("cldrr", "cldr")]:
        with pytest.raises(ValueError, match=f"no corpus at .*; nearest: {nearest}"):
            corpora.load(name)
    (folder / "corpus.toml").unlink()
    with pytest.raises(ValueError, match="no corpus at"):
        corpora.load(folder)
    (folder / "corpus.toml").symlink_to("corpus.toml")
    with pytest.raises(ValueError, match=r"corpus\.toml is a link that leads nowhere; a corpus"):
        corpora.load(folder)
    (folder / "corpus.toml").unlink()
    (folder / "corpus.toml").mkdir()
    with pytest.raises(ValueError, match=r"corpus\.toml is a folder, no file; a corpus is"):
        corpora.load(folder)


zipped = functools.partial(gzip.compress, mtime=0)  # the same name of a test at any time


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.en", b"one\ntwo\nthree\n", r"t\.de\.gz has 2 lines, but .*t\.en has 3"),
        ("t.en", b"one\n", r"t\.de\.gz has 2 lines, but .*t\.en has 1"),
        ("t.en", b"", r"t\.de\.gz has 2 lines, but .*t\.en has 0"),
        ("t.en", b"one\n \t\n", r"t\.en:2: the target side is empty"),
        ("t.de.gz", zipped(b"\neins"), r"t\.de\.gz:1: the source side is empty"),
        ("t.de.gz", zipped(b"eins\n\xe4"), r"t\.de\.gz:2: not UTF-8: .* 0xe4 at byte 1"),
        ("t.de.gz", b"eins\nzwei\n", r"t\.de\.gz: damaged: Not a gzipped file"),
        ("swh.tsv", b"moja\tone\nmbili two\n", r"swh\.tsv:2: 1 columns; .*source<TAB>target"),
        ("swh.tsv", b"moja\tone\tein\n", r"swh\.tsv:1: 3 columns"),
        ("swh.tsv", b"moja\tone\n\ntatu\tthree\n", r"swh\.tsv:2: 1 columns"),
        ("swh.tsv", "moja\tone\n".encode("utf-16-le"), r"swh\.tsv:1: the source side has a NUL"),
        ("t.en", b"one\ntw\0o\n", r"t\.en:2: the target side has a NUL"),
        ("swh.tsv", b"moja\tone\n\ttwo\n", r"swh\.tsv:2: the source side is empty"),
        ("swh.tsv", "moja\t\u200b\u200e \n".encode(), r"swh\.tsv:1: the target side is empty"),
        ("swh.tsv", b"moja\t\xc2\xa0\n", r"swh\.tsv:1: the target side is empty"),
        ("test.tsv", b"", r"test\.tsv: no lines"),
    ],
)
def test_faults_of_the_text_are_named_with_file_and_line(folder, name, content, message):
    (folder / name).write_bytes(content)
    corpus = corpora.load(folder)
    with pytest.raises(ValueError, match=message):
        corpus.validate()


def test_pairs_stream(folder):
    """Ten thousand good pairs come before the fault after them."""
    (folder / "swh.tsv").write_bytes(b"moja\tone\n" * 10_000 + b"broken\n")
    pairs = corpora.load(folder).pairs("swh", "train")
    for _ in range(10_000):
        assert next(pairs)[:2] == ("moja", "one")
    with pytest.raises(ValueError, match=r"swh\.tsv:10001:"):
        next(pairs)


TEXT_FAULTS = {
    'deu = { text = "a.txt", colum = 2 }': "unknown key 'colum'; nearest: column",
    'deu = { pairs = "a.txt" }': "unknown key 'pairs'.*allowed: text",
    'deu = { name = "a" }': "text is missing",
    'deu = "b.txt"': "no file .*b.txt; nearest: a.txt",
    'deu = "a.tmx"': "a.tmx: a .tmx file has pairs",
    'deu = { text = "a.txt", column = 0 }': "column is 0; allowed: a column's number, or a key",
    'deutsh = "a.txt"': "language: .*deutsh",
}


@pytest.mark.parametrize("entry", TEXT_FAULTS)
def test_faults_in_monolingual_text_are_named(tmp_path, entry):
    for name in ("a.txt", "a.tmx"):
        (tmp_path / name).write_text("Hallo\n")
    (tmp_path / "corpus.toml").write_text(f"[monolingual]\n{entry}\n")
    with pytest.raises(ValueError, match=rf"corpus\.toml:2: .*{TEXT_FAULTS[entry]}"):
        corpora.load(tmp_path)


def test_monolingual_text_is_read_by_the_readers(tmp_path):
    (tmp_path / "a.txt").write_text("eins\tzwei\r\ndrei\n")
    (tmp_path / "b.jsonl").write_text('{"text": "vier", "body": "fünf"}\n')
    (tmp_path / "c.tsv").write_text("1\tsechs\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "gap.txt").write_text("a\n\nb\n")
    (tmp_path / "corpus.toml").write_text(
        '[monolingual]\ndeu = ["a.txt", "b.jsonl", { text = "b.jsonl", column = "body" },\n'
        '{ text = "c.tsv", column = 2, name = "table" }]\neng = "empty.txt"\nswh = "gap.txt"\n'
    )
    corpus = corpora.load(tmp_path)
    assert corpus.languages == () and corpus.monolingual == ("deu_Latn", "eng_Latn", "swh_Latn")
    read = list(corpus.pairs("de", "monolingual"))
    assert [pair.target for pair in read] == ["eins\tzwei", "drei", "vier", "fünf", "sechs"]
    assert not any(pair.source for pair in read) and read[-1].corpus == "table"
    assert corpus.count("de", "monolingual") == 5
    with pytest.raises(ValueError, match=r"empty\.txt: no lines"):
        corpus.count("eng", "monolingual")
    with pytest.raises(ValueError, match=r"gap\.txt:2: the text is empty"):
        list(corpus.pairs("swh", "monolingual"))


def test_a_corpus_of_some_languages(toy_corpus):
    whole = corpora.load(toy_corpus)
    part = whole.only(["German", "swh"])
    assert part.languages == ("deu_Latn", "swh_Latn") and part.hash() != whole.hash()
    assert list(part.pairs("deu", "test")) == list(whole.pairs("deu", "test"))
    assert part.count("fra", "train") == 0
    with pytest.raises(ValueError, match="numbers has no swe_Latn among its 3 .*nearest: swh"):
        whole.only(["Swedish"])


DOCUMENTS = "eins\tone\nzwei\ttwo\n\n\t\ndrei\tthree\nvier\tfour\n"


@pytest.mark.parametrize("layout", ["columns", "two files", "ids"])
def test_an_empty_line_ends_a_document(folder, layout):
    lines = [line.split("\t") for line in DOCUMENTS.splitlines()]
    (folder / "swh.tsv").write_text(DOCUMENTS, "utf-8")
    entry = 'pairs = "swh.tsv"'
    if layout != "columns":
        sides = [[line[0] for line in lines], [line[-1] for line in lines]]
        if layout == "ids":
            sides = [[f"{i}\t{text}" if text else "" for i, text in enumerate(side)]
                     for side in sides]  # fmt: skip
            sides[1] = [line for line in sides[1][::-1] if line]  # targets have no order
        for name, side in zip(("t.swh", "t.two"), sides, strict=True):
            (folder / name).write_text("\n".join(side) + "\n", "utf-8")
        join = ', join = "id"' * (layout == "ids")
        entry = f'source = "t.swh", target = "t.two"{join}'
    text = GOOD.replace('swh = "swh.tsv"', f"swh = {{ {entry}, documents = true }}")
    (folder / "corpus.toml").write_text(text.replace('"zh-TW"', '#"zh-TW"'), "utf-8")
    corpus = corpora.load(folder)
    read = [(p.source, p.target, p.line, p.follows) for p in corpus.pairs("swh", "train")]
    assert read == [
        ("eins", "one", 1, False), ("zwei", "two", 2, True),
        ("drei", "three", 5, False), ("vier", "four", 6, True),
    ]  # fmt: skip
    assert corpus.count("swh", "train") == 4
    assert not any(pair.follows for pair in corpus.pairs("deu", "train"))
    marked = corpus.hash()
    (folder / "corpus.toml").write_text(text.replace(", documents = true", ""), "utf-8")
    unmarked = corpora.load(folder)
    if layout == "columns":
        assert unmarked.hash() != marked
    with pytest.raises(ValueError, match=":3: "):
        list(unmarked.pairs("swh", "train"))


def test_documents_have_no_sample_and_no_half_empty_line(folder):
    def described(entry):
        text = GOOD.replace('swh = "swh.tsv"', f"swh = {entry}")
        (folder / "corpus.toml").write_text(text.replace('"zh-TW"', '#"zh-TW"'), "utf-8")
        return corpora.load(folder)

    for wrong in ("documents = 1", "documents = true, sample = 2"):
        with pytest.raises(ValueError, match="documents is .*; allowed: true, false; true without"):
            described(f'{{ pairs = "swh.tsv", {wrong} }}')
    (folder / "swh.tsv").write_text("eins\tone\n\ttwo\n", "utf-8")
    with pytest.raises(ValueError, match="swh.tsv:2: the source side is empty"):
        list(described('{ pairs = "swh.tsv", documents = true }').pairs("swh", "train"))


def test_an_unknown_language_beside_a_folder_of_locales_has_its_line(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "corpus.toml").write_text(
        '[train]\n"*" = { locales = "app" }\nGermna = "a.tsv"\n'
    )
    with pytest.raises(ValueError, match=r"corpus\.toml:3: language: .*nearest: German"):
        corpora.load(tmp_path)


def test_a_reversed_test_set_has_its_languages(tmp_path):
    (tmp_path / "a.tsv").write_text("eins\tone\n")
    (tmp_path / "corpus.toml").write_text('[test]\ndeu = "a.tsv"\n')
    corpus = corpora.load(tmp_path).reversed()
    assert corpus.reversed() == corpora.load(tmp_path)
    assert corpus.languages == ("deu_Latn",)
    assert [pair[:2] for pair in corpus.pairs("deu", "test")] == [("one", "eins")]


def test_parts_of_a_reversed_corpus_have_no_empty_entry(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.tsv").write_text(f"{name} eins\t{name} one\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = ["a.tsv", { pairs = "b.tsv", back_translated = true }, "c.tsv"]\n'
    )
    corpus = corpora.load(tmp_path).reversed()
    entries = corpus.entries("deu", "train")
    assert entries == ("a.tsv", "c.tsv")
    parts = [corpus.part(index, len(entries)) for index in range(len(entries))]
    assert [pair.corpus for part in parts for pair in part.pairs("deu", "train")] == [*entries]


def test_a_language_with_back_translations_alone_is_not_in_the_reversed_corpus(tmp_path):
    (tmp_path / "a.tsv").write_text("eins\tone\n")
    (tmp_path / "b.tsv").write_text("moja\tone\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = "a.tsv"\nswh = { pairs = "b.tsv", back_translated = true }\n'
    )
    corpus = corpora.load(tmp_path).reversed()
    assert corpus.languages == ("deu_Latn",)
    corpus.validate()
    (tmp_path / "a.tsv").write_text("eins\n")
    with pytest.raises(ValueError, match=r"a.tsv:1: 1 columns"):
        corpus.validate()
