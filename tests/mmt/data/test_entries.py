"""Entries of a description: globs, folders, names, and an error for every fault."""

import gzip
import re

import pytest

from mmt.data import corpora


@pytest.fixture
def corpus(tmp_path):
    """A function: the corpus of the given entry of German, in a folder of files."""
    parts = tmp_path / "parts"
    parts.mkdir()
    for name in ("b.1", "a.2", "a.10"):
        (parts / f"{name}.tsv").write_text(f"de {name}\ten {name}\nx\ty\n")
    moses = tmp_path / "moses"
    moses.mkdir()
    for name in ("c", "d"):
        (moses / f"{name}.de.gz").write_bytes(gzip.compress(f"{name} eins\n".encode()))
        (moses / f"{name}.eng").write_text(f"{name} one\n")
    (moses / "README").write_text("of c and d")
    (moses / ".hidden.de").write_text("no")
    (tmp_path / "loop").symlink_to("loop")

    def load(entry, more=""):
        (tmp_path / "corpus.toml").write_text(f"[train]\nde = {entry}\n{more}")
        return corpora.load(tmp_path)

    return load


def where(corpus):
    pairs = list(corpus.pairs("de", "train"))
    assert corpus.count("de", "train") == len(pairs)
    assert [*dict.fromkeys(pair.corpus for pair in pairs)] == [*corpus.entries("de", "train")]
    return [(pair.corpus, pair.line, pair.source) for pair in pairs]


def test_a_glob_is_its_matches_in_sorted_order(corpus):
    assert where(corpus('"parts/a.*.tsv"')) == [
        ("parts/a.10.tsv", 1, "de a.10"), ("parts/a.10.tsv", 2, "x"),
        ("parts/a.2.tsv", 1, "de a.2"), ("parts/a.2.tsv", 2, "x"),
    ]  # fmt: skip
    assert corpus('"parts"').entries("de", "train") == (
        "parts/a.10.tsv", "parts/a.2.tsv", "parts/b.1.tsv",
    )  # fmt: skip


def test_two_stars_go_through_folders(corpus):
    root = corpus('"parts"').root / "parts"
    (root / "p/q").mkdir(parents=True)
    for name in ("p/b", "p/q/a"):
        for suffix, text in ((".tsv", "d\te\n"), (".de", f"d {name}\n"), (".en", f"e {name}\n")):
            (root / f"{name}{suffix}").write_text(text)
    names = [f"parts/{name}.tsv" for name in ("a.10", "a.2", "b.1", "p/b", "p/q/a")]
    for entry in ('"parts/**/*.tsv"', '"**/*.tsv"', '["parts/*.tsv", "parts/p/**/*.tsv"]'):
        assert [*corpus(entry).entries("de", "train")] == names
    two = '{ source = "parts/**/*.de", target = "parts/**/*.en" }'
    for entry in (two, two.replace("/*.", "/?.").replace("parts/**", "**")):
        read = corpus(entry)
        assert [(pair.source[2:], pair.target[2:]) for pair in read.pairs("de", "train")] == [
            ("p/b", "p/b"), ("p/q/a", "p/q/a"),
        ]  # fmt: skip
    read = corpus('"parts/*.tsv"', '[monolingual]\nde = "parts/**/*.de"')
    texts = [pair.target for pair in read.pairs("de", "monolingual")]
    assert texts == ["d p/b", "d p/q/a"]
    read = corpus('"parts/*.tsv"', '[monolingual]\nde = "parts/p/q/**"')
    assert len(read.entries("de", "monolingual")) == 3


def test_a_folder_of_moses_files_goes_by_their_languages(corpus):
    expected = [("moses/c.de.gz", 1, "c eins"), ("moses/d.de.gz", 1, "d eins")]
    assert where(corpus('"moses"')) == where(corpus('"moses/"')) == expected
    two = '{ source = "moses/?.de.gz", target = "moses/?.eng" }'
    assert where(corpus(two)) == expected
    assert where(corpus('["moses", "parts/b*"]'))[2][0] == "parts/b.1.tsv"


