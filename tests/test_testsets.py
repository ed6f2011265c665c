"""Test sets: from corpora, plain folders and caches; checked before anything is computed."""

import pytest

from eval import testsets
from mmt.data import cache, corpora, vocab

PAIRS = {
    "deu": [("3 Stunden", "3 hours"), ("Ende März", "the end of March")],
    "swh": [("saa 3", "3 hours"), ("Jumatatu", "Monday")],
}


@pytest.fixture
def corpus(tmp_path):
    """A corpus folder with a train and a test split of two languages."""
    folder = tmp_path / "phrases"
    folder.mkdir()
    lines = []
    for split in ("train", "test"):
        lines.append(f"[{split}]")
        for language, pairs in PAIRS.items():
            text = "".join(f"{source}\t{target}\n" for source, target in pairs)
            (folder / f"{split}.{language}.tsv").write_text(text)
            lines.append(f'{language} = "{split}.{language}.tsv"')
    (folder / "corpus.toml").write_text("\n".join(lines))
    return folder


@pytest.fixture
def plain(tmp_path):
    """A function that makes a plain folder: plain({'de.src': [lines], 'de.ref': [lines]})."""

    def make(files):
        folder = tmp_path / "plain"
        folder.mkdir()
        for name, lines in files.items():
            (folder / name).write_bytes("".join(line + "\n" for line in lines).encode())
        return folder

    return make


def test_a_corpus_gives_its_test_split(corpus):
    testset = testsets.load(corpus)
    assert (testset.name, testset.target) == ("phrases", "eng_Latn")
    assert list(testset.languages) == ["deu_Latn", "swh_Latn"]
    assert testset.languages["deu_Latn"].sources == ("3 Stunden", "Ende März")
    assert testset.languages["deu_Latn"].references == ("3 hours", "the end of March")
    assert testsets.load(corpus / "corpus.toml") == testset


def test_another_split_has_another_name(corpus):
    assert testsets.load(corpus, split="train").name == "phrases-train"
    with pytest.raises(ValueError, match="no validation split"):
        testsets.load(corpus, split="validation")
    with pytest.raises(ValueError, match="allowed: train, validation, test"):
        testsets.load(corpus, split="dev")


def test_some_languages_by_any_name(corpus):
    testset = testsets.load(corpus)
    assert list(testset.only(["Swahili", "de"]).languages) == ["swh_Latn", "deu_Latn"]
    with pytest.raises(ValueError, match="no nld_Latn .'Dutch'.*nearest"):
        testset.only(["Dutch"])
    with pytest.raises(ValueError, match="Klingonish"):
        testset.only(["Klingonish"])


def test_a_plain_folder(plain):
    folder = plain({"de.src": ["eins", "zwei"], "de.ref": ["one", "two"],
                    "swh_Latn.src": ["\ufeffmoja"], "swh_Latn.ref": ["one"]})  # fmt: skip
    testset = testsets.load(folder)
    assert (testset.name, testset.target) == ("plain", "eng_Latn")
    assert testset.languages["swh_Latn"] == (("moja",), ("one",))
    assert testsets.load(folder, target="French").target == "fra_Latn"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"de.src": ["a", "b", "c"], "de.ref": ["a", "b"]}, "de.src has 3 lines, .*de.ref has 2"),
        ({"de.src": ["a", " "], "de.ref": ["a", "b"]}, "de.src:2: empty line"),
        ({"de.src": [], "de.ref": []}, "de.src: empty file"),
        ({"de.src": ["a"]}, "de.src: there is no .*de.ref"),
        ({"de.src": ["a"], "de.ref": ["a"], "deu.src": ["a"]}, "de.src and .*deu.src are both"),
        ({"xxxx.src": ["a"], "xxxx.ref": ["a"]}, "xxxx"),
        ({"readme.txt": ["a"]}, "no test set; expected corpus.toml"),
    ],
)
def test_a_faulty_folder(plain, files, message):
    with pytest.raises(ValueError, match=message):
        testsets.load(plain(files))


def test_broken_utf8_names_the_line(plain):
    folder = plain({"de.src": ["a", "b"], "de.ref": ["a", "b"]})
    (folder / "de.src").write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match="de.src:2: no UTF-8 at byte 1"):
        testsets.load(folder)


def test_more_sources_than_references_in_a_corpus(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.de").write_text("eins\nzwei\n")
        (tmp_path / f"{split}.en").write_text("one\n" if split == "test" else "one\ntwo\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = { source = "train.de", target = "train.en" }\n'
        '[test]\ndeu = { source = "test.de", target = "test.en" }\n'
    )
    with pytest.raises(ValueError, match=r"test\.de.*test\.en|test\.en.*test\.de"):
        testsets.load(tmp_path)


def test_no_such_test_set(tmp_path):
    with pytest.raises(ValueError, match="nothing"):
        testsets.load(tmp_path / "nothing")


def test_a_cache_gives_its_validation_text_back(tmp_path):
    texts = [text for pairs in PAIRS.values() for pair in pairs for text in pair]
    model = tmp_path / "vocabulary.model"
    vocab.train(texts * 5, model, size=320, tags=["<2eng>"])
    vocabulary = vocab.Vocabulary.load(model)

    def tokens(pairs):
        return lambda: [(vocabulary.encode(f"<2eng> {s}"), vocabulary.encode(t)) for s, t in pairs]

    codes = {"deu": "deu_Latn", "swh": "swh_Latn"}
    examples = {("train", codes[key]): tokens(pairs) for key, pairs in PAIRS.items()}
    examples["validation", "deu_Latn"] = tokens(PAIRS["deu"])
    cache.build(
        tmp_path / "cache", examples, name="phrases", target="eng_Latn", corpus_hash="0",
        vocabularies={"source": model, "target": model},
    )  # fmt: skip
    opened = cache.open_cache(tmp_path / "cache")
    testset = testsets.from_cache(opened)
    assert testset.target == "eng_Latn"
    assert {code: list(zip(*lines, strict=True)) for code, lines in testset.languages.items()} == {
        "deu_Latn": PAIRS["deu"]
    }
    assert testsets.from_cache(opened, limit=1).languages["deu_Latn"].sources == ("3 Stunden",)
    assert corpora.SPLITS[1] in testset.name
