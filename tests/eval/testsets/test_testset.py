"""Test sets by name: corpora's, sacreBLEU's, caches'. Published folders: test_formats.py."""

import dataclasses
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu.utils
from sacrebleu.dataset import DATASETS

from eval.testsets import testset as testsets
from mmt.data import cache, corpora
from mmt.data import vocabulary as vocab

ROOT = Path(__file__).resolve().parents[3]

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
def multiway(tmp_path):
    """A corpus folder of id<TAB>text files, the English once; without training data."""
    texts = {
        "eng": {"JHN.4.9": "nine", "JHN.4.10": "ten", "bbc.1:1": "news", "JHN.9.1": "unused"},
        "deu": {"JHN.4.10": "zehn", "bbc.1:1": "Neues", "JHN.4.9": "neun"},
        "swh": {"JHN.4.9": "tisa"},
    }
    for language, lines in texts.items():
        rows = "".join(f"{name}\t{text}\n" for name, text in lines.items())
        (tmp_path / f"{language}.tsv").write_text(rows)
    entries = [
        f'{name} = {{ source = "{name}.tsv", target = "eng.tsv", join = "id" }}'
        for name in ("deu", "swh")
    ]
    (tmp_path / "corpus.toml").write_text("\n".join(['name = "multi"', "[test]", *entries]))
    return tmp_path


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """cached('wmt19', 'de-en', src=lines, ...) puts made-up fields into sacreBLEU's cache."""
    monkeypatch.setattr(sacrebleu.utils, "SACREBLEU_DIR", str(tmp_path))

    def make(name, pair, **fields):
        folder = tmp_path / name
        monkeypatch.setattr(DATASETS[name], "_outdir", str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        for field, lines in fields.items():
            path = folder / f"{name.replace('/', '_')}.{pair}.{field}"
            path.write_text("".join(f"{line}\n" for line in lines))

    return make


def test_a_corpus_gives_its_test_split(corpus):
    testset = testsets.load(corpus)
    assert (testset.name, testset.target) == ("phrases", "eng_Latn")
    assert list(testset.languages) == ["deu_Latn", "swh_Latn"]
    assert testset.languages["deu_Latn"].sources == ("3 Stunden", "Ende März")
    assert testset.languages["deu_Latn"].references == ("3 hours", "the end of March")
    assert testsets.load(corpus / "corpus.toml") == testset
    file = corpus / "corpus.toml"
    file.write_text("domain = 'dates'\nlicence = 'CC0'\n" + file.read_text())
    assert testsets.load(corpus) == dataclasses.replace(testset, domain="dates", licence="CC0")


def test_another_split_has_another_name(corpus):
    assert testsets.load(corpus, split="train").name == "phrases-train"
    with pytest.raises(ValueError, match="no validation split; it has: train, test"):
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


def test_a_multi_way_corpus_has_documents_by_its_ids(multiway):
    testset = testsets.load(multiway)
    assert (testset.name, testset.domain, testset.licence) == ("multi", "", "")
    ids = ("JHN.4", "bbc.1", "JHN.4")
    assert testset.languages == {
        "deu_Latn": (("zehn", "Neues", "neun"), ("ten", "news", "nine"), ids),
        "swh_Latn": (("tisa",), ("nine",), ("JHN.4",)),
    }
    with pytest.raises(ValueError, match="no train split; it has: test"):
        testsets.load(multiway, split="train")


PACKS = Path(os.environ.get("MMT_PACKS") or ROOT.parent / "shared" / "data")


@pytest.mark.skipif(not PACKS.is_dir(), reason=f"no real packs at {PACKS}; $MMT_PACKS tells where")
@pytest.mark.parametrize(
    ("pack", "language", "document"),
    [
        ("bible/test", "roo_Latn", r"[0-9A-Z]{3}\.\d+"),
        ("ntrex", "swh_Latn", r"[\w.-]+\.\d+"),
        ("tico19", "swh_Latn", r"\w+_\d+"),
    ],
)
def test_real_packs(tmp_path, pack, language, document):
    paths = [PACKS / pack / f"{name}.tsv.gz" for name in (language, "eng_Latn")]
    (tmp_path / "corpus.toml").write_text(
        f'[test]\n{language} = {{ source = "{paths[0]}", target = "{paths[1]}", join = "id" }}\n'
    )
    texts = testsets.load(tmp_path).languages[language]
    sources, english = (
        dict(
            line.split("\t")
            for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
        )
        for path in paths
    )
    assert texts.sources == tuple(sources.values())
    assert texts.references == tuple(english[name] for name in sources)
    assert all(re.fullmatch(document, name) for name in texts.documents)
    assert 1 < len(set(texts.documents)) < len(sources) / 5


def test_documents_of_a_corpus_are_those_of_its_entries(tmp_path):
    (tmp_path / "corpus.toml").write_text("""
[test]
deu = { pairs = "deu.tsv", documents = true }
fra = { source = "fra.tsv", target = "eng.tsv", join = "id", documents = true }
swh = { source = "swh.tsv", target = "eng.tsv", join = "id" }
ita = "ita.tsv"
""")
    (tmp_path / "deu.tsv").write_text("a\tA\nb\tB\n\nc\tC\nd\tD\n")
    (tmp_path / "ita.tsv").write_text("a\tA\nb\tB\n")
    lines = "x.1\ta\nx.2\tb\ny.1\tc\n{}y.2\td\ny.3\te\n"
    (tmp_path / "fra.tsv").write_text(lines.format("\n"))
    for name in ("eng", "swh"):
        (tmp_path / f"{name}.tsv").write_text(lines.format(""))
    found = testsets.load(tmp_path)
    assert {code: each.follows for code, each in found.languages.items()} == {
        "deu_Latn": (False, True, False, True),
        "fra_Latn": (False, True, False, False, True),  # y.1 is of another document, y.2 of a third
        "swh_Latn": (False, True, False, True, True),
        "ita_Latn": (False, False),
    }
    assert found.languages["deu_Latn"].documents == (*["deu.tsv:1"] * 2, *["deu.tsv:4"] * 2)
    testsets.check_documents(found, "deu_Latn")
    with pytest.raises(ValueError, match=r"documents of ita_Latn are unknown.*of 3 of 4 languages"):
        testsets.check_documents(found, "ita_Latn")


def test_a_version_is_that_of_the_text(multiway):
    whole = testsets.load(multiway)
    german = whole.languages["deu_Latn"]

    def version(target="eng_Latn", **changes):
        languages = {"deu_Latn": german._replace(**changes)}
        return testsets.TestSet("another name", target, languages).version("deu_Latn")

    assert re.fullmatch("[0-9a-f]{12}", version())
    assert version() == version(documents=()) == whole.version("deu_Latn")
    assert version() == whole.only(["de"]).version("deu_Latn")
    others = [
        version(target="nld_Latn"),
        version(sources=german.references),
        version(references=german.sources),
        version(references=german.references[::-1]),
        whole.version("swh_Latn"),
    ]
    assert len({version(), *others}) == 1 + len(others)


def test_sets_of_sacrebleu_are_read_as_sacrebleu_reads_them(cached, tmp_path):
    sources, references = ("Hallo Welt.", "Ende", "leer"), ("Hello world.", "The end", "")
    rows = {"docid": ("a.1", "a.1", "b.2"), "genre": ["news"] * 3, "origlang": ["de"] * 3}
    cached("wmt19", "de-en", src=sources, ref=references, **rows)
    testset = testsets.load("sacrebleu:wmt19/de-en", target="fr")  # a pair's own target holds
    assert (testset.name, testset.target, testset.domain) == ("wmt19", "eng_Latn", "news")
    assert testset.languages == {"deu_Latn": (sources[:2], references[:2], ("a.1", "a.1"))}
    command = [sys.executable, "-m", "sacrebleu", "-t", "wmt19", "-l", "de-en", "--echo", "ref"]
    environment = {**os.environ, "SACREBLEU": str(tmp_path)}
    echo = subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode()
    assert tuple(echo.split("\n")[:2]) == testset.languages["deu_Latn"].references


@pytest.mark.parametrize(
    ("name", "pair", "citation"),
    [
        ("wmt17", "de-en", "Findings of the 2017 Conference on Machine Translation (WMT17), 2017"),
        (
            "multi30k/2016", "en-de",
            "Multi30K: Multilingual English-German Image Descriptions, 2016",
        ),
        ("wmt20", "de-en", ""),
    ],
)  # fmt: skip
def test_a_sacrebleu_set_has_sacrebleus_citation(cached, name, pair, citation):
    rows = {} if name.startswith("multi") else dict.fromkeys(("docid", "genre", "origlang"), [""])
    cached(name, pair, src=["a"], ref=["b"], **rows)
    testset = testsets.load(f"sacrebleu:{name}/{pair}")
    assert (testset.citation, testset.licence) == (citation, "")


def test_every_citation_of_sacrebleu_is_read():
    cited = [testsets._citation(d.citation) for d in DATASETS.values() if d.citation]
    assert len(cited) > 20
    assert [c for c in cited if not re.fullmatch(r"[^{}\\\"]{20,}, \d{4}", c)] == []


def test_all_pairs_of_a_sacrebleu_set_into_the_target(cached):
    for pair in ("en-fr", "en-de", "en-cs"):
        cached("multi30k/2016", pair, src=["hello", "world"], ref=[pair, "x"])
    french = testsets.load("sacrebleu:multi30k/2016", target="French")
    assert (french.name, french.target) == ("multi30k_2016", "fra_Latn")
    assert french.languages == {"eng_Latn": (("hello", "world"), ("en-fr", "x"), ())}
    with pytest.raises(ValueError, match="no pair into eng_Latn: en-cs, en-de, en-fr"):
        testsets.load("sacrebleu:multi30k/2016")


def test_an_unknown_sacrebleu_set_is_an_error(cached):
    cached("wmt18", "de-en", src=["a"], ref=["a"])
    with pytest.raises(
        ValueError, match="cache lacks wmt18 cs-en: .*: sacrebleu -t wmt18 -l cs-en --echo"
    ):
        testsets.load("sacrebleu:wmt18/cs-en")
    with pytest.raises(ValueError, match="no test set 'wmt199/de-en'; nearest: .*wmt19"):
        testsets.load("sacrebleu:wmt199/de-en")
    with pytest.raises(ValueError, match="wmt18 has no 'xx-en'; it has: cs-en, de-en"):
        testsets.load("sacrebleu:wmt18/xx-en")
    with pytest.raises(ValueError, match="has no 'dev' split"):
        testsets.load("sacrebleu:wmt18/de-en", split="dev")
    cached("wmt18", "de-en", src=["a", "b"], docid=["x"] * 2, genre=[""] * 2, origlang=[""] * 2)
    with pytest.raises(ValueError, match="wmt18.de-en.src has 2 lines, .*ref has 1"):
        testsets.load("sacrebleu:wmt18/de-en")


def test_more_sources_than_references_are_an_error(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.de").write_text("eins\nzwei\n")
        (tmp_path / f"{split}.en").write_text("one\n" if split == "test" else "one\ntwo\n")
    (tmp_path / "corpus.toml").write_text(
        '[train]\ndeu = { source = "train.de", target = "train.en" }\n'
        '[test]\ndeu = { source = "test.de", target = "test.en" }\n'
    )
    with pytest.raises(ValueError, match=r"test\.de.*test\.en|test\.en.*test\.de"):
        testsets.load(tmp_path)


def test_an_unknown_test_set_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="nothing"):
        testsets.load(tmp_path / "nothing")


def test_a_file_of_a_test_set_is_an_error_that_names_its_folder(corpus):
    with pytest.raises(ValueError, match=r"deu.tsv is a file; .* the folder '.*/phrases'$"):
        testsets.load(corpus / "test.deu.tsv")
    assert testsets.load(corpus / "corpus.toml") == testsets.load(corpus)


@pytest.mark.parametrize("tag", ["<2eng>", "<2en>"])  # ours, and that of MADLAD-400
def test_a_cache_gives_its_validation_text_back(tmp_path, tag):
    texts = [text for pairs in PAIRS.values() for pair in pairs for text in pair]
    model = tmp_path / "vocabulary.model"
    vocab.train(texts * 5, model, size=320, tags=[tag])
    vocabulary = vocab.Vocabulary.load(model)

    def tokens(pairs):
        return lambda: [(vocabulary.encode(f"{tag} {s}"), vocabulary.encode(t)) for s, t in pairs]

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
    assert testset.languages == {"deu_Latn": (*zip(*PAIRS["deu"], strict=True), ())}
    assert testsets.from_cache(opened, limit=1).languages["deu_Latn"].sources == ("3 Stunden",)
    assert corpora.SPLITS[1] in testset.name


def test_lines_are_those_of_both_sides_by_language(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "deu.tsv").write_text(f"eins {name}\tone\nzwei\ttwo\n")
        (tmp_path / name / "swh.tsv").write_text("moja\tone\n")
    by_testset = testsets.lines([str(tmp_path / "one"), str(tmp_path / "two")], target="eng")
    assert {code: list(texts) for code, texts in by_testset["one"].items()} == {
        "deu_Latn": ["eins one", "zwei"], "swh_Latn": ["moja"], "eng_Latn": ["one", "two"],
    }  # fmt: skip
    with pytest.raises(ValueError, match="two test sets are called 'one'"):
        testsets.lines([str(tmp_path / "one")] * 2, target="eng")
    assert testsets.lines([], target="eng") == {}