def test_what_is_not_read_of_a_folder_is_named(corpus):
    root = corpus('"parts"').root
    (root / "parts/sub").mkdir()
    (root / "parts/a.txt.gz").write_text("x\ty\n")
    (root / "moses/c.fra").write_text("c un\n")
    with pytest.warns(UserWarning, match=r"parts: not read: sub;") as both:
        assert len(corpus('"parts"').entries("de", "train")) == 3
    assert re.search(r"parts: not read: a\.txt\.gz; ", str(both[1].message))
    with pytest.warns(UserWarning, match=r"moses: not read: README; ") as warned:
        assert corpus('"moses"').count("de", "train") == 2
    assert len(warned) == 1
    with pytest.warns(UserWarning, match=r"parts: not read: sub;") as warned:
        texts = corpus('"parts/b*"', '[monolingual]\nde = "parts"').entries("de", "monolingual")
    assert len(texts) == 4 and len(warned) == 1
    (root / "parts/corpus.toml").write_text('[train]\nde = "."\n[monolingual]\nde = "."')
    with pytest.warns(UserWarning, match=r"parts: not read: ") as three:
        beside = corpora.load(root / "parts")
    assert len(three) == 3 and not any("toml" in str(warned.message) for warned in three)
    assert beside.entries("de", "monolingual") == ("a.10.tsv", "a.2.tsv", "a.txt.gz", "b.1.tsv")


def test_an_entry_may_have_a_name(corpus):
    assert corpus('{ pairs = "parts/b.1.tsv", name = "web" }').entries("de", "train") == ("web",)
    names = corpus('{ pairs = "parts/a*", name = "web 2" }').entries("de", "train")
    assert names == ("web 2/a.10.tsv", "web 2/a.2.tsv")
    root = corpus('"parts"').root
    written = f"../{root.name}/parts/b.1.tsv"
    assert corpus(f'"{written}"').entries("de", "train") == (written,)
    assert corpus('"parts"').entries("de", "test") == ()
    twice = '[{ pairs = "parts/b.1.tsv", name = "x" }, { pairs = "parts/a.2.tsv", name = "x" }]'
    with pytest.raises(ValueError, match=r"toml:2: .*b\.1\.tsv and .*a\.2\.tsv are both named 'x'"):
        corpus(twice)


def test_a_file_may_have_several_pairs_of_columns(corpus):
    text = '[{ pairs = "parts/a.2.tsv", columns = [%d, %d] }, "parts/a.2.tsv"]'
    assert len(where(corpus(text % (2, 1)))) == 4


def test_the_hash_is_of_every_file_that_is_matched(corpus):
    loaded = corpus('"parts/*"')
    before = loaded.hash()
    assert corpus('["parts/a.10.tsv", "parts/a.2.tsv", "parts/b.1.tsv"]').hash() == before
    (loaded.root / "parts/a.2.tsv").write_text("other\ttext\n")
    assert loaded.hash() != before
    (loaded.root / "parts/z.tsv").write_text("new\tfile\n")
    assert corpus('"parts/*"').hash() not in (before, loaded.hash())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('"parts/*.tmx"', r"parts/\*\.tmx matches nothing; in .*parts: a\.10\.tsv, a\.2\.tsv, b"),
        ('"part/*.tsv"', r"matches nothing; there is no folder"),
        ('"loop"', r"/loop is a link that leads nowhere$"),
        ('{ source = "moses", target = "x" }', r"/moses is a folder, no file$"),
        ('"part"', r"no file .*part; nearest: parts"),
        ('"parts/b.1.tvs"', r"no file .*b\.1\.tvs; nearest: b\.1\.tsv"),
        ('{ source = "moses/*.de.gz", target = "moses/c.eng" }', "must match in pairs"),
        ('{ source = "moses/c.*.gz", target = "moses/[cd].eng" }', "must match in pairs"),
        ('{ source = "moses/c.de.gz", target = "moses/d.en" }', r"no file .*d\.en"),
        ('{ pairs = "parts/*", sample = 2 }', r"sample needs one file; .* matches 3"),
        ('{ pairs = "parts/b.1.tsv", columns = [1] }', r"columns is \[1\]; allowed: those of"),
        ('{ pairs = "parts/b.1.tsv", columns = [1, 1] }', r"columns is \[1, 1\]"),
        ('{ pairs = "parts/b.1.tsv", columns = "1 2" }', r"columns is '1 2'"),
        ('{ pairs = "parts/b.1.tsv", columns = [] }', r"columns is \[\]"),
        ('{ pairs = "parts/b.1.tsv", name = "" }', r"name is ''; allowed: a text of one line"),
        ('{ pairs = "parts/b.1.tsv", name = "a\\nb" }', r"name is 'a\\nb'; allowed"),
        ('{ pairs = "parts/b.1.tsv", mtdata = "x" }', "pairs cannot be combined with `mtdata`"),
        ('{ mtdata = "x", source = "y" }', "source cannot be combined with `mtdata`"),
        ('{ source = "moses/c.eng", target = "moses/d.eng", columns = [1, 2] }', "columns is"),
        ('["parts/b.1.tsv", "parts/b.1.tsv"]', r"b\.1\.tsv is listed twice"),
        ('["parts/*", "moses/../parts/b.1.tsv"]', r"moses/.*b\.1\.tsv \(.*parts/b\.1\.tsv\) is li"),
        ('{ source = "moses/*.eng", target = "moses/*.eng" }', r"c\.eng is the source and the ta"),
        ('{ pair = "parts/b.1.tsv" }', r"unknown key 'pair'; nearest: pairs"),
        ('"parts\\u0000"', r"is no file; write"),
        ('"%s"' % ("x" * 5000), "File name too long"),
    ],
)
def test_faults_are_named_with_file_and_line(corpus, entry, message):
    with pytest.raises(ValueError, match=r"corpus\.toml:2: .*" + message):
        corpus(entry)


def test_a_folder_without_pairs_is_an_error_with_its_files(corpus):
    root = corpus('"parts"').root
    (root / "moses/c.eng").unlink()
    with pytest.raises(ValueError, match=r"moses/c\.de\.gz has no counterpart in eng_Latn"):
        corpus('"moses"')
    with pytest.raises(ValueError, match=r"moses has no files of pairs .*fra_Latn.*; in .*README"):
        corpus('"parts"', 'fr = "moses"')
    (root / "moses/c.deu").write_text("x")
    with pytest.raises(ValueError, match=r"c\.de\.gz and .*c\.deu are both c in deu_Latn"):
        corpus('"moses"')
    (root / "a.tmx").write_text("x")
    with pytest.raises(ValueError, match=r"a\.tmx: a \.tmx file has both sides; write pairs"):
        corpus('{ source = "a.tmx", target = "moses/d.eng" }')


def test_a_glob_is_read_in_a_folder_with_brackets(tmp_path):
    root = tmp_path / "news [2024]*"
    for name in ("a.de", "a.en", "x/y/b.de", "x/y/b.en"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    (root / "c.tsv").write_text("eins\tone\n")
    (root / "corpus.toml").write_text(
        '[train]\ndeu = ["*.tsv", { source = "**/?.de", target = "**/?.en" }]\n'
        '[monolingual]\neng = "**/*.en"\n'
    )
    corpus = corpora.load(root)
    assert [pair[:2] for pair in corpus.pairs("deu", "train")] == [
        ("eins", "one"), ("a.de", "a.en"), ("x/y/b.de", "x/y/b.en")
    ]  # fmt: skip
    assert corpus.entries("eng", "monolingual") == ("a.en", "x/y/b.en")


def test_a_suffix_in_upper_case_is_known(tmp_path):
    (tmp_path / "A.JSONL").write_text('{"source": "eins", "target": "one"}\n')
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = "A.JSONL"\nfra = { source = "A.JSONL", target = "A.JSONL" }\n'
    )
    with pytest.raises(ValueError, match=r"a \.jsonl file has both sides; write pairs = "):
        corpora.load(tmp_path)
    (tmp_path / "corpus.toml").write_text('[train]\ndeu = "A.JSONL"\n')
    assert [pair[:2] for pair in corpora.load(tmp_path).pairs("deu", "train")] == [("eins", "one")]
